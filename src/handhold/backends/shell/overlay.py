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

from handhold.backends.files.commit.file_metadata import list_xattrs
from handhold.backends.files.file_kinds import file_system_type
from handhold.backends.files.manifest import LIST_FLAGS
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea, remove_tree
from handhold.backends.shell.layer import Layer
from handhold.backends.shell.layer_extraction import LayerExtractor
from handhold.backends.shell.overlay_xattrs import XATTR_PREFIX
from handhold.backends.shell.preflight import find_overlay_obstacle
from handhold.backends.shell.sandbox_layout import Mount
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import SystemFailure
from handhold.core.plans import Conflict, Effects, FileChange, StagedContent

# The kinds of file system that hold a layer: ext4 and its elders, XFS, Btrfs, tmpfs, F2FS, bcachefs, ZFS.
LAYER_FILE_SYSTEMS = frozenset((0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1))
SHM_FOLDER = Path("/dev/shm")
CLOCK_TIMEOUT_SECONDS = 0.1  # seconds for a file system's clock to move on
CLOCK_POLL_SECONDS = 0.0005
UPPER, WORK, MARKER = "upper", "work", "marker"
PROBE_XATTR = f"{XATTR_PREFIX}probe"


class OverlayUnavailable(Exception):
    """There is none to be had of these roots."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class RootOverlay:
    """A layer over one root."""

    root: Root
    staging_area: StagingArea  # with the slots
    command: str
    layer_area: StagingArea  # with the layer
    layer_folder: str  # there
    started_ns: int

    @property
    def mount(self) -> Mount:
        return Mount(
            self.root.real, "overlay", os.path.join(self.layer_folder, UPPER), os.path.join(self.layer_folder, WORK)
        )

    def remove_layer(self) -> None:
        """Throw the layer away, whatever is in it. What cannot be removed now is swept another time."""
        try:
            fd = os.open(self.layer_folder, LIST_FLAGS)
        except FileNotFoundError:
            return
        try:
            for name in (UPPER, WORK):
                with suppress(OSError):
                    remove_tree(name, fd)
        finally:
            os.close(fd)


class WorkspaceOverlay:
    """For one command. Whoever makes one discards it, in the end."""

    def __init__(self, overlays: Sequence[RootOverlay], other_mounts: Sequence[Mount], scratch: Path) -> None:
        self._overlays = overlays
        self._scratch = scratch
        # One root may lie in another: the outer one is mounted first.
        self.mounts = tuple(sorted((*(over.mount for over in overlays), *other_mounts), key=lambda mount: mount.real))

    @classmethod
    def create(
        cls,
        roots: Sequence[Root],
        get_staging_area: Callable[[Root], StagingArea | None],
        *,
        scratch: Path,
        checked: bool = False,
    ) -> "WorkspaceOverlay":
        """Of all writable roots, or of none: OverlayUnavailable says why. The others are mounted as they are.

        Whoever has `checked` a moment ago whether anything speaks against it spares us the question.
        """
        by_path = {root.real: root for root in roots}
        writable = [root for root in by_path.values() if root.writable]
        other_mounts = [Mount(root.real, "read-only") for root in by_path.values() if not root.writable]
        for root in () if checked else writable:
            with translate_os_errors(root.real):
                if reason := find_overlay_obstacle(root):
                    raise OverlayUnavailable(reason)
        overlays: list[RootOverlay] = []
        try:
            for root in writable:
                staging_area = get_staging_area(root)
                if staging_area is None:
                    raise OverlayUnavailable(f"there is no place for its layer on the file system of {root.real}")
                with translate_os_errors(root.real):
                    overlays.append(_create_root_overlay(root, staging_area, scratch))
        except BaseException:
            cls(overlays, (), scratch).discard()
            raise
        return cls(overlays, other_mounts, scratch)

    def collect_effects(
        self, is_protected: Callable[[str], bool], is_withheld: Callable[[str], bool] = lambda _place: False
    ) -> Effects:
        """What the command did, once it has ended. The new things lie in their slots then, and the layers are gone."""
        layers: list[Layer] = []
        for overlay in self._overlays:
            with translate_os_errors(overlay.root.real):
                folder = overlay.staging_area.open_folder(overlay.command)
                try:
                    extractor = LayerExtractor(folder, overlay.command, self._scratch / "conflicts")
                    layer = Layer(
                        overlay.root,
                        overlay.mount.upper,
                        started_ns=overlay.started_ns,
                        extractor=extractor,
                        is_protected=is_protected,
                        is_withheld=is_withheld,
                    )
                    layer.read()
                finally:
                    os.close(folder)
                overlay.remove_layer()
            layers.append(layer)
        return Effects(
            tuple(sorted((change for layer in layers for change in layer.files), key=lambda change: change.path)),
            tuple(sorted((each for layer in layers for each in layer.conflicts), key=lambda each: each.path)),
            tuple(sorted({path for layer in layers for path in layer.protected})),
            tuple(sorted({path for layer in layers for path in layer.privileged})),
            tuple(note for layer in layers for note in layer.notes),
            tuple(time for layer in layers for time in layer.times),
        )

    def set_aside(self, change: FileChange) -> Conflict:
        """For a change that somebody else got ahead of: the new thing leaves its slot and is kept to be read."""
        if not isinstance(change.after, StagedContent):
            return Conflict(change.path, "mode" if change.after else "deleted")
        command, slot = change.after.slot.split("/")
        overlay = next(each for each in self._overlays if each.command == command)
        with translate_os_errors(change.path):
            folder = overlay.staging_area.open_folder(command)
            try:
                extractor = LayerExtractor(folder, command, self._scratch / "conflicts")
                return Conflict(
                    change.path, "changed", extractor.move_aside(folder, slot, os.path.basename(change.path))
                )
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Throw away the layers, and the slots that no commit took over. Twice is as good as once."""
        for overlay in self._overlays:
            overlay.remove_layer()
            if overlay.layer_area is not overlay.staging_area:
                overlay.layer_area.drop(os.path.basename(overlay.layer_folder))
            overlay.staging_area.drop(overlay.command)


def _create_root_overlay(root: Root, staging_area: StagingArea, scratch: Path) -> RootOverlay:
    # The overlay is laid over what the path leads to; what comes of it is put where the root was opened.
    if not os.path.samestat(os.stat(root.real), os.fstat(root.fd)):
        raise SystemFailure(root.real, "another folder stands there now")
    command = staging_area.create_folder()
    layer_area, layer_command = staging_area, command
    try:
        if not _can_hold_layers(staging_area.folder):
            layer_area = _find_layer_area(scratch)
            layer_command = layer_area.create_folder()
        folder = layer_area.path(layer_command)
        upper = os.path.join(folder, UPPER)
        os.mkdir(upper, 0o700)
        os.mkdir(os.path.join(folder, WORK), 0o700)
        _copy_root_metadata(upper, root)
        overlay = RootOverlay(
            root,
            staging_area,
            command,
            layer_area,
            folder,
            _read_clock_ns(os.path.join(staging_area.path(command), MARKER)),
        )
    except BaseException:
        staging_area.drop(command)
        if layer_area is not staging_area:
            layer_area.drop(layer_command)
        raise
    return overlay


@cache
def _can_hold_layers(folder: str) -> bool:
    """Whether an overlay can keep its layer, and its notes, on this file system."""
    fd = os.open(folder, LIST_FLAGS)
    try:
        if file_system_type(fd) & 0xFFFFFFFF not in LAYER_FILE_SYSTEMS:
            return False
        os.setxattr(fd, PROBE_XATTR, b"")
        os.removexattr(fd, PROBE_XATTR)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True


@cache
def _find_layer_area(scratch: Path) -> StagingArea:
    """A place for layers in memory, else in the scratch folder. What dead processes left there is swept."""
    for folder in (SHM_FOLDER / f"handhold-{os.geteuid()}", scratch / "layers"):
        try:
            ensure_private_folder(folder)
            area = StagingArea(str(folder))
            os.close(area.open_folder("."))  # it is ours, and nobody else's
            area.sweep(tuple)
        except OSError:
            continue
        if _can_hold_layers(str(folder)):
            return area
    raise OverlayUnavailable("no file system here can hold the layer of an overlay")


def _copy_root_metadata(upper: str, root: Root) -> None:
    """A layer's own folder stands for the root, to whoever looks at the root from inside."""
    found = os.stat(".", dir_fd=root.fd)
    with ExitStack() as opened:
        source = os.open(".", LIST_FLAGS, dir_fd=root.fd)
        opened.callback(os.close, source)
        fd = os.open(upper, LIST_FLAGS)
        opened.callback(os.close, fd)
        for name in list_xattrs(source):
            if not name.startswith(XATTR_PREFIX):
                with suppress(OSError):  # a label of the system's
                    os.setxattr(fd, name, os.getxattr(source, name))
        if os.geteuid() == 0:
            os.fchown(fd, found.st_uid, found.st_gid)
        os.fchmod(fd, found.st_mode & 0o7777)
        os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))


def _read_clock_ns(path: str) -> int:
    """Now, by the clock of the file system: later than anything that has happened there so far."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.unlink(path)
        first = os.fstat(fd).st_ctime_ns
        deadline = time.monotonic() + CLOCK_TIMEOUT_SECONDS
        while True:
            os.fchmod(fd, 0o600)
            if (now := os.fstat(fd).st_ctime_ns) > first:
                return now
            if time.monotonic() > deadline:
                raise OverlayUnavailable("its file system cannot tell what happened before from what happened after")
            time.sleep(CLOCK_POLL_SECONDS)
    finally:
        os.close(fd)
