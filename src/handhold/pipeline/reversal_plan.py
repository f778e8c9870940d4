"""Plan the steps of an undo or redo: exactly where nothing came later, merged where something did.

Every step is planned against what the steps before it will leave. Nothing is written here, so that all is refused if
one path is in conflict.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from handhold.core.choices import Resolution
from handhold.core.errors import ContentDropped, PermissionDenied, UndoConflict
from handhold.core.history import UndoStep, has_staged_content
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
)
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.core.tools.git_refresh import GIT_FOLDER_PATH
from handhold.pipeline.change_contents import ChangeContents, is_current
from handhold.pipeline.reversal_state import ProjectedState, is_same_content
from handhold.pipeline.session import Session
from handhold.pipeline.three_way import PathMerger, PathReversal, ReversalConflict, is_regular_file
from handhold.progress import track

GIT_INTERNAL_PATH = re.compile(r".*/\.git/.*", re.DOTALL)
GIT_REASON = "git has changed it since"
LINKED_REASON = "changed since, and a file with several names"


class ReversalPlanner:
    """Plans one undo or redo. What was merged, left and saved is known afterwards."""

    def __init__(self, session: Session, contents: ChangeContents, take: Resolution | None) -> None:
        self._session = session
        self._files = session.files
        self._contents = contents
        self._merger = PathMerger(contents.read_content, self._find_free_path, take)
        self._projected = ProjectedState()
        self._conflicts: dict[str, ReversalConflict] = {}
        self.kept_lines: dict[str, int] = {}  # by path: later lines that stay
        self.left: list[str] = []  # paths that stay as they are
        self.saved: dict[str, str] = {}  # by path: where its old version is put

    def plan(self, steps: Sequence[UndoStep]) -> list[UndoStep]:
        """ContentDropped if an old content is no longer kept; UndoConflict if a later change cannot be kept."""
        files = [change for step in steps for change in step.files]
        commands = {change.after.command for change in files if isinstance(change.after, StagedContent)}
        needed = self._session.contents.needed_slots(commands)
        gone = tuple(change.path for change in files if self._is_dropped(change, needed))
        if gone:
            raise ContentDropped(gone)
        if locks := self._find_git_locks(files):
            raise UndoConflict(locks)
        planned = [self._plan_step(step) for step in steps]
        if self._conflicts:
            found = self._conflicts.values()
            texts = tuple(each.text if self._session.is_visible(each.path) else "" for each in found)
            raise UndoConflict(tuple(self._conflicts), tuple(each.reason for each in found), texts)
        return planned

    def _plan_step(self, step: UndoStep) -> UndoStep:
        """A call may have changed a path several times, if others changed it in between: then these are reversed one
        after another, as one change."""
        paths = {change.path for change in step.files}
        is_staged = has_staged_content(step.files)
        exact: dict[str, FileChange] = {}
        merged: dict[str, FileChange] = {}
        for change in track(step.files, "files checked"):
            path = change.path
            earlier = merged.get(path) or exact.get(path)
            if earlier and is_same_content(earlier.after, change.before):
                (merged if path in merged else exact)[path] = replace(change, before=earlier.before)
            elif not earlier and self._will_match(change, paths):
                exact[path] = change
            else:
                now = earlier.after if earlier else self._read_now(path, is_staged=is_staged)
                found = self._reverse(change, now, is_staged=is_staged)
                if found and found.change:  # else what the earlier change of this path leaves stays
                    before = found.change.before
                    if earlier and found.change.path == path:
                        before = earlier.before
                        exact.pop(path, None)
                    merged[found.change.path] = replace(found.change, before=before)
        planned = UndoStep(step.entries, tuple(exact.values()), tuple(merged.values()))
        self._projected.add(planned.changes)
        return planned

    def _reverse(self, change: FileChange, now: Content | None, *, is_staged: bool) -> PathReversal | None:
        path = change.path
        objection = GIT_REASON if GIT_INTERNAL_PATH.fullmatch(path) else ""
        if is_staged and now is not None and self._has_other_names(path):  # they would stay as they are
            objection = LINKED_REASON
        found = self._merger.reverse(change, now, objection)
        if isinstance(found, ReversalConflict):
            self._conflicts.setdefault(path, found)
            return None
        if found.kept_lines is not None:
            self.kept_lines[path] = found.kept_lines
        if found.is_left:
            self.left.append(path)
        if found.saved_path:
            self.saved[path] = found.saved_path
        return found

    def _read_now(self, path: str, *, is_staged: bool) -> Content | None:
        if path in self._projected.contents:
            now = self._projected.contents[path]
        else:
            now = self._files.describe(path)
            if is_staged or now is None or now.kind != "file" or now.size > MAX_EDITABLE_BYTES:
                return now
            return InlineContent(self._files.read(path).data)
        if isinstance(now, StagedContent) and not is_staged and is_regular_file(now):
            data = self._contents.read_content(now, path)
            return ContentRef(now.hash, now.size) if data is None else InlineContent(data)
        return now

    def _has_other_names(self, path: str) -> bool:
        found = self._files.stat(path)
        return found is not None and found.link_count > 1

    def _find_free_path(self, path: str) -> str:
        """A name beside a path at which nothing is."""
        number = 1
        while self._files.describe(place := f"{path}.old{number if number > 1 else ''}") is not None:
            number += 1
        return place

    # --- whether it is possible

    def _find_git_locks(self, files: Sequence[FileChange]) -> tuple[str, ...]:
        """The locks of repositories that these files are part of: git is at work there, and would overwrite them."""
        changed = {change.path for change in files}
        folders = {match[1] for path in changed if (match := GIT_FOLDER_PATH.fullmatch(path))}
        locks = sorted(f"{folder}/index.lock" for folder in folders)
        return tuple(lock for lock in locks if lock not in changed and self._files.stat(lock))

    def _is_dropped(self, change: FileChange, needed_slots: Collection[str]) -> bool:
        match change.after:
            case None | Directory() | DirectoryMetadata() | InlineContent():
                return False
            case StagedContent() as staged:
                return staged.command not in needed_slots or not self._files.is_staged(staged)
            case content:
                return not self._session.contents.has(content.hash)

    def _will_match(self, change: FileChange, paths: Collection[str]) -> bool:
        """Whether a path will be its `before` when its step runs, as far as that is known; `paths` are the step's."""
        projected = self._projected
        if change.path in projected.contents:
            return is_same_content(projected.contents[change.path], change.before)
        if (file := projected.find_file_above(change.path)) and file not in paths:
            return False
        # An earlier step changes a folder above it or something in it: its own step checks.
        if projected.affects(change.path):
            return True
        try:
            is_expected = is_current(self._files, change.path, change.before)
        except PermissionDenied:  # a command closed a folder above: the commit opens it and checks
            return True
        # An earlier step changes the same file through another name: its own step checks.
        return is_expected or self._is_file_among(change.path, projected.contents)

    def _is_file_among(self, path: str, others: Collection[str]) -> bool:
        """Whether a path is another name (hard link) of a file at one of these paths."""
        found = self._files.stat(path)
        if found is None or found.kind != "file" or found.link_count == 1:
            return False
        stats = (self._files.stat(other) for other in others)
        files = ((stat.identity.device, stat.identity.inode) for stat in stats if stat)
        return (found.identity.device, found.identity.inode) in files
