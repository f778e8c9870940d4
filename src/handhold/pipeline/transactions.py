"""Commits a change set: record the intent, apply, record the outcome; recovers what a dead process left."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from handhold.core.errors import Busy, ToolError
from handhold.core.facts import FileIdentity
from handhold.core.kept_texts import KeptTexts
from handhold.core.plans import FileChange, FolderMtime, InlineContent, StagedContent
from handhold.core.ports.files import Files
from handhold.core.ports.journal import CallDecision, IncompleteTransaction, Journal, JournalEntry, Outcome
from handhold.core.ports.recording import Recording
from handhold.logs import log_swallowed


def commit(
    files: Files,
    journal: Journal,
    seq: int,
    changes: Sequence[FileChange],
    conclude: Callable[[Sequence[JournalEntry]], Outcome],
    *,
    decision: CallDecision,
    reverses: Sequence[int] = (),
    renew: Collection[str] = (),
    times: Sequence[FolderMtime] = (),
    recording: Recording | None = None,
    withheld: Collection[str] = (),
) -> Mapping[str, FileIdentity]:
    """Call it with the journal held exclusively. A change that is not recorded as committed is rolled back.

    `conclude` gets the calls whose undo is dropped to make room for this one: the outcome has a reply that says so.
    Files of `renew` whose contents change get the current time. `times` are set with the changes. `recording` follows
    them, so that they are not taken for somebody else's. `withheld` are hashes of contents that no hub may get.
    """
    recover_exclusively(files, journal)  # a plan that was made from half of somebody's change set is stale then
    paths = [change.path for change in changes]
    if recording:
        recording.settle(paths)
    with files.transaction(changes, times) as transaction:
        dropped = journal.record_intent(
            seq,
            transaction.id,
            transaction.files,
            decision=decision,
            reverses=reverses,
            withheld=withheld,
            texts=_read_texts(files, changes),
        )
        identities = transaction.apply()
        try:
            follow = recording.follow(paths) if recording else None
            outcome = conclude(dropped)
            with journal.one_transaction(durable=True):
                journal.record_outcome(seq, outcome, durable=True, dropped_undo=[entry.seq for entry in dropped])
                remove_unused = follow() if follow else None
        except BaseException:
            transaction.roll_back()
            raise
        try:
            transaction.clean_up(renew=renew)
            journal.mark_cleaned_up(seq)
            if recording and remove_unused:
                remove_unused()
                recording.keep(paths)
        except ToolError:
            log_swallowed()  # it is committed and recorded; the next start cleans up
        return identities


def _read_texts(files: Files, changes: Sequence[FileChange]) -> Sequence[InlineContent]:
    kept = KeptTexts()
    for change in changes:
        if kept.has_room_for(change) and isinstance(change.after, StagedContent):
            kept.add(files.read_staged(change.after, change.path), change.after.hash)
    return kept.contents


def recover(files: Files, journal: Journal) -> None:
    """Finish or roll back the transactions of dead processes. Called before every call: it costs one query.

    If the lock is taken, this is left to the next commit: the incomplete transaction may be that of its owner.
    """
    if journal.incomplete_transactions():
        with suppress(Busy), journal.exclusive(wait=False):
            recover_exclusively(files, journal)


def recover_exclusively(files: Files, journal: Journal) -> None:
    """Call it with the journal held exclusively: then every incomplete transaction is that of a dead process."""
    if left := journal.incomplete_transactions():
        with files.exclusive():
            for incomplete in left:
                _recover_one(incomplete, files, journal)


def _recover_one(incomplete: IncompleteTransaction, files: Files, journal: Journal) -> None:
    try:
        changed = files.recover(incomplete)
    except ToolError:
        log_swallowed()
        return  # its root is not open here, or the machine failed: a later call tries again
    if not incomplete.is_recorded:
        note = json.dumps({"left": changed}) if changed else None
        journal.record_outcome(incomplete.seq, Outcome("interrupted", None, 0.0, note), durable=True)
    journal.mark_cleaned_up(incomplete.seq)
