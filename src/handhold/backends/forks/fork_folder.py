"""A fork on disk: its layers, what it started from, and its lock, in one folder of the workspace's state.

forks/NAME/fork.json        when it was made, on which roots, and the last mount that is not recorded yet
           ancestors.json   what the roots had at the paths in the layers; texts/ has the contents of texts
           merges.json      the merges after which it was kept
           last_run.json    the last command that ended in it
           layers/N/        the layer over the Nth root, with the work folder that an overlay needs; or a copy of the
                            root, with a list of what was copied
           state/           what programs in the fork see as the workspace's state
           lock             held while something runs in the fork, or somebody merges or drops it
"""

import fcntl
import json
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.staging_area import LIST_FLAGS, LOCK_FLAGS
from handhold.backends.forks.ancestors import RootAncestors, load_ancestors, save_ancestors, write_atomically
from handhold.backends.forks.copies import list_changed, load_manifest, record_copy
from handhold.backends.forks.entries import ACCESS_BITS, TreeReader, make_stamp
from handhold.backends.forks.fork_layer import LayerItem, walk_layer
from handhold.backends.forks.merged_ancestors import MergedAncestors
from handhold.backends.shell.overlay import read_clock_ns
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import ForkUnavailable
from handhold.logs import log_swallowed, suppress_and_log

INFO_FILE, ANCESTORS_FILE, TEXTS_FOLDER, LOCK_FILE = "fork.json", "ancestors.json", "texts", "lock"
RUN_FILE, MERGES_FILE, INNER_STATE_FOLDER = "last_run.json", "merges.json", "state"
SETTINGS_FOLDER = "ssh_config.d"
UPPER, WORK, MANIFEST_FILE = "upper", "work", "copied.json"
NO_SUCH_FORK = "there is no such fork"
LOCK_WAIT_SECONDS, LOCK_POLL_SECONDS = 2.0, 0.01
CLOCK_TOLERANCE_NS = 1_000_000_000  # by which two clocks may drift apart during a mount without having been set
BOOT_ID_FILE = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class MountStart:
    """When a mount began, by the clock of files and by one that nobody can set."""

    started_ns: int
    uptime_ns: int
    boot_id: str

    @classmethod
    def now(cls, started_ns: int) -> "MountStart":
        return cls(started_ns, time.clock_gettime_ns(time.CLOCK_BOOTTIME), BOOT_ID_FILE.read_text().strip())

    def earliest_ns(self) -> int:
        """The earliest ctime that a change since then can have. A clock that was set back makes it earlier."""
        if self.boot_id != BOOT_ID_FILE.read_text().strip():
            return self.started_ns
        elapsed = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - self.uptime_ns
        lost = elapsed - (time.time_ns() - self.started_ns)
        return self.started_ns - (lost if lost > CLOCK_TOLERANCE_NS else 0)


@dataclass(frozen=True)
class ForkInfo:
    """What `fork.json` has."""

    name: str
    created: float  # seconds since 1970
    roots: tuple[str, ...]  # the real paths of the overlaid folders, in order
    mount: MountStart | None = None  # the last one, until what it left is recorded
    is_copy: bool = False  # of the roots, because there can be no overlay here
    modes: tuple[int, ...] = ()  # of the overlaid folders when it was made; none in forks of earlier versions


@dataclass(frozen=True)
class ForkRun:
    """A command that ended in a fork."""

    command: tuple[str, ...]
    status: int  # a negative number is a signal's
    ended: float  # seconds since 1970
    seconds: float


class ForkFolder:
    """One fork. All that changes it needs its lock, except what happens inside its mount."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.name = folder.name

    @property
    def info(self) -> ForkInfo:
        with self._found_or_dropped():
            found = json.loads((self.folder / INFO_FILE).read_bytes())
        mount = found["mount"] and MountStart(**found["mount"])
        roots, modes = tuple(found["roots"]), tuple(found.get("modes", ()))
        return ForkInfo(found["name"], found["created"], roots, mount, found.get("is_copy", False), modes)

    def save_info(self, info: ForkInfo) -> None:
        write_atomically(self.folder / INFO_FILE, json.dumps(asdict(info)).encode())

    @property
    def last_run(self) -> ForkRun | None:
        try:
            found = json.loads((self.folder / RUN_FILE).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            return None
        return ForkRun(tuple(found["command"]), found["status"], found["ended"], found["seconds"])

    def save_run(self, run: ForkRun) -> None:
        with suppress_and_log(OSError):  # the fork may have been dropped
            write_atomically(self.folder / RUN_FILE, json.dumps(asdict(run)).encode())

    def upper(self, n: int) -> str:
        return str(self.folder / "layers" / str(n) / UPPER)

    def work(self, n: int) -> str:
        return str(self.folder / "layers" / str(n) / WORK)

    def manifest(self, n: int) -> Path:
        return self.folder / "layers" / str(n) / MANIFEST_FILE

    @property
    def texts(self) -> Path:
        return self.folder / TEXTS_FOLDER

    @property
    def merged_ancestors(self) -> MergedAncestors:
        return MergedAncestors(self.folder / MERGES_FILE, self.folder / ANCESTORS_FILE)

    @property
    def inner_state(self) -> Path:
        return self.folder / INNER_STATE_FOLDER

    def copy_settings(self, source: Path) -> str:
        """Copy the files of a folder of settings, so that they belong to us; returns the folder of the copies."""
        copies = ensure_private_folder(self.folder / SETTINGS_FOLDER)
        with suppress_and_log(OSError):
            for file in source.iterdir():
                write_atomically(copies / file.name, file.read_bytes())
        return str(copies)

    # --- the lock

    @contextmanager
    def locked(self, *, wait_seconds: float = LOCK_WAIT_SECONDS) -> Generator[int]:
        """The lock as a descriptor, which a mount keeps open while it lives. ForkUnavailable if it is taken.

        It waits a little: whoever only looks at the fork has the lock, too.
        """
        with translate_os_errors(str(self.folder)), self._found_or_dropped():
            lock = os.open(self.folder / LOCK_FILE, LOCK_FLAGS, 0o600)
        try:
            self._acquire(lock, wait_seconds)
            with self._found_or_dropped():
                current = os.stat(self.folder / LOCK_FILE)
            if not os.path.samestat(current, os.fstat(lock)):  # somebody dropped it, and made another one
                raise ForkUnavailable(self.name, NO_SUCH_FORK)
            yield lock
        finally:
            os.close(lock)

    def _acquire(self, lock: int, wait_seconds: float) -> None:
        deadline = time.monotonic() + wait_seconds
        while True:
            try:
                return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise ForkUnavailable(self.name, "something runs in it") from None
            time.sleep(LOCK_POLL_SECONDS)

    @contextmanager
    def _found_or_dropped(self) -> Generator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError):
            raise ForkUnavailable(self.name, NO_SUCH_FORK) from None

    @property
    def is_running(self) -> bool:
        try:
            with self.locked(wait_seconds=0):
                return False
        except ForkUnavailable:
            return (self.folder / INFO_FILE).exists()

    # --- what it started from

    def begin_mount(self, marker: str) -> None:
        """Call it with the lock held, before mounting. What an earlier mount left is recorded first."""
        self.record_ancestors()
        started_ns = read_clock_ns(marker)
        self.save_info(replace(self.info, mount=MountStart.now(started_ns)))

    def record_ancestors(self, *, save: bool = True) -> dict[str, RootAncestors]:
        """Record what the last mount left. Without `save`, for a fork that is in use, nothing is written."""
        info, known = self.info, load_ancestors(self.folder / ANCESTORS_FILE)
        if info.mount is None:
            return known
        for n, real in enumerate(info.roots):
            ancestors = known.setdefault(real, RootAncestors())
            with self.open_layer(n) as layer, open_base(real) as base, translate_os_errors(real):
                items, texts = self.list_items(n, layer), self.texts if save else None
                if info.is_copy:
                    record_copy(ancestors, items, load_manifest(self.manifest(n)), layer, base, texts)
                else:
                    ancestors.update(items, base, texts, info.mount.earliest_ns())
        if save:
            save_ancestors(self.folder / ANCESTORS_FILE, known)
            if not info.is_copy:
                self._forget_origins()
            self.save_info(replace(info, mount=None))
        return known

    def _forget_origins(self) -> None:
        """Remove from copies where an overlay copied them from.

        If that file has another name in the root by the next mount, the kernel would take both for one file, and
        answer ESTALE.
        """
        for n, real in enumerate(self.info.roots):
            with self.open_layer(n) as layer, translate_os_errors(real):
                for item in walk_layer(layer):
                    if item.is_copy and not item.is_folder:
                        layer.strip_xattrs(item.rel)

    def list_items(self, n: int, layer: TreeReader) -> list[LayerItem]:
        """What the fork changed in the Nth root."""
        return list_changed(layer, load_manifest(self.manifest(n))) if self.info.is_copy else _collect_items(layer)

    def read_mode(self, n: int) -> int:
        """The mode of the Nth root's own folder in the fork."""
        return stat.S_IMODE(os.stat(self.upper(n)).st_mode)

    def compute_digest(self) -> str:
        """A digest of everything in the fork. It differs after any change, even one that was taken back.

        Call it after `record_ancestors`, which removes attributes of files.
        """
        found: list[object] = []
        for n in range(len(self.info.roots)):
            with self.open_layer(n) as layer:
                found += [
                    (n, os.fsencode(item.rel).hex(), item.is_deletion, _make_lasting_stamp(item.found))
                    for item in self.list_items(n, layer)
                ]
        return sha256(json.dumps(found).encode()).hexdigest()

    @contextmanager
    def open_layer(self, n: int) -> Generator[TreeReader]:
        with self._found_or_dropped():
            fd = os.open(self.upper(n), LIST_FLAGS)
        try:
            with TreeReader(fd, is_layer=True) as reader:
                yield reader
        finally:
            os.close(fd)


def _make_lasting_stamp(found: os.stat_result) -> tuple[int, ...]:
    """The stamp, without the ctime if we cannot open the entry with its mode: then reading it changes that."""
    *stamp, ctime = make_stamp(found)
    needed = ACCESS_BITS if stat.S_ISDIR(found.st_mode) else stat.S_IRUSR
    return (*stamp, found.st_mode, ctime if found.st_mode & needed == needed else 0)


def _collect_items(layer: TreeReader, attempts: int = 3) -> list[LayerItem]:
    """Everything in the layer; tried again if a program in the fork removes something meanwhile."""
    while True:
        try:
            return list(walk_layer(layer))
        except (FileNotFoundError, AssertionError):
            attempts -= 1
            if not attempts:
                raise
            log_swallowed()


@contextmanager
def open_base(real: str) -> Generator[TreeReader]:
    """The root itself."""
    with translate_os_errors(real):
        fd = os.open(real, LIST_FLAGS)
    try:
        with TreeReader(fd) as reader:
            yield reader
    finally:
        os.close(fd)
