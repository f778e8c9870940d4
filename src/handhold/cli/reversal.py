"""What an undo or redo did, in one line: `Undid #8: restored tests (2 files).`"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from handhold.cli.diffstat import FileDiffStat, format_file_count
from handhold.cli.git_files import git_folder, is_git_internal
from handhold.core.change_diff import shorten_path
from handhold.core.text.display_text import to_single_line
from handhold.pipeline.reversal_notes import format_notes

MAX_NAMED_PATHS = 4
# The heading, the verb for files that exist afterwards, the verb for files that do not; by direction and preview.
WORDS: Mapping[tuple[str, bool], tuple[str, str, str]] = {
    ("undo", False): ("Undid {}", "restored", "removed"),
    ("undo", True): ("Would undo {}", "restore", "remove"),
    ("redo", False): ("Redid what {} undid", "wrote", "removed"),
    ("redo", True): ("Would redo what {} undid", "write", "remove"),
}


def format_reversal(facts: Mapping[str, Any], file_stats: Sequence[FileDiffStat], roots: Sequence[str]) -> str:
    """`facts` are the data of the reply; `file_stats` are those of its diff."""
    heading, kept, gone = WORDS[facts["verb"], facts["preview"]]
    calls = heading.format(", ".join(facts["calls"]))
    paths = [shorten_path(path, roots) for path in facts["paths"]]
    deleted = {each.path for each in file_stats if each.status == "deleted" and not is_git_internal(each.path)}
    parts = [
        f"{verb} {', '.join(describe_paths(group, file_stats))}"
        for verb, group in (
            (kept, [path for path in paths if path not in deleted]),
            (gone, [path for path in paths if path in deleted]),
        )
        if group
    ]
    done = "; ".join(parts) or ("nothing changed" if facts.get("left") else "only folders changed")
    return to_single_line(f"{calls}: {done}.{format_notes(facts, roots)}")


def describe_paths(paths: Sequence[str], file_stats: Sequence[FileDiffStat]) -> Iterator[str]:
    """The paths, where a folder stands for its files: each folder that changed as a whole, and git's internal files.

    Many paths are grouped by the top-level folder.
    """
    files_by_folder, named = group_by_folder(file_stats), set(paths)
    groups: dict[str, int] = {}
    uncertain: set[str] = set()  # groups whose files were counted in a truncated diff
    is_truncated = any(not each.path for each in file_stats)
    for path in paths:
        name = git_folder(path) if is_git_internal(path) else path
        if len(paths) > MAX_NAMED_PATHS and name == path:
            name = path.rpartition("/")[0] if path.startswith("/") else path.partition("/")[0]
        groups[name] = groups.get(name, 0) + max(1, len(files_by_folder.get(path, ())))
        if is_truncated and path in files_by_folder:
            uncertain.add(name)
    for name, count in list(groups.items())[:MAX_NAMED_PATHS]:
        or_more = " or more" if name in uncertain else ""
        is_file = name in named and name not in files_by_folder
        yield name if is_file else f"{name} ({format_file_count(count)}{or_more})"
    if len(groups) > MAX_NAMED_PATHS:
        yield f"and {len(groups) - MAX_NAMED_PATHS:,} more"


def group_by_folder(file_stats: Sequence[FileDiffStat]) -> dict[str, set[str]]:
    """The files of a diff, by each folder above them."""
    groups: dict[str, set[str]] = {}
    for each in file_stats:
        folder = each.path.rpartition("/")[0]
        while folder and not each.is_folder:
            groups.setdefault(folder, set()).add(each.path)
            folder = folder.rpartition("/")[0]
    return groups
