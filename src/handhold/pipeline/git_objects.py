"""An undo leaves git's objects in a repository that somebody else has used since.

A commit or a branch of theirs may need what the undone call added: `git branch keep` after an agent's commit, for
example. Objects never change, and git removes those that nothing needs. What calls and undos of the session itself
wrote there, as the journal tells, is nobody else's use.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from math import inf

from handhold.core.errors import ToolError
from handhold.core.history import UndoStep
from handhold.core.plans import Directory, DirectoryMetadata, FileChange
from handhold.core.ports.files import FileView
from handhold.core.ports.journal import Journal
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed

OBJECT_PATH = re.compile(r"(.+)/objects/(?:[0-9a-f]{2}|pack|info)(?:/.*)?", re.DOTALL)


def find_used_repositories(steps: Sequence[UndoStep], files: FileView, journal: Journal, session: str) -> set[str]:
    """The git folders that would lose objects, and in which somebody else wrote since the first call that added any."""
    since: dict[str, float] = {}
    for step in steps:
        for folder in {folder for change in step.files if (folder := _find_repository(change))}:
            since[folder] = min(since.get(folder, inf), *(entry.at for entry in step.entries))
    changes = [change for step in steps for change in step.files]
    known = {change.path for change in changes if not isinstance(change.before, Directory | DirectoryMetadata)}

    def is_own(path: str) -> bool:
        return journal.last_writer(path, files.fingerprint(path)[1]) == session

    return {folder for folder, at in since.items() if _is_used(folder, at, known, is_own, files)}


def leave_objects(step: UndoStep, repositories: Collection[str]) -> UndoStep:
    """The step without the removal of objects from these."""
    return UndoStep(
        step.entries, tuple(change for change in step.files if _find_repository(change) not in repositories)
    )


def _find_repository(change: FileChange) -> str | None:
    """The git folder that loses an object by this change."""
    match = OBJECT_PATH.fullmatch(change.path) if change.after is None else None
    return match[1] if match else None


def _is_used(folder: str, since: float, known: Collection[str], is_own: Callable[[str], bool], files: FileView) -> bool:
    """Whether a folder is a repository that somebody else wrote to since; also if nobody can tell."""
    try:
        if not {"HEAD", "refs"} <= {entry.name for entry in files.list_folder(folder)}:
            return False
        return not all(map(is_own, _find_written(folder, since, {*known, f"{folder}/objects"}, files)))
    except ToolError:
        log_swallowed()
        return True


def _find_written(folder: str, since: float, known: Collection[str], files: FileView) -> Iterator[str]:
    """The files in a folder that were written since, apart from what is known."""
    for entry in files.list_folder(folder):
        path = f"{folder}/{escape_ambiguous(entry.name)}"
        if path in known:
            continue
        if entry.is_folder:
            yield from _find_written(path, since, known, files)
        elif entry.mtime_ns >= since * 1e9:
            yield path
