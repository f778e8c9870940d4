"""What an undo or redo leaves as it is, in words."""

from collections.abc import Sequence

from handhold.core.change_diff import shorten_path

MAX_NAMED_PATHS = 10


def format_kept_objects(repositories: Sequence[str], roots: Sequence[str]) -> str:
    if not repositories:
        return ""
    names = ", ".join(shorten_path(folder, roots) for folder in repositories)
    return f" Git objects stay in {names}, which was used since."


def format_not_kept(paths: Sequence[str], roots: Sequence[str]) -> str:
    if not paths:
        return ""
    listed = ", ".join(shorten_path(path, roots) for path in paths[:MAX_NAMED_PATHS])
    more = f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else ""
    return f" Not undone, because the old content was not kept: {listed}{more}."
