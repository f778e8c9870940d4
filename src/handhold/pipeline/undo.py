"""Undo and redo: reversed changes, committed like any other.

Consecutive calls of file tools are undone as one change. A command is a step of its own, since its files are moved one
at a time. So several calls with a command among them are undone step by step, newest first, each step all or nothing.
"""

import json
import re
from collections.abc import Collection, Iterator, Sequence
from time import perf_counter
from typing import Literal

from handhold.core import history
from handhold.core.change_diff import shorten_path, sum_changes
from handhold.core.errors import (
    ContentDropped,
    Denied,
    NotApproved,
    PartialUndo,
    PermissionDenied,
    RollbackIncomplete,
    ToolError,
    UndoConflict,
)
from handhold.core.history import Target, UndoStep, resolve_target
from handhold.core.plans import Content, Directory, DirectoryMetadata, FileChange, StagedContent, hash_or_none
from handhold.core.ports.approvals import RunPaused
from handhold.core.ports.files import HiddenPaths
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.results import Reply, UndoResult
from handhold.core.text.path_escaping import escape_ambiguous, format_path
from handhold.core.tools.git_refresh import GIT_FOLDER_PATH, INDEX_PATH
from handhold.core.tools.run import classify_change
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.change_contents import ChangeContents, is_current
from handhold.pipeline.context import elapsed_ms
from handhold.pipeline.git_objects import find_used_repositories, leave_objects
from handhold.pipeline.responses import Responder
from handhold.pipeline.reversal_notes import format_kept_objects, format_not_kept
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit, recover
from handhold.progress import track

Direction = Literal["undo", "redo"]
MERGED_REF_PATH = re.compile(r".*/\.git/refs/handhold(?:/.*)?", re.DOTALL)


class UndoService:
    """Undo, redo and diffs of one session on a workspace."""

    def __init__(
        self, session: Session, contents: ChangeContents, authorizer: Authorizer, responder: Responder
    ) -> None:
        self._session = session
        self._files = session.files
        self._journal = session.journal
        self._contents = contents
        self._authorizer = authorizer
        self._responder = responder

    def reverse(
        self,
        direction: Direction,
        target: Target | JournalEntry | None,
        *,
        preview: bool,
        keep_times: bool,
        with_foreign: bool = False,
    ) -> Reply:
        started, chosen = perf_counter(), resolve_target(target)
        try:
            recover(self._files, self._journal)
            entries = self._choose(direction, chosen, with_foreign=with_foreign)
            result = self._reverse(direction, chosen, entries, preview=preview, keep_times=keep_times)
        except RunPaused as paused:
            raise paused.reason from None
        except ToolError as error:
            return self._responder.refuse(direction, error, started)
        facts = {**result.facts(), "time_ms": elapsed_ms(started)}
        text = format_reversal(result, self._files.roots)
        return Reply("success", text, facts, ui_extra=result.diff, result=result)

    def _reverse(
        self, direction: Direction, target: Target, chosen: list[JournalEntry], *, preview: bool, keep_times: bool
    ) -> UndoResult:
        """Undo or redo a target. Refused if it would lose a later change, or today's policy denies it.

        A file whose contents change gets the current time, so that build tools notice; with `keep_times`, its old
        time. A git index always gets its old time (`renewable_paths`).
        """
        steps = [self._leave_changed_refs(reverse_step(step)) for step in reversed(self._steps(chosen))]
        used = find_used_repositories(steps, self._files, self._journal, self._session.name)
        steps = [leave_objects(step, used) for step in steps]
        self._check_policy(steps)
        self._check_undoable(steps)
        if not preview:
            self._commit(direction, target, steps, keep_times=keep_times)
            self._session.confirm_change()
        files = [change for step in steps for change in step.files]
        return UndoResult(
            verb=direction,
            calls=tuple(name for step in reversed(steps) for name in name_calls(step)),
            paths=tuple(dict.fromkeys(format_path(change.path) for change in files if not change.is_directory)),
            preview=preview,
            diff=self._diff_visible(files),
            used_repositories=tuple(sorted(used)),
            not_kept=tuple(path for step in steps for path in list_not_kept(step.entries)),
        )

    def diff(self, target: Target | JournalEntry | None) -> str:
        """The changes of a target as a diff; of an entry, also if another session made it."""
        if isinstance(target, JournalEntry):
            return self._contents.diff(self._journal.changes_of(target.seq))
        target = resolve_target(target)
        undone = False if target.is_multiple else None
        chosen = history.find_changes(self._journal, self._session.name, target, undone=undone)
        if len(chosen) > 1:  # the net change: each file once
            files = [change for entry in chosen for change in self._journal.changes_of(entry.seq)]
            return self._diff_visible(sum_changes(files, self._contents))
        return self._diff_visible([change for step in self._steps(chosen) for change in step.files])

    def _diff_visible(self, files: Sequence[FileChange]) -> str:
        """The diff without contents of files that may not be read, under any name."""
        hidden = self._hidden_contents(files, self._session.hidden_paths)
        return self._contents.diff(
            [change for change in files if not {hash_or_none(change.before), hash_or_none(change.after)} & hidden]
        )

    def _choose(self, direction: Direction, target: Target, *, with_foreign: bool) -> list[JournalEntry]:
        if direction == "undo":
            return history.find_changes(
                self._journal, self._session.name, target, undone=False, with_foreign=with_foreign
            )
        return history.find_undos(self._journal, self._session.name, target)

    def _steps(self, chosen: Sequence[JournalEntry]) -> list[UndoStep]:
        return history.build_undo_steps(self._journal, chosen)

    def _leave_changed_refs(self, step: UndoStep) -> UndoStep:
        """Without refs of a merge that changed since, because git packed them: they stay, the rest can be undone."""
        left = [
            change
            for change in step.files
            if not MERGED_REF_PATH.fullmatch(change.path) or is_current(self._files, change.path, change.before)
        ]
        return UndoStep(step.entries, tuple(left or step.files))

    # --- whether the policy allows it

    def _check_policy(self, steps: Sequence[UndoStep]) -> None:
        """Denied if it would touch what may not be read or changed, or copy such content to another path."""
        files = [change for step in steps for change in (*step.files, *self._entries_within(step.files))]
        for change in files:
            for verb in (Verb.READ, classify_change(change)):
                decision = self._session.secret_files.policy.decide(verb, change.path)
                if decision.verdict is Verdict.DENY:
                    raise Denied(change.path, decision.because, decision.rule, remedy=decision.remedy)
        hidden = self._hidden_contents(files, self._session.secret_files.masked_hidden_paths)
        if copied := next(
            (change.path for change in files if change.after and hash_or_none(change.after) in hidden), None
        ):
            raise Denied(copied, "it would receive the content of a file that may not be read", "secrets")

    def _entries_within(self, files: Sequence[FileChange]) -> Iterator[FileChange]:
        """The entries of folders that are moved whole."""
        for change in files:
            for tree in (change.before, change.after):
                if isinstance(tree, StagedContent) and tree.kind == "tree":
                    for way, entry in self._files.list_staged_tree(tree, change.path, tree.entry_count):
                        sides = (None, entry) if tree is change.after else (entry, None)
                        yield FileChange(f"{change.path}/{escape_ambiguous(way)}", *sides)

    def _hidden_contents(self, files: Sequence[FileChange], hidden: HiddenPaths | None) -> set[str | None]:
        """The hashes of files that are hidden today and have the size of one of these."""
        if hidden is None:
            return set()
        sides = (side for change in files for side in (change.before, change.after))
        sizes = {
            side.size for side in sides if side is not None and not isinstance(side, Directory | DirectoryMetadata)
        } - {0}
        stats = ((place, self._files.stat(place)) for place in hidden.paths())
        return {
            self._files.fingerprint(place)[1]
            for place, stat in stats
            if stat and stat.kind == "file" and stat.identity.size in sizes
        }

    # --- whether it is possible

    def _check_undoable(self, steps: Sequence[UndoStep]) -> None:
        """ContentDropped if an old content is no longer kept; UndoConflict if a path was changed since."""
        files = [change for step in steps for change in step.files]
        commands = {change.after.command for change in files if isinstance(change.after, StagedContent)}
        needed = self._session.contents.needed_slots(commands)
        gone = tuple(change.path for change in files if self._is_dropped(change, needed))
        if gone:
            raise ContentDropped(gone)
        if locks := self._find_git_locks(files):
            raise UndoConflict(locks)
        projected = ProjectedState()
        changed: list[str] = []
        for step in steps:
            files = track(step.files, "files checked")
            paths = {change.path for change in step.files}
            changed += [change.path for change in files if not self._will_match(change, projected, paths)]
            projected.add(step.files)
        if changed:
            raise UndoConflict(tuple(dict.fromkeys(changed)))

    def _find_git_locks(self, files: Sequence[FileChange]) -> tuple[str, ...]:
        """The locks of repositories that these files are part of: git is at work there, and would overwrite them."""
        changed = {change.path for change in files}
        folders = {match[1] for path in changed if (match := GIT_FOLDER_PATH.fullmatch(path))}
        locks = sorted(f"{folder}/index.lock" for folder in folders)
        return tuple(lock for lock in locks if lock not in changed and self._files.stat(lock))

    def _is_dropped(self, change: FileChange, needed_slots: Collection[str]) -> bool:
        match change.after:
            case None | Directory() | DirectoryMetadata():
                return False
            case StagedContent() as staged:
                return staged.command not in needed_slots or not self._files.is_staged(staged)
            case content:
                return not self._session.contents.has(content.hash)

    def _will_match(self, change: FileChange, projected: "ProjectedState", paths: Collection[str]) -> bool:
        """Whether a path will be its `before` when its step runs, as far as that is known; `paths` are the step's."""
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

    # --- committing

    def _commit(self, direction: Direction, target: Target, steps: Sequence[UndoStep], *, keep_times: bool) -> None:
        batch = self._journal.entries(last=1)[-1].seq if len(steps) > 1 else 0
        for n, step in enumerate(steps):
            try:
                self._commit_step(direction, target, step, batch, keep_times=keep_times)
            except RollbackIncomplete:
                raise
            except ToolError as error:
                if not n:
                    raise
                done, left = ([name for each in part for name in name_calls(each)] for part in (steps[:n], steps[n:]))
                paths = error.facts().get("paths") or [error.facts().get("path", "")]
                raise PartialUndo(direction, tuple(done), tuple(left), error.code, tuple(paths)) from error

    def _commit_step(
        self, direction: Direction, target: Target, step: UndoStep, batch: int, *, keep_times: bool
    ) -> None:
        arguments = {"calls": name_calls(step)} | ({"batch": batch} if batch else {})
        call = Call(
            self._session.name, target.turn_name, "", direction, json.dumps(arguments), self._session.dialect.name
        )
        seq = self._journal.begin(call)
        try:
            decision = self._authorizer.authorize_reversal(
                call, step.files, tuple(self._entries_within(step.files)), wait=CancelToken().wait_for
            )
            self._session.secret_files.learn_from(step.files)
            with self._journal.exclusive():
                commit(
                    self._files,
                    self._journal,
                    seq,
                    step.files,
                    lambda _: Outcome("success", None, 0.0, None),
                    decision=decision,
                    reverses=[entry.seq for entry in step.entries],
                    renew=frozenset() if keep_times else renewable_paths(step.files),
                    recording=self._session.recording,
                    withheld=self._session.find_hidden_hashes(step.files),
                )
        except RollbackIncomplete:
            raise
        except ToolError as error:
            refused = CallDecision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
            self._journal.record_outcome(seq, Outcome("error", error.code, 0.0, None), durable=False, decision=refused)
            raise


def format_reversal(result: UndoResult, roots: Sequence[str]) -> str:
    """What an undo or redo did, in one line. A redo names the undos that it reverses."""
    done, would = {"undo": ("Undid", "Would undo"), "redo": ("Redid what", "Would redo what")}[result.verb]
    calls = ", ".join(result.calls) + (" undid" if result.verb == "redo" else "")
    listed = ", ".join(shorten_path(path, roots) for path in result.paths[:10])
    more = f" and {len(result.paths) - 10} more" if len(result.paths) > 10 else ""
    kept = format_kept_objects(result.used_repositories, roots) + format_not_kept(result.not_kept, roots)
    return f"{would if result.preview else done} {calls}: {listed or 'only folders changed'}{more}.{kept}"


def list_not_kept(entries: Sequence[JournalEntry]) -> Iterator[str]:
    """The paths of recorded calls of others that cannot be undone."""
    for entry in entries:
        try:
            yield from json.loads(entry.call.arguments).get("not_kept", ())
        except (ValueError, AttributeError):  # a tampered journal; `verify` reports it
            continue


def reverse_step(step: UndoStep) -> UndoStep:
    return UndoStep(step.entries, tuple(change.invert() for change in reversed(step.files)))


def renewable_paths(files: Sequence[FileChange]) -> frozenset[str]:
    """All paths except git indexes: git trusts the times of files that are older than its index."""
    return frozenset(change.path for change in files if not INDEX_PATH.fullmatch(change.path))


def name_calls(step: UndoStep) -> list[str]:
    return [history.format_call_id(entry) for entry in step.entries]


def is_same_content(actual: Content | None, expected: Content | None) -> bool:
    """Whether one step leaves what the next one expects. The content of a folder is checked by its own step.

    A large file that a command removed was not read: the journal knows that it is the same one by inode and time.
    """
    if isinstance(actual, StagedContent) and isinstance(expected, StagedContent) and actual.kind == expected.kind:
        same = (actual.inode, actual.size, actual.mode, actual.mtime_ns)
        if same == (expected.inode, expected.size, expected.mode, expected.mtime_ns):
            return True
    return (is_folder(actual) and is_folder(expected)) or hash_or_none(actual) == hash_or_none(expected)


def is_folder(content: Content | None) -> bool:
    return isinstance(content, Directory | DirectoryMetadata) or (
        isinstance(content, StagedContent) and content.kind == "tree"
    )


class ProjectedState:
    """The contents that earlier steps leave."""

    def __init__(self) -> None:
        self.contents: dict[str, Content | None] = {}
        self._parents: set[str] = set()

    def add(self, files: Sequence[FileChange]) -> None:
        for change in files:
            if any(isinstance(side, StagedContent) and side.kind == "tree" for side in (change.before, change.after)):
                # What is moved along with a whole folder is in no step so far.
                self.contents = {
                    path: left for path, left in self.contents.items() if not path.startswith(f"{change.path}/")
                }
            self.contents[change.path] = change.after
            self._parents.update(parent_folders(change.path))

    def find_file_above(self, path: str) -> str | None:
        """What an earlier step leaves above this path instead of a folder."""
        known = next((folder for folder in parent_folders(path) if folder in self.contents), None)
        left = self.contents[known] if known else None
        return None if left is None or is_folder(left) else known

    def affects(self, path: str) -> bool:
        """Whether an earlier step replaces a folder above this path, or changes something in it."""
        return path in self._parents or any(
            folder in self.contents and not isinstance(self.contents[folder], DirectoryMetadata)
            for folder in parent_folders(path)
        )


def parent_folders(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
