"""A patch that turns one tree into another, as a careful model would write it: for tests and benchmarks.

Three lines of context around a change, or more if the place would not be unique.
"""

from collections.abc import Iterator, Mapping
from difflib import SequenceMatcher

from handhold.core.text.lines import iter_lines_with_endings

CONTEXT = 3
NO_NEWLINE = "\\ No newline at end of file"
Tree = Mapping[str, bytes]


def patch_of(before: Tree, after: Tree) -> str:
    """UTF-8 text only."""
    rows = ["*** Begin Patch"]
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            rows += section(path, before.get(path), after.get(path))
    return "\n".join([*rows, "*** End Patch", ""])


def section(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    if before is not None and after is not None and sayable(before.decode(), after.decode()):
        yield f"*** Update File: {path}"
        yield from hunks(before.decode(), after.decode())
        return
    if before is not None:
        yield f"*** Delete File: {path}"
    if after is not None:
        yield f"*** Add File: {path}"
        yield from added(after.decode())


def added(text: str) -> Iterator[str]:
    *lines, rest = text.split("\n")
    yield from (f"+{line}" for line in lines)
    if rest:
        yield f"+{rest}"
        yield NO_NEWLINE


def sayable(before: str, after: str) -> bool:
    """Whether an update can express it: endings are the file's, so there must be one kind, and no stray \\r.

    An empty text has no last line to show whether it ends with a newline.
    """
    rows = [*iter_lines_with_endings(before), *iter_lines_with_endings(after)]
    kinds = {ending for _, ending in rows if ending}
    own = {ending for _, ending in iter_lines_with_endings(before) if ending} or {"\n"}
    return bool(before and after) and len(own) == 1 and kinds <= own and not any("\r" in line for line, _ in rows)


def hunks(before: str, after: str) -> Iterator[str]:
    a, b = lines_of(before), lines_of(after)
    open_a, open_b = not before.endswith("\n"), not after.endswith("\n")
    # The end of the file belongs to its last line, so a difference there is a difference in that line.
    keys_a, keys_b = [*a[:-1], (a[-1], open_a)], [*b[:-1], (b[-1], open_b)]
    changes = [
        each for each in SequenceMatcher(None, keys_a, keys_b, autojunk=False).get_opcodes() if each[0] != "equal"
    ]
    done = 0
    while changes:
        taken = 1
        while True:
            group, following = changes[:taken], changes[taken:]
            wall = following[0][1] if following else len(a)
            start, end = alone(a, group[0][1], group[-1][2], done, wall)
            if start is not None or not following:
                break
            taken += 1
        if start is None:
            start, end = done, len(a)
        at_end = end == len(a)
        yield "@@"
        yield from rows_of(a, b, group, start, end, open_a and at_end, open_b and at_end)
        if at_end:
            yield "*** End of File"
        done, changes = end, following


def lines_of(text: str) -> list[str]:
    return [line for line, ending in iter_lines_with_endings(text) if line or ending]


def alone(a: list[str], first: int, last: int, done: int, wall: int) -> tuple[int | None, int]:
    """A unique window around these lines, between the previous hunk and the next change."""
    for context in range(CONTEXT, CONTEXT + 40):
        start, end = max(done, first - context), min(wall, last + context)
        if start < end and (end == len(a) or places(a, a[start:end], done) == 1):
            return start, end
        if (start, end) == (done, wall):
            break
    return None, last


def places(a: list[str], old: list[str], done: int) -> int:
    return sum(a[at : at + len(old)] == old for at in range(done, len(a) - len(old) + 1) if a[at] == old[0])


def rows_of(a, b, group, start: int, end: int, open_a: bool, open_b: bool) -> Iterator[str]:
    def row(sign: str, lines: list[str], at: int, is_open: bool) -> Iterator[str]:
        yield sign + lines[at]
        if is_open and at == len(lines) - 1:
            yield NO_NEWLINE

    at = start
    for _, i, j, k, m in group:
        for n in range(at, i):
            yield from row(" ", a, n, open_a)
        for n in range(i, j):
            yield from row("-", a, n, open_a)
        for n in range(k, m):
            yield from row("+", b, n, open_b)
        at = j
    for n in range(at, end):
        yield from row(" ", a, n, open_a)
