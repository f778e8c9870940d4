"""Slots as the journal tracks them: by the command that filled them, and by what they hold."""

import sqlite3
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from handhold.core.plans import FileChange, StagedContent

SCHEMA = (
    # By command: how much its slots hold now, and once they are swapped.
    """CREATE TABLE slots (
        command BLOB PRIMARY KEY, used INTEGER NOT NULL, bytes INTEGER NOT NULL,
        swapped INTEGER NOT NULL, for_redo INTEGER NOT NULL
    ) WITHOUT ROWID""",
    "CREATE TABLE slot_uses (command BLOB NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (command, seq)) WITHOUT ROWID",
    "CREATE INDEX slot_uses_seq ON slot_uses (seq)",
    # The total is needed at every change, so it is stored.
    "CREATE TRIGGER slots_come AFTER INSERT ON slots BEGIN UPDATE held SET in_slots = in_slots + NEW.bytes; END",
    "CREATE TRIGGER slots_go AFTER DELETE ON slots BEGIN UPDATE held SET in_slots = in_slots - OLD.bytes; END",
    """CREATE TRIGGER slots_swap AFTER UPDATE OF bytes ON slots BEGIN
        UPDATE held SET in_slots = in_slots + NEW.bytes - OLD.bytes;
    END""",
)


class SlotBytes(NamedTuple):
    """Bytes in a command's slots once its changes are committed, and once they are undone."""

    committed: int
    undone: int


def slot_bytes_by_command(files: Iterable[FileChange]) -> Mapping[str, SlotBytes]:
    """The slots of these changes, by command: they hold the old entries when committed, the new ones when undone."""
    held: defaultdict[str, SlotBytes] = defaultdict(lambda: SlotBytes(0, 0))
    for each in files:
        before, after = (side if isinstance(side, StagedContent) else None for side in (each.before, each.after))
        if content := before or after:
            command = content.slot.partition("/")[0]
            old, new = held[command]
            held[command] = SlotBytes(
                old + (before.allocated if before else 0), new + (after.allocated if after else 0)
            )
    return held


# Not the slots of an unfinished transaction, which may still need them.
SELECT_DROPPABLE = """
    SELECT command, bytes FROM slots
    WHERE for_redo = ?
      AND NOT EXISTS (SELECT 1 FROM slot_uses JOIN pending USING (seq) WHERE slot_uses.command = slots.command)
    ORDER BY used
"""
SWAP_SLOTS = "UPDATE slots SET bytes = swapped, swapped = bytes, for_redo = NOT for_redo"


class SlotLedger:
    """Which slots are kept, how much they hold, and whether an undo needs them or only a redo."""

    def __init__(self) -> None:
        self._dropped: deque[str] = deque()  # commands whose slots were dropped but still exist in the staging area

    def record_use(self, connection: sqlite3.Connection, seq: int, slot_bytes: Mapping[str, SlotBytes]) -> None:
        """Record that a call uses these slots: the first one commits their changes, each later one swaps them."""
        now: int = connection.execute("SELECT clock FROM held").fetchone()[0]
        for command, (committed, undone) in slot_bytes.items():
            key = command.encode()
            known = connection.execute("SELECT 1 FROM slot_uses WHERE command = ? LIMIT 1", (key,)).fetchone()
            connection.execute("INSERT INTO slot_uses VALUES (?, ?)", (key, seq))
            if not known:
                connection.execute("INSERT INTO slots VALUES (?, ?, ?, ?, 0)", (key, now, committed, undone))
            elif not connection.execute(f"{SWAP_SLOTS}, used = ? WHERE command = ?", (now, key)).rowcount:
                connection.execute("UPDATE lacking SET contents = contents + 1 WHERE seq = ?", (seq,))

    def discard(self, connection: sqlite3.Connection, seq: int) -> None:
        """Forget a call that was rolled back: delete slots that no other call uses, and swap the others back."""
        rows = connection.execute(
            "SELECT command FROM slots WHERE command IN (SELECT command FROM slot_uses WHERE seq = ?1) AND NOT EXISTS"
            " (SELECT 1 FROM slot_uses WHERE slot_uses.command = slots.command AND seq <> ?1)",
            (seq,),
        ).fetchall()
        connection.executemany("DELETE FROM slots WHERE command = ?", rows)
        connection.execute(f"{SWAP_SLOTS} WHERE command IN (SELECT command FROM slot_uses WHERE seq = ?)", (seq,))
        self._dropped.extend(command.decode() for (command,) in rows)

    def iter_droppable(self, connection: sqlite3.Connection, *, for_redo: bool) -> Iterator[tuple[bytes, int]]:
        """Slots that may be dropped, oldest first: command and bytes."""
        return connection.execute(SELECT_DROPPABLE, (for_redo,))

    def drop(self, connection: sqlite3.Connection, victims: Collection[tuple[bytes, int]]) -> int:
        """Drop these slots; return how many bytes that frees."""
        for command, _ in victims:
            self._dropped.append(command.decode())
            connection.execute("DELETE FROM slots WHERE command = ?", (command,))
            connection.execute(
                "UPDATE lacking SET contents = contents + 1 WHERE seq IN (SELECT seq FROM slot_uses WHERE command = ?)",
                (command,),
            )
        connection.execute("UPDATE held SET dropped = dropped + ?", (len(victims),))
        return sum(size for _, size in victims)

    def pop_dropped(self) -> Collection[str]:
        dropped: list[str] = []
        with suppress(IndexError):  # another thread may take from it, too
            while True:
                dropped.append(self._dropped.popleft())
        return dropped
