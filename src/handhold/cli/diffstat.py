"""The number of lines that a diff adds and removes in each file."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.cli.git_files import git_folder, is_git_internal
from handhold.cli.terminal import colour_text, measure_width, pad, truncate_path

HUNK_HEADER = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
DEV_NULL = "/dev/null"
MAX_NAME_COLUMNS = 60
MAX_LISTED_FILES = 20


@dataclass(frozen=True)
class FileDiffStat:
    """`note` describes what cannot be counted in lines: a mode, a link, a folder, binary content."""

    path: str  # empty: the note is about the diff itself, which was truncated
    added: int = 0
    removed: int = 0
    note: str = ""
    status: Literal["changed", "created", "deleted"] = field(default="changed", compare=False)

    @property
    def is_folder(self) -> bool:
        return "a folder" in self.note


def parse_stats(diff: str) -> list[FileDiffStat]:
    """Lines are counted by the hunk headers, because a line of a file can look like a header."""
    found: list[FileDiffStat] = []
    lines = iter(diff.split("\n"))
    source = ""
    for line in lines:
        if line.startswith("--- "):
            source = line[4:]
        elif line.startswith("+++ "):
            target = line[4:]
            status = "created" if source == DEV_NULL else "deleted" if target == DEV_NULL else "changed"
            found.append(FileDiffStat((source if target == DEV_NULL else target)[2:], status=status))
        elif (hunk := HUNK_HEADER.match(line)) and found:
            last = found.pop()
            added, removed = count_hunk_lines(
                lines, *(int(count) if count is not None else 1 for count in hunk.groups())
            )
            found.append(replace(last, added=last.added + added, removed=last.removed + removed))
        elif line.startswith("[") and line.endswith("]"):
            name, _, note = line[1:-1].rpartition(": ")
            found.append(FileDiffStat(name, note=note, status=classify_note(note)))
    return found


def classify_note(note: str) -> Literal["changed", "created", "deleted"]:
    if note.startswith(("nothing -> ", "new ")):
        return "created"
    return "deleted" if note.endswith(" -> nothing") else "changed"


def count_hunk_lines(lines: Iterator[str], old: int, new: int) -> tuple[int, int]:
    added = removed = 0
    while old > 0 or new > 0:
        line = next(lines, None)
        if line is None:  # a long diff is truncated
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


def select_project_files(file_stats: Sequence[FileDiffStat]) -> list[FileDiffStat]:
    """The stats without git's internal files."""
    return [each for each in file_stats if not is_git_internal(each.path)]


def format_counts(added: int, removed: int) -> str:
    return " ".join([*([f"+{added:,}"] if added else ()), *([f"-{removed:,}"] if removed else ())])


def colour_counts(text: str) -> str:
    """Colour the output of `format_counts`."""
    return " ".join(colour_text(each, "green" if each.startswith("+") else "red") for each in text.split(" "))


def count_files(file_stats: Sequence[FileDiffStat]) -> int:
    """The number of files, without folders and notes about the diff itself."""
    return len({each.path for each in file_stats if each.path and not each.is_folder})


def format_file_count(count: int) -> str:
    return "1 file" if count == 1 else f"{count:,} files"


def format_stats(file_stats: Sequence[FileDiffStat]) -> Iterator[str]:
    """One line for each file, one for git's internal files, and the total."""
    own, internal = select_project_files(file_stats), group_git_files(file_stats)
    shown = own[:MAX_LISTED_FILES]
    rows = [(truncate_path(each.path, MAX_NAME_COLUMNS), format_stat(each)) for each in shown]
    git_rows = [
        (truncate_path(folder, MAX_NAME_COLUMNS), f"{count_files(inside):,} internal git files")
        for folder, inside in internal.items()
    ]
    name_width = max((measure_width(name) for name, _ in (*rows, *git_rows)), default=0)
    yield from (f"  {pad(name, name_width)}  {text}".rstrip() for name, text in rows)
    if more := len(own) - len(shown):
        yield f"  … and {more:,} more"
    yield from (f"  {pad(name, name_width)}  {text}" for name, text in git_rows)
    if own or not internal:
        yield f"{format_file_count(count_files(own))}: {colour_counts(format_counts(*sum_stats(own))) or 'no lines'}"


def format_stat(stat: FileDiffStat) -> str:
    return stat.note or colour_counts(format_counts(stat.added, stat.removed))


def group_git_files(file_stats: Sequence[FileDiffStat]) -> dict[str, list[FileDiffStat]]:
    """Git's internal files, by the `.git` folder that they are in."""
    groups: dict[str, list[FileDiffStat]] = {}
    for each in file_stats:
        if is_git_internal(each.path):
            groups.setdefault(git_folder(each.path), []).append(each)
    return groups
