"""Roll back what a dead process left, from its journal entry and the state of the disk."""

import os
from dataclasses import dataclass

from handhold.backends.files.commit.file_metadata import file_id, fingerprint, read_file_at
from handhold.backends.files.commit.file_ops import FileOps, backup_name, remove_backups, temp_name, to_commit_error
from handhold.core.errors import NotDirectory, NotFound, ToolError
from handhold.core.plans import Directory, FileChange
from handhold.core.ports.journal import IncompleteTransaction
from handhold.progress import track


class WriteRecovery:
    """Rolls back a transaction from its journal entry and the state of the disk.

    Every step leaves a state that the next run understands, so it may be killed and run again.
    """

    def __init__(self, ops: FileOps, incomplete: IncompleteTransaction) -> None:
        self._ops = ops
        self._incomplete = incomplete

    def run(self) -> tuple[str, ...]:
        if self._incomplete.is_recorded:
            remove_backups(self._ops, self._incomplete.transaction, self._incomplete.files)
            return ()
        return self._roll_back()

    def _roll_back(self) -> tuple[str, ...]:
        changed: list[str] = []
        failed: ToolError | None = None
        for index, change in track(list(enumerate(self._incomplete.files))[::-1], "files restored"):
            try:
                if not self._roll_back_change(change, temp_name(self._incomplete.transaction, index)):
                    changed.append(change.path)
            except OSError as error:  # continue with the others
                failed = to_commit_error(error, change.path)
        if failed:
            raise failed
        try:
            self._ops.sync_directories([change.path for change in self._incomplete.files])
        except OSError as error:
            raise to_commit_error(error, self._incomplete.files[0].path) from error
        return tuple(reversed(changed))

    def _roll_back_change(self, change: FileChange, temp: str) -> bool:
        if isinstance(change.before, Directory):
            return True  # removed only once everything else is done
        if isinstance(change.after, Directory):
            self._ops.remove_directory(change.path)
            return True
        try:
            directory, name = self._ops.open_parent(change.path)
        except (NotFound, NotDirectory):
            return change.before is None
        return self._restore(change, directory, name, temp)

    def _restore(self, change: FileChange, directory: int, name: str, temp: str) -> bool:
        """Whether the path is its `before` again. What somebody else put there stays."""
        target, moved_aside = FileFingerprint.read(directory, name), FileFingerprint.read(directory, temp)
        if change.before is None:
            assert change.after is not None
            # While the staged file exists, a file under the target's name is somebody else's.
            if (
                target
                and target.hash == change.after.hash
                and (moved_aside is None or moved_aside.file_id == target.file_id)
            ):
                os.unlink(name, dir_fd=directory)
                target = None
            self._ops.remove_files(change.path, temp)
            return target is None
        if change.after is None:
            if moved_aside and target is None:
                self._ops.move(directory, temp, name)
                target, moved_aside = moved_aside, None
            if moved_aside and moved_aside.hash == change.before.hash:
                self._ops.remove_files(change.path, temp)
            return target is not None and target.hash == change.before.hash
        return self._restore_replaced(change, directory, name, temp, target, moved_aside)

    def _restore_replaced(
        self,
        change: FileChange,
        directory: int,
        name: str,
        temp: str,
        target: "FileFingerprint | None",
        moved_aside: "FileFingerprint | None",
    ) -> bool:
        assert change.before is not None
        assert change.after is not None
        ops, backup = self._ops, backup_name(temp)
        is_ours = moved_aside is None or self._is_ours(moved_aside, change, directory, temp)
        was_swapped = moved_aside is not None and (moved_aside.hash == change.before.hash or not is_ours)
        if (
            target
            and target.hash == change.after.hash
            and (was_swapped or FileFingerprint.read(directory, backup))
            and ops.put_back(directory, name, temp, backup, target.file_id)
        ):
            target, is_ours = FileFingerprint.read(directory, name), True
        if target and target.hash not in ("", change.before.hash) and ops.restore_content(change, directory, name):
            target = FileFingerprint.read(directory, name)
        is_restored = target is not None and target.hash == change.before.hash
        if is_ours or is_restored:
            ops.remove_files(change.path, temp, backup)
        return is_restored

    def _is_ours(self, moved_aside: "FileFingerprint", change: FileChange, directory: int, temp: str) -> bool:
        """Whether a file aside is the old one or the beginning of the new one; otherwise it is somebody else's work."""
        assert change.before is not None
        assert change.after is not None
        if moved_aside.hash in (change.before.hash, change.after.hash):
            return True
        after = self._ops.find_content(change.after)
        return after is not None and moved_aside.size < len(after) and after.startswith(read_file_at(directory, temp))


@dataclass(frozen=True)
class FileFingerprint:
    """What exists under a name. Only a regular file has a hash."""

    file_id: tuple[int, int]
    size: int
    hash: str

    @classmethod
    def read(cls, directory: int, name: str) -> "FileFingerprint | None":
        found, hash = fingerprint(directory, name)
        return None if found is None else cls(file_id(found), found.st_size, hash)
