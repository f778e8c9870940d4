"""What a command made of texts, kept for a later undo: only with it, changes that came since can be told apart.

What file tools write is kept anyway, and a created file needs no merge. Bounded per change set; it counts as what only
a redo needs, so it is dropped before anything that an undo needs.
"""

from handhold.core.plans import FileChange, InlineContent, StagedContent

MAX_TEXT_BYTES = 1024 * 1024
MAX_TEXTS = 2_000
MAX_TOTAL_BYTES = 16 * 1024 * 1024
SNIFFED_BYTES = 8_000  # in which a NUL means that it is no text, as for git


class KeptTexts:
    """The texts of one change set."""

    def __init__(self) -> None:
        self.contents: list[InlineContent] = []
        self._bytes_left = MAX_TOTAL_BYTES

    def has_room_for(self, change: FileChange) -> bool:
        """Whether it modified a file that may be kept."""
        before, after = change.before, change.after
        return (
            isinstance(before, StagedContent)
            and isinstance(after, StagedContent)
            and before.kind == after.kind == "file"
            and before.hash != after.hash
            and after.size <= min(MAX_TEXT_BYTES, self._bytes_left)
            and len(self.contents) < MAX_TEXTS
        )

    def add(self, data: bytes | None, hash: str) -> None:
        """`data` is None if it could not be read."""
        if data is None or b"\0" in data[:SNIFFED_BYTES]:
            return
        content = InlineContent(data)
        if content.hash == hash:
            self.contents.append(content)
            self._bytes_left -= len(data)
