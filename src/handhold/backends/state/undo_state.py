"""Which calls stand taken back, told from the calls that took them back."""

from collections.abc import Collection, Mapping

COMMITTED_STATUSES = ("success", "partial")  # the outcomes after which a call's changes stand
COMMITTED_STATUSES_SQL = "(" + ",".join(f"'{status}'" for status in COMMITTED_STATUSES) + ")"  # the same, in SQL


def is_undone(seq: int, undoers: Mapping[int, Collection[int]]) -> bool:
    """Whether some call that itself stands took this one back.

    An undo takes back calls, a redo takes back an undo, and each stands until a later one takes it back in
    turn. `undoers` holds those that succeeded, by what they took.
    """
    return any(not is_undone(taker, undoers) for taker in undoers.get(seq, ()) if taker > seq)
