"""The forks of a workspace on disk: made, found and removed in one folder of its state."""

import errno
import fcntl
import os
import re
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import LIST_FLAGS, remove_tree
from handhold.backends.forks.copies import copy_root
from handhold.backends.forks.fork_folder import NO_SUCH_FORK, ForkFolder, ForkInfo
from handhold.backends.shell.overlay import copy_root_metadata
from handhold.backends.state.state_folder import FORK_FILE, ensure_private_folder
from handhold.core.errors import ForkUnavailable
from handhold.logs import suppress_and_log

# Merging names refs after a fork, so the rule of `git check-ref-format` applies too: no "..", no end in "." or ".lock".
FORK_NAME = re.compile(r"(?!.*(?:\.\.|\.lock\Z|\.\Z))[A-Za-z0-9][\w.-]{0,63}", re.ASCII)
FORKS_FOLDER = "forks"  # in the state folder
TEMPORARY_PREFIX = ".temporary-"  # of a fork that is being made or removed


class ForkStore:
    """The forks of a workspace."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.folder = state / FORKS_FOLDER

    def __iter__(self) -> Iterator[ForkFolder]:
        """Every fork, the oldest first."""
        found: list[tuple[float, ForkFolder]] = []
        names: list[str] = []
        with suppress(FileNotFoundError):
            names = os.listdir(self.folder)
        for each in (ForkFolder(self.folder / name) for name in sorted(names) if not name.startswith(".")):
            with suppress_and_log(ForkUnavailable):  # dropped just now
                found.append((each.info.created, each))
        return (each for _, each in sorted(found, key=lambda pair: pair[0]))

    def get(self, name: str) -> ForkFolder:
        """ForkUnavailable if there is none of that name."""
        forks = {each.name: each for each in self}
        if name not in forks:
            known = ", ".join(forks)
            raise ForkUnavailable(name, f"{NO_SUCH_FORK}; there are {known}" if known else "there are no forks")
        return forks[name]

    def create(self, name: str, roots: Sequence[Root], copy_since_ns: int | None = None) -> ForkFolder:
        """A new fork of these folders. It appears at once, complete. With `copy_since_ns`, the time now, by copying."""
        temporary = ForkFolder(self.folder / f"{TEMPORARY_PREFIX}{token_hex(8)}")
        fork = ForkFolder(self.folder / name)
        with translate_os_errors(str(self.folder)), self._exclusive(), ExitStack() as undo:
            self.sweep()
            ensure_private_folder(temporary.folder)
            undo.callback(_remove, self.folder, temporary.name)
            for n, root in enumerate(roots):
                if copy_since_ns:
                    ensure_private_folder(Path(temporary.upper(n)).parent)
                    copy_root(root.real, temporary.upper(n), temporary.manifest(n), copy_since_ns)
                    continue
                ensure_private_folder(Path(temporary.upper(n)))
                ensure_private_folder(Path(temporary.work(n)))
                copy_root_metadata(temporary.upper(n), root)
            ensure_private_folder(temporary.inner_state)
            (temporary.inner_state / FORK_FILE).write_bytes(os.fsencode(name) + b"\n")
            reals = tuple(root.real for root in roots)
            modes = tuple(map(temporary.read_mode, range(len(roots))))
            temporary.save_info(ForkInfo(name, time.time(), reals, is_copy=copy_since_ns is not None, modes=modes))
            try:
                os.rename(temporary.folder, fork.folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                raise ForkUnavailable(name, "there is a fork of that name already") from error
            undo.pop_all()
        return fork

    def drop(self, fork: ForkFolder) -> None:
        """Remove a fork and everything in it. ForkUnavailable if something runs in it."""
        with fork.locked():
            self.remove(fork)

    def remove(self, fork: ForkFolder) -> None:
        """Call it with the fork's lock held."""
        going = f"{TEMPORARY_PREFIX}{token_hex(8)}"
        with translate_os_errors(str(fork.folder)):
            with _locked_folder(fork.folder):
                os.rename(fork.folder, self.folder / going)
                _remove(self.folder, going)
            with self._exclusive(), suppress_and_log(OSError):  # until the last one is gone
                self.folder.rmdir()

    @contextmanager
    def _exclusive(self) -> Generator[None]:
        """Alone with the folder, in which nobody else makes a fork, sweeps or removes the folder itself."""
        while True:
            try:
                fd = os.open(ensure_private_folder(self.folder), LIST_FLAGS)
            except (FileNotFoundError, FileExistsError):  # somebody just removed it
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                if os.fstat(fd).st_nlink:  # else somebody just removed it
                    yield
                    return
            finally:
                os.close(fd)

    def sweep(self) -> None:
        """Remove what killed processes left."""
        for name in os.listdir(self.folder):
            if name.startswith(TEMPORARY_PREFIX):
                with suppress_and_log(OSError), _locked_folder(self.folder / name):
                    _remove(self.folder, name)


@contextmanager
def _locked_folder(folder: Path) -> Generator[None]:
    """While it is removed: what looks abandoned is swept. BlockingIOError if somebody else removes it."""
    fd = os.open(folder, LIST_FLAGS)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(fd)


def _remove(folder: Path, name: str) -> None:
    fd = os.open(folder, LIST_FLAGS)
    try:
        remove_tree(name, fd)
    finally:
        os.close(fd)
