"""The commit: the one place where the workspace changes.

A set of changes is verified under a lock, staged beside its targets, and put in place by renames that keep
the old files until the journal knows the outcome; what a command did lies ready in slots, and changes places
with what stands there. How far it came can be told from what lies where: the journal entry is all that recovery
needs to take back what a dead process left.
"""

import fcntl
import os
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from handhold.core.errors import Busy, ReadOnly
from handhold.core.plans import FileChange, FolderTime
from handhold.core.ports import Broken, Contents
from handhold.world.files.commit.exchange import Exchange, exchanged, restored
from handhold.world.files.commit.hands import Hands, Root, Tree
from handhold.world.files.commit.recovery import Repair
from handhold.world.files.commit.slots import Slots
from handhold.world.files.commit.transaction import Commit
from handhold.world.files.trouble import trouble

__all__ = ["Commit", "Committer", "Exchange"]

PATIENCE = 30.0  # seconds to wait for somebody else's commit


class Committer:
    """The changing half of the port Files."""

    def __init__(self, tree: Tree, contents: Contents, *, durable: bool = True, exchange: bool = True) -> None:
        """For tests: `durable=False` leaves syncing to the kernel, `exchange=False` does without RENAME_EXCHANGE."""
        self._tree = tree
        self._contents = contents
        self._durable = durable
        self._exchange = exchange

    @contextmanager
    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderTime] = ()
    ) -> Generator[Commit | Exchange]:
        roots: dict[str, Root] = {}
        for each in (*changes, *times):
            root = self._tree.root_of(each.path)
            if not root.writable:
                raise ReadOnly(each.path)
            roots[root.real] = root
        with held(roots.values()), self._hands() as hands, self._slots() as slots:
            yield Exchange(hands, slots, changes, times) if times or exchanged(changes) else Commit(hands, changes)

    @contextmanager
    def alone(self) -> Generator[None]:
        with held(self._tree.roots_open):
            yield

    def recover(self, broken: Broken) -> tuple[str, ...]:
        for change in broken.files:
            self._tree.root_of(change.path)  # all of it is ours to mend, or we do not begin
        with self._hands() as hands, self._slots() as slots:
            return restored(hands, slots, broken) if exchanged(broken.files) else Repair(hands, broken).run()

    def _slots(self) -> AbstractContextManager[Slots]:
        return Slots(self._tree, self._contents).closing()

    def _hands(self) -> Hands:
        return Hands(self._tree, self._contents, durable=self._durable, exchange=self._exchange)


@contextmanager
def held(roots: Iterable[Root]) -> Generator[None]:
    """Each root's directory locked, by a descriptor of our own: it counts between threads and between processes."""
    deadline = time.monotonic() + PATIENCE
    locked: set[tuple[int, int]] = set()
    with ExitStack() as locks:
        for root in sorted(roots, key=lambda each: each.real):  # one order for all, so that nobody waits in a ring
            try:
                fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root.fd)
                locks.callback(_let_go, fd)
                found = os.fstat(fd)
                if (found.st_dev, found.st_ino) not in locked:
                    _lock(fd, deadline, root)
                    locked.add((found.st_dev, found.st_ino))
            except OSError as error:
                raise trouble(error, root.given) from error
        yield


def _lock(fd: int, deadline: float, root: Root) -> None:
    pause = 0.0005
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(root.given, PATIENCE) from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _let_go(lock: int) -> None:
    with suppress(OSError):  # it is let go all the same
        os.close(lock)
