"""What was changed, read again from wherever it is kept: for diffs, for approvals and for undo."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from handhold.core import history
from handhold.core.facts import Declared
from handhold.core.plans import Bytes, Content, Directory, FileChange, Folder, Shelved
from handhold.core.text.names import unmistakable
from handhold.pipeline.session import Session


@dataclass(frozen=True)
class ChangeContents:
    """The contents of changes, hidden ones too: whoever judges or approves a change sees all of it."""

    session: Session

    def content(self, content: Content, path: str) -> bytes | None:
        """What it holds, wherever that is; None if it is nowhere, or no file or link."""
        if isinstance(content, Bytes):
            return content.data
        data = self.session.files.shelved(content, path) if isinstance(content, Shelved) else None
        # A file that a command made and an edit changed since is neither in its slot nor at its path.
        kept = data is not None or isinstance(content, Directory | Folder)
        return data if kept else self.session.store.get(content.hash)

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        return self.session.files.unfolded(content, path, most)

    def declared(self, path: str) -> Declared | None:
        return self.session.files.declared(path)

    def diff(self, files: Sequence[FileChange]) -> str:
        """Of files that may be read today."""
        visible = [change for change in files if self.session.is_visible(change.path)]
        return history.diff_of(visible, VisibleContents(self), self.session.files.roots)

    def diff_for_approval(self, files: Sequence[FileChange], places: Collection[str]) -> tuple[str, int] | None:
        """All that happens at some places first, and the number of those lines; None if that is too long."""
        return history.diff_for_approval(files, places, self, self.session.files.roots)


@dataclass(frozen=True)
class VisibleContents:
    """The same without what may not be read today."""

    all: ChangeContents

    def content(self, content: Content, path: str) -> bytes | None:
        return self.all.content(content, path)

    def unfolded(self, content: Shelved, path: str, most: int) -> Sequence[tuple[str, Shelved]]:
        entries = self.all.unfolded(content, path, most)
        is_visible = self.all.session.is_visible
        return [(way, entry) for way, entry in entries if is_visible(f"{path}/{unmistakable(way)}")]

    def declared(self, path: str) -> Declared | None:
        return self.all.declared(path)
