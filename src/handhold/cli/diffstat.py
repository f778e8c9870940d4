"""How many lines a diff adds and takes away, file by file, as it says itself."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handhold.cli.screen import fitted_path, padded, painted, width

HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
ABSENT = "/dev/null"
WIDEST = 60  # columns of a name
MOST_FILES = 20


@dataclass(frozen=True)
class Stat:
    """`note` says what cannot be counted in lines: a mode, a link, a folder, content that is no text."""

    path: str
    added: int = 0
    removed: int = 0
    note: str = ""


def stats(diff: str) -> list[Stat]:
    """Counted by the hunks: a line that looks like a header may stand in one."""
    found: list[Stat] = []
    lines = iter(diff.split("\n"))
    source = ""
    for line in lines:
        if line.startswith("--- "):
            source = line[4:]
        elif line.startswith("+++ "):
            named = line[4:] if line[4:] != ABSENT else source
            found.append(Stat(named[2:]))
        elif (hunk := HUNK.match(line)) and found:
            last = found.pop()
            added, removed = hunk_of(lines, *(int(count) if count is not None else 1 for count in hunk.groups()))
            found.append(Stat(last.path, last.added + added, last.removed + removed))
        elif line.startswith("[") and line.endswith("]"):
            name, _, note = line[1:-1].rpartition(": ")
            found.append(Stat(name, note=note))
    return found


def hunk_of(lines: Iterator[str], old: int, new: int) -> tuple[int, int]:
    added = removed = 0
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:  # a long diff is cut
            break
        if line.startswith("\\"):
            continue
        added += line.startswith("+")
        removed += line.startswith("-")
        old -= not line.startswith("+")
        new -= not line.startswith("-")
    return added, removed


def summed(counted: Sequence[Stat]) -> tuple[int, int]:
    return sum(each.added for each in counted), sum(each.removed for each in counted)


def signs(added: int, removed: int) -> str:
    return " ".join([*([f"+{added:,}"] if added else ()), *([f"-{removed:,}"] if removed else ())])


def in_colour(text: str) -> str:
    """What `signs` says."""
    return " ".join(painted(each, "green" if each.startswith("+") else "red") for each in text.split(" "))


def listed(counted: Sequence[Stat]) -> Iterator[str]:
    """One line a file, and all of them together."""
    first = counted[:MOST_FILES]
    names = [fitted_path(each.path, WIDEST) for each in first]
    room = max(map(width, names), default=0)
    for name, each in zip(names, first, strict=True):
        yield f"  {padded(name, room)}  {each.note or in_colour(signs(each.added, each.removed))}".rstrip()
    if more := len(counted) - len(first):
        yield f"  … and {more:,} more"
