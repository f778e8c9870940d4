"""How many lines a diff adds and takes away, file by file, as it says itself."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from handhold.cli.terminal import colour_text, measure_width, pad, truncate_path

HUNK_HEADER = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
DEV_NULL = "/dev/null"
MAX_NAME_COLUMNS = 60  # columns of a name
MAX_LISTED_FILES = 20


@dataclass(frozen=True)
class FileDiffStat:
    """`note` says what cannot be counted in lines: a mode, a link, a folder, content that is no text."""

    path: str
    added: int = 0
    removed: int = 0
    note: str = ""


def parse_stats(diff: str) -> list[FileDiffStat]:
    """Counted by the hunks: a line that looks like a header may stand in one."""
    found: list[FileDiffStat] = []
    lines = iter(diff.split("\n"))
    source = ""
    for line in lines:
        if line.startswith("--- "):
            source = line[4:]
        elif line.startswith("+++ "):
            named = line[4:] if line[4:] != DEV_NULL else source
            found.append(FileDiffStat(named[2:]))
        elif (hunk := HUNK_HEADER.match(line)) and found:
            last = found.pop()
            added, removed = count_hunk_lines(
                lines, *(int(count) if count is not None else 1 for count in hunk.groups())
            )
            found.append(FileDiffStat(last.path, last.added + added, last.removed + removed))
        elif line.startswith("[") and line.endswith("]"):
            name, _, note = line[1:-1].rpartition(": ")
            found.append(FileDiffStat(name, note=note))
    return found


def count_hunk_lines(lines: Iterator[str], old: int, new: int) -> tuple[int, int]:
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


def sum_stats(file_stats: Sequence[FileDiffStat]) -> tuple[int, int]:
    return sum(each.added for each in file_stats), sum(each.removed for each in file_stats)


def format_counts(added: int, removed: int) -> str:
    return " ".join([*([f"+{added:,}"] if added else ()), *([f"-{removed:,}"] if removed else ())])


def colour_counts(text: str) -> str:
    """What `format_counts` says."""
    return " ".join(colour_text(each, "green" if each.startswith("+") else "red") for each in text.split(" "))


def format_stats(file_stats: Sequence[FileDiffStat]) -> Iterator[str]:
    """One line a file, and all of them together."""
    first = file_stats[:MAX_LISTED_FILES]
    names = [truncate_path(each.path, MAX_NAME_COLUMNS) for each in first]
    name_width = max(map(measure_width, names), default=0)
    for name, each in zip(names, first, strict=True):
        counts = each.note or colour_counts(format_counts(each.added, each.removed))
        yield f"  {pad(name, name_width)}  {counts}".rstrip()
    if more := len(file_stats) - len(first):
        yield f"  … and {more:,} more"
