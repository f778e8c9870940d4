"""One set of changes: verified when it is opened, staged, put in place, and taken back if anything fails."""

import os
import stat
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from secrets import token_hex

from handhold.core.errors import IsDirectory, NotDirectory, NotFound, Stale, ToolError, Unfinished
from handhold.core.facts import Identity
from handhold.core.plans import Directory, FileChange
from handhold.progress import counted
from handhold.world.files.commit.hands import (
    MANY,
    STAGE,
    WRITE,
    Hands,
    clear_up,
    second_name,
    temp_name,
    trouble_of,
)
from handhold.world.files.commit.likeness import READ, carry, file_of, hash_of, is_same
from handhold.world.files.commit.system import CAN_SYNC_ALL
from handhold.world.files.kinds import identity_of


@dataclass(slots=True)
class Step:
    """One change and how far it has come. What was done is looked up on the disk, not remembered."""

    change: FileChange
    temp: str = ""  # beside the target: first the new file, then, once exchanged, the old one
    was: Identity | None = None  # the file as it was verified
    staged: tuple[int, int] | None = None  # device and inode of the new file
    in_place: bool = False
    begun: bool = False  # something may have to be taken back
    overwritten: bool = False  # in place, perhaps not to the end

    @property
    def old(self) -> str:
        """A second name of the old file, where names cannot be exchanged."""
        return second_name(self.temp)


class Commit:
    """A set of changes, verified; nobody else commits while it is open."""

    def __init__(self, hands: Hands, changes: Sequence[FileChange]) -> None:
        self._hands = hands
        self._at = ""  # the path that is being worked on, for whoever must be told
        self.id = token_hex(8)
        with self._named():
            self._steps = self._verify(changes)
        for index, step in enumerate(self._steps):
            step.temp = temp_name(self.id, index)
        self.files = tuple(step.change for step in self._steps)

    def perform(self) -> Mapping[str, Identity]:
        try:
            with self._named():
                return self._perform()
        except BaseException:
            self.take_back()  # whatever it was, an interrupt included: the caller hears of it once all is as before
            raise

    def take_back(self) -> None:
        begun = [step for step in self._steps if step.begun]
        left = [step.change.path for step in reversed(begun) if not self._reverted(step)]
        if left:
            raise Unfinished(left[0], tuple(left))
        with suppress(ToolError, OSError):  # nothing new is lost if this fails
            self._hands.sync_directories([step.change.path for step in begun])
        for step in begun:
            step.begun = False

    def finish(self, *, renew: Collection[str] = ()) -> None:
        # Every file that it wrote is new anyway.
        # Not synced: until the journal's own note of it is on the disk, recovery does this again.
        clear_up(self._hands, self.id, self.files)

    @contextmanager
    def _named(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise trouble_of(error, self._at) from error

    # --- before

    def _verify(self, changes: Sequence[FileChange]) -> list[Step]:
        """Each path is its `before`, else Stale. Directories to be made come first, those to be removed last."""
        hands = self._hands
        made: dict[str, FileChange] = {}
        there: set[str] = set()
        files: list[Step] = []
        removed: list[FileChange] = []
        for change in changes:
            if change.before is None and isinstance(change.after, Directory) and hands.stat(change.path) is None:
                made[change.path] = change
        for change in changes:
            self._at = change.path
            match change.before, change.after:
                case None, None:
                    continue
                case None, after:
                    found = None if self._parents(change.path, there, made) else hands.stat(change.path)
                    if isinstance(after, Directory):
                        if found is not None and not stat.S_ISDIR(found.st_mode):
                            raise Stale(change.path)
                    elif found is not None:
                        raise Stale(change.path, now=hands.fingerprint(change.path)[1])
                    else:
                        files.append(Step(change))
                case Directory(), after:
                    if after is not None and not isinstance(after, Directory):
                        raise IsDirectory(change.path)
                    found = hands.stat(change.path)
                    if found is None and after is None:
                        continue
                    if found is None or not stat.S_ISDIR(found.st_mode):
                        raise Stale(change.path)
                    if after is None:
                        removed.append(with_mode(change, found))
                case before, after:
                    if isinstance(after, Directory):
                        raise NotDirectory(change.path)
                    found, hash = hands.fingerprint(change.path)
                    if found is None or hash != before.hash:
                        raise Stale(change.path, now=hash)
                    if after is None:
                        files.append(Step(with_mode(change, found), was=identity_of(found)))
                    elif after.hash != before.hash:
                        files.append(Step(change, was=identity_of(found)))
        return [
            *(Step(made[path]) for path in sorted(made)),
            *files,
            *(Step(change) for change in sorted(removed, key=lambda each: each.path, reverse=True)),
        ]

    def _parents(self, path: str, there: set[str], made: dict[str, FileChange]) -> bool:
        """Whether a directory above has yet to be made; those that nobody planned are added."""
        missing = False
        while (parent := os.path.dirname(path)) not in there:
            if parent not in made:
                if self._hands.is_directory(parent, above=self._at):
                    there.add(parent)
                    break
                made[parent] = FileChange(parent, None, Directory())
            missing = True
            path = parent
        return missing

    # --- forth

    def _perform(self) -> Mapping[str, Identity]:
        hands = self._hands
        touched: dict[str, str] = {}  # directory → a path in it
        for step in self._steps:
            change, self._at = step.change, step.change.path
            if isinstance(change.after, Directory):
                step.begun = hands.make_directory(change.path)
                touched[os.path.dirname(change.path)] = change.path
        files = [step for step in self._steps if not isinstance(step.change.before or step.change.after, Directory)]
        staged = [step for step in files if step.change.after is not None]
        one_by_one = len(staged) <= MANY or not CAN_SYNC_ALL
        for step in counted(staged, "files written"):
            self._at = step.change.path
            self._stage(step, sync=one_by_one)
        if not one_by_one:
            hands.sync_file_systems(step.change.path for step in staged)
        for step in counted(files, "files put in place"):
            change, self._at = step.change, step.change.path
            if not step.in_place:
                self._rename(step)
                touched[os.path.dirname(change.path)] = change.path
        for step in staged:  # some of them found out only now that they cannot be renamed
            self._at = step.change.path
            if step.in_place:
                self._write_in_place(step)
        for step in self._steps:  # not before: nothing could be made in a directory that must not be written
            change, self._at = step.change, step.change.path
            if step.begun and isinstance(change.after, Directory) and change.mode is not None:
                os.fchmod(hands.open_directory(change.path), change.mode)
        hands.sync_directories(touched.values())
        return {step.change.path: self._written(step) for step in staged}

    def _stage(self, step: Step, *, sync: bool) -> None:
        change, hands = step.change, self._hands
        assert change.after is not None
        data = hands.content(change.after, change.path)
        directory, name = hands.open(change.path)
        step.begun = True
        if change.before is None:
            # Unless the mode is known, umask and default ACL do what they do.
            fd = os.open(step.temp, STAGE, 0o666 if change.mode is None else 0o600, dir_fd=directory)
            try:
                step.staged = file_of(os.fstat(fd))
                hands.write(fd, data)
                if change.mode is not None:
                    os.fchmod(fd, change.mode)
                hands.sync(fd, wanted=sync)
            finally:
                os.close(fd)
            return
        old = os.open(name, READ, dir_fd=directory)
        try:
            found = os.fstat(old)
            if identity_of(found) != step.was:
                raise Stale(change.path)
            if found.st_nlink > 1 or not self._stage_like(step, old, found, data, sync=sync):
                step.in_place = True
                hands.content(change.before, change.path)  # what was must be at hand before it is overwritten
                os.close(os.open(name, WRITE, dir_fd=directory))
        finally:
            os.close(old)

    def _stage_like(self, step: Step, old: int, found: os.stat_result, data: bytes, *, sync: bool) -> bool:
        """A new file with the old one's owner, attributes and mode; False if we cannot make such a file here."""
        directory, _ = self._hands.open(step.change.path)
        try:
            fd = os.open(step.temp, STAGE, 0o600, dir_fd=directory)
        except PermissionError:
            return False
        try:
            step.staged = file_of(os.fstat(fd))
            self._hands.write(fd, data)
            if not carry(old, fd, found):  # after the writing, which would take setuid away again
                os.unlink(step.temp, dir_fd=directory)
                step.staged = None
                return False
            self._hands.sync(fd, wanted=sync)
        finally:
            os.close(fd)
        return True

    def _rename(self, step: Step) -> None:
        """The one moment in which a path changes. Whoever got in between is found in what came out."""
        change, hands = step.change, self._hands
        directory, name = hands.open(change.path)
        if change.before is None:
            try:
                return hands.move(directory, step.temp, name)
            except FileExistsError:
                raise Stale(change.path) from None
        assert step.was is not None
        try:
            must_be_untouched(os.stat(name, dir_fd=directory, follow_symlinks=False), step.was, change.path)
            if change.after is None:
                step.begun = True
                hands.move(directory, name, step.temp)
                return must_be_same(os.stat(step.temp, dir_fd=directory, follow_symlinks=False), step.was, change.path)
            if hands.swap(directory, step.temp, name):
                return must_be_same(os.stat(step.temp, dir_fd=directory, follow_symlinks=False), step.was, change.path)
            if hands.link(directory, name, step.old):
                must_be_same(os.stat(step.old, dir_fd=directory, follow_symlinks=False), step.was, change.path)
            else:
                hands.content(change.before, change.path)  # nothing is kept aside: taking back would write it anew
            os.rename(step.temp, name, src_dir_fd=directory, dst_dir_fd=directory)
        except FileNotFoundError:
            raise Stale(change.path) from None
        except PermissionError:
            # A sticky directory: the file may be written and not replaced. If it may not, opening it says so.
            if change.after is None:
                raise
            hands.clear(change.path, step.temp, step.old)
            hands.content(change.before, change.path)
            os.close(os.open(name, WRITE, dir_fd=directory))
            step.in_place = True

    def _write_in_place(self, step: Step) -> None:
        change, hands = step.change, self._hands
        assert change.before is not None
        assert change.after is not None
        data = hands.content(change.after, change.path)
        directory, name = hands.open(change.path)
        try:
            fd = os.open(name, WRITE, dir_fd=directory)
        except FileNotFoundError:
            raise Stale(change.path) from None
        try:
            found = os.fstat(fd)
            step.staged = file_of(found)
            hash = hash_of(fd, found.st_size)
            if hash == change.after.hash:  # another name of a file that was written a moment ago
                return
            if hash != change.before.hash:
                raise Stale(change.path, now=hash)
            step.overwritten = True
            hands.overwrite(fd, data)
        finally:
            os.close(fd)

    def _written(self, step: Step) -> Identity:
        self._at = step.change.path
        found = self._hands.stat(self._at)
        if found is None or file_of(found) != step.staged:
            raise Stale(self._at)
        return identity_of(found)

    # --- back

    def _reverted(self, step: Step) -> bool:
        for _ in range(3):  # an error may pass; each step looks at what is there, so trying again is safe
            try:
                self._revert_step(step)
            except NotFound:
                return True  # the directory went away, and with it all that was ours
            except (OSError, ToolError):
                continue
            return True
        return False

    def _revert_step(self, step: Step) -> None:
        change, hands = step.change, self._hands
        if isinstance(change.after, Directory):
            return hands.remove_directory(change.path)
        directory, name = hands.open(change.path)
        if change.after is None:
            return hands.move_back(directory, step.temp, name, ours=lambda found: is_same(found, step.was))
        if step.overwritten:
            hands.restore(change, directory, name)
        if step.in_place:
            return None
        found = hands.stat(change.path)
        if found is not None and file_of(found) == step.staged:
            if change.before is None:
                os.unlink(name, dir_fd=directory)
            elif not hands.put_back(directory, name, step.temp, step.old, file_of(found)):
                hands.restore(change, directory, name)
        hands.clear(change.path, step.temp, step.old)
        return None


def must_be_same(found: os.stat_result, was: Identity, path: str) -> None:
    if not is_same(found, was):
        raise Stale(path)


def must_be_untouched(found: os.stat_result, was: Identity, path: str) -> None:
    # Moving one name of a file changes the time of all its names: with several, that time tells nothing.
    if not is_same(found, was) or (found.st_nlink == 1 and found.st_ctime_ns != was.ctime_ns):
        raise Stale(path)


def with_mode(change: FileChange, found: os.stat_result) -> FileChange:
    return FileChange(change.path, change.before, change.after, stat.S_IMODE(found.st_mode))
