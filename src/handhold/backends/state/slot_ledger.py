"""Slots as the journal tracks them: by the command that filled them, and by what they hold.

A slot that is dropped is no longer needed from that moment on, but its folder is removed later, in portions. Until then
it is listed, so that any process can go on with it.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from handhold.backends.state.contents import split_batches
from handhold.backends.state.space_totals import DiskOverhead, keep_totals
from handhold.core.errors import ContentDropped
from handhold.core.plans import FileChange, StagedContent

UNDO, REDO, GIVEN_UP = range(3)  # what slots are kept for; given up: a reply announced that they will be dropped

SCHEMA = (
    # By command: how much its slots hold now, and once they are swapped. `for_redo` is one of the levels above.
    """CREATE TABLE slots (
        command BLOB PRIMARY KEY, used INTEGER NOT NULL, bytes INTEGER NOT NULL,
        swapped INTEGER NOT NULL, for_redo INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE slot_uses (command BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (command, seq)) WITHOUT ROWID",
    "CREATE INDEX slot_uses_seq ON slot_uses (seq)",
    "CREATE TRIGGER slots_come AFTER INSERT ON slots BEGIN UPDATE held SET in_slots = in_slots + NEW.bytes; END",
    "CREATE TRIGGER slots_go AFTER DELETE ON slots BEGIN UPDATE held SET in_slots = in_slots - OLD.bytes; END",
    """CREATE TRIGGER slots_swap AFTER UPDATE OF bytes ON slots BEGIN
        UPDATE held SET in_slots = in_slots + NEW.bytes - OLD.bytes;
    END""",
)
TOTALS_SCHEMA = (
    "CREATE INDEX slots_going ON slots (for_redo, used)",
    "CREATE TABLE dropped_slots (n INTEGER PRIMARY KEY, command BLOB NOT NULL UNIQUE, bytes INTEGER NOT NULL)",
    *keep_totals("slots", "slots", "for_redo", "bytes"),
    *keep_totals("dropped_slots", "dropped", "", "bytes"),
)
# For a state without totals, in which the slots of calls that were given up are not marked.
FILL = (
    f"UPDATE slots SET for_redo = {GIVEN_UP} WHERE NOT for_redo AND command IN"
    " (SELECT command FROM slot_uses JOIN given_up USING (seq))",
    "UPDATE totals SET bytes = (SELECT coalesce(sum(stored), 0) FROM contents WHERE intended = level),"
    " number = (SELECT count(*) FROM contents WHERE intended = level) WHERE kind = 'contents'",
    "UPDATE totals SET bytes = (SELECT coalesce(sum(bytes), 0) FROM slots WHERE for_redo = level),"
    " number = (SELECT count(*) FROM slots WHERE for_redo = level) WHERE kind = 'slots'",
)

AgedSlot = tuple[int, bytes, int]  # when it was used, command, bytes


class SlotBytes(NamedTuple):
    """Bytes in a command's slots once its changes are committed, and once they are undone."""

    committed: int
    undone: int


def slot_bytes_by_command(files: Iterable[FileChange], overhead: DiskOverhead) -> Mapping[str, SlotBytes]:
    """The slots of these changes, by command: they hold the old entries when committed, the new ones when undone."""

    def measure(content: StagedContent | None) -> int:
        return max(content.allocated, content.entry_count * overhead.entry) if content else 0

    held: defaultdict[str, SlotBytes] = defaultdict(lambda: SlotBytes(0, 0))
    for each in files:
        before, after = (side if isinstance(side, StagedContent) else None for side in (each.before, each.after))
        if command := _get_command(each):
            old, new = held[command]
            held[command] = SlotBytes(old + measure(before), new + measure(after))
    return held


def _get_command(change: FileChange) -> str:
    content = change.before or change.after
    return content.command if isinstance(content, StagedContent) else ""


# Not the slots of an unfinished transaction, which may need them, nor those of one that a hub has not acknowledged.
SELECT_DROPPABLE = """
    SELECT used, command, bytes FROM slots INDEXED BY slots_going
    WHERE for_redo = ?
      AND NOT EXISTS (SELECT 1 FROM slot_uses JOIN pending USING (seq) WHERE slot_uses.command = slots.command)
      AND NOT EXISTS (SELECT 1 FROM uplink CROSS JOIN slot_uses
                      JOIN intents ON intents.seq = slot_uses.seq AND intents.record > uplink.record
                      WHERE slot_uses.command = slots.command)
    ORDER BY used
"""
SWAP_SLOTS = f"UPDATE slots SET bytes = swapped, swapped = bytes, for_redo = iif(for_redo = {REDO}, {UNDO}, {REDO})"


class SlotLedger:
    """Which slots are kept, how much they hold, and whether an undo needs them or only a redo."""

    def __init__(self, overhead: DiskOverhead) -> None:
        self._overhead = overhead

    def record_use(
        self, connection: sqlite3.Connection, seq: int, files: Sequence[FileChange], *, for_reversal: bool
    ) -> None:
        """Record that a call uses these slots: the first one commits their changes, each later one swaps them.

        For an undo or redo, ContentDropped if one was dropped: its folder may disappear at any moment.
        """
        now: int = connection.execute("SELECT clock FROM held").fetchone()[0]
        for command, (committed, undone) in slot_bytes_by_command(files, self._overhead).items():
            key = command.encode()
            known = connection.execute("SELECT 1 FROM slot_uses WHERE command = ? LIMIT 1", (key,)).fetchone()
            connection.execute("INSERT INTO slot_uses VALUES (?, ?)", (key, seq))
            if not known:
                connection.execute("INSERT INTO slots VALUES (?, ?, ?, ?, 0)", (key, now, committed, undone))
            elif not connection.execute(f"{SWAP_SLOTS}, used = ? WHERE command = ?", (now, key)).rowcount:
                if for_reversal:
                    raise ContentDropped(tuple(each.path for each in files if _get_command(each) == command))
                connection.execute("UPDATE lacking SET contents = contents + 1 WHERE seq = ?", (seq,))

    def select_kept(self, connection: sqlite3.Connection, commands: Collection[str]) -> set[str]:
        """Those of these commands whose slots are kept."""
        return {
            command.decode()
            for batch in split_batches(each.encode() for each in commands)
            for (command,) in connection.execute(
                f"SELECT command FROM slots WHERE command IN ({','.join('?' * len(batch))})", batch
            )
        }

    def discard(self, connection: sqlite3.Connection, seq: int) -> None:
        """Forget a call that was rolled back: delete slots that no other call uses, and swap the others back."""
        rows = connection.execute(
            "SELECT command, bytes FROM slots WHERE command IN (SELECT command FROM slot_uses WHERE seq = ?1)"
            " AND NOT EXISTS (SELECT 1 FROM slot_uses WHERE slot_uses.command = slots.command AND seq <> ?1)",
            (seq,),
        ).fetchall()
        self._move_to_dropped(connection, rows)
        connection.execute(f"{SWAP_SLOTS} WHERE command IN (SELECT command FROM slot_uses WHERE seq = ?)", (seq,))

    def iter_droppable(self, connection: sqlite3.Connection, level: int) -> Iterator[AgedSlot]:
        """Slots of one level that may be dropped, oldest first."""
        return connection.execute(SELECT_DROPPABLE, (level,))

    def give_up(self, connection: sqlite3.Connection, commands: Iterable[bytes]) -> None:
        sql = f"UPDATE slots SET for_redo = {GIVEN_UP} WHERE for_redo = {UNDO} AND command = ?"
        connection.executemany(sql, ((command,) for command in commands))

    def drop(self, connection: sqlite3.Connection, victims: Collection[tuple[bytes, int]]) -> None:
        self._move_to_dropped(connection, victims)
        connection.executemany(
            "UPDATE lacking SET contents = contents + 1 WHERE seq IN (SELECT seq FROM slot_uses WHERE command = ?)",
            ((command,) for command, _ in victims),
        )
        connection.execute("UPDATE held SET dropped = dropped + ?", (len(victims),))

    def _move_to_dropped(self, connection: sqlite3.Connection, victims: Collection[tuple[bytes, int]]) -> None:
        connection.executemany("DELETE FROM slots WHERE command = ?", ((command,) for command, _ in victims))
        connection.executemany("INSERT OR IGNORE INTO dropped_slots (command, bytes) VALUES (?, ?)", victims)

    def select_dropped(self, connection: sqlite3.Connection, limit: int) -> list[str]:
        rows = connection.execute("SELECT command FROM dropped_slots ORDER BY n LIMIT ?", (limit,))
        return [command.decode() for (command,) in rows]

    def forget_dropped(self, connection: sqlite3.Connection, commands: Iterable[str]) -> None:
        rows = ((command.encode(),) for command in commands)
        connection.executemany("DELETE FROM dropped_slots WHERE command = ?", rows)
