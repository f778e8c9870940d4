"""Undo one path as a three-way merge: what a change did is reversed, what came later stays, as `git revert` does.

The change leads from `before` to `after`; `now` is what exists. Texts are merged line by line by git's rules. Whatever
else changed since is a conflict, which a person decides with `take`. A redo is the same with the sides exchanged.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from handhold.core.choices import Resolution
from handhold.core.plans import Content, ContentRef, FileChange, InlineContent, StagedContent, digest, hash_or_none
from handhold.core.ports.files import MAX_EDITABLE_BYTES

LABELS = ("now", "with the change", "without the change")

ReadContent = Callable[[Content, str], "bytes | None"]


@dataclass(frozen=True)
class PathReversal:
    """How a path is reversed: `change` is None if it stays as it is."""

    change: FileChange | None
    kept_lines: int | None = None  # later lines that stay, if texts were merged
    saved_path: str = ""  # where the old version is put beside it
    is_left: bool = False  # it stays as it is because of `take`


@dataclass(frozen=True)
class ReversalConflict:
    """What was changed since at a path that a change touched. `text` has both sides, between git's markers."""

    path: str
    reason: str
    text: str = ""


class PathMerger:
    """Reverses single paths."""

    def __init__(self, read: ReadContent, find_free_path: Callable[[str], str], take: Resolution | None) -> None:
        self._read = read
        self._find_free_path = find_free_path
        self._take = take

    def reverse(self, change: FileChange, now: Content | None, objection: str) -> PathReversal | ReversalConflict:
        """`change` is reversed already: from what the call left to what was there before it. `objection` is why texts
        at this path are not merged; empty if they may be."""
        if _is_same(change.after, now):
            return PathReversal(None)
        if reason := self._find_reason(change, now) or objection:
            return self._decide(change, now, ReversalConflict(change.path, reason))
        return self._merge(change, now)

    def _find_reason(self, change: FileChange, now: Content | None) -> str:
        """Why texts cannot be merged; empty if they may be."""
        if now is None:
            return "deleted or moved since"
        if change.before is None:
            return "created again since"
        if change.after is None:
            return "changed since, and this would delete it"
        if not all(map(is_regular_file, (change.before, change.after, now))):
            return "changed since, and not a regular file"
        if any(side.size > MAX_EDITABLE_BYTES for side in (change.before, change.after, now)):
            return "changed since, and too large to merge"
        return ""

    def _merge(self, change: FileChange, now: Content | None) -> PathReversal | ReversalConflict:
        path, left, old = change.path, change.before, change.after
        assert left is not None
        assert old is not None
        assert now is not None
        mode, is_clear = _merge_modes(_mode_of(left), _mode_of(old), _mode_of(now))
        if not is_clear:
            return self._decide(change, now, ReversalConflict(path, "its mode was changed since"))
        present, restored = self._read_exactly(now, path), self._read_exactly(old, path)
        if present is None or restored is None:
            return self._decide(change, now, ReversalConflict(path, "changed since, and cannot be read"))
        if left.hash == now.hash:
            return PathReversal(FileChange(path, now, InlineContent(restored), mode), 0)
        if left.hash == old.hash:
            return PathReversal(FileChange(path, now, InlineContent(present), mode), 0)
        base = self._read_exactly(left, path)
        if base is None:
            reason = "changed since, and the version that the call left is not kept"
            return self._decide(change, now, ReversalConflict(path, reason))
        return self._merge_texts(change, now, (present, base, restored), mode)

    def _read_exactly(self, content: Content, path: str) -> bytes | None:
        """None also if the path has something else by now, whatever its size and time."""
        data = self._read(content, path)
        return data if data is not None and digest(data) == content.hash else None

    def _merge_texts(
        self, change: FileChange, now: Content, texts: tuple[bytes, bytes, bytes], mode: int | None
    ) -> PathReversal | ReversalConflict:
        from handhold.backends.forks.text_merge import reverse_text

        merged = reverse_text(*texts, LABELS)
        if merged is None:
            return self._decide(change, now, ReversalConflict(change.path, "changed since, and not a text"))
        if merged.has_conflicts and self._take in ("old", "mine"):
            merged = reverse_text(*texts, LABELS, "before" if self._take == "old" else "now")
        if merged is None or merged.has_conflicts:
            text = "" if merged is None else merged.data.decode(errors="replace")
            return self._decide(change, now, ReversalConflict(change.path, "the same lines were changed since", text))
        if merged.data == texts[0] and mode is None:
            return PathReversal(None, is_left=True)  # everything touched, and what is there now was chosen
        content = InlineContent(merged.data)
        return PathReversal(FileChange(change.path, now, content, mode), _count_new_lines(texts[1], texts[0]))

    def _decide(
        self, change: FileChange, now: Content | None, conflict: ReversalConflict
    ) -> PathReversal | ReversalConflict:
        """What was chosen for conflicts; the conflict if nothing was, or it cannot be done."""
        path, old = change.path, change.after
        match self._take:
            case "mine" | "skip":
                return PathReversal(None, is_left=True)
            case "save":
                if old is None:
                    return PathReversal(None, is_left=True)
                data = self._read_exactly(old, path) if is_regular_file(old) else None
                if data is None:
                    return conflict
                place = self._find_free_path(path)
                return PathReversal(FileChange(place, None, InlineContent(data), _mode_of(old)), None, place)
            case "old":
                is_staged = isinstance(old or change.before, StagedContent)
                can_be_written = all(side is None or is_regular_file(side) for side in (old, now))
                return PathReversal(replace(change, before=now)) if is_staged or can_be_written else conflict
            case _:
                return conflict


def is_regular_file(content: Content) -> bool:
    return isinstance(content, InlineContent | ContentRef) or (
        isinstance(content, StagedContent) and content.kind == "file"
    )


def _is_same(wanted: Content | None, now: Content | None) -> bool:
    if hash_or_none(wanted) != hash_or_none(now):
        return False
    modes = {_mode_of(wanted), _mode_of(now)} - {None}
    return len(modes) < 2


def _mode_of(content: Content | None) -> int | None:
    """The permission bits, if they are known: file tools leave them as they are."""
    return content.mode if isinstance(content, StagedContent) else None


def _merge_modes(left: int | None, old: int | None, now: int | None) -> tuple[int | None, bool]:
    """The permission bits to set, or None to leave them, and whether that is clear."""
    if left is None or old is None or left == old:
        return None, True
    return old, now in (None, left, old)


def _count_new_lines(old: bytes, new: bytes) -> int:
    return (Counter(new.splitlines()) - Counter(old.splitlines())).total()
