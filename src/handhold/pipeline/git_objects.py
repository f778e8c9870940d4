"""An undo leaves git's objects in a repository that somebody else has used since.

A commit or a branch of theirs may need what the undone call added: `git branch keep` after an agent's commit, for
example. Objects never change, and git removes those that nothing needs.
"""

import re
from collections.abc import Collection, Sequence

from handhold.core.change_diff import shorten_path
from handhold.core.errors import ToolError
from handhold.core.history import UndoStep
from handhold.core.plans import Directory, DirectoryMetadata, FileChange
from handhold.core.ports.files import FileView
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed

OBJECT_PATH = re.compile(r"(.+)/objects/(?:[0-9a-f]{2}|pack|info)(?:/.*)?", re.DOTALL)


def find_used_repositories(steps: Sequence[UndoStep], files: FileView) -> set[str]:
    """The git folders that would lose objects, and in which something else was written since the first call."""
    since = min((entry.at for step in steps for entry in step.entries), default=0.0)
    changes = [change for step in steps for change in step.files]
    paths = {change.path for change in changes if not isinstance(change.before, Directory | DirectoryMetadata)}
    folders = {folder for change in changes if (folder := _find_repository(change))}
    return {folder for folder in folders if _is_used(folder, since, paths, files)}


def leave_objects(step: UndoStep, repositories: Collection[str]) -> UndoStep:
    """The step without the removal of objects from these."""
    return UndoStep(
        step.entries, tuple(change for change in step.files if _find_repository(change) not in repositories)
    )


def format_kept_objects(repositories: Sequence[str], roots: Sequence[str]) -> str:
    if not repositories:
        return ""
    names = ", ".join(shorten_path(folder, roots) for folder in repositories)
    return f" Git objects stay in {names}, which was used since."


def _find_repository(change: FileChange) -> str | None:
    """The git folder that loses an object by this change."""
    match = OBJECT_PATH.fullmatch(change.path) if change.after is None else None
    return match[1] if match else None


def _is_used(folder: str, since: float, known: Collection[str], files: FileView) -> bool:
    """Whether a folder is a repository that was written to since; also if nobody can tell."""
    try:
        return {"HEAD", "refs"} <= {entry.name for entry in files.list_folder(folder)} and _is_written(
            folder, since, {*known, f"{folder}/objects"}, files
        )
    except ToolError:
        log_swallowed()
        return True


def _is_written(folder: str, since: float, known: Collection[str], files: FileView) -> bool:
    """Whether a file in a folder was written since, apart from what is known."""
    inside = [(f"{folder}/{escape_ambiguous(entry.name)}", entry) for entry in files.list_folder(folder)]
    return any(
        _is_written(path, since, known, files) if entry.is_folder else entry.mtime_ns >= since * 1e9
        for path, entry in inside
        if path not in known
    )
