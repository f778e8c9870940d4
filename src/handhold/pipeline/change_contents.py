"""Reads the contents of changes, wherever they are kept: for diffs, approvals and undo."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from handhold.core import change_diff
from handhold.core.facts import DeclaredEncoding
from handhold.core.plans import Content, Directory, DirectoryMetadata, FileChange, InlineContent, StagedContent
from handhold.core.ports.files import Files
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.pipeline.session import Session


def is_current(files: Files, path: str, content: Content | None) -> bool:
    """Whether a path has this content now; None: whether nothing exists there. ToolError if it cannot be read."""
    if isinstance(content, StagedContent | DirectoryMetadata):
        return files.is_current(path, content)
    stat = files.stat(path)
    if content is None or stat is None:
        return content is None and stat is None
    if isinstance(content, Directory):
        return stat.kind == "directory"
    is_file = stat.kind == "file" and stat.path == path  # and no link to one
    return is_file and files.fingerprint(path)[1] == content.hash


@dataclass(frozen=True)
class ChangeContents:
    """The contents of changes, including hidden files: a policy or a person that decides sees all of a change."""

    session: Session

    def read_content(self, content: Content, path: str) -> bytes | None:
        """The bytes; None if they are no longer kept, or it is neither a file nor a link."""
        if isinstance(content, InlineContent):
            return content.data
        data = self.session.files.read_staged(content, path) if isinstance(content, StagedContent) else None
        # A file that a command created and an edit changed since is neither in its slot nor at its path.
        kept = data is not None or isinstance(content, Directory | DirectoryMetadata)
        return data if kept else self.session.contents.get(content.hash)

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        return self.session.files.list_staged_tree(content, path, limit)

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        return self.session.files.declared_encoding(path)

    def list_visible(self, files: Sequence[FileChange]) -> list[FileChange]:
        """Those that may be read today."""
        return [change for change in files if self.session.is_visible(change.path)]

    def diff(self, files: Sequence[FileChange]) -> str:
        """The diff of the files that may be read today."""
        return change_diff.format_diff(self.list_visible(files), VisibleContents(self), self.session.files.roots)

    def diff_for_approval(
        self, files: Sequence[FileChange], places: Collection[str]
    ) -> change_diff.ApprovalDiff | None:
        """The diff with these places first; None if those take too many lines."""
        return change_diff.format_approval_diff(files, places, self, self.session.files.roots)


@dataclass(frozen=True)
class VisibleContents:
    """The same without files that may not be read today."""

    all: ChangeContents

    def read_content(self, content: Content, path: str) -> bytes | None:
        return self.all.read_content(content, path)

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        entries = self.all.list_staged_tree(content, path, limit)
        is_visible = self.all.session.is_visible
        return [(way, entry) for way, entry in entries if is_visible(f"{path}/{escape_ambiguous(way)}")]

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        return self.all.declared_encoding(path)
