"""What a dead process left: told from its journal entry and from what lies on the disk, and taken back."""

import os
from dataclasses import dataclass

from handhold.core.errors import NotDirectory, NotFound, ToolError
from handhold.core.plans import Directory, FileChange
from handhold.core.ports import Broken
from handhold.progress import counted
from handhold.world.files.commit.hands import Hands, clear_up, second_name, temp_name, trouble_of
from handhold.world.files.commit.likeness import bytes_at, file_of, fingerprint


class Repair:
    """Takes back a transaction from its journal entry and what lies on the disk.

    Every step leaves a state that a next run understands, so it may be killed and run again.
    """

    def __init__(self, hands: Hands, broken: Broken) -> None:
        self._hands = hands
        self._broken = broken

    def run(self) -> tuple[str, ...]:
        if self._broken.settled:
            clear_up(self._hands, self._broken.transaction, self._broken.files)
            return ()
        return self._take_back()

    def _take_back(self) -> tuple[str, ...]:
        changed: list[str] = []
        failed: ToolError | None = None
        for index, change in counted(list(enumerate(self._broken.files))[::-1], "files taken back"):
            try:
                if not self._back(change, temp_name(self._broken.transaction, index)):
                    changed.append(change.path)
            except OSError as error:  # the others need not wait for this one
                failed = trouble_of(error, change.path)
        if failed:
            raise failed
        try:
            self._hands.sync_directories([change.path for change in self._broken.files])
        except OSError as error:
            raise trouble_of(error, self._broken.files[0].path) from error
        return tuple(reversed(changed))

    def _back(self, change: FileChange, temp: str) -> bool:
        if isinstance(change.before, Directory):
            return True  # it goes only once all is settled
        if isinstance(change.after, Directory):
            self._hands.remove_directory(change.path)
            return True
        try:
            directory, name = self._hands.open(change.path)
        except (NotFound, NotDirectory):
            return change.before is None
        return self._restore(change, directory, name, temp)

    def _restore(self, change: FileChange, directory: int, name: str, temp: str) -> bool:
        """Whether the path is its `before` again. What somebody else put there stays."""
        target, aside = There.at(directory, name), There.at(directory, temp)
        if change.before is None:
            assert change.after is not None
            # While the staged file lies there, a file under the target's name is somebody else's.
            if target and target.hash == change.after.hash and (aside is None or aside.file == target.file):
                os.unlink(name, dir_fd=directory)
                target = None
            self._hands.clear(change.path, temp)
            return target is None
        if change.after is None:
            if aside and target is None:
                self._hands.move(directory, temp, name)
                target, aside = aside, None
            if aside and aside.hash == change.before.hash:
                self._hands.clear(change.path, temp)
            return target is not None and target.hash == change.before.hash
        return self._restore_replaced(change, directory, name, temp, target, aside)

    def _restore_replaced(
        self,
        change: FileChange,
        directory: int,
        name: str,
        temp: str,
        target: "There | None",
        aside: "There | None",
    ) -> bool:
        assert change.before is not None
        assert change.after is not None
        hands, old = self._hands, second_name(temp)
        known = aside is None or self._known(aside, change, directory, temp)
        came_out = aside is not None and (aside.hash == change.before.hash or not known)
        if (
            target
            and target.hash == change.after.hash
            and (came_out or There.at(directory, old))
            and hands.put_back(directory, name, temp, old, target.file)
        ):
            target, known = There.at(directory, name), True
        if target and target.hash not in ("", change.before.hash) and hands.restore(change, directory, name):
            target = There.at(directory, name)
        back = target is not None and target.hash == change.before.hash
        if known or back:
            hands.clear(change.path, temp, old)
        return back

    def _known(self, aside: "There", change: FileChange, directory: int, temp: str) -> bool:
        """Whether a file aside is the old one or the beginning of the new one; else it is somebody else's work."""
        assert change.before is not None
        assert change.after is not None
        if aside.hash in (change.before.hash, change.after.hash):
            return True
        after = self._hands.find(change.after)
        return after is not None and aside.size < len(after) and after.startswith(bytes_at(directory, temp))


@dataclass(frozen=True)
class There:
    """What stands under a name. Only a regular file has a hash."""

    file: tuple[int, int]
    size: int
    hash: str

    @classmethod
    def at(cls, directory: int, name: str) -> "There | None":
        found, hash = fingerprint(directory, name)
        return None if found is None else cls(file_of(found), found.st_size, hash)
