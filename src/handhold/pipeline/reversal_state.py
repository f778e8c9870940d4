"""What the steps of an undo leave: each step starts from what the ones before it have left, not from the disk."""

from collections.abc import Iterator, Sequence

from handhold.core.plans import Content, Directory, DirectoryMetadata, FileChange, StagedContent, hash_or_none


class ProjectedState:
    """The contents that earlier steps leave."""

    def __init__(self) -> None:
        self.contents: dict[str, Content | None] = {}
        self._parents: set[str] = set()

    def add(self, files: Sequence[FileChange]) -> None:
        for change in files:
            if any(isinstance(side, StagedContent) and side.kind == "tree" for side in (change.before, change.after)):
                # What is moved along with a whole folder is in no step so far.
                self.contents = {
                    path: left for path, left in self.contents.items() if not path.startswith(f"{change.path}/")
                }
            self.contents[change.path] = change.after
            self._parents.update(parent_folders(change.path))

    def find_file_above(self, path: str) -> str | None:
        """What an earlier step leaves above this path instead of a folder."""
        known = next((folder for folder in parent_folders(path) if folder in self.contents), None)
        left = self.contents[known] if known else None
        return None if left is None or is_folder(left) else known

    def affects(self, path: str) -> bool:
        """Whether an earlier step replaces a folder above this path, or changes something in it."""
        return path in self._parents or any(
            folder in self.contents and not isinstance(self.contents[folder], DirectoryMetadata)
            for folder in parent_folders(path)
        )


def is_same_content(actual: Content | None, expected: Content | None) -> bool:
    """Whether one step leaves what the next one expects. The content of a folder is checked by its own step.

    A large file that a command removed was not read: the journal knows that it is the same one by inode and time.
    """
    if isinstance(actual, StagedContent) and isinstance(expected, StagedContent) and actual.kind == expected.kind:
        same = (actual.inode, actual.size, actual.mode, actual.mtime_ns)
        if same == (expected.inode, expected.size, expected.mode, expected.mtime_ns):
            return True
    return (is_folder(actual) and is_folder(expected)) or hash_or_none(actual) == hash_or_none(expected)


def is_folder(content: Content | None) -> bool:
    return isinstance(content, Directory | DirectoryMetadata) or (
        isinstance(content, StagedContent) and content.kind == "tree"
    )


def parent_folders(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path
