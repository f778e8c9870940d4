"""Two things that change places: what stands at a path, and what lies in its slot.

Where the file system exchanges names, that is one step. Where it does not, or does not give a thing away (a directory
of an image layer below an overlay answers EXDEV), the old thing goes aside first, as `<slot>.old`. Whoever finds
things half way tells by their inodes which is which, so that going back works from every state, again and again.
(Without NOREPLACE a thing on its way has two names for a moment, and one of them is dropped.)
"""

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from handhold.core.errors import ContentDropped, NotDirectory, NotFound, Stale
from handhold.core.plans import FileChange, Folder, Shelved
from handhold.world.files.commit.copies import copy_tree
from handhold.world.files.commit.folders import is_between, set_folder
from handhold.world.files.commit.hands import Hands, chmod_at
from handhold.world.files.commit.likeness import file_of, stat_of
from handhold.world.files.commit.slots import Slots, mode_of
from handhold.world.files.commit.things import WRITABLE, is_thing, lies, stands
from handhold.world.files.shelf import remove_tree

OLD = ".old"  # after a slot's name: the old thing, whole, on its way to the slot or back
PART = ".part"  # a copy of it, not yet whole

Which = Literal["old", "new", "other"]


@dataclass(slots=True)
class Step:
    """One thing and another, one of which may be none."""

    path: str
    before: Shelved | None
    after: Shelved | None
    slot: str
    unseen: bool = False  # it could not be verified, because a directory above was closed
    begun: bool = False  # something may have to be taken back

    @classmethod
    def of(cls, change: FileChange) -> "Step":
        before, after = change.before, change.after
        assert before is None or isinstance(before, Shelved)
        assert after is None or isinstance(after, Shelved)
        thing = after or before
        assert thing is not None
        return cls(change.path, before, after, thing.slot)


class Swaps:
    """Exchanges steps forth and back. Directories that may not be written are opened, until `close_up`."""

    def __init__(self, hands: Hands, slots: Slots) -> None:
        self._hands = hands
        self._slots = slots
        self.opened: dict[str, int] = {}  # directories and the modes they had

    # --- forth

    def verify(self, step: Step) -> None:
        """Stale unless the path is its `before`; ContentDropped unless the new thing lies in the slot."""
        try:
            there_still = self.is_before(step)
        except (NotFound, NotDirectory):
            there_still = False
        if not there_still:
            raise Stale(step.path)
        folder, slot = self._slots.folder(step.path, step.slot)
        there = stat_of(folder, slot)
        if step.after is None:
            if there is not None:
                raise Stale(step.path)
        elif not lies(folder, slot, step.after):
            raise ContentDropped((step.path,))

    def is_before(self, step: Step) -> bool:
        directory, name = self._hands.open(step.path)
        if step.before is None:
            return stat_of(directory, name) is None
        return stands(directory, name, step.before)

    def forth(self, step: Step) -> None:
        """Stale if somebody got in between: that is found in what came out."""
        directory, name = self._hands.open(step.path)
        folder, slot = self._slots.folder(step.path, step.slot)
        try:
            try:
                self._forth(step, directory, name, folder, slot)
            except PermissionError:
                if not self._open_up(step):
                    raise
                self._back(step, self._which(directory, name, step), directory, name, folder, slot)
                self._forth(step, directory, name, folder, slot)
                self._settle_modes(step)
        except (FileExistsError, FileNotFoundError):
            raise Stale(step.path) from None
        if step.before is not None and not lies(folder, slot, step.before):
            raise Stale(step.path)

    def _forth(self, step: Step, directory: int, name: str, folder: int, slot: str) -> None:
        hands = self._hands
        if step.before is None:
            return hands.move(folder, slot, name, into=directory)
        try:
            if step.after is None:
                return hands.move(directory, name, slot, into=folder)
            if hands.swap(directory, name, slot, into=folder):
                return None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        self._aside(directory, name, folder, slot)
        if step.after is not None:
            hands.move(folder, slot, name, into=directory)
        return hands.move(folder, slot + OLD, slot)

    def _aside(self, directory: int, name: str, folder: int, slot: str) -> None:
        try:
            return self._hands.move(directory, name, slot + OLD, into=folder)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
        copy_tree(directory, name, folder, slot + PART)
        self._hands.move(folder, slot + PART, slot + OLD)
        return remove_tree(name, directory)

    # --- back

    def back(self, step: Step, *, deep: bool) -> bool:
        """Whether the path is its `before` again. What somebody else put there stays.

        `deep` looks through a whole tree before it moves it: time has passed, and somebody may have worked in it.
        """
        directory, name = self._hands.open(step.path)
        folder, slot = self._slots.folder(step.path, step.slot)
        if stat_of(folder, slot + PART) is not None:
            remove_tree(slot + PART, folder)
        self._settle_modes(step)
        here = self._which(directory, name, step, deep=deep)
        try:
            return self._back(step, here, directory, name, folder, slot)
        except PermissionError:
            if not self._open_up(step):
                raise
        done = self._back(step, here, directory, name, folder, slot)
        self._settle_modes(step)
        return done

    def _back(self, step: Step, here: Which | None, directory: int, name: str, folder: int, slot: str) -> bool:
        hands = self._hands
        there, aside = stat_of(folder, slot), stat_of(folder, slot + OLD)
        if there and aside and file_of(there) == file_of(aside):
            os.unlink(slot + OLD, dir_fd=folder)
            aside = None
        if aside is not None:
            if here == "new":
                self._into_slot(directory, name, folder, slot)
            elif here == "old":
                remove_tree(name, directory)  # what is left of it: the whole of it lies aside
            return here != "other" and self._returned(directory, name, folder, slot + OLD)
        if here == "new":
            if step.before is None:
                self._into_slot(directory, name, folder, slot)
            elif there is None:
                return False
            elif not hands.swap(directory, name, slot, into=folder):
                hands.move(folder, slot, slot + OLD)
                self._into_slot(directory, name, folder, slot)
                hands.move(folder, slot + OLD, name, into=directory)
            return True
        if here is None:
            if step.before is None:
                return True
            wanted = step.after is None or self._which(folder, slot, step) != "new"
            return there is not None and wanted and self._returned(directory, name, folder, slot)
        if there is not None and file_of(there) == file_of(os.stat(name, dir_fd=directory, follow_symlinks=False)):
            os.unlink(slot, dir_fd=folder)  # a second name, which it got on its way out
        return here == "old"

    def _into_slot(self, directory: int, name: str, folder: int, slot: str) -> None:
        here, there = stat_of(directory, name), stat_of(folder, slot)
        if here and there and file_of(here) == file_of(there):
            os.unlink(name, dir_fd=directory)
        else:
            self._hands.move(directory, name, slot, into=folder)

    def _returned(self, directory: int, name: str, folder: int, slot: str) -> bool:
        try:
            self._hands.move(folder, slot, name, into=directory)
        except FileExistsError:
            return False
        return True

    def _which(self, directory: int, name: str, step: Step, *, deep: bool = False) -> Which | None:
        found = stat_of(directory, name)
        if found is None:
            return None
        sides: tuple[tuple[Which, Shelved | None], ...] = (("old", step.before), ("new", step.after))
        for which, thing in sides:
            if thing is not None and file_of(found) == thing.inode:
                if not is_thing(found, thing) or (
                    deep and which == "new" and thing.kind == "tree" and not stands(directory, name, thing)
                ):
                    return "other"
                return which
        for which, thing in sides:
            if thing is not None and stands(directory, name, thing):
                return which
        return "other"

    # --- leave to move

    def _open_up(self, step: Step) -> bool:
        """Where we may not, but could allow ourselves to: do that. Whether there was anything to allow."""
        directory, _ = self._hands.open(step.path)
        found = os.fstat(directory)
        opened = False
        if found.st_uid == os.geteuid() and mode_of(found) & WRITABLE != WRITABLE:
            self.opened.setdefault(os.path.dirname(step.path), mode_of(found))
            os.fchmod(directory, mode_of(found) | WRITABLE)
            opened = True
        for fd, at, there, tree in self._trees(step):
            if there.st_uid == os.geteuid() and mode_of(there) & WRITABLE != WRITABLE:
                chmod_at(fd, at, tree.mode | WRITABLE)
                opened = True
        return opened

    def _settle_modes(self, step: Step) -> None:
        for fd, at, there, tree in self._trees(step):
            if mode_of(there) != tree.mode:
                chmod_at(fd, at, tree.mode)

    def _trees(self, step: Step) -> Iterator[tuple[int, str, os.stat_result, Shelved]]:
        """Those of the two things that are trees, wherever they lie now."""
        trees = [thing for thing in (step.before, step.after) if thing is not None and thing.kind == "tree"]
        if trees:
            folder, slot = self._slots.folder(step.path, step.slot)
            directory, name = self._hands.open(step.path)
            for fd, at in ((directory, name), (folder, slot), (folder, slot + OLD)):
                there = stat_of(fd, at)
                for tree in trees:
                    if there is not None and is_thing(there, tree):
                        yield fd, at, there, tree

    def close_up(self) -> None:
        while self.opened:
            path, mode = next(iter(self.opened.items()))
            self._hands.chmod_directory(path, mode)
            del self.opened[path]

    # --- directories that stay

    def open_folders(self, changes: list[FileChange]) -> None:
        """So that what is in them can be reached."""
        for change in sorted(changes, key=lambda each: each.path):
            found = self._hands.stat_directory(change.path)
            if found and found.st_uid == os.geteuid() != 0 and mode_of(found) & WRITABLE != WRITABLE:
                self._hands.chmod_directory(change.path, mode_of(found) | WRITABLE)

    def set_folders(self, changes: list[FileChange], *, back: bool) -> list[str]:
        """Give them what is new about them, or back what was; name those that somebody else changed."""
        others: list[str] = []
        for change in sorted(changes, key=lambda each: each.path, reverse=True):
            assert isinstance(change.before, Folder)
            assert isinstance(change.after, Folder)
            if self._hands.stat_directory(change.path) is None:
                others.append(change.path)
                continue
            with self._hands.directory(change.path) as place:
                if is_between(place, change.before, change.after, WRITABLE):
                    set_folder(place, change.before if back else change.after)
                else:
                    others.append(change.path)
        return others
