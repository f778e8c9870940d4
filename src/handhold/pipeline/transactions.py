"""Committing a change set: recorded as intended, applied, recorded as done; or rolled back at the next start."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence

from handhold.core.errors import Busy, ToolError
from handhold.core.facts import Identity
from handhold.core.plans import FileChange, FolderTime
from handhold.core.ports import Broken, Decision, Entry, Files, Outcome, Store


def commit(
    files: Files,
    store: Store,
    seq: int,
    changes: Sequence[FileChange],
    conclude: Callable[[Sequence[Entry]], Outcome],
    *,
    decision: Decision,
    takes_back: Sequence[int] = (),
    renew: Collection[str] = (),
    times: Sequence[FolderTime] = (),
) -> Mapping[str, Identity]:
    """Call it with the store held exclusively. A change that is not recorded as committed is rolled back.

    `conclude` gets the calls whose undo is dropped to make room for this one: the outcome holds a reply that says so.
    Files of `renew` that come back with other contents get the time of now. `times` are set with the changes.
    """
    with files.transaction(changes, times) as transaction:
        dropped = store.intend(seq, transaction.id, transaction.files, decision=decision, takes_back=takes_back)
        identities = transaction.perform()
        try:
            store.settle(seq, conclude(dropped), durable=True, given_up=[entry.seq for entry in dropped])
        except BaseException:
            transaction.take_back()
            raise
        try:
            transaction.finish(renew=renew)
            store.finish(seq)
        except ToolError:
            pass  # it is committed and recorded: what could not be cleaned up now is at the next start
        return identities


def recover(files: Files, store: Store) -> None:
    """Finish or roll back what a process that died left half done. Checked before every call: it costs one query."""
    if not store.broken():
        return
    try:
        with store.alone(wait=False), files.alone():
            for incomplete in store.broken():
                _recover_one(incomplete, files, store)
    except Busy:
        pass  # whoever holds it is alive: what looks incomplete may be what it is doing


def _recover_one(incomplete: Broken, files: Files, store: Store) -> None:
    try:
        changed = files.recover(incomplete)
    except ToolError:
        return  # of a root that is not open here, or the machine will not have it: it stays open, for a later call
    if not incomplete.settled:
        note = json.dumps({"left": changed}) if changed else None
        store.settle(incomplete.seq, Outcome("interrupted", None, 0.0, note), durable=True)
    store.finish(incomplete.seq)
