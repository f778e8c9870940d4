"""A shadow of the workspace: a command sees the roots, and what it writes lands in a layer of its own.

Over each writable root lies an overlay, with a fresh layer for each command. Once the command has ended, the layer is
read as a set of changes and thrown away; the root itself has not been touched. Where the root's own file system can
hold a layer it lies on the shelf, so that taking over what a command made is a rename; else in memory or in the
scratch folder, and things are copied.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from handhold.core.errors import SystemTrouble
from handhold.core.plans import Conflict, Effects, FileChange, Shelved
from handhold.world.files.commit.likeness import attributes_of
from handhold.world.files.kinds import file_system
from handhold.world.files.manifest import LIST
from handhold.world.files.roots import Root
from handhold.world.files.shelf import Shelf, remove_tree
from handhold.world.files.trouble import named
from handhold.world.shell.layer import Layer
from handhold.world.shell.layout import Mount
from handhold.world.shell.preflight import objection
from handhold.world.shell.taking import Taking
from handhold.world.shell.traces import OVERLAY
from handhold.world.state.folder import private

# The kinds of file system that hold a layer: ext4 and its elders, XFS, Btrfs, tmpfs, F2FS, bcachefs, ZFS.
HOLDERS = frozenset((0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1))
MEMORY = Path("/dev/shm")
PATIENCE = 0.1  # seconds for a file system's clock to move on
PAUSE = 0.0005
UPPER, WORK, MARKER = "upper", "work", "marker"
PROBE = f"{OVERLAY}probe"


class NoShadow(Exception):
    """There is none to be had of these roots."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Over:
    """A layer over one root."""

    root: Root
    shelf: Shelf  # with the slots
    command: str
    holder: Shelf  # with the layer
    folder: str  # there
    since: int

    @property
    def mount(self) -> Mount:
        return Mount(self.root.real, "shadow", os.path.join(self.folder, UPPER), os.path.join(self.folder, WORK))

    def clear(self) -> None:
        """Throw the layer away, whatever is in it. What cannot be removed now is swept another time."""
        try:
            fd = os.open(self.folder, LIST)
        except FileNotFoundError:
            return
        try:
            for name in (UPPER, WORK):
                with suppress(OSError):
                    remove_tree(name, fd)
        finally:
            os.close(fd)


class Shadow:
    """For one command. Whoever makes one discards it, in the end."""

    def __init__(self, overs: Sequence[Over], others: Sequence[Mount], scratch: Path) -> None:
        self._overs = overs
        self._scratch = scratch
        # One root may lie in another: the outer one is mounted first.
        self.mounts = tuple(sorted((*(over.mount for over in overs), *others), key=lambda mount: mount.real))

    @classmethod
    def over(
        cls, roots: Sequence[Root], shelf_of: Callable[[Root], Shelf | None], *, scratch: Path, asked: bool = False
    ) -> "Shadow":
        """Of all roots that may be written, or of none: NoShadow says why. The others are mounted as they are.

        Whoever has `asked` a moment ago whether anything speaks against it spares us the question.
        """
        by_path = {root.real: root for root in roots}
        writable = [root for root in by_path.values() if root.writable]
        others = [Mount(root.real, "read-only") for root in by_path.values() if not root.writable]
        for root in () if asked else writable:
            with named(root.real):
                if why := objection(root):
                    raise NoShadow(why)
        overs: list[Over] = []
        try:
            for root in writable:
                shelf = shelf_of(root)
                if shelf is None:
                    raise NoShadow(f"there is no place for its layer on the file system of {root.real}")
                with named(root.real):
                    overs.append(_over(root, shelf, scratch))
        except BaseException:
            cls(overs, (), scratch).discard()
            raise
        return cls(overs, others, scratch)

    def effects(
        self, protected: Callable[[str], bool], withheld: Callable[[str], bool] = lambda _place: False
    ) -> Effects:
        """What the command did, once it has ended. The new things lie in their slots then, and the layers are gone."""
        layers: list[Layer] = []
        for over in self._overs:
            with named(over.root.real):
                folder = over.shelf.open(over.command)
                try:
                    taking = Taking(folder, over.command, self._scratch / "conflicts")
                    layer = Layer(
                        over.root,
                        over.mount.upper,
                        since=over.since,
                        taking=taking,
                        protected=protected,
                        withheld=withheld,
                    )
                    layer.read()
                finally:
                    os.close(folder)
                over.clear()
            layers.append(layer)
        return Effects(
            tuple(sorted((change for layer in layers for change in layer.files), key=lambda change: change.path)),
            tuple(sorted((each for layer in layers for each in layer.conflicts), key=lambda each: each.path)),
            tuple(sorted({path for layer in layers for path in layer.guarded})),
            tuple(sorted({path for layer in layers for path in layer.privileged})),
            tuple(note for layer in layers for note in layer.notes),
            tuple(time for layer in layers for time in layer.times),
        )

    def set_aside(self, change: FileChange) -> Conflict:
        """For a change that somebody else got ahead of: the new thing leaves its slot and is kept to be read."""
        if not isinstance(change.after, Shelved):
            return Conflict(change.path, "mode" if change.after else "deleted")
        command, slot = change.after.slot.split("/")
        over = next(each for each in self._overs if each.command == command)
        with named(change.path):
            folder = over.shelf.open(command)
            try:
                taking = Taking(folder, command, self._scratch / "conflicts")
                return Conflict(change.path, "changed", taking.keep(folder, slot, os.path.basename(change.path)))
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Throw away the layers, and the slots that no commit took over. Twice is as good as once."""
        for over in self._overs:
            over.clear()
            if over.holder is not over.shelf:
                over.holder.drop(os.path.basename(over.folder))
            over.shelf.drop(over.command)


def _over(root: Root, shelf: Shelf, scratch: Path) -> Over:
    # The overlay is laid over what the path leads to; what comes of it is put where the root was opened.
    if not os.path.samestat(os.stat(root.real), os.fstat(root.fd)):
        raise SystemTrouble(root.real, "another folder stands there now")
    command = shelf.new()
    holder, held = shelf, command
    try:
        if not _holds_layers(shelf.folder):
            holder = _elsewhere(scratch)
            held = holder.new()
        folder = holder.path(held)
        upper = os.path.join(folder, UPPER)
        os.mkdir(upper, 0o700)
        os.mkdir(os.path.join(folder, WORK), 0o700)
        _make_like(upper, root)
        over = Over(root, shelf, command, holder, folder, _moment(os.path.join(shelf.path(command), MARKER)))
    except BaseException:
        shelf.drop(command)
        if holder is not shelf:
            holder.drop(held)
        raise
    return over


@cache
def _holds_layers(folder: str) -> bool:
    """Whether an overlay can keep its layer, and its notes, on this file system."""
    fd = os.open(folder, LIST)
    try:
        if file_system(fd) & 0xFFFFFFFF not in HOLDERS:
            return False
        os.setxattr(fd, PROBE, b"")
        os.removexattr(fd, PROBE)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


@cache
def _elsewhere(scratch: Path) -> Shelf:
    """A place for layers in memory, else in the scratch folder. What dead processes left there is swept."""
    for folder in (MEMORY / f"handhold-{os.geteuid()}", scratch / "layers"):
        try:
            private(folder)
            shelf = Shelf(str(folder))
            os.close(shelf.open("."))  # it is ours, and nobody else's
            shelf.sweep(tuple)
        except OSError:
            continue
        if _holds_layers(str(folder)):
            return shelf
    raise NoShadow("no file system here can hold the layer of an overlay")


def _make_like(upper: str, root: Root) -> None:
    """A layer's own folder stands for the root, to whoever looks at the root from inside."""
    found = os.stat(".", dir_fd=root.fd)
    with ExitStack() as opened:
        source = os.open(".", LIST, dir_fd=root.fd)
        opened.callback(os.close, source)
        fd = os.open(upper, LIST)
        opened.callback(os.close, fd)
        for name in attributes_of(source):
            if not name.startswith(OVERLAY):
                with suppress(OSError):  # a label of the system's
                    os.setxattr(fd, name, os.getxattr(source, name))
        if os.geteuid() == 0:
            os.fchown(fd, found.st_uid, found.st_gid)
        os.fchmod(fd, found.st_mode & 0o7777)
        os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))


def _moment(path: str) -> int:
    """Now, by the clock of the file system: later than anything that has happened there so far."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        first = os.fstat(fd).st_ctime_ns
        deadline = time.monotonic() + PATIENCE
        while True:
            os.fchmod(fd, 0o600)
            if (now := os.fstat(fd).st_ctime_ns) > first:
                return now
            if time.monotonic() > deadline:
                raise NoShadow("its file system cannot tell what happened before from what happened after")
            time.sleep(PAUSE)
    finally:
        os.close(fd)
