"""Make room: drop what exceeds the bound, but never a call's undo before a reply has announced it.

Contents that were only seen are dropped first, then what only a redo needs: new contents of files, slots of undone
commands. What an undo needs is dropped last, and only for calls that were *given up*: a change that finds too much kept
chooses the calls whose undo must go, its reply names them, and later changes drop their data. So the bound may be
exceeded for a while, by what the last changes left.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import chain

from handhold.backends.state.contents import FOR_REDO, FOR_UNDO, AnyVictim, BoundedContents, Victim, take_until_freed
from handhold.backends.state.slot_ledger import SlotLedger
from handhold.backends.state.undo_state import COMMITTED_STATUSES_SQL

KEPT_SHARE = 0.9  # of the bound; a reply gives up everything beyond it, so that not every later one has to name a call
MAX_GIVEN_UP_CALLS = 100  # named in one reply
MAX_SKIPPED = 100  # slots or contents that must stay, before the search for more ends

# The calls that need a slot or a content for their undo.
SELECT_SLOT_USERS = "SELECT seq FROM slot_uses WHERE command = ?"
SELECT_CONTENT_USERS = "SELECT seq FROM changes INDEXED BY changes_before WHERE before = ? AND before_kind = 'file'"
SCHEMA = ("CREATE TABLE given_up (seq INTEGER PRIMARY KEY)",)


class UndoSpace:
    def __init__(self, contents: BoundedContents, slots: SlotLedger) -> None:
        self._contents = contents
        self._slots = slots

    def free_space(self, connection: sqlite3.Connection) -> None:
        """Drop data until the rest is within the bound."""
        self._contents.drop_seen(connection)
        for level in (FOR_REDO, FOR_UNDO):
            over = self._excess_bytes(connection, level)
            if over <= 0:
                break
            slots = take_until_freed(over, self._droppable_slots(connection, level))
            over -= self._slots.drop(connection, slots)
            contents = take_until_freed(over, self._droppable_contents(connection, level))
            self._contents.delete(connection, contents)

    def choose_calls(self, connection: sqlite3.Connection) -> list[int]:
        """The calls whose undo must be given up, longest unused first. Calls with an open intent are excluded."""
        if self._excess_bytes(connection, FOR_UNDO) <= 0:
            return []
        chosen: dict[int, None] = {}
        over = self._excess_bytes(connection, FOR_UNDO, share=KEPT_SHARE)
        slots = ((SELECT_SLOT_USERS, *victim) for victim in self._slots.iter_droppable(connection, for_redo=False))
        contents = (
            (SELECT_CONTENT_USERS, *victim[:2]) for victim in self._contents.iter_droppable(connection, FOR_UNDO)
        )
        for users, key, size in chain(slots, contents):
            chosen |= dict.fromkeys(self._list_promised_calls(connection, users, key))
            over -= size
            if over <= 0 or len(chosen) >= MAX_GIVEN_UP_CALLS:
                break
        return list(chosen)

    def give_up(self, connection: sqlite3.Connection, calls: Iterable[int]) -> None:
        """Record that a reply announced that the undo of these calls will be dropped."""
        connection.executemany("INSERT OR IGNORE INTO given_up VALUES (?)", ((seq,) for seq in calls))

    def _excess_bytes(self, connection: sqlite3.Connection, level: int, *, share: float = 1.0) -> int:
        """How much exceeds the bound, not counting contents of lower levels, which are dropped first.

        Any that are left then belong to the current call, which may still need them.
        """
        over = self._contents.excess_bytes(connection, share=share)
        if over > 0:
            sql = "SELECT coalesce(sum(stored), 0) FROM contents WHERE intended < ?"
            over -= connection.execute(sql, (level,)).fetchone()[0]
        return over

    def _droppable_slots(self, connection: sqlite3.Connection, level: int) -> Iterator[tuple[bytes, int]]:
        slots = self._slots.iter_droppable(connection, for_redo=level == FOR_REDO)
        return slots if level == FOR_REDO else self._filter_unpromised(connection, slots, SELECT_SLOT_USERS)

    def _droppable_contents(self, connection: sqlite3.Connection, level: int) -> Iterator[Victim]:
        contents = self._contents.iter_droppable(connection, level)
        return contents if level == FOR_REDO else self._filter_unpromised(connection, contents, SELECT_CONTENT_USERS)

    def _filter_unpromised(
        self, connection: sqlite3.Connection, victims: Iterable[AnyVictim], users: str
    ) -> Iterator[AnyVictim]:
        """The victims that no undo needs that is still promised."""
        skipped = 0
        for victim in victims:
            if not self._list_promised_calls(connection, users, victim[0]):
                yield victim
            elif (skipped := skipped + 1) >= MAX_SKIPPED:
                return

    def _list_promised_calls(self, connection: sqlite3.Connection, users: str, key: bytes) -> list[int]:
        """The calls that need this for an undo that is still possible and was not given up.

        Includes undone calls: once redone, they can be undone again.
        """
        rows = connection.execute(
            f"SELECT DISTINCT seq FROM ({users}) JOIN calls USING (seq) JOIN outcomes USING (seq)"
            f" JOIN lacking USING (seq) WHERE status IN {COMMITTED_STATUSES_SQL} AND contents = 0"
            " AND tool NOT IN (?, ?) AND seq NOT IN (SELECT seq FROM given_up) ORDER BY seq",
            (key, b"undo", b"redo"),
        ).fetchall()
        return [seq for (seq,) in rows]
