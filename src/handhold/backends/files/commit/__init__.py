"""The commit: the only place where the workspace changes.

A change set is verified under a lock, staged next to its targets, and applied by renames that keep the old files until
the journal has recorded the outcome. A command's changes are ready in slots, and are exchanged with what is at their
paths. Progress can be read off the disk: with the journal entry alone, recovery can roll back what a dead process left.
"""

import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial

from handhold.backends.files.commit.effects_transaction import EffectsTransaction, needs_slots, recover_slots
from handhold.backends.files.commit.file_ops import CommitRoot, CommitTree, FileOps
from handhold.backends.files.commit.slots import Slots, remove_dropped
from handhold.backends.files.commit.write_recovery import WriteRecovery
from handhold.backends.files.commit.write_transaction import WriteTransaction
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.state.lock import QueuedLock
from handhold.core.errors import ReadOnly, ToolError
from handhold.core.plans import FileChange, FolderMtime
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.journal import IncompleteTransaction
from handhold.logs import suppress_and_log

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
        with suppress_and_log(OSError, ToolError):
            remove_dropped(self._tree, self._contents, changes)

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
        return Slots(self._tree).close_on_exit()

    def _open_file_ops(self) -> FileOps:
        return FileOps(self._tree, self._contents, durable=self._durable, exchange=self._exchange)


@contextmanager
def lock_roots(roots: Iterable[CommitRoot]) -> Generator[None]:
    """Lock each root's directory by a new descriptor, so that it excludes other threads and other processes."""
    locked: set[tuple[int, int]] = set()
    with ExitStack() as locks:
        for root in sorted(roots, key=lambda each: each.real):  # one order for all, to avoid deadlocks
            with translate_os_errors(root.given), root.folder as folder:
                found = os.fstat(folder)
            if (key := (found.st_dev, found.st_ino)) not in locked:
                locks.enter_context(QueuedLock(root.given, partial(_open_lock, root), "", LOCK_TIMEOUT_SECONDS))
                locked.add(key)
        yield


def _open_lock(root: CommitRoot) -> int:
    with translate_os_errors(root.given), root.folder as folder:
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
