"""The SQLite store: one file per workspace, shared by all processes that work there.

Journal records are appended and never altered: triggers enforce that, and a hash chain proves it. Derived data is
stored as well, so that a journal of a hundred thousand calls answers as fast as an empty one.
"""

import sqlite3
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import chain
from os import fsencode
from pathlib import Path
from typing import Self

from handhold.backends.process_identity import identify_process
from handhold.backends.state import hash_chain, undo_state, uplink_state
from handhold.backends.state.approvals import SqliteApprovalStore
from handhold.backends.state.baseline import SqliteBaseline
from handhold.backends.state.client_sessions import SqliteClientSessions
from handhold.backends.state.contents import FOR_REDO, FOR_UNDO, BoundedContents, ByteBound
from handhold.backends.state.database import IN_MEMORY, Database
from handhold.backends.state.disk_share import DiskShare
from handhold.backends.state.hash_chain import JournalChain
from handhold.backends.state.journal_entries import (
    SELECT_CALL_BY_ID,
    SELECT_ENTRIES,
    decode_entries,
    read_entries,
    salvage_entries,
    select_last,
)
from handhold.backends.state.journal_reader import SqliteRecords
from handhold.backends.state.live_output import LiveOutput
from handhold.backends.state.lock import LockQueues, hold_lock
from handhold.backends.state.read_records import SqliteReadRecords
from handhold.backends.state.records import CallRecord, FinishRecord, IntentRecord, OutcomeRecord
from handhold.backends.state.replies import MAX_REPLY_BYTES, KeptReplies
from handhold.backends.state.rows import read_files
from handhold.backends.state.schema import MIGRATIONS, SCHEMA, SCHEMA_VERSION
from handhold.backends.state.slot_ledger import SlotLedger
from handhold.backends.state.space_totals import DISK_OVERHEAD, MAX_EXCESS_SHARE, DiskOverhead
from handhold.backends.state.state_errors import translate_state_errors
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.backends.state.text_codec import to_bytes, to_text
from handhold.backends.state.undo_space import UndoSpace
from handhold.backends.state.undo_state import COMMITTED_STATUSES, COMMITTED_STATUSES_SQL
from handhold.backends.state.uplink_state import UplinkState
from handhold.backends.state.windows import SqliteWindows
from handhold.core.plans import ContentRef, FileChange, InlineContent
from handhold.core.ports.hub_link import HubStatus
from handhold.core.ports.journal import (
    Call,
    CallDecision,
    IncompleteTransaction,
    JournalEntry,
    JournalVerification,
    Outcome,
)

StoredContent = InlineContent | ContentRef

DATABASE_FILE = "state.db"
LOCK_FILE = "lock"
MEMORY_BOUND_BYTES = 2 * 1024**3  # kept for undo by a store without a disk


class SqliteStore(SqliteApprovalStore):
    """`bound` is how many bytes may be kept for undo; None: a share of the free disk space.

    Without a folder, everything is in memory and lives as long as this object.
    """

    def __init__(
        self,
        folder: Path | None,
        *,
        bound: ByteBound | None = None,
        max_reply_bytes: int = MAX_REPLY_BYTES,
        overhead: DiskOverhead = DISK_OVERHEAD,
    ) -> None:
        if folder is None:
            self._exclusive = partial(LockQueues().hold, str(IN_MEMORY))
            database = Database(IN_MEMORY, SCHEMA, SCHEMA_VERSION)
            self._contents = BoundedContents(database, None, bound or MEMORY_BOUND_BYTES, overhead)
        else:
            with translate_state_errors(folder):
                ensure_private_folder(folder)
            self._exclusive = partial(hold_lock, folder / LOCK_FILE)
            database = Database(folder / DATABASE_FILE, SCHEMA, SCHEMA_VERSION, MIGRATIONS)
            self._contents = BoundedContents(database, folder / "contents", bound or DiskShare(folder), overhead)
        super().__init__(database, folder)
        self._slots = SlotLedger(overhead)
        self._undo_space = UndoSpace(self._contents, self._slots)
        self._chain = JournalChain(str(self._database.path))
        self.client_sessions = SqliteClientSessions(self._database)
        self._replies = KeptReplies(str(self._database.path), max_reply_bytes)
        self._live_output = LiveOutput(folder)
        self.records = SqliteRecords(self._database, self._replies, self._live_output)

    @classmethod
    def in_memory(cls, *, bound: ByteBound | None = None, overhead: DiskOverhead = DISK_OVERHEAD) -> Self:
        """A store that leaves nothing behind, for tests and dry runs."""
        return cls(None, bound=bound, overhead=overhead)

    def exclusive(self, *, wait: bool = True) -> AbstractContextManager[None]:
        return self._exclusive(wait=wait)

    def is_current(self) -> bool:
        """Whether its database is still where it was."""
        return self._database.is_current()

    def close(self) -> None:
        """A later use opens it again."""
        self._database.close()

    @contextmanager
    def one_transaction(self, *, durable: bool = False) -> Generator[None]:
        with self._database.write_transaction(durable=durable):
            yield
        self._contents.remove_dropped_files()

    # --- contents

    def keep(self, contents: Iterable[bytes]) -> None:
        self._contents.keep(contents)

    def get(self, hash: str) -> bytes | None:
        return self._contents.get(hash)

    def has(self, hash: str) -> bool:
        return self._contents.has(hash)

    def read_usage(self) -> tuple[int, int]:
        """How many bytes of contents are kept, and how many contents were dropped so far."""
        return self._contents.read_usage()

    def needed_slots(self, commands: Collection[str]) -> Collection[str]:
        with self._database.read_transaction() as connection:
            return self._slots.select_kept(connection, commands)

    def dropped_slots(self, limit: int) -> Sequence[str]:
        with self._database.read_transaction() as connection:
            return self._slots.select_dropped(connection, limit)

    def forget_dropped_slots(self, commands: Collection[str]) -> None:
        with self._database.write_transaction() as connection:
            self._slots.forget_dropped(connection, commands)

    def can_removal_wait(self) -> bool:
        with self._database.read_transaction() as connection:
            dropped = self._contents.sum_held(connection, "kind = 'dropped'")
            bound = self._contents.read_bound(self._contents.sum_held(connection))
            return dropped <= bound * MAX_EXCESS_SHARE

    # --- journal

    def begin(self, call: Call) -> int:
        with self._database.write_transaction() as connection:
            seq = self._append_call(connection, call)
            connection.execute("INSERT INTO running VALUES (?, ?)", (seq, identify_process()))
            return seq

    def _append_call(self, connection: sqlite3.Connection, call: Call) -> int:
        (last,) = connection.execute("SELECT max(seq) FROM calls").fetchone()
        seq: int = (last or 0) + 1
        self._chain.append(connection, CallRecord(seq, _now(), call))
        return seq

    def record_call(self, call: Call, outcome: Outcome, *, decision: CallDecision | None = None) -> None:
        with self._database.write_transaction() as connection:
            self._append_outcome(connection, self._append_call(connection, call), outcome, decision)

    def record_intent(
        self,
        seq: int,
        transaction: str,
        files: Sequence[FileChange],
        *,
        decision: CallDecision,
        reverses: Sequence[int] = (),
        withheld: Collection[str] = (),
        texts: Sequence[InlineContent] = (),
    ) -> Sequence[JournalEntry]:
        record = IntentRecord(seq, _now(), transaction, decision, tuple(files), tuple(reverses))
        self._contents.announce([*chain(*_split_stored(files)), *texts])
        with self._database.write_transaction(durable=True) as connection:
            uplink_state.withhold(connection, withheld)
            given_up = self._append_intent(connection, record, texts)
        self._contents.remove_dropped_files()
        return given_up

    def _append_intent(
        self, connection: sqlite3.Connection, record: IntentRecord, texts: Sequence[InlineContent]
    ) -> Sequence[JournalEntry]:
        seq, files, reverses = record.seq, record.files, record.takes_back
        old, new = _split_stored(files)
        uplink_state.add_unsent(connection, files, self._contents)
        self._chain.append(connection, record)
        self._contents.store(connection, (*new, *texts), FOR_REDO)
        absent = self._contents.store(connection, old, FOR_REDO if self._is_undo(connection, seq) else FOR_UNDO)
        connection.execute("INSERT INTO lacking VALUES (?, ?)", (seq, len(absent)))
        self._slots.record_use(connection, seq, files, for_reversal=bool(reverses))
        connection.execute("INSERT INTO pending VALUES (?, 0)", (seq,))
        # Undo and redo may take several steps, and none may drop what a later one needs.
        free_space = self._contents.drop_seen if reverses else self._undo_space.free_space
        free_space(connection)
        return () if reverses else read_entries(connection, sorted(self._undo_space.choose_calls(connection)))

    def record_adopted(
        self,
        call: Call,
        files: Sequence[FileChange],
        conclude: Callable[[Sequence[JournalEntry]], Outcome],
        *,
        together: int | None,
        texts: Sequence[InlineContent] = (),
    ) -> None:
        """Record a change of somebody else, whole or not at all: it is never pending. `together`: its windows."""
        self._contents.announce(texts)
        with self._database.write_transaction(durable=True) as connection:
            seq = self._append_call(connection, call)
            record = IntentRecord(seq, _now(), "", CallDecision("allowed", "adopted"), tuple(files), ())
            dropped = self._append_intent(connection, record, texts)
            self._append_outcome(connection, seq, conclude(dropped), None)
            self._undo_space.give_up(connection, [entry.seq for entry in dropped])
            self._chain.append(connection, FinishRecord(seq, _now()))
            connection.execute("DELETE FROM pending WHERE seq = ?", (seq,))
            connection.execute("INSERT INTO adopted VALUES (?, ?)", (seq, together))
        self._contents.remove_dropped_files()

    def forget(self, path: str = "", *, before: float | None = None) -> None:
        """Drop what is kept for the undo of calls that changed something at or below a path, or ended before a time.

        With a path, its contents leave the disk even if other calls need the same ones.
        """
        until = 2**62 if before is None else round(before * 10**6)
        with self._database.write_transaction(durable=True) as connection:
            connection.execute("PRAGMA secure_delete = ON")
            self._undo_space.forget(connection, to_bytes(path), until, also_shared=before is None)
            connection.execute("PRAGMA secure_delete = OFF")
        self._contents.remove_dropped_files()
        self._database.empty_log()

    def hub_status(self) -> HubStatus | None:
        with self._database.read_transaction() as connection:
            return uplink_state.read_status(connection)

    def give_up_hub(self) -> HubStatus | None:
        with self._database.write_transaction() as connection:
            status = uplink_state.read_status(connection)
            uplink_state.detach(connection)
        return status

    def open_uplink(self, on_commit: Callable[[], None]) -> UplinkState:
        """For an uplink, which is told of each commit of this process."""
        self._database.on_commit = on_commit
        return UplinkState(Database(self._database.path, SCHEMA, SCHEMA_VERSION, MIGRATIONS), self._database.sync_log)

    def has_baseline(self) -> bool:
        return self._database.fetch_row("SELECT 1 FROM baseline_roots LIMIT 1") is not None

    def baseline(self, root: str) -> SqliteBaseline:
        return SqliteBaseline(self._database, fsencode(root))

    def windows(self, root: str) -> SqliteWindows:
        return SqliteWindows(self._database, fsencode(root))

    def record_outcome(
        self,
        seq: int,
        outcome: Outcome,
        *,
        durable: bool,
        decision: CallDecision | None = None,
        dropped_undo: Sequence[int] = (),
    ) -> None:
        with self._database.write_transaction(durable=durable) as connection:
            self._append_outcome(connection, seq, outcome, decision)
            if outcome.status in COMMITTED_STATUSES:
                connection.execute("UPDATE pending SET settled = 1 WHERE seq = ?", (seq,))
                self._undo_space.give_up(connection, dropped_undo)
            else:  # the transaction was rolled back
                connection.execute("DELETE FROM pending WHERE seq = ?", (seq,))
                self._slots.discard(connection, seq)

    def _append_outcome(
        self, connection: sqlite3.Connection, seq: int, outcome: Outcome, decision: CallDecision | None
    ) -> None:
        reply = None if outcome.reply is None else self._replies.keep(connection, to_bytes(outcome.reply))
        ended = (outcome.status, outcome.code, round(outcome.time_ms * 1000), reply, decision)
        self._chain.append(connection, OutcomeRecord(seq, _now(), *ended))

    def mark_cleaned_up(self, seq: int) -> None:
        with self._database.write_transaction() as connection:
            if not connection.execute("SELECT 1 FROM finished WHERE seq = ?", (seq,)).fetchone():
                self._chain.append(connection, FinishRecord(seq, _now()))
            connection.execute("DELETE FROM pending WHERE seq = ?", (seq,))

    def verify(self, noted_head: str = "") -> JournalVerification:
        with self._database.read_transaction() as connection:
            return hash_chain.verify_chain(connection, noted_head)

    def incomplete_transactions(self) -> Sequence[IncompleteTransaction]:
        if self._database.fetch_row("SELECT 1 FROM pending LIMIT 1") is None:
            return ()  # the usual case, checked before every call
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                "SELECT seq, transaction_id, settled FROM pending JOIN intents USING (seq) ORDER BY seq"
            ).fetchall()
            return [
                IncompleteTransaction(seq, to_text(name), read_files(connection, seq), bool(settled))
                for seq, name, settled in rows
            ]

    def find_call(self, session: str, turn: str, call_id: str) -> JournalEntry | None:
        with self._database.read_transaction() as connection:
            rows = connection.execute(
                f"{SELECT_ENTRIES} WHERE calls.seq = ({SELECT_CALL_BY_ID})",
                (to_bytes(call_id), to_bytes(turn), to_bytes(session)),
            ).fetchall()
            return next(decode_entries(connection, rows, read_reply=partial(self._replies.read, connection)), None)

    def entries(self, *, session: str | None = None, last: int | None = None) -> Sequence[JournalEntry]:
        """Oldest first, without replies: use `find_call` for those."""
        with self._database.read_transaction() as connection:
            return list(decode_entries(connection, select_last(connection, session=session, last=last)))

    def salvage_entries(
        self, *, session: str | None = None, last: int | None = None
    ) -> tuple[Sequence[JournalEntry], Mapping[int, str]]:
        """The entries of a damaged journal that can be read, and the reason for each that cannot, by number."""
        with self._database.read_transaction() as connection:
            return salvage_entries(connection, session=session, last=last)

    def find_changes(
        self,
        session: str,
        *,
        undone: bool | None,
        call: str | int | tuple[int, ...] = "",
        turn: str = "",
        last: int | None = None,
        with_foreign: bool = False,
    ) -> Sequence[JournalEntry]:
        with self._database.read_transaction() as connection:
            chosen = undo_state.select_changes(connection, session, undone=undone, call=call, turn=turn, last=last)
            if with_foreign:
                chosen = undo_state.add_foreign(connection, chosen, call)
            return read_entries(connection, chosen)

    def find_undos(
        self, session: str, *, of: Collection[int] | None = None, since: int = 0, last: int | None = None
    ) -> Sequence[JournalEntry]:
        with self._database.read_transaction() as connection:
            return read_entries(connection, undo_state.select_undos(connection, session, of=of, since=since, last=last))

    def find_reversals(self, calls: Collection[int]) -> Sequence[JournalEntry]:
        with self._database.read_transaction() as connection:
            return read_entries(connection, undo_state.select_reversals(connection, calls))

    def changes_of(self, seq: int) -> tuple[FileChange, ...]:
        with self._database.read_transaction() as connection:
            return read_files(connection, seq)

    def last_writer(self, path: str, hash: str) -> str:
        with self._database.read_transaction() as connection:
            row = connection.execute(
                "SELECT session FROM changes INDEXED BY changes_after JOIN calls USING (seq) JOIN outcomes USING (seq)"
                f" WHERE after = ? AND path = ? AND status IN {COMMITTED_STATUSES_SQL}"
                " ORDER BY changes.seq DESC LIMIT 1",
                (bytes.fromhex(hash), to_bytes(path)),
            ).fetchone()
        return to_text(row[0]) if row else ""

    def watch_output(self, seq: int, watch: Callable[[str], None] | None) -> Callable[[str], None] | None:
        return self._live_output.record(seq, watch) if self.is_reviewed() else watch

    # --- read records

    def read_records(self, session: str) -> "SqliteReadRecords":
        return SqliteReadRecords(self._database, session)

    # --- rows

    def _is_undo(self, connection: sqlite3.Connection, seq: int) -> bool:
        (tool,) = connection.execute("SELECT tool FROM calls WHERE seq = ?", (seq,)).fetchone()
        return to_text(tool) == "undo"


def _split_stored(files: Iterable[FileChange]) -> tuple[list[StoredContent], list[StoredContent]]:
    """The contents before, and those after, that the store has or gets."""
    sides = ((each.before for each in files), (each.after for each in files))
    old, new = ([side for side in contents if isinstance(side, StoredContent)] for contents in sides)
    return old, new


def _now() -> int:
    return time.time_ns() // 1000
