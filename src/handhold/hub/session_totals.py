"""Totals by session and by turn, which every append brings up to date: what a list of them shows.

Most of it is in the batch itself. Only an outcome whose call came with an earlier batch is looked up.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from psycopg import Connection
from psycopg.rows import TupleRow

from handhold.core.ports.record_store import ChainId
from handhold.core.shipped_records import ShippedRecord
from handhold.hub.index_keys import make_key

# Written at most once a day, so that the indexes of it need not change.
RENEWED: LiteralString = (
    "received = CASE WHEN known.received < now() - interval '1 day' THEN now() ELSE known.received END"
)
ADD_TOTALS: LiteralString = """
    WITH own AS (
        SELECT tenant, id AS workspace, generation FROM workspaces WHERE id = %(workspace)s
    ), new_turns AS (
        SELECT * FROM unnest(%(turn_sessions)s::bytea[], %(turns)s::bytea[], %(first)s::bigint[], %(last)s::bigint[],
            %(last_seqs)s::bigint[], %(calls)s::bigint[]) AS new (session, turn, first_at, last_at, last_seq, calls)
    ), turned AS (
        INSERT INTO turn_totals AS known (tenant, workspace, generation, session, turn, first_at, last_at, calls)
        SELECT tenant, workspace, generation, session, turn, first_at, last_at, calls FROM own, new_turns
        ON CONFLICT (workspace, generation, session, turn) DO UPDATE
        SET last_at = excluded.last_at, calls = known.calls + excluded.calls, {renewed}
        RETURNING session, turn, calls
    ), with_tools AS (
        INSERT INTO session_tools (tenant, workspace, generation, session, tool)
        SELECT tenant, workspace, generation, session, tool
        FROM own, unnest(%(tool_sessions)s::bytea[], %(tools)s::bytea[]) AS new (session, tool)
        ON CONFLICT DO NOTHING
    ), added AS (
        SELECT session, min(first_at) AS first_at, max(last_at) AS last_at, max(last_seq) AS last_seq,
            sum(new_turns.calls) AS calls, count(*) FILTER (WHERE turned.calls = new_turns.calls) AS turns,
            0::bigint AS failed, 0::bigint AS changes
        FROM new_turns JOIN turned USING (session, turn) GROUP BY session
        UNION ALL
        SELECT session, NULL, NULL, NULL, 0, 0, failed, changes
        FROM unnest(%(ended_sessions)s::bytea[], %(failed)s::bigint[], %(changes)s::bigint[])
            AS ended (session, failed, changes)
    )
    INSERT INTO session_totals AS known
        (tenant, workspace, generation, session, first_at, last_at, last_seq, calls, turns, failed, changes)
    SELECT tenant, workspace, generation, session, coalesce(min(first_at), 0), coalesce(max(last_at), 0),
        coalesce(max(last_seq), 0), sum(calls), sum(turns), sum(failed), sum(changes)
    FROM own, added GROUP BY tenant, workspace, generation, session
    ON CONFLICT (workspace, generation, session) DO UPDATE
    SET last_at = greatest(known.last_at, excluded.last_at), last_seq = greatest(known.last_seq, excluded.last_seq),
        calls = known.calls + excluded.calls, turns = known.turns + excluded.turns,
        failed = known.failed + excluded.failed, changes = known.changes + excluded.changes, {renewed}
""".replace("{renewed}", RENEWED)  # pyright: ignore[reportAssignmentType]
# The session of calls of earlier batches, and how many files they were to change.
SELECT_CALLS: LiteralString = """
    SELECT wanted.seq, call.session, coalesce((
        SELECT files FROM records AS intent WHERE intent.workspace = own.id AND intent.generation = own.generation
            AND intent.seq = wanted.seq AND intent.kind = 'intent' LIMIT 1
    ), 0)
    FROM workspaces AS own CROSS JOIN unnest(%s::bigint[]) AS wanted (seq) CROSS JOIN LATERAL (
        SELECT session FROM records WHERE records.workspace = own.id AND records.generation = own.generation
            AND records.seq = wanted.seq AND kind = 'call' LIMIT 1
    ) AS call WHERE own.id = %s
"""
# What an undo took back is undone; what a redo took back is an undo, so its calls are no longer undone.
ADD_UNDONE: LiteralString = """
    UPDATE session_totals AS known SET undone = known.undone + found.undone
    FROM (
        SELECT reversed.workspace, reversed.generation, call.session, sum(reversed.undone) AS undone
        FROM (
            SELECT taken.workspace, taken.generation, coalesce(undo.call, taken.call) AS seq,
                CASE WHEN undo.call IS NULL THEN 1 ELSE -1 END AS undone
            FROM workspaces JOIN reversals AS taken
                ON taken.workspace = workspaces.id AND taken.generation = workspaces.generation
            LEFT JOIN reversals AS undo
                ON undo.workspace = taken.workspace AND undo.generation = taken.generation AND undo.seq = taken.call
            WHERE workspaces.id = %s AND taken.seq = ANY(%s)
        ) AS reversed CROSS JOIN LATERAL (
            SELECT session FROM records WHERE records.workspace = reversed.workspace
                AND records.generation = reversed.generation AND records.seq = reversed.seq AND kind = 'call' LIMIT 1
        ) AS call GROUP BY reversed.workspace, reversed.generation, call.session
    ) AS found
    WHERE known.workspace = found.workspace AND known.generation = found.generation AND known.session = found.session
"""


@dataclass
class _Turn:
    first_at: int
    last_at: int = 0
    last_seq: int = 0
    calls: int = 0


def add_totals(connection: Connection[TupleRow], chain: ChainId, records: Sequence[ShippedRecord]) -> None:
    """Count records that were just appended, in the same transaction. The chain's head is locked."""
    turns: dict[tuple[bytes, bytes], _Turn] = {}
    tools: set[tuple[bytes, bytes]] = set()
    sessions: dict[int, bytes] = {}  # of calls in this batch
    intents: dict[int, ShippedRecord] = {}
    failed, changes = Counter[bytes](), Counter[bytes]()
    late: dict[int, bool] = {}  # outcomes of calls that came before, and whether they are committed
    reversing: list[int] = []
    for each in records:
        match each.kind:
            case "call":
                session = sessions[each.seq] = make_key(each.session)
                tools.add((session, make_key(each.tool)))
                turn = turns.setdefault((session, make_key(each.turn)), _Turn(each.at))
                turn.last_at, turn.last_seq, turn.calls = each.at, max(turn.last_seq, each.seq), turn.calls + 1
            case "intent":
                intents[each.seq] = each
            case "outcome":
                intent, session = intents.get(each.seq), sessions.get(each.seq)
                files = len(intent.changes) if intent else 0
                if session is None:
                    late[each.seq] = each.is_committed
                elif not each.is_committed:
                    failed[session] += 1
                elif files:
                    changes[session] += 1
                if each.is_committed and (intent.takes_back if intent else session is None):
                    reversing.append(each.seq)
            case _:
                pass
    if late:
        for seq, session, files in connection.execute(SELECT_CALLS, (list(late), chain.workspace)):
            failed[session] += not late[seq]
            changes[session] += late[seq] and files > 0
    if turns or failed or changes:
        ended = sorted({*failed, *changes})
        values: dict[str, Any] = {
            "workspace": chain.workspace,
            "turn_sessions": [session for session, _ in turns],
            "turns": [turn for _, turn in turns],
            "first": [each.first_at for each in turns.values()],
            "last": [each.last_at for each in turns.values()],
            "last_seqs": [each.last_seq for each in turns.values()],
            "calls": [each.calls for each in turns.values()],
            "tool_sessions": [session for session, _ in tools],
            "tools": [tool for _, tool in tools],
            "ended_sessions": ended,
            "failed": [failed[each] for each in ended],
            "changes": [changes[each] for each in ended],
        }
        connection.execute(ADD_TOTALS, values)
    if reversing:
        connection.execute(ADD_UNDONE, (chain.workspace, reversing))
