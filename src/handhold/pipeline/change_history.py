"""The changes of recorded calls, file by file: to look at them, and to restore single files."""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from handhold.core.errors import (
    ContentDropped,
    Denied,
    NotApproved,
    NothingToUndo,
    RollbackIncomplete,
    ToolError,
)
from handhold.core.history import UndoStep
from handhold.core.plans import Content, ContentRef, FileChange, InlineContent, StagedContent
from handhold.core.ports.approvals import Effect
from handhold.core.ports.journal import Call, CallDecision, JournalEntry, Outcome
from handhold.core.text.encoding import Text
from handhold.logs import log_swallowed
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.change_contents import ChangeContents, is_current
from handhold.pipeline.effects import describe_effect
from handhold.pipeline.reversal_plan import ReversalPlanner
from handhold.pipeline.session import Session
from handhold.pipeline.transactions import commit, recover

Side = Literal["before", "after"]
RESTORE_TOOL = "restore"  # the name of a restoration in the journal
MAX_CONTENT_BYTES = 16 * 1024**2  # of a file that is shown or restored by itself


@dataclass(frozen=True)
class RecordedChange:
    """One path that a call changed. `number` is its place in the change set, `path` relative to the first root."""

    number: int
    effect: Effect
    change: FileChange
    is_current: bool  # the path is still as the call left it
    can_restore: bool  # by itself: a regular file of which only the content changed


class ChangeHistory:
    """What calls of any session changed. Files that the policy does not allow to read are left out."""

    def __init__(self, session: Session, contents: ChangeContents, authorizer: Authorizer) -> None:
        self._session = session
        self._contents = contents
        self._authorizer = authorizer

    def list_changes(self, entry: JournalEntry, *, limit: int | None = None) -> list[RecordedChange]:
        """The visible changes of a call; folders that only had to exist are left out."""
        return [self._describe(number, change) for number, change in islice(self._iter_changes(entry), limit)]

    def count_changes(self, entry: JournalEntry) -> int:
        """How many `list_changes` returns without a limit."""
        return sum(1 for _ in self._iter_changes(entry))

    def _iter_changes(self, entry: JournalEntry) -> Iterator[tuple[int, FileChange]]:
        for number, change in enumerate(self._session.journal.changes_of(entry.seq)):
            if not change.is_directory and self._session.is_visible(change.path):
                yield number, change

    def find_change(self, entry: JournalEntry, number: int) -> RecordedChange | None:
        changes = self._session.journal.changes_of(entry.seq)
        if not 0 <= number < len(changes) or not self._session.is_visible(changes[number].path):
            return None
        return self._describe(number, changes[number])

    def _describe(self, number: int, change: FileChange) -> RecordedChange:
        try:
            current = is_current(self._session.files, change.path, change.after)
        except ToolError:
            log_swallowed()
            current = False
        effect = describe_effect(change, self._contents, self._session.files.roots)
        return RecordedChange(number, effect, change, current, _can_restore(change))

    def read_side(self, change: FileChange, side: Side) -> bytes | None:
        """The content of a path before or after a call; None if there was none, or it is no longer kept."""
        content = change.before if side == "before" else change.after
        return None if content is None or content.size > MAX_CONTENT_BYTES else self._read(content, change.path)

    def _read(self, content: Content, path: str) -> bytes | None:
        return self._contents.read_content(content, path)

    def read_now(self, path: str) -> bytes | None:
        """The content of a path now; None if it is no regular file, or may not be read."""
        if not self._session.is_visible(path):
            return None
        try:
            stat = self._session.files.stat(path)
            if stat is None or stat.kind != "file" or stat.identity.size > MAX_CONTENT_BYTES:
                return None
            return self._session.files.read(path).data
        except ToolError:
            log_swallowed()
            return None

    def decode(self, data: bytes, path: str) -> str:
        """The text of a file. BinaryFile if it has none."""
        return Text.decode(data, path, self._session.files.declared_encoding(path)).body

    # --- restoring single files

    def restore(self, entry: JournalEntry, numbers: Collection[int]) -> int:
        """Give back to these files of a call the content that they had before it, as a change of its own.

        Later changes of other lines stay, as with an undo. Returns its number in the journal. Raises UndoConflict if
        a later change cannot be kept, ContentDropped if an old content is gone, Denied or NotApproved if the policy
        does not allow it.
        """
        session = self._session
        recover(session.files, session.journal)
        chosen = [each for each in self.list_changes(entry) if each.number in numbers]
        if not chosen or any(not each.can_restore for each in chosen):
            raise NothingToUndo("a file of this call can only be undone with the whole call", "undo")
        reversal = UndoStep((entry,), tuple(self._reverse(each.change) for each in chosen))
        (planned,) = ReversalPlanner(session, self._contents, None).plan([reversal])
        files = planned.changes
        arguments = {"call": entry.seq, "paths": [each.effect.path for each in chosen]}
        call = Call(session.name, "", "", RESTORE_TOOL, json.dumps(arguments), session.dialect.name)
        seq = session.journal.begin(call)
        try:
            self._commit(call, seq, files)
        except RollbackIncomplete:
            raise
        except ToolError as error:
            refused = CallDecision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None
            outcome = Outcome("error", error.code, 0.0, None)
            session.journal.record_outcome(seq, outcome, durable=False, decision=refused)
            raise
        return seq

    def _commit(self, call: Call, seq: int, files: Sequence[FileChange]) -> None:
        session = self._session
        decision = self._authorizer.authorize_reversal(call, files, (), wait=CancelToken().wait_for)
        session.secret_files.learn_from(files)
        with session.journal.exclusive():
            commit(
                session.files,
                session.journal,
                seq,
                files,
                lambda _: Outcome("success", None, 0.0, None),
                decision=decision,
                renew=frozenset(change.path for change in files),
                recording=session.recording,
            )

    def _reverse(self, change: FileChange) -> FileChange:
        before = None if change.after is None else ContentRef(change.after.hash, change.after.size)
        if change.before is None:
            return FileChange(change.path, before, None)
        data = self._read(change.before, change.path)
        if data is None:
            raise ContentDropped((change.path,))
        mode = change.before.mode & 0o777 if isinstance(change.before, StagedContent) else change.mode
        return FileChange(change.path, before, InlineContent(data), mode if before is None else None)


def _can_restore(change: FileChange) -> bool:
    sides = [side for side in (change.before, change.after) if side is not None]
    if any(isinstance(side, StagedContent) and side.kind != "file" for side in sides):
        return False
    if any(not isinstance(side, InlineContent | ContentRef | StagedContent) for side in sides):
        return False
    modes = {side.mode for side in sides if isinstance(side, StagedContent)}
    is_large = any(side.size > MAX_CONTENT_BYTES for side in sides)
    return len(modes) <= 1 and not change.is_noop and not is_large
