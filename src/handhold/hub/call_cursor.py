"""Where a list of calls goes on: after the last call of a page, by what the list is ordered by."""

from handhold.core.ports.record_store import BadCallCursor

MAX_DIGITS = 18


def format_cursor(*numbers: int) -> str:
    return ".".join(map(str, numbers))


def parse_cursor(cursor: str, count: int) -> tuple[int, ...] | None:
    """`count` numbers; None at the beginning. BadCallCursor if it is none of this list."""
    if not cursor:
        return None
    parts = cursor.split(".")
    if len(parts) != count or not all(
        each.isascii() and each.isdecimal() and len(each) <= MAX_DIGITS for each in parts
    ):
        raise BadCallCursor(cursor)
    return tuple(map(int, parts))
