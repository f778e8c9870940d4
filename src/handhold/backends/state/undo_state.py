"""Which calls are undone, derived from the calls that undid them."""

from collections.abc import Collection, Mapping

COMMITTED_STATUSES = ("success", "partial")  # outcomes after which a call's changes are in effect
COMMITTED_STATUSES_SQL = "(" + ",".join(f"'{status}'" for status in COMMITTED_STATUSES) + ")"  # the same, in SQL


def is_undone(seq: int, undoers: Mapping[int, Collection[int]]) -> bool:
    """Whether a call that is itself in effect undid this one.

    An undo reverts calls, a redo reverts an undo, and each is in effect until a later one reverts it. `undoers` holds
    the successful ones, by what they reverted.
    """
    return any(not is_undone(taker, undoers) for taker in undoers.get(seq, ()) if taker > seq)
