"""The one door: a change is journalled ahead, committed and settled, or it is taken back at the next start."""

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
    """To be passed alone. What the journal does not say was done, was not done.

    `conclude` gets the calls whose undo is given up for this one: the outcome holds a reply that says so.
    Files of `renew` that come back with other contents get the time of now. `times` come with it.
    """
    with files.transaction(changes, times) as transaction:
        given_up = store.intend(seq, transaction.id, transaction.files, decision=decision, takes_back=takes_back)
        identities = transaction.perform()
        try:
            store.settle(seq, conclude(given_up), durable=True, given_up=[entry.seq for entry in given_up])
        except BaseException:
            transaction.take_back()
            raise
        try:
            transaction.finish(renew=renew)
            store.finish(seq)
        except ToolError:
            pass  # it is done, and recorded: what could not be thrown away now is at the next start
        return identities


def recover(files: Files, store: Store) -> None:
    """Finish or take back what a process that died left half done. Looked for before every call: it costs one query."""
    if not store.broken():
        return
    try:
        with store.alone(wait=False), files.alone():
            for broken in store.broken():
                _mend(broken, files, store)
    except Busy:
        pass  # whoever holds it is alive: what looks broken may be what it is doing


def _mend(broken: Broken, files: Files, store: Store) -> None:
    try:
        changed = files.recover(broken)
    except ToolError:
        return  # of a root that is not open here, or the machine will not have it: it stays open, for a later call
    if not broken.settled:
        note = json.dumps({"left": changed}) if changed else None
        store.settle(broken.seq, Outcome("interrupted", None, 0.0, note), durable=True)
    store.finish(broken.seq)
