"""Apply a command's effects, and roll them back, by exchanging entries with their slots.

Nothing is copied: the new entry keeps its inode, times and attributes, and the old one waits in the slot with its own.
The journal names both, so recovery can tell by their inodes which is where.
"""

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex

from handhold.backends.files.commit.directory_metadata import is_before_or_after
from handhold.backends.files.commit.effects_swapper import EffectsSwapper, SwapStep
from handhold.backends.files.commit.entry_checks import OWNER_RWX
from handhold.backends.files.commit.file_metadata import READ_FLAGS
from handhold.backends.files.commit.file_ops import FULL_SYNC_THRESHOLD, FileOps, to_commit_error
from handhold.backends.files.commit.slots import ParentRecord, Slots, permission_bits, set_mtime
from handhold.backends.files.content_hash import is_placeholder
from handhold.backends.files.file_kinds import identity_of
from handhold.core.errors import (
    ContentDropped,
    NotDirectory,
    NotFound,
    PermissionDenied,
    RollbackIncomplete,
    Stale,
    StaleBeforeCommit,
    ToolError,
)
from handhold.core.facts import FileIdentity
from handhold.core.plans import DirectoryMetadata, FileChange, FolderMtime, StagedContent
from handhold.core.ports.journal import IncompleteTransaction
from handhold.logs import log_swallowed, suppress_and_log
from handhold.progress import track


def needs_slots(changes: Sequence[FileChange]) -> bool:
    """Whether these changes are exchanged with slots; a change set is never mixed."""
    return any(isinstance(change.before or change.after, StagedContent | DirectoryMetadata) for change in changes)


class EffectsTransaction:
    """A command's verified effects. No other commit runs while it is open."""

    def __init__(
        self, ops: FileOps, slots: Slots, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> None:
        self._ops = ops
        self._slots = slots
        self._swapper = EffectsSwapper(ops, slots)
        self._current_path = ""  # the current path, for error messages
        self.id = token_hex(8)
        self.files = tuple(changes)
        self._steps, self._folders = split_changes(changes)
        self._unverified_folders: list[FileChange] = []  # could not be verified because a parent was not accessible
        self._parents = ParentDirectories(ops, slots, self._steps, self.id, times)
        with self._translate_errors():
            self._verify()

    def apply(self) -> Mapping[str, FileIdentity]:
        try:
            with self._translate_errors():
                return self._apply()
        except BaseException:
            self.roll_back()  # on any exception, including an interrupt, roll back before it propagates
            raise

    def roll_back(self) -> None:
        started = [step for step in self._steps if step.started]
        left = [step.path for step in reversed(started) if not self._try_revert(step)]
        try:
            self._swapper.restore_directory_modes()
            self._swapper.apply_folder_changes(self._folders, undo=True)
            self._parents.restore()
        except (OSError, ToolError):
            log_swallowed()
            left = left or [self._current_path]
        if left:
            raise RollbackIncomplete(left[0], tuple(left))
        with suppress(ToolError, OSError):  # nothing new is lost if this fails
            self._ops.sync_directories([step.path for step in started])
        for step in started:
            step.started = False

    def clean_up(self, *, renew: Collection[str] = ()) -> None:
        """Keep what was replaced in its slot, where undo needs it."""
        self._touch_files(renew)

    def _touch_files(self, paths: Collection[str]) -> None:
        """Make files with new content newer than anything that was built from the old content."""
        for step in self._steps:
            before, after = step.before, step.after
            if step.path not in paths or not before or not after:
                continue
            if is_placeholder(after.hash):
                continue  # its time is how it is recognized
            if before.kind == after.kind == "file" and before.hash != after.hash:
                with suppress_and_log(OSError, ToolError):
                    directory, name = self._ops.open_parent(step.path)
                    os.utime(name, dir_fd=directory, follow_symlinks=False)

    @contextmanager
    def _translate_errors(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise to_commit_error(error, self._current_path) from error

    def _verify(self) -> None:
        stale: list[str] = []
        closed = any(
            isinstance(change.before, DirectoryMetadata) and not change.before.mode & 0o100 for change in self._folders
        )
        for change in self._folders:
            self._current_path = change.path
            try:
                self._verify_folder(change, 0)
            except (PermissionError, PermissionDenied):
                if not closed:
                    raise
                self._unverified_folders.append(change)
            except Stale:
                stale.append(change.path)
        for step in self._steps:
            self._current_path = step.path
            try:
                self._swapper.verify(step)
            except (PermissionError, PermissionDenied):
                if not closed:
                    raise
                step.unverified = True
            except Stale:
                stale.append(step.path)
        if stale:
            raise StaleBeforeCommit(stale[0], paths=tuple(stale))

    def _verify_folder(self, change: FileChange, extra_mode_bits: int) -> None:
        assert isinstance(change.before, DirectoryMetadata)
        if self._ops.stat_directory(change.path) is None:
            raise Stale(change.path)
        with self._ops.open_proc_path(change.path) as place:
            if not is_before_or_after(place, change.before, change.before, extra_mode_bits):
                raise Stale(change.path)

    def _apply(self) -> Mapping[str, FileIdentity]:
        swapper = self._swapper
        swapper.make_folders_writable(self._folders)
        for change in self._unverified_folders:
            self._current_path = change.path
            self._verify_folder(change, OWNER_RWX)
        for step in self._steps:
            if step.unverified:
                self._current_path = step.path
                swapper.verify(step)
        self._parents.record_before()
        self._slots.release()
        for step in track(self._steps, "files put in place"):
            self._current_path = step.path
            step.started = True
            swapper.swap_in(step)
        swapper.restore_directory_modes()
        self._parents.record_after()
        identities = self._read_identities()
        few = (
            len(self._steps) <= FULL_SYNC_THRESHOLD
            and not self._folders
            and all(is_cheap_to_sync(step) for step in self._steps)
        )
        if few:
            self._sync_each()
        if others := swapper.apply_folder_changes(self._folders, undo=False):
            raise Stale(others[0])
        if not few:
            sync_roots(self._ops, self.files)
        return identities

    def _read_identities(self) -> Mapping[str, FileIdentity]:
        found: dict[str, FileIdentity] = {}
        for step in self._steps:
            self._current_path = step.path
            if step.after and step.after.kind == "file":
                status = self._ops.stat(step.path)
                if status is None:
                    raise Stale(step.path)
                found[step.path] = identity_of(status)
        return found

    def _sync_each(self) -> None:
        for step in self._steps:
            self._current_path = step.path
            if step.after and step.after.kind == "file":
                directory, name = self._ops.open_parent(step.path)
                fd = os.open(name, READ_FLAGS, dir_fd=directory)
                try:
                    self._ops.sync(fd)
                finally:
                    os.close(fd)
        self._ops.sync_directories([step.path for step in self._steps])
        for fd in self._slots.descriptors:
            self._ops.sync(fd)

    def _try_revert(self, step: SwapStep) -> bool:
        for _ in range(3):  # an error may be temporary; each step checks the disk, so retrying is safe
            try:
                if not self._swapper.swap_back(step, deep=False):
                    self._slots.mark_kept()
            except (NotFound, NotDirectory):
                return True  # the directory is gone, with everything of ours
            except (OSError, ToolError):
                log_swallowed()
                continue
            return True
        return False


class ParentDirectories:
    """The parent directories of the changes: their mtimes, and the modes of those that were made writable.

    Includes directories that a command only touched, and those recorded by an earlier commit.
    """

    def __init__(
        self, ops: FileOps, slots: Slots, steps: Sequence[SwapStep], transaction: str, times: Sequence[FolderMtime] = ()
    ) -> None:
        self._ops = ops
        self._slots = slots
        self._steps = steps
        self._transaction = transaction
        self._times = {time.path: time for time in times}
        self._records: dict[int, ParentRecord] = {}  # by the descriptor of a command's folder
        self._unsaved_record = ParentRecord()  # for a command that changed only mtimes, which cannot be undone

    def record_before(self) -> None:
        """Record their state before anything happens."""
        for step in self._steps:
            folder, _ = self._slots.open_folder(step.path, step.slot)
            if folder not in self._records:
                self._records[folder] = note = ParentRecord.read(folder)
                note.transaction, note.now = self._transaction, {}
            parent = os.path.dirname(step.path)
            if parent not in self._records[folder].now:
                found = os.fstat(self._ops.open_parent(step.path)[0])
                self._records[folder].now[parent] = permission_bits(found), found.st_mtime_ns
        noted = {path for note in self._records.values() for path in note.now}
        first = next(iter(self._records.values()), self._unsaved_record)
        for note, paths in ((first, self._times), *((note, note.after) for note in self._records.values())):
            for path in paths:
                if path not in noted and (found := self._stat_directory(path)):
                    note.now[path] = permission_bits(found), found.st_mtime_ns
        for folder, note in self._records.items():
            note.write(folder)

    def record_after(self) -> None:
        """The first time, set the mtimes that the command left. Later, restore the recorded ones, unless somebody else
        changed them since."""
        for path, (_, mtime) in self._unsaved_record.now.items():
            self._set_mtime(path, self._choose_mtime(path, mtime))
        for folder, note in self._records.items():
            if note.after:
                for path in note.now:
                    if (mtime := note.mtime_to_restore(path)) is not None:
                        self._set_mtime(path, mtime)
            else:
                note.before = {path: mtime for path, (_, mtime) in note.now.items()}
                note.after = {
                    path: self._set_mtime(path, self._choose_mtime(path, was)) for path, was in note.before.items()
                }
                note.write(folder)

    def _choose_mtime(self, path: str, now: int) -> int:
        """A directory's mtime after the command. If somebody else changed it too, the later one."""
        if time := self._times.get(path):
            return time.after if now == time.before else max(now, time.after)
        return now  # the command left it unchanged

    def _set_mtime(self, path: str, mtime: int) -> int:
        """Set and return the mtime. A directory that was removed or closed meanwhile is skipped without an error."""
        with suppress_and_log(ToolError):
            directory = self._ops.open_directory(path)
            set_mtime(directory, mtime)
            return os.fstat(directory).st_mtime_ns
        return mtime

    def _stat_directory(self, path: str) -> os.stat_result | None:
        with suppress(NotFound, NotDirectory, PermissionDenied):
            return self._ops.stat_directory(path)
        return None

    def restore(self) -> None:
        """Restore the state from the start of the transaction."""
        for record in (self._unsaved_record, *self._records.values()):
            self._restore_from(record)

    def recover(self) -> None:
        for folder in {self._slots.open_folder(step.path, step.slot)[0] for step in self._steps}:
            record = ParentRecord.read(folder)
            if record.transaction == self._transaction:
                self._restore_from(record)

    def _restore_from(self, record: ParentRecord) -> None:
        for path, (mode, mtime) in record.now.items():
            found = self._stat_directory(path)
            if found is not None:
                if permission_bits(found) == mode | OWNER_RWX != mode:
                    self._ops.chmod_directory(path, mode)
                self._set_mtime(path, mtime)


def recover_slots(ops: FileOps, slots: Slots, incomplete: IncompleteTransaction) -> tuple[str, ...]:
    """Roll back what a dead process began; return the paths that somebody changed since.

    May be killed and run again.
    """
    if incomplete.is_recorded:
        return ()
    steps, folders = split_changes(incomplete.files)
    swapper = EffectsSwapper(ops, slots)
    swapper.make_folders_writable(folders)
    changed: list[str] = []
    failed: ToolError | None = None
    for step in track(steps, "files restored"):
        try:
            if not swapper.swap_back(step, deep=True):
                changed.append(step.path)
        except (NotFound, NotDirectory):
            changed.append(step.path)
        except ContentDropped:  # without its slot it was never moved, or somebody removed the slot
            if not swapper.is_before(step):
                changed.append(step.path)
        except OSError as error:  # continue with the others
            failed = to_commit_error(error, step.path)
        except ToolError as error:
            failed = error
    try:
        swapper.restore_directory_modes()
        with suppress(ContentDropped):
            ParentDirectories(ops, slots, steps, incomplete.transaction).recover()
        changed += swapper.apply_folder_changes(folders, undo=True)
        if folders:
            sync_roots(ops, incomplete.files)
        else:
            ops.sync_directories([step.path for step in steps])
        if changed:
            slots.mark_kept()
    except OSError as error:
        raise to_commit_error(error, incomplete.files[0].path) from error
    if failed:
        raise failed
    return tuple(changed)


def split_changes(changes: Sequence[FileChange]) -> tuple[list[SwapStep], list[FileChange]]:
    """Entries to exchange, and directories that stay."""
    folders = [change for change in changes if isinstance(change.before, DirectoryMetadata)]
    return [
        SwapStep.from_change(change) for change in changes if not isinstance(change.before, DirectoryMetadata)
    ], folders


def sync_roots(ops: FileOps, changes: Sequence[FileChange]) -> None:
    """Sync the file systems of all these changes once, including staging areas."""
    ops.sync_file_systems(os.path.join(ops.find_root(change.path).real, "any") for change in changes)


def is_cheap_to_sync(step: SwapStep) -> bool:
    """Whether it can be made durable without syncing the whole file system."""
    content = step.after
    if content is None or content.kind != "file":
        return content is None or content.kind != "tree"
    return bool(content.mode & 0o400) or os.geteuid() == 0
