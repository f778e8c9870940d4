"""The journal of one workspace on a hub, in pages, for people.

Every request is answered by an index or examines a bounded number of calls, however many records the tenant has. What
only the machine with the workspace knows, such as which calls run now, is empty here.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import islice
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import TupleRow

from handhold.backends.state.call_matcher import build_matcher
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.record_store import ChainId
from handhold.core.ports.records import (
    BEYOND_ALL,
    CallFilter,
    CallMark,
    RecordPage,
    RecordVersion,
    RunningCall,
    SessionSummary,
    TurnSummary,
    parse_cursor,
)
from handhold.core.shipped_entries import find_entry
from handhold.core.shipped_records import MICROSECONDS_PER_SECOND
from handhold.core.shipped_text import decode_text
from handhold.hub.index_keys import MAX_KEY_BYTES, make_text_key
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_calls import IS_UNDONE
from handhold.hub.shipped_contents import ShippedContents

MAX_EXAMINED = 2_000  # calls that are examined for one page
MAX_SEARCHED = 200  # if their replies are searched too: each is an object
BATCH_CALLS = 200
MAX_TOOLS = 500
MAX_SPREAD = 4
ASKED_VERDICTS = ("approved", "refused")

OF_CHAIN: LiteralString = "workspace = %(workspace)s AND generation = %(generation)s"
# Looked up call by call, as in IS_UNDONE.
WANTED: LiteralString = """
    (SELECT %(workspace)s::bigint AS workspace, %(generation)s::integer AS generation, seq
     FROM unnest(%(seqs)s::bigint[]) AS seq) AS wanted
"""
SELECT_LINES: LiteralString = f"""
    SELECT lines, {IS_UNDONE} FROM {WANTED} CROSS JOIN LATERAL (
        SELECT array_agg(coalesce(listed, line) ORDER BY record) AS lines FROM records
        WHERE records.workspace = wanted.workspace
            AND records.generation = wanted.generation AND records.seq = wanted.seq
    ) AS found WHERE lines IS NOT NULL ORDER BY wanted.seq DESC
"""
# What belongs to a call came with it or later, so the tables of earlier months are left out.
FACTS: LiteralString = """
    SELECT seq, kind, files, verdict, time_us, is_committed FROM records
    WHERE kind IN ('intent', 'outcome') AND received >= %(since)s
"""
SELECT_FACTS_BETWEEN: LiteralString = f"{FACTS} AND {OF_CHAIN} AND seq BETWEEN %(first)s AND %(last)s"
SELECT_FACTS: LiteralString = f"""
    SELECT found.* FROM {WANTED} CROSS JOIN LATERAL ({FACTS} AND records.workspace = wanted.workspace
        AND records.generation = wanted.generation AND records.seq = wanted.seq OFFSET 0) AS found
"""
SELECT_UNDONE: LiteralString = f"""
    SELECT wanted.seq FROM (SELECT DISTINCT workspace, generation, call AS seq FROM reversals
        WHERE {OF_CHAIN} AND call = ANY(%(seqs)s)) AS wanted WHERE {IS_UNDONE}
"""
SELECT_SESSIONS: LiteralString = f"""
    SELECT session, first_at, last_at, calls, turns, failed, changes, undone, last_seq
    FROM session_totals WHERE {OF_CHAIN}
"""
# The calls before and after one in its session.
SELECT_NEIGHBOURS: LiteralString = f"""
    SELECT
        (SELECT seq FROM records WHERE {OF_CHAIN} AND kind = 'call' AND session = own.session AND seq < %(seq)s
         ORDER BY seq DESC LIMIT 1),
        (SELECT seq FROM records WHERE {OF_CHAIN} AND kind = 'call' AND session = own.session AND seq > %(seq)s
         ORDER BY seq LIMIT 1)
    FROM (SELECT session FROM records WHERE {OF_CHAIN} AND kind = 'call' AND seq = %(seq)s LIMIT 1) AS own
"""


class PostgresRecords:
    """Implements the port Records for one generation of a chain. Thread-safe."""

    def __init__(self, store: PostgresRecordStore, contents: ShippedContents, chain: ChainId, generation: int) -> None:
        self._store, self._contents = store, contents
        self._chain = chain
        self._key = {"workspace": chain.workspace, "generation": generation}

    def version(self) -> RecordVersion:
        rows = self._select("SELECT record FROM workspaces WHERE id = %(workspace)s")
        return RecordVersion(rows[0][0] if rows else 0, 0, 0)

    # --- sessions and turns

    def list_sessions(self, *, cursor: str = "", limit: int) -> RecordPage[SessionSummary]:
        rows = self._select(
            SELECT_SESSIONS + " AND last_seq < %(before)s ORDER BY last_seq DESC LIMIT %(limit)s",
            before=parse_cursor(cursor),
            limit=limit + 1,
        )
        more = str(rows[limit - 1][-1]) if len(rows) > limit else ""
        return RecordPage(tuple(self._decode_session(row) for row in rows[:limit]), more, len(rows))

    def count_sessions(self) -> int:
        return self._select(f"SELECT count(*) FROM session_totals WHERE {OF_CHAIN}")[0][0]

    def find_session(self, name: str) -> SessionSummary | None:
        rows = self._select(SELECT_SESSIONS + " AND session = %(session)s", session=make_text_key(name))
        return self._decode_session(rows[0]) if rows else None

    def _decode_session(self, row: TupleRow) -> SessionSummary:
        key, first_at, last_at, *counts, last_seq = row
        # The key of a long name is not the name; its last call has it.
        called = self._read_entries([last_seq], with_replies=False) if len(key) == MAX_KEY_BYTES else []
        name = called[0].call.session if called else decode_text(key)
        return SessionSummary(name, _seconds(first_at), _seconds(last_at), *counts)

    def list_turns(self, session: str, names: Sequence[str]) -> Sequence[TurnSummary]:
        rows = self._select(
            f"SELECT turn, first_at, last_at, calls FROM turn_totals WHERE {OF_CHAIN}"
            " AND session = %(session)s AND turn = ANY(%(turns)s)",
            session=make_text_key(session),
            turns=[make_text_key(each) for each in names],
        )
        found = {turn: facts for turn, *facts in rows}
        return [
            TurnSummary(session, name, _seconds(facts[0]), _seconds(facts[1]), facts[2])
            for name in names
            if (facts := found.get(make_text_key(name)))
        ]

    # --- calls

    def list_calls(
        self, wanted: CallFilter, *, cursor: str = "", limit: int, with_replies: bool = False
    ) -> RecordPage[JournalEntry]:
        is_asked = wanted.decision in ASKED_VERDICTS
        # Otherwise the index compares sessions, by their keys.
        matches = build_matcher(wanted if is_asked else replace(wanted, session=""))
        most = limit if wanted == CallFilter(session=wanted.session) else MAX_SEARCHED if wanted.text else MAX_EXAMINED
        candidates = self._select_candidates(wanted, parse_cursor(cursor), most + 1)
        has_more, left = len(candidates) > most, iter(candidates[:most])
        found: list[JournalEntry] = []
        examined = last = 0
        while batch := list(islice(left, BATCH_CALLS)):
            for entry in self._read_entries(batch, with_replies=bool(wanted.text) or with_replies):
                if len(found) == limit:
                    return RecordPage(tuple(found), str(last), examined)
                examined, last = examined + 1, entry.seq
                if matches(entry):
                    found.append(entry)
        return RecordPage(tuple(found), str(candidates[most - 1]) if has_more else "", examined)

    def _select_candidates(self, wanted: CallFilter, before: int, limit: int) -> list[int]:
        """The calls to examine, newest first: by the most selective index there is."""
        if wanted.decision in ASKED_VERDICTS:
            where: LiteralString = "verdict = %(verdict)s AND verdict IN ('approved', 'refused')"
        elif not wanted.session:
            where = "kind = 'call'"
        else:
            where = "kind = 'call' AND session = %(session)s" + (" AND tool = %(tool)s" if wanted.tool else "")
        rows = self._select(
            f"SELECT seq FROM records WHERE {OF_CHAIN} AND {where} AND seq < %(before)s"
            " ORDER BY seq DESC LIMIT %(limit)s",
            verdict=wanted.decision,
            session=make_text_key(wanted.session),
            tool=make_text_key(wanted.tool),
            before=before,
            limit=limit,
        )
        return list(dict.fromkeys(seq for (seq,) in rows))

    def find_neighbours(self, seq: int) -> tuple[int, int]:
        rows = self._select(SELECT_NEIGHBOURS, seq=seq)
        before, after = rows[0] if rows else (0, 0)
        return before or 0, after or 0

    def find_entry(self, seq: int) -> JournalEntry | None:
        if seq > BEYOND_ALL:
            return None
        return next(iter(self._read_entries([seq], with_replies=True)), None)

    def list_path_changes(self, path: str, *, cursor: str = "", limit: int) -> RecordPage[JournalEntry]:
        rows = self._select(
            f"SELECT DISTINCT seq FROM changes WHERE {OF_CHAIN} AND path = %(path)s AND seq < %(before)s"
            " ORDER BY seq DESC LIMIT %(limit)s",
            path=path.encode("utf-8", "surrogatepass")[:MAX_KEY_BYTES],
            before=parse_cursor(cursor),
            limit=limit + 1,
        )
        chosen = [seq for (seq,) in rows[:limit]]
        more = str(chosen[-1]) if len(rows) > limit else ""
        return RecordPage(tuple(self._read_entries(chosen, with_replies=False)), more, len(rows))

    def list_tools(self, session: str) -> Sequence[str]:
        rows = self._select(
            f"SELECT tool FROM session_tools WHERE {OF_CHAIN} AND session = %(session)s ORDER BY tool LIMIT %(limit)s",
            session=make_text_key(session),
            limit=MAX_TOOLS,
        )
        return [decode_text(tool) for (tool,) in rows]

    def list_marks(self, session: str, *, limit: int) -> Sequence[CallMark]:
        calls = self._select(
            f"SELECT seq, at, tool, received FROM records WHERE {OF_CHAIN} AND kind = 'call' AND session = %(session)s"
            " ORDER BY seq DESC LIMIT %(limit)s",
            session=make_text_key(session),
            limit=limit,
        )
        rows = self._select_facts(calls)
        intents = {seq: (files, verdict) for seq, kind, files, verdict, *_ in rows if kind == "intent"}
        outcomes = {seq: facts for seq, kind, _, *facts in rows if kind == "outcome"}
        changed = [seq for seq, *_ in calls if intents.get(seq, (0,))[0]]
        undone = {seq for (seq,) in self._select(SELECT_UNDONE, seqs=changed)}
        return [
            _make_mark(seq, at, tool, intents.get(seq), outcomes.get(seq), undone=seq in undone)
            for seq, at, tool, _ in reversed(calls)
        ]

    def _select_facts(self, calls: Sequence[TupleRow]) -> list[TupleRow]:
        """Intents and outcomes of these calls, newest first: by their range, unless others' calls are most of it."""
        if not calls:
            return []
        seqs, since = [seq for seq, *_ in calls], min(received for *_, received in calls)
        if seqs[0] - seqs[-1] < MAX_SPREAD * len(seqs):
            return self._select(SELECT_FACTS_BETWEEN, first=seqs[-1], last=seqs[0], since=since)
        return self._select(SELECT_FACTS, seqs=seqs, since=since)

    # --- what only the machine with the workspace knows

    def list_running(self) -> Sequence[RunningCall]:
        return ()

    def read_output(self, seq: int, offset: int = 0) -> tuple[bytes, int] | None:
        return None

    def measure_output(self, seq: int) -> int:
        return 0

    # --- rows

    def _open(self) -> AbstractContextManager[Connection[TupleRow]]:
        return self._store.for_tenant(self._chain.tenant)

    def _select(self, sql: LiteralString, **values: Any) -> list[TupleRow]:
        with self._open() as connection:
            return connection.execute(sql, {**self._key, **values}).fetchall()

    def _read_entries(self, seqs: Sequence[int], *, with_replies: bool) -> list[JournalEntry]:
        """These calls, newest first. Retention may have taken the start of one."""
        if not seqs:
            return []
        rows = self._select(SELECT_LINES, seqs=list(seqs))
        found = [each for lines, undone in rows if (each := find_entry(lines, undone=undone))]
        if not with_replies:
            return [entry for entry, _ in found]
        replies = self._contents.read_many({reply for _, reply in found if reply})
        return [_add_reply(entry, replies.get(reply)) for entry, reply in found]


def _add_reply(entry: JournalEntry, reply: bytes | None) -> JournalEntry:
    if reply is None or entry.outcome is None:
        return entry
    return replace(entry, outcome=replace(entry.outcome, reply=decode_text(reply)))


def _make_mark(
    seq: int,
    at: int,
    tool: bytes,
    intent: tuple[int, str | None] | None,
    outcome: Sequence[Any] | None,
    *,
    undone: bool,
) -> CallMark:
    files, planned = intent or (0, None)
    decided, time_us, is_committed = outcome or (None, None, True)
    return CallMark(
        seq,
        _seconds(at),
        None if time_us is None else _seconds(time_us),
        decode_text(tool),
        failed=not is_committed,
        asked=(planned or decided) == "approved",
        changed=bool(files),
        undone=undone,
    )


def _seconds(microseconds: int) -> float:
    return microseconds / MICROSECONDS_PER_SECOND
