"""One change set: verified when opened, staged, applied, and rolled back if anything fails."""

import os
import stat
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex

from handhold.backends.files.commit.file_metadata import (
    READ_FLAGS,
    copy_metadata,
    file_id,
    hash_fd,
    is_same_file,
    read_file_at,
)
from handhold.backends.files.commit.file_ops import (
    FULL_SYNC_THRESHOLD,
    STAGE_FLAGS,
    WRITE_FLAGS,
    FileOps,
    backup_name,
    remove_backups,
    temp_name,
    to_commit_error,
)
from handhold.backends.files.commit.syscalls import HAS_SYNCFS
from handhold.backends.files.file_kinds import identity_of
from handhold.core.errors import IsDirectory, NotDirectory, NotFound, RollbackIncomplete, Stale, ToolError
from handhold.core.facts import FileIdentity
from handhold.core.plans import Directory, FileChange, InlineContent
from handhold.logs import log_swallowed
from handhold.progress import track


@dataclass(slots=True)
class CommitStep:
    """One change and its progress. What was done is checked on disk, not remembered."""

    change: FileChange
    temp: str = ""  # next to the target: first the new file, after the exchange the old one
    verified: FileIdentity | None = None  # the file when it was verified
    staged_id: tuple[int, int] | None = None  # device and inode of the new file
    in_place: bool = False
    started: bool = False  # something may have to be rolled back
    overwritten: bool = False  # in place, possibly not completely

    @property
    def backup(self) -> str:
        """A second name for the old file, if names cannot be exchanged."""
        return backup_name(self.temp)


class WriteTransaction:
    """A verified change set. No other commit runs while it is open."""

    def __init__(self, ops: FileOps, changes: Sequence[FileChange]) -> None:
        self._ops = ops
        self._current_path = ""  # the current path, for error messages
        self.id = token_hex(8)
        with self._translate_errors():
            self._steps = self._verify(changes)
        for index, step in enumerate(self._steps):
            step.temp = temp_name(self.id, index)
        self.files = tuple(step.change for step in self._steps)

    def apply(self) -> Mapping[str, FileIdentity]:
        try:
            with self._translate_errors():
                return self._apply()
        except BaseException:
            self.roll_back()  # on any exception, including an interrupt, roll back before it propagates
            raise

    def roll_back(self) -> None:
        started = [step for step in self._steps if step.started]
        left = [step.change.path for step in reversed(started) if not self._try_revert(step)]
        if left:
            raise RollbackIncomplete(left[0], tuple(left))
        with suppress(ToolError, OSError):  # nothing new is lost if this fails
            self._ops.sync_directories([step.change.path for step in started])
        for step in started:
            step.started = False

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        # `renew` is not needed: every file that it wrote is new.
        # Not synced: until the journal has recorded this durably, recovery repeats it.
        remove_backups(self._ops, self.id, self.files)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise to_commit_error(error, self._current_path) from error

    # --- verify

    def _verify(self, changes: Sequence[FileChange]) -> list[CommitStep]:
        """Raise Stale unless each path is its `before`. New directories come first, removed ones last."""
        ops = self._ops
        made: dict[str, FileChange] = {}
        existing: set[str] = set()
        files: list[CommitStep] = []
        removed: list[FileChange] = []
        for change in changes:
            if change.before is None and isinstance(change.after, Directory) and ops.stat(change.path) is None:
                made[change.path] = change
        for change in changes:
            self._current_path = change.path
            match change.before, change.after:
                case None, None:
                    continue
                case None, after:
                    found = None if self._plan_parents(change.path, existing, made) else ops.stat(change.path)
                    if isinstance(after, Directory):
                        if found is not None and not stat.S_ISDIR(found.st_mode):
                            raise Stale(change.path)
                    elif found is not None:
                        raise Stale(change.path, now=ops.fingerprint(change.path)[1])
                    else:
                        files.append(CommitStep(change))
                case Directory(), after:
                    if after is not None and not isinstance(after, Directory):
                        raise IsDirectory(change.path)
                    found = ops.stat(change.path)
                    if found is None and after is None:
                        continue
                    if found is None or not stat.S_ISDIR(found.st_mode):
                        raise Stale(change.path)
                    if after is None:
                        removed.append(with_mode(change, found))
                case before, after:
                    if isinstance(after, Directory):
                        raise NotDirectory(change.path)
                    found, hash = ops.fingerprint(change.path, before)
                    if found is None or hash != before.hash:
                        raise Stale(change.path, now=hash)
                    if after is None:
                        removed_file = with_mode(with_old_content(change, ops), found)
                        files.append(CommitStep(removed_file, verified=identity_of(found)))
                    elif after.hash != before.hash:
                        files.append(CommitStep(with_old_content(change, ops), verified=identity_of(found)))
        return [
            *(CommitStep(made[path]) for path in sorted(made)),
            *files,
            *(CommitStep(change) for change in sorted(removed, key=lambda each: each.path, reverse=True)),
        ]

    def _plan_parents(self, path: str, existing: set[str], made: dict[str, FileChange]) -> bool:
        """Whether a parent directory must be created; adds those that are not planned."""
        missing = False
        while (parent := os.path.dirname(path)) not in existing:
            if parent not in made:
                if self._ops.is_directory(parent, error_path=self._current_path):
                    existing.add(parent)
                    break
                made[parent] = FileChange(parent, None, Directory())
            missing = True
            path = parent
        return missing

    # --- apply

    def _apply(self) -> Mapping[str, FileIdentity]:
        ops = self._ops
        touched: dict[str, str] = {}  # directory → a path in it
        for step in self._steps:
            change, self._current_path = step.change, step.change.path
            if isinstance(change.after, Directory):
                step.started = ops.make_directory(change.path)
                touched[os.path.dirname(change.path)] = change.path
        files = [step for step in self._steps if not isinstance(step.change.before or step.change.after, Directory)]
        staged = [step for step in files if step.change.after is not None]
        one_by_one = len(staged) <= FULL_SYNC_THRESHOLD or not HAS_SYNCFS
        for step in track(staged, "files written"):
            self._current_path = step.change.path
            self._stage(step, sync=one_by_one)
        if not one_by_one:
            ops.sync_file_systems(step.change.path for step in staged)
        for step in track(files, "files put in place"):
            change, self._current_path = step.change, step.change.path
            if not step.in_place:
                self._rename(step)
                touched[os.path.dirname(change.path)] = change.path
        for step in staged:  # files that turned out not to be renamable
            self._current_path = step.change.path
            if step.in_place:
                self._write_in_place(step)
        for step in self._steps:  # only now: nothing could be created in a directory that is not writable
            change, self._current_path = step.change, step.change.path
            if step.started and isinstance(change.after, Directory) and change.mode is not None:
                os.fchmod(ops.open_directory(change.path), change.mode)
        ops.sync_directories(touched.values())
        return {step.change.path: self._identify_written(step) for step in staged}

    def _stage(self, step: CommitStep, *, sync: bool) -> None:
        change, ops = step.change, self._ops
        assert change.after is not None
        data = ops.load_content(change.after, change.path)
        directory, name = ops.open_parent(change.path)
        step.started = True
        if change.before is None:
            # Unless the mode is known, umask and default ACL apply.
            fd = os.open(step.temp, STAGE_FLAGS, 0o666 if change.mode is None else 0o600, dir_fd=directory)
            try:
                step.staged_id = file_id(os.fstat(fd))
                ops.write(fd, data)
                if change.mode is not None:
                    os.fchmod(fd, change.mode)
                ops.sync(fd, enabled=sync)
            finally:
                os.close(fd)
            return
        old = os.open(name, READ_FLAGS, dir_fd=directory)
        try:
            found = os.fstat(old)
            if identity_of(found) != step.verified:
                raise Stale(change.path)
            if found.st_nlink > 1 or not self._stage_with_metadata(step, old, found, data, sync=sync):
                step.in_place = True
                ops.load_content(change.before, change.path)  # it must be available before it is overwritten
                os.close(os.open(name, WRITE_FLAGS, dir_fd=directory))
        finally:
            os.close(old)

    def _stage_with_metadata(
        self, step: CommitStep, old: int, status: os.stat_result, data: bytes, *, sync: bool
    ) -> bool:
        """Stage a new file with the old one's owner, attributes and mode; False if that is not possible."""
        directory, _ = self._ops.open_parent(step.change.path)
        try:
            fd = os.open(step.temp, STAGE_FLAGS, 0o600, dir_fd=directory)
        except PermissionError:
            return False
        try:
            step.staged_id = file_id(os.fstat(fd))
            self._ops.write(fd, data)
            if not copy_metadata(old, fd, status):  # after writing, which clears setuid
                os.unlink(step.temp, dir_fd=directory)
                step.staged_id = None
                return False
            self._ops.sync(fd, enabled=sync)
        finally:
            os.close(fd)
        return True

    def _rename(self, step: CommitStep) -> None:
        """Exchange old and new. If somebody else changed the path meanwhile, what came out shows that."""
        change, ops = step.change, self._ops
        directory, name = ops.open_parent(change.path)
        if change.before is None:
            try:
                return ops.move(directory, step.temp, name)
            except FileExistsError:
                raise Stale(change.path) from None
        assert step.verified is not None
        try:
            check_untouched(os.stat(name, dir_fd=directory, follow_symlinks=False), step.verified, change.path)
            if change.after is None:
                step.started = True
                ops.move(directory, name, step.temp)
                return check_same_file(
                    os.stat(step.temp, dir_fd=directory, follow_symlinks=False), step.verified, change.path
                )
            if ops.swap(directory, step.temp, name):
                return check_same_file(
                    os.stat(step.temp, dir_fd=directory, follow_symlinks=False), step.verified, change.path
                )
            if ops.link(directory, name, step.backup):
                check_same_file(
                    os.stat(step.backup, dir_fd=directory, follow_symlinks=False), step.verified, change.path
                )
            else:
                ops.load_content(change.before, change.path)  # no backup is kept: a rollback would write it again
            os.rename(step.temp, name, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError:
            raise Stale(change.path) from None
        except PermissionError:
            # A sticky directory: the file may be written but not replaced. If it may not be written either, open fails.
            if change.after is None:
                raise
            ops.remove_files(change.path, step.temp, step.backup)
            ops.load_content(change.before, change.path)
            os.close(os.open(name, WRITE_FLAGS, dir_fd=directory))
            step.in_place = True

    def _write_in_place(self, step: CommitStep) -> None:
        change, ops = step.change, self._ops
        assert change.before is not None
        assert change.after is not None
        data = ops.load_content(change.after, change.path)
        directory, name = ops.open_parent(change.path)
        try:
            fd = os.open(name, WRITE_FLAGS, dir_fd=directory)
        except FileNotFoundError:
            raise Stale(change.path) from None
        try:
            found = os.fstat(fd)
            step.staged_id = file_id(found)
            hash = hash_fd(fd, found.st_size)
            if hash == change.after.hash:  # another name of a file that has just been written
                return
            if hash != change.before.hash:
                raise Stale(change.path, now=hash)
            step.overwritten = True
            ops.overwrite(fd, data)
        finally:
            os.close(fd)

    def _identify_written(self, step: CommitStep) -> FileIdentity:
        self._current_path = step.change.path
        found = self._ops.stat(self._current_path)
        if found is None or file_id(found) != step.staged_id:
            raise Stale(self._current_path)
        return identity_of(found)

    # --- roll back

    def _try_revert(self, step: CommitStep) -> bool:
        for _ in range(3):  # an error may be temporary; each step checks the disk, so retrying is safe
            try:
                self._revert_step(step)
            except NotFound:
                return True  # the directory is gone, with everything of ours
            except (OSError, ToolError):
                log_swallowed()
                continue
            return True
        return False

    def _revert_step(self, step: CommitStep) -> None:
        change, ops = step.change, self._ops
        if isinstance(change.after, Directory):
            return ops.remove_directory(change.path)
        directory, name = ops.open_parent(change.path)
        if change.after is None:
            return ops.move_back(directory, step.temp, name, is_ours=lambda found: is_same_file(found, step.verified))
        if step.overwritten:
            ops.restore_content(change, directory, name)
        if step.in_place:
            return None
        found = ops.stat(change.path)
        if found is not None and file_id(found) == step.staged_id:
            if change.before is None:
                os.unlink(name, dir_fd=directory)
            elif not ops.put_back(directory, name, step.temp, step.backup, file_id(found)):
                ops.restore_content(change, directory, name)
        ops.remove_files(change.path, step.temp, step.backup)
        return None


def check_same_file(status: os.stat_result, expected: FileIdentity, path: str) -> None:
    if not is_same_file(status, expected):
        raise Stale(path)


def check_untouched(status: os.stat_result, expected: FileIdentity, path: str) -> None:
    # Moving one name of a file changes the ctime of all its names: with several names, ctime says nothing.
    if not is_same_file(status, expected) or (status.st_nlink == 1 and status.st_ctime_ns != expected.ctime_ns):
        raise Stale(path)


def with_mode(change: FileChange, status: os.stat_result) -> FileChange:
    return FileChange(change.path, change.before, change.after, stat.S_IMODE(status.st_mode))


def with_old_content(change: FileChange, ops: FileOps) -> FileChange:
    """Unless the store has the old content, add it for the journal to keep: for undo, and to roll a write back."""
    if change.before is None or ops.has_content(change.before):
        return change
    before = InlineContent(read_file_at(*ops.open_parent(change.path)))
    if before.hash != change.before.hash:
        raise Stale(change.path, now=before.hash)
    return FileChange(change.path, before, change.after, change.mode)
