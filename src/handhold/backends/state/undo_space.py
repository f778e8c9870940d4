"""Make room: drop what exceeds the bound, but never a call's undo before a reply has announced it.

Contents that were only seen are dropped first, then what only a redo needs: new contents of files, slots of undone
commands. What an undo needs is dropped last, and only for calls that were *given up*: a change that finds too much kept
chooses the calls whose undo must go, its reply tells, and later changes drop their data. A change chooses and drops a
portion, and more only if the bound is exceeded by too much to wait: so none pays for all.
"""

import heapq
import sqlite3
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain

from handhold.backends.state.contents import FOR_REDO, FOR_UNDO, SEEN, BoundedContents
from handhold.backends.state.slot_ledger import GIVEN_UP, REDO, UNDO, SlotLedger
from handhold.backends.state.space_totals import Excess, Victim, take_until_freed
from handhold.backends.state.undo_state import COMMITTED_STATUSES_SQL

KEPT_SHARE = 0.9  # of the bound; a reply gives up everything beyond it, so that not every later one has to name a call
# The portions of one change, as long as the rest can wait.
MAX_GIVEN_UP_CALLS = 50
MAX_SKIPPED = 100  # contents that must stay, before the search for more ends
MAX_EXAMINED = 200  # slots and contents, to choose calls
NO_LIMIT = -1  # in SQL

# The calls that need a slot or a content for their undo.
SELECT_SLOT_USERS = "SELECT seq FROM slot_uses WHERE command = ?"
SELECT_CONTENT_USERS = "SELECT seq FROM changes INDEXED BY changes_before WHERE before = ? AND before_kind = 'file'"
# What is kept, but needs no further announcement to be dropped. Of it, some may belong to the current call.
UNPROMISED = f"(kind = 'contents' AND level < {FOR_UNDO}) OR (kind = 'slots' AND level <> {UNDO})"
SCHEMA = ("CREATE TABLE given_up (seq INTEGER PRIMARY KEY)",)


class UndoSpace:
    def __init__(self, contents: BoundedContents, slots: SlotLedger) -> None:
        self._contents = contents
        self._slots = slots

    def free_space(self, connection: sqlite3.Connection) -> None:
        """Drop data until the rest is within the bound, or a portion of it."""
        contents, (content, slot, _) = self._contents, self._contents.overhead
        contents.drop_seen(connection)
        over = contents.measure_excess(connection)
        over = over.without(contents.sum_held(connection, f"kind = 'contents' AND level = {SEEN}"))
        if over.bytes <= 0:
            return
        aged = chain(*(self._slots.iter_droppable(connection, level) for level in (REDO, GIVEN_UP)))
        slots = take_until_freed(over, (aged_slot[1:] for aged_slot in aged), slot)
        self._slots.drop(connection, slots)
        over = over.without(sum(size + slot for _, size in slots))
        contents.delete(connection, take_until_freed(over, contents.iter_droppable(connection, FOR_REDO), content))
        over = self._measure_promised(connection)
        victims = self._iter_unpromised_contents(connection, NO_LIMIT if not over.can_wait else MAX_SKIPPED)
        contents.delete(connection, take_until_freed(over, victims, content))

    def choose_calls(self, connection: sqlite3.Connection) -> list[int]:
        """The calls whose undo must be given up, longest unused first. Calls with an open intent are excluded."""
        over = self._measure_promised(connection)
        if over.bytes <= 0:
            return []
        spare = self._measure_promised(connection, share=KEPT_SHARE).bytes - over.bytes
        content, slot, _ = self._contents.overhead
        chosen: dict[int, None] = {}
        given_up: list[bytes] = []
        slots = (
            (used, SELECT_SLOT_USERS, command, size + slot)
            for used, command, size in self._slots.iter_droppable(connection, UNDO)
        )
        contents = (
            (used, SELECT_CONTENT_USERS, hash, size + content)
            for used, hash, size in self._contents.iter_aged(connection)
        )
        for examined, (_, users, key, size) in enumerate(heapq.merge(slots, contents)):
            limit = MAX_GIVEN_UP_CALLS if over.can_wait else NO_LIMIT
            promised = self._list_promised_calls(connection, users, key, limit)
            chosen |= dict.fromkeys(promised)
            if not promised and users is SELECT_SLOT_USERS:
                given_up.append(key)
            over = over.without(size)
            is_portion = len(chosen) >= MAX_GIVEN_UP_CALLS or examined >= MAX_EXAMINED
            if over.bytes <= -spare or (is_portion and over.can_wait):
                break
        self._slots.give_up(connection, given_up)
        return list(chosen)

    def give_up(self, connection: sqlite3.Connection, calls: Iterable[int]) -> None:
        """Record that a reply announced that the undo of these calls will be dropped."""
        for seq in calls:
            connection.execute("INSERT OR IGNORE INTO given_up VALUES (?)", (seq,))
            rows = connection.execute("SELECT command FROM slot_uses WHERE seq = ?", (seq,)).fetchall()
            self._slots.give_up(connection, (command for (command,) in rows))

    def forget(self, connection: sqlite3.Connection, path: bytes, before: int, *, also_shared: bool) -> None:
        """Drop what is kept for calls that changed something at or below a path, if they ended before a time.

        A content that other calls need for their undo goes if `also_shared`.
        """
        calls = connection.execute(
            "SELECT DISTINCT seq FROM changes JOIN outcomes USING (seq) WHERE seq NOT IN (SELECT seq FROM pending)"
            " AND (?1 = x'' OR path = ?1 OR (path > ?1 || x'2f' AND path < ?1 || x'30')) AND at < ?2",
            (path, before),
        ).fetchall()
        for (seq,) in calls:
            self.give_up(connection, [seq])
            sql = "SELECT command, bytes FROM slots WHERE command IN (SELECT command FROM slot_uses WHERE seq = ?)"
            self._slots.drop(connection, connection.execute(sql, (seq,)).fetchall())
            sql = (
                "SELECT hash, stored, blob FROM contents WHERE hash IN (SELECT before FROM changes WHERE seq = ?1"
                " UNION SELECT after FROM changes WHERE seq = ?1)"
            )
            victims: list[Victim] = connection.execute(sql, (seq,)).fetchall()
            if not also_shared:
                needed = partial(self._list_promised_calls, connection, SELECT_CONTENT_USERS, limit=1)
                victims = [victim for victim in victims if not needed(victim[0])]
            self._contents.delete(connection, victims)

    def _measure_promised(self, connection: sqlite3.Connection, *, share: float = 1.0) -> Excess:
        """How far what promised undos need exceeds the bound."""
        over = self._contents.measure_excess(connection, share=share)
        return over.without(self._contents.sum_held(connection, UNPROMISED))

    def _iter_unpromised_contents(self, connection: sqlite3.Connection, max_skipped: int) -> Iterator[Victim]:
        """The contents that only undos need that were given up."""
        skipped = 0
        for victim in self._contents.iter_droppable(connection, FOR_UNDO):
            if not self._list_promised_calls(connection, SELECT_CONTENT_USERS, victim[0], 1):
                yield victim
            elif (skipped := skipped + 1) == max_skipped:
                return

    def _list_promised_calls(self, connection: sqlite3.Connection, users: str, key: bytes, limit: int) -> list[int]:
        """The first calls that need this for an undo that is still possible and was not given up.

        Includes undone calls: once redone, they can be undone again.
        """
        rows = connection.execute(
            f"SELECT DISTINCT seq FROM ({users}) JOIN calls USING (seq) JOIN outcomes USING (seq)"
            f" JOIN lacking USING (seq) WHERE status IN {COMMITTED_STATUSES_SQL} AND contents = 0"
            " AND tool NOT IN (?, ?) AND seq NOT IN (SELECT seq FROM given_up) ORDER BY seq LIMIT ?",
            (key, b"undo", b"redo", limit),
        ).fetchall()
        return [seq for (seq,) in rows]
