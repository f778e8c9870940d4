"""The exchange: what a command changed is put in place, and taken back, by things changing places with their slots.

Nothing is copied: the new thing comes with its inode, times and attributes, and the old one waits in the slot with
its own. The journal names both, so whoever comes later knows by their inodes which lies where.
"""

import os
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from secrets import token_hex

from handhold.core.errors import (
    ContentDropped,
    NotDirectory,
    NotFound,
    Overtaken,
    PermissionRefused,
    Stale,
    ToolError,
    Unfinished,
)
from handhold.core.facts import Identity
from handhold.core.plans import FileChange, Folder, FolderTime, Shelved
from handhold.core.ports import Broken
from handhold.progress import counted
from handhold.world.files.commit.folders import is_between
from handhold.world.files.commit.hands import MANY, Hands, trouble_of
from handhold.world.files.commit.likeness import READ
from handhold.world.files.commit.slots import Note, Slots, mode_of, set_mtime
from handhold.world.files.commit.swaps import Step, Swaps
from handhold.world.files.commit.things import WRITABLE
from handhold.world.files.kinds import identity_of


def exchanged(changes: Sequence[FileChange]) -> bool:
    """Whether these are things that change places; one set is never of both sorts."""
    return any(isinstance(change.before or change.after, Shelved | Folder) for change in changes)


class Exchange:
    """What a command did, verified; nobody else commits while it is open."""

    def __init__(
        self, hands: Hands, slots: Slots, changes: Sequence[FileChange], times: Sequence[FolderTime] = ()
    ) -> None:
        self._hands = hands
        self._slots = slots
        self._swaps = Swaps(hands, slots)
        self._at = ""  # the path that is being worked on, for whoever must be told
        self.id = token_hex(8)
        self.files = tuple(changes)
        self._steps, self._folders = sorts(changes)
        self._unseen: list[FileChange] = []  # folders that could not be verified, as a step may be unseen
        self._around = Around(hands, slots, self._steps, self.id, times)
        with self._named():
            self._verify()

    def perform(self) -> Mapping[str, Identity]:
        try:
            with self._named():
                return self._perform()
        except BaseException:
            self.take_back()  # whatever it was, an interrupt included: the caller hears of it once all is as before
            raise

    def take_back(self) -> None:
        begun = [step for step in self._steps if step.begun]
        left = [step.path for step in reversed(begun) if not self._reverted(step)]
        try:
            self._swaps.close_up()
            self._swaps.set_folders(self._folders, back=True)
            self._around.restore()
        except (OSError, ToolError):
            left = left or [self._at]
        if left:
            raise Unfinished(left[0], tuple(left))
        with suppress(ToolError, OSError):  # nothing new is lost if this fails
            self._hands.sync_directories([step.path for step in begun])
        for step in begun:
            step.begun = False

    def finish(self, *, renew: Collection[str] = ()) -> None:
        """What was replaced stays in its slot: taking back needs it. What had to go for it goes now."""
        self._renew(renew)
        with suppress(OSError, ToolError):
            self._slots.sweep()

    def _renew(self, paths: Collection[str]) -> None:
        """A file that got other contents is younger than whatever was built from the old ones."""
        for step in self._steps:
            before, after = step.before, step.after
            if step.path not in paths or not before or not after:
                continue
            if before.kind == after.kind == "file" and before.hash != after.hash:
                with suppress(OSError, ToolError):
                    directory, name = self._hands.open(step.path)
                    os.utime(name, dir_fd=directory, follow_symlinks=False)

    @contextmanager
    def _named(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise trouble_of(error, self._at) from error

    def _verify(self) -> None:
        stale: list[str] = []
        closed = any(isinstance(change.before, Folder) and not change.before.mode & 0o100 for change in self._folders)
        for change in self._folders:
            self._at = change.path
            try:
                self._verify_folder(change, 0)
            except (PermissionError, PermissionRefused):
                if not closed:
                    raise
                self._unseen.append(change)
            except Stale:
                stale.append(change.path)
        for step in self._steps:
            self._at = step.path
            try:
                self._swaps.verify(step)
            except (PermissionError, PermissionRefused):
                if not closed:
                    raise
                step.unseen = True
            except Stale:
                stale.append(step.path)
        if stale:
            raise Overtaken(stale[0], paths=tuple(stale))

    def _verify_folder(self, change: FileChange, opened: int) -> None:
        assert isinstance(change.before, Folder)
        if self._hands.stat_directory(change.path) is None:
            raise Stale(change.path)
        with self._hands.directory(change.path) as place:
            if not is_between(place, change.before, change.before, opened):
                raise Stale(change.path)

    def _perform(self) -> Mapping[str, Identity]:
        swaps = self._swaps
        swaps.open_folders(self._folders)
        for change in self._unseen:
            self._at = change.path
            self._verify_folder(change, WRITABLE)
        for step in self._steps:
            if step.unseen:
                self._at = step.path
                swaps.verify(step)
        self._around.note()
        self._slots.hand_over()
        for step in counted(self._steps, "files put in place"):
            self._at = step.path
            step.begun = True
            swaps.forth(step)
        swaps.close_up()
        self._around.note_after()
        identities = self._identities()
        few = len(self._steps) <= MANY and not self._folders and all(light(step) for step in self._steps)
        if few:
            self._sync_each()
        if others := swaps.set_folders(self._folders, back=False):
            raise Stale(others[0])
        if not few:
            sync_roots(self._hands, self.files)
        return identities

    def _identities(self) -> Mapping[str, Identity]:
        found: dict[str, Identity] = {}
        for step in self._steps:
            self._at = step.path
            if step.after and step.after.kind == "file":
                status = self._hands.stat(step.path)
                if status is None:
                    raise Stale(step.path)
                found[step.path] = identity_of(status)
        return found

    def _sync_each(self) -> None:
        for step in self._steps:
            self._at = step.path
            if step.after and step.after.kind == "file":
                directory, name = self._hands.open(step.path)
                fd = os.open(name, READ, dir_fd=directory)
                try:
                    self._hands.sync(fd)
                finally:
                    os.close(fd)
        self._hands.sync_directories([step.path for step in self._steps])
        for fd in self._slots.descriptors:
            self._hands.sync(fd)

    def _reverted(self, step: Step) -> bool:
        for _ in range(3):  # an error may pass; each step looks at what is there, so trying again is safe
            try:
                if not self._swaps.back(step, deep=False):
                    self._slots.leave()
            except (NotFound, NotDirectory):
                return True  # the directory went away, and with it all that was ours
            except (OSError, ToolError):
                continue
            return True
        return False


class Around:
    """The directories in which the things stand: their times, and the modes of those that had to be opened.

    With them come directories that a command only touched, and those that the note of an earlier commit names.
    """

    def __init__(
        self, hands: Hands, slots: Slots, steps: Sequence[Step], transaction: str, times: Sequence[FolderTime] = ()
    ) -> None:
        self._hands = hands
        self._slots = slots
        self._steps = steps
        self._transaction = transaction
        self._times = {time.path: time for time in times}
        self._notes: dict[int, Note] = {}  # by the descriptor of a command's folder
        self._unkept = Note()  # for a command that changed nothing but times, which is not taken back

    def note(self) -> None:
        """How they are, before anything happens."""
        for step in self._steps:
            folder, _ = self._slots.folder(step.path, step.slot)
            if folder not in self._notes:
                self._notes[folder] = note = Note.read(folder)
                note.transaction, note.now = self._transaction, {}
            parent = os.path.dirname(step.path)
            if parent not in self._notes[folder].now:
                found = os.fstat(self._hands.open(step.path)[0])
                self._notes[folder].now[parent] = mode_of(found), found.st_mtime_ns
        noted = {path for note in self._notes.values() for path in note.now}
        first = next(iter(self._notes.values()), self._unkept)
        for note, paths in ((first, self._times), *((note, note.after) for note in self._notes.values())):
            for path in paths:
                if path not in noted and (found := self._stat(path)):
                    note.now[path] = mode_of(found), found.st_mtime_ns
        for folder, note in self._notes.items():
            note.write(folder)

    def note_after(self) -> None:
        """The first time each gets the time that the command gave it. Later, each gets its time back, unless somebody
        else changed it since."""
        for path, (_, mtime) in self._unkept.now.items():
            self._set_time(path, self._given(path, mtime))
        for folder, note in self._notes.items():
            if note.after:
                for path in note.now:
                    if (mtime := note.was(path)) is not None:
                        self._set_time(path, mtime)
            else:
                note.before = {path: mtime for path, (_, mtime) in note.now.items()}
                note.after = {path: self._set_time(path, self._given(path, was)) for path, was in note.before.items()}
                note.write(folder)

    def _given(self, path: str, now: int) -> int:
        """The mtime of a directory after the command. Where somebody else changed it too, the later one."""
        if time := self._times.get(path):
            return time.after if now == time.before else max(now, time.after)
        return now  # the command left it, or set it to what it was

    def _set_time(self, path: str, mtime: int) -> int:
        """What it is then: one that somebody took away or closed has none to be set, and that is no failure."""
        with suppress(ToolError):
            directory = self._hands.open_directory(path)
            set_mtime(directory, mtime)
            return os.fstat(directory).st_mtime_ns
        return mtime

    def _stat(self, path: str) -> os.stat_result | None:
        with suppress(NotFound, NotDirectory, PermissionRefused):
            return self._hands.stat_directory(path)
        return None

    def restore(self) -> None:
        """As they were when it began."""
        for note in (self._unkept, *self._notes.values()):
            self._restore(note)

    def recover(self) -> None:
        for folder in {self._slots.folder(step.path, step.slot)[0] for step in self._steps}:
            note = Note.read(folder)
            if note.transaction == self._transaction:
                self._restore(note)

    def _restore(self, note: Note) -> None:
        for path, (mode, mtime) in note.now.items():
            found = self._stat(path)
            if found is not None:
                if mode_of(found) == mode | WRITABLE != mode:
                    self._hands.chmod_directory(path, mode)
                self._set_time(path, mtime)


def restored(hands: Hands, slots: Slots, broken: Broken) -> tuple[str, ...]:
    """Take back what a dead process began; name the paths that somebody changed since.

    It may be killed and run again.
    """
    if broken.settled:
        return ()
    steps, folders = sorts(broken.files)
    swaps = Swaps(hands, slots)
    swaps.open_folders(folders)
    changed: list[str] = []
    failed: ToolError | None = None
    for step in counted(steps, "files taken back"):
        try:
            if not swaps.back(step, deep=True):
                changed.append(step.path)
        except (NotFound, NotDirectory):
            changed.append(step.path)
        except ContentDropped:  # without its slot it never went anywhere, or somebody took the slot away
            if not swaps.is_before(step):
                changed.append(step.path)
        except OSError as error:  # the others need not wait for this one
            failed = trouble_of(error, step.path)
        except ToolError as error:
            failed = error
    try:
        swaps.close_up()
        with suppress(ContentDropped):
            Around(hands, slots, steps, broken.transaction).recover()
        changed += swaps.set_folders(folders, back=True)
        if folders:
            sync_roots(hands, broken.files)
        else:
            hands.sync_directories([step.path for step in steps])
        if changed:
            slots.leave()
    except OSError as error:
        raise trouble_of(error, broken.files[0].path) from error
    if failed:
        raise failed
    return tuple(changed)


def sorts(changes: Sequence[FileChange]) -> tuple[list[Step], list[FileChange]]:
    """Things that change places, and directories that stay."""
    folders = [change for change in changes if isinstance(change.before, Folder)]
    return [Step.of(change) for change in changes if not isinstance(change.before, Folder)], folders


def sync_roots(hands: Hands, changes: Sequence[FileChange]) -> None:
    """One sync for all that these changes are about, shelves included."""
    hands.sync_file_systems(os.path.join(hands.root_of(change.path).real, "any") for change in changes)


def light(step: Step) -> bool:
    """Whether it can be made safe on the disk without a sync of all that lies there."""
    thing = step.after
    if thing is None or thing.kind != "file":
        return thing is None or thing.kind != "tree"
    return bool(thing.mode & 0o400) or os.geteuid() == 0
