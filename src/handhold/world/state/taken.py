"""Which calls stand taken back, told from the calls that took them back."""

from collections.abc import Collection, Mapping

DONE = ("success", "partial")  # the outcomes after which a call's changes stand
STANDING = "(" + ",".join(f"'{status}'" for status in DONE) + ")"  # the same, in SQL


def taken_back(seq: int, takers: Mapping[int, Collection[int]]) -> bool:
    """Whether some call that itself stands took this one back.

    An undo takes back calls, a redo takes back an undo, and each stands until a later one takes it back in
    turn. `takers` holds those that succeeded, by what they took.
    """
    return any(not taken_back(taker, takers) for taker in takers.get(seq, ()) if taker > seq)
