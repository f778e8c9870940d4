"""Lists of calls on PostgreSQL, newest first and in pages that are bounded in calls, in bytes, and in what is examined.

What a call's records weigh is known without reading them. Of long ones a short form is kept for lists
(`core/listed_records.py`), so no page is larger because an agent wrote much.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Connection, sql
from psycopg.rows import TupleRow

from handhold.core.ports.record_store import MAX_PAGE_BYTES, CallPage, HubEntry
from handhold.core.shipped_entries import find_entry
from handhold.hub.call_cursor import format_cursor, parse_cursor
from handhold.hub.index_keys import MAX_KEY_BYTES, make_text_key

MAX_MATCHES = 2_000  # of a path that are sorted; if there are more, changes are walked through, newest first
MAX_WALKED = 5_000  # changes for one page, and those of one call more

# Whether a call is undone: by an undo that was committed, and not redone since. Subqueries with an aggregate are looked
# up one by one, by the index: without statistics, as in the table of a new month, a join could read a whole workspace.
IS_UNDONE: LiteralString = """
    EXISTS (
        SELECT 1 FROM reversals AS taken
        WHERE taken.workspace = wanted.workspace AND taken.generation = wanted.generation AND taken.call = wanted.seq
            AND (SELECT bool_or(is_committed) FROM records AS ended WHERE ended.workspace = taken.workspace
                 AND ended.generation = taken.generation AND ended.seq = taken.seq)
            AND NOT EXISTS (
                SELECT 1 FROM reversals AS again
                WHERE again.workspace = taken.workspace AND again.generation = taken.generation
                    AND again.call = taken.seq
                    AND (SELECT bool_or(is_committed) FROM records AS ended WHERE ended.workspace = again.workspace
                         AND ended.generation = again.generation AND ended.seq = again.seq)
            )
    )
"""
SELECT_ENTRIES: LiteralString = """
    SELECT workspaces.name, array_agg(coalesce(listed, line) ORDER BY records.record), {undone}
    FROM unnest(%(workspaces)s::bigint[], %(seqs)s::bigint[]) WITH ORDINALITY AS wanted (workspace, seq, place)
    JOIN workspaces ON workspaces.id = wanted.workspace
    JOIN records ON records.workspace = wanted.workspace AND records.generation = workspaces.generation
        AND records.seq = wanted.seq
    GROUP BY workspaces.name, wanted.workspace, wanted.seq, workspaces.generation, place
    ORDER BY place DESC
""".replace("{undone}", IS_UNDONE.replace("wanted.generation", "workspaces.generation"))  # pyright: ignore[reportAssignmentType]
# Times in microseconds, exactly: as seconds they would be rounded.
MICROSECONDS: LiteralString = "(extract(epoch FROM {0}) * 1000000)::bigint"
TIME: LiteralString = "timestamptz 'epoch' + %(at)s * interval '1 microsecond'"
# The bytes of a call's records as a list reads them.
SELECT_SIZE: LiteralString = """
    (SELECT coalesce(sum(coalesce(length(listed), length(line))), 0)::bigint FROM records AS part
     WHERE part.workspace = found.workspace AND part.generation = found.generation AND part.seq = found.seq)
"""
SELECT_CALLS: LiteralString = """
    SELECT workspace, seq, {size}, {time}, record FROM (
        SELECT workspace, records.generation, seq, received, records.record FROM records
        JOIN workspaces ON id = workspace AND workspaces.generation = records.generation
        WHERE {where} ORDER BY {order} LIMIT %(limit)s
    ) AS found
"""
IS_BELOW: LiteralString = "(path = %(path)s OR (path > %(below)s AND path < %(beyond)s))"
COUNT_MATCHES: LiteralString = f"""
    SELECT count(*) FROM (SELECT 1 FROM changes WHERE tenant = %(tenant)s AND {IS_BELOW} LIMIT %(most)s) AS found
"""
SELECT_MATCHES: LiteralString = f"""
    SELECT workspace, seq, {{size}}, {{time}} FROM (
        SELECT workspace, changes.generation, seq, max(received) AS received FROM changes
        JOIN workspaces ON id = workspace AND workspaces.generation = changes.generation
        WHERE changes.tenant = %(tenant)s AND {IS_BELOW} AND {{where}}
        GROUP BY workspace, changes.generation, seq HAVING {{before}}
        ORDER BY max(received) DESC, workspace DESC, seq DESC LIMIT %(limit)s
    ) AS found
"""
# With all changes of the last call: the next page begins at another one.
WALK_CHANGES: LiteralString = f"""
    WITH walked AS MATERIALIZED (
        SELECT workspace, generation, seq, received, path FROM changes
        WHERE tenant = %(tenant)s AND {{before}} ORDER BY received DESC, workspace DESC, seq DESC
        FETCH FIRST %(walked)s ROWS WITH TIES
    ), found AS (
        SELECT DISTINCT workspace, walked.generation, seq, received FROM walked
        JOIN workspaces ON id = workspace AND workspaces.generation = walked.generation
        WHERE {IS_BELOW} AND {{where}}
        ORDER BY received DESC, workspace DESC, seq DESC LIMIT %(limit)s
    )
    SELECT workspace, seq, {{size}}, {{time}} FROM found
    UNION ALL (
        SELECT workspace, seq, NULL, {{time}} FROM walked AS found
        WHERE (SELECT count(*) FROM walked) >= %(walked)s ORDER BY received, workspace, seq LIMIT 1
    )
"""
IN_WORKSPACE: LiteralString = "workspaces.name = %(workspace)s"


def select_calls(
    connection: Connection[TupleRow], tenant: int, workspace: str | None, session: str | None, last: int, cursor: str
) -> CallPage:
    conditions: list[LiteralString] = ["records.tenant = %(tenant)s", "kind = 'call'"]
    values: dict[str, Any] = {"tenant": tenant, "workspace": workspace, "limit": last + 1}
    if session is not None:
        conditions.append("session = %(session)s")
        values["session"] = make_text_key(session)
    if workspace is None:
        order: LiteralString = "received DESC, workspace DESC, records.record DESC"
        if place := parse_cursor(cursor, 3):
            values |= zip(("at", "before_workspace", "before_record"), place, strict=True)
            conditions.append(f"received <= {TIME}")
            conditions.append(
                f"(received, workspace, records.record) < ({TIME}, %(before_workspace)s, %(before_record)s)"
            )
    else:
        order = "seq DESC"
        conditions.append("workspace = (SELECT id FROM workspaces WHERE name = %(workspace)s)")
        if place := parse_cursor(cursor, 1):
            values["before"] = place[0]
            conditions.append("seq < %(before)s")
    statement = _format(SELECT_CALLS, where=" AND ".join(conditions), order=order)
    rows = connection.execute(statement, values).fetchall()
    fitting = _select_fitting(rows, last)
    older = ""
    if fitting and len(fitting) < len(rows):
        owner, seq, _, at, record = fitting[-1]
        older = format_cursor(seq) if workspace is not None else format_cursor(at, owner, record)
    return CallPage(_read_entries(connection, fitting), older)


def select_path(
    connection: Connection[TupleRow], tenant: int, path: str, workspace: str | None, last: int, cursor: str
) -> CallPage:
    """By the index of paths, unless so many changes match that the newest are found sooner by walking through all."""
    key = path.rstrip("/").encode("utf-8", "surrogatepass")[:MAX_KEY_BYTES]
    values: dict[str, Any] = {"tenant": tenant, "workspace": workspace, "limit": last + 1}
    values |= {"most": MAX_MATCHES + 1, "walked": MAX_WALKED, "path": key, "below": key + b"/", "beyond": key + b"0"}
    place = parse_cursor(cursor, 3)
    if place:
        values |= zip(("at", "before_workspace", "before_seq"), place, strict=True)
    where: LiteralString = IN_WORKSPACE if workspace is not None else "true"
    after: LiteralString = f"({{0}}, workspace, seq) < ({TIME}, %(before_workspace)s, %(before_seq)s)"
    (matches,) = connection.execute(COUNT_MATCHES, values).fetchone() or (0,)
    if matches > MAX_MATCHES:
        before: LiteralString = after.replace("{0}", "received") + f" AND received <= {TIME}" if place else "true"
        rows = connection.execute(_format(WALK_CHANGES, where=where, before=before), values).fetchall()
    else:
        before = after.replace("{0}", "max(received)") if place else "true"
        rows = connection.execute(_format(SELECT_MATCHES, where=where, before=before), values).fetchall()
    # Without a size: not a match, but how far the walk came.
    calls, ends = [row for row in rows if row[2] is not None], [row for row in rows if row[2] is None]
    fitting = _select_fitting(calls, last)
    end = fitting[-1] if fitting and len(fitting) < len(calls) else ends[0] if ends else None
    older = format_cursor(end[3], end[0], end[1]) if end else ""
    return CallPage(_read_entries(connection, fitting), older)


def _format(statement: LiteralString, **parts: LiteralString) -> sql.SQL:
    time = MICROSECONDS.replace("{0}", "received")
    for name, part in {**parts, "size": SELECT_SIZE, "time": time}.items():
        statement = statement.replace(f"{{{name}}}", part)  # pyright: ignore[reportAssignmentType]
    return sql.SQL(statement)


def _select_fitting(rows: Sequence[TupleRow], last: int) -> list[TupleRow]:
    """The first of these calls that fit into a page, but at least one."""
    size = 0
    for count, row in enumerate(rows[:last]):
        size += row[2]
        if count and size > MAX_PAGE_BYTES:
            return list(rows[:count])
    return list(rows[:last])


def _read_entries(connection: Connection[TupleRow], calls: Sequence[TupleRow]) -> list[HubEntry]:
    """The entries of these calls of the newest first, oldest first. Retention may have taken the start of a call."""
    if not calls:
        return []
    values = {"workspaces": [workspace for workspace, *_ in calls], "seqs": [seq for _, seq, *_ in calls]}
    rows = connection.execute(SELECT_ENTRIES, values, binary=True).fetchall()
    return [HubEntry(name, found[0]) for name, lines, undone in rows if (found := find_entry(lines, undone=undone))]
