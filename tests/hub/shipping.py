"""Ships a journal to the stores of a hub, in the order of an uplink, without a network between them."""

import io

from handhold.backends.state.contents import unpack
from handhold.backends.state.records import IntentRecord, OutcomeRecord
from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.uplink_state import UplinkState
from handhold.core.plans import ContentRef
from handhold.core.ports.record_store import ChainId, RecordStore
from handhold.hub.object_contents import ObjectContents
from handhold.hub.stored_contents import StoredContents
from tests.suites.record_store_suite import batch

MAX_RECORDS, MAX_BYTES = 1000, 2**20


def ship(store: SqliteStore, records: RecordStore, contents: ObjectContents, chain: ChainId) -> None:
    """What the hub does not have yet."""
    state = UplinkState(store._database, lambda: None)  # pyright: ignore[reportPrivateUsage]
    state.attach("test")
    while found := state.read_batch(MAX_RECORDS, MAX_BYTES):
        for hash, data in [pair for each in found for pair in _list_contents(store, state, each.record)]:
            if not records.select_present(chain, (hash,)):
                StoredContents(records, contents).add(chain, hash, io.BytesIO(data))
        head = records.append(chain, batch([each.line for each in found]), claimed=found[-1].number)
        state.move_to(head.record)


def _list_contents(store: SqliteStore, state: UplinkState, record: object) -> list[tuple[str, bytes]]:
    match record:
        case IntentRecord(files=files):
            sides = [side for change in files for side in (change.before, change.after) if isinstance(side, ContentRef)]
            return [(side.hash, data) for side in sides if (data := store.get(side.hash)) is not None]
        case OutcomeRecord(reply=str(reply)) if found := state.read_reply(reply):
            return [(reply, unpack(found[0], packed=bool(found[1])))]
        case _:
            return []
