"""The commit: the only place where the workspace changes.

A change set is verified under a lock, staged next to its targets, and applied by renames that keep the old files until
the journal has recorded the outcome. A command's changes are ready in slots, and are exchanged with what is at their
paths. Progress can be read off the disk: with the journal entry alone, recovery can roll back what a dead process left.
"""

import fcntl
import os
import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress

from handhold.backends.files.commit.effects_transaction import EffectsTransaction, needs_slots, recover_slots
from handhold.backends.files.commit.file_ops import CommitRoot, CommitTree, FileOps
from handhold.backends.files.commit.slots import Slots
from handhold.backends.files.commit.write_recovery import WriteRecovery
from handhold.backends.files.commit.write_transaction import WriteTransaction
from handhold.backends.files.os_errors import to_tool_error
from handhold.core.errors import Busy, ReadOnly
from handhold.core.plans import FileChange, FolderMtime
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.journal import IncompleteTransaction

__all__ = ["WriteTransaction", "Committer", "EffectsTransaction"]

LOCK_TIMEOUT_SECONDS = 30.0  # to wait for another commit


class Committer:
    """The writing half of the port Files."""

    def __init__(
        self, tree: CommitTree, contents: ContentStore, *, durable: bool = True, exchange: bool = True
    ) -> None:
        """For tests: `durable=False` leaves syncing to the kernel, `exchange=False` does without RENAME_EXCHANGE."""
        self._tree = tree
        self._contents = contents
        self._durable = durable
        self._exchange = exchange

    @contextmanager
    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> Generator[WriteTransaction | EffectsTransaction]:
        roots: dict[str, CommitRoot] = {}
        for each in (*changes, *times):
            root = self._tree.find_root(each.path)
            if not root.writable:
                raise ReadOnly(each.path)
            roots[root.real] = root
        with lock_roots(roots.values()), self._open_file_ops() as ops, self._open_slots() as slots:
            yield (
                EffectsTransaction(ops, slots, changes, times)
                if times or needs_slots(changes)
                else WriteTransaction(ops, changes)
            )

    @contextmanager
    def exclusive(self) -> Generator[None]:
        with lock_roots(self._tree.open_roots):
            yield

    def recover(self, incomplete: IncompleteTransaction) -> tuple[str, ...]:
        for change in incomplete.files:
            self._tree.find_root(change.path)  # if we cannot roll back all of it, we do not begin
        with self._open_file_ops() as ops, self._open_slots() as slots:
            return (
                recover_slots(ops, slots, incomplete)
                if needs_slots(incomplete.files)
                else WriteRecovery(ops, incomplete).run()
            )

    def _open_slots(self) -> AbstractContextManager[Slots]:
        return Slots(self._tree, self._contents).close_on_exit()

    def _open_file_ops(self) -> FileOps:
        return FileOps(self._tree, self._contents, durable=self._durable, exchange=self._exchange)


@contextmanager
def lock_roots(roots: Iterable[CommitRoot]) -> Generator[None]:
    """Lock each root's directory by a new descriptor, so that it excludes other threads and other processes."""
    deadline = time.monotonic() + LOCK_TIMEOUT_SECONDS
    locked: set[tuple[int, int]] = set()
    with ExitStack() as locks:
        for root in sorted(roots, key=lambda each: each.real):  # one order for all, to avoid deadlocks
            try:
                with root.folder as folder:
                    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
                locks.callback(_close_lock, fd)
                found = os.fstat(fd)
                if (found.st_dev, found.st_ino) not in locked:
                    _lock(fd, deadline, root)
                    locked.add((found.st_dev, found.st_ino))
            except OSError as error:
                raise to_tool_error(error, root.given) from error
        yield


def _lock(fd: int, deadline: float, root: CommitRoot) -> None:
    pause = 0.0005
    while True:
        try:
            return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise Busy(root.given, LOCK_TIMEOUT_SECONDS) from None
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def _close_lock(fd: int) -> None:
    with suppress(OSError):  # closing releases it too, unless a process that was forked meanwhile has the descriptor
        fcntl.flock(fd, fcntl.LOCK_UN)
    with suppress(OSError):  # nothing was written through it
        os.close(fd)
