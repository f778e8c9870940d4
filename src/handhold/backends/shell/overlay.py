"""An overlay of the workspace: a command sees the roots, and its writes go to a layer of their own.

Each writable root gets an overlay with a fresh layer per command. After the command, the layer is read as a set of
changes and discarded; the root itself has not been touched. If the root's own file system can hold a layer, the layer
is in the staging area, so that applying a change is a rename. Otherwise it is in memory or in the scratch folder, and
changes are copied.
"""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from handhold.backends.files.commit.file_metadata import list_xattrs
from handhold.backends.files.commit.tree_copier import TreeCopier
from handhold.backends.files.file_kinds import file_system_type
from handhold.backends.files.manifest import LIST_FLAGS
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea, remove_tree
from handhold.backends.shell.layer import Layer
from handhold.backends.shell.layer_extraction import LayerExtractor
from handhold.backends.shell.overlay_xattrs import XATTR_PREFIX
from handhold.backends.shell.preflight import find_overlay_obstacle
from handhold.backends.shell.root_effects import join_effects, set_aside
from handhold.backends.shell.sandbox_layout import Mount
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import SystemFailure
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.logs import log_swallowed, suppress_and_log

# File systems that can hold a layer: ext2 to ext4, XFS, Btrfs, tmpfs, F2FS, bcachefs, ZFS.
LAYER_FILE_SYSTEMS = frozenset((0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0xCA451A4E, 0x2FC12FC1))
SHM_FOLDER = Path("/dev/shm")
CLOCK_TIMEOUT_SECONDS = 0.1  # for a file system's clock to advance
CLOCK_POLL_SECONDS = 0.0005
UPPER, WORK, COPY, MARKER = "upper", "work", "copy", "marker"
PROBE_XATTR = f"{XATTR_PREFIX}probe"


class OverlayUnavailable(Exception):
    """These roots cannot be overlaid."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class RootOverlay:
    """A layer over one root."""

    root: Root
    staging_area: StagingArea  # holds the slots
    command: str
    layer_area: StagingArea  # holds the layer
    layer_folder: str  # in the layer area
    started_ns: int

    @property
    def mount(self) -> Mount:
        return Mount(
            self.root.real, "overlay", os.path.join(self.layer_folder, UPPER), os.path.join(self.layer_folder, WORK)
        )

    def copy_layer(self) -> str:
        """The same layer with inodes of its own: to those that the command wrote, somebody may have descriptors."""
        fd = os.open(self.layer_folder, LIST_FLAGS)
        try:
            TreeCopier(fd).copy(fd, UPPER, COPY)
        finally:
            os.close(fd)
        return os.path.join(self.layer_folder, COPY)

    def remove_layer(self) -> None:
        """Discard the layer. What cannot be removed now is swept later."""
        try:
            fd = os.open(self.layer_folder, LIST_FLAGS)
        except FileNotFoundError:
            return
        try:
            for name in (UPPER, WORK, COPY):
                with suppress(FileNotFoundError), suppress_and_log(OSError):
                    remove_tree(name, fd)
        finally:
            os.close(fd)


class WorkspaceOverlay:
    """The overlays for one command. Its creator must discard it."""

    def __init__(
        self,
        overlays: Sequence[RootOverlay],
        other_mounts: Sequence[Mount],
        scratch: Path,
        is_alone: Callable[[], bool],
    ) -> None:
        self._overlays = overlays
        self._scratch = scratch
        self._is_alone = is_alone
        # One root may be inside another: the outer one is mounted first.
        self.mounts = tuple(sorted((*(over.mount for over in overlays), *other_mounts), key=lambda mount: mount.real))

    @classmethod
    def create(
        cls,
        roots: Sequence[Root],
        get_staging_area: Callable[[Root], StagingArea | None],
        *,
        scratch: Path,
        is_alone: Callable[[], bool] = lambda: True,
        checked: bool = False,
    ) -> "WorkspaceOverlay":
        """Overlay all writable roots or none; OverlayUnavailable says why. Other roots are mounted read-only.

        `checked` skips the check for obstacles, if the caller has just made it. `is_alone` is asked at the end of the
        command: whether no other one could have a descriptor of what it wrote.
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
                    raise OverlayUnavailable(f"there is no space for its overlay on the file system of {root.real}")
                with translate_os_errors(root.real):
                    overlays.append(_create_root_overlay(root, staging_area, scratch))
        except BaseException:
            cls(overlays, (), scratch, is_alone).discard()
            raise
        return cls(overlays, other_mounts, scratch, is_alone)

    def collect_effects(
        self, is_protected: Callable[[str], bool], is_withheld: Callable[[str], bool] = lambda _place: False
    ) -> Effects:
        """The effects of a finished command. New entries are then in their slots, and the layers are gone."""
        layers: list[Layer] = []
        is_alone = self._is_alone()
        for overlay in self._overlays:
            with translate_os_errors(overlay.root.real):
                folder = overlay.staging_area.open_folder(overlay.command)
                try:
                    extractor = LayerExtractor(folder, overlay.command, self._scratch / "conflicts")
                    layer = Layer(
                        overlay.root,
                        overlay.mount.upper if is_alone else overlay.copy_layer(),
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
        return join_effects(layers)

    def set_aside(self, change: FileChange) -> Conflict:
        return set_aside(change, self._overlays, self._scratch)

    def discard(self) -> None:
        """Discard the layers, and the slots that no commit took over. Idempotent."""
        for overlay in self._overlays:
            overlay.remove_layer()
            if overlay.layer_area is not overlay.staging_area:
                overlay.layer_area.drop(os.path.basename(overlay.layer_folder))
            overlay.staging_area.drop(overlay.command)


def _create_root_overlay(root: Root, staging_area: StagingArea, scratch: Path) -> RootOverlay:
    # The overlay is mounted by path, but changes are applied to the folder that was opened.
    found = os.stat(root.real)
    if (found.st_dev, found.st_ino) != root.id:
        raise SystemFailure(root.real, "another folder is there now")
    command = staging_area.create_folder()
    layer_area, layer_command = staging_area, command
    try:
        if not can_hold_layers(staging_area.folder):
            layer_area = _find_layer_area(scratch)
            layer_command = layer_area.create_folder()
        folder = layer_area.path(layer_command)
        upper = os.path.join(folder, UPPER)
        os.mkdir(upper, 0o700)
        os.mkdir(os.path.join(folder, WORK), 0o700)
        copy_root_metadata(upper, root)
        overlay = RootOverlay(
            root,
            staging_area,
            command,
            layer_area,
            folder,
            read_clock_ns(os.path.join(staging_area.path(command), MARKER)),
        )
    except BaseException:
        staging_area.drop(command)
        if layer_area is not staging_area:
            layer_area.drop(layer_command)
        raise
    return overlay


@cache
def can_hold_layers(folder: str) -> bool:
    """Whether an overlay can keep its layer and attributes on this file system."""
    fd = os.open(folder, LIST_FLAGS)
    try:
        if file_system_type(fd) & 0xFFFFFFFF not in LAYER_FILE_SYSTEMS:
            return False
        os.setxattr(fd, PROBE_XATTR, b"")
        os.removexattr(fd, PROBE_XATTR)
    except OSError:
        log_swallowed()
        return False
    finally:
        os.close(fd)
    return True


@cache
def _find_layer_area(scratch: Path) -> StagingArea:
    """A place for layers in memory, otherwise in the scratch folder. Leftovers of dead processes are swept."""
    for folder in (SHM_FOLDER / f"handhold-{os.geteuid()}", scratch / "layers"):
        try:
            ensure_private_folder(folder)
            area = StagingArea(str(folder))
            os.close(area.open_folder("."))  # it is ours alone
            area.sweep(lambda _: ())
        except OSError:
            log_swallowed()
            continue
        if can_hold_layers(str(folder)):
            return area
    raise OverlayUnavailable("no file system here supports an overlay")


def copy_root_metadata(upper: str, root: Root) -> None:
    """Copy the root's metadata to the layer's own folder, which represents the root inside."""
    with ExitStack() as opened:
        with root.folder as folder:
            source = os.open(".", LIST_FLAGS, dir_fd=folder)
        opened.callback(os.close, source)
        found = os.fstat(source)
        fd = os.open(upper, LIST_FLAGS)
        opened.callback(os.close, fd)
        for name in list_xattrs(source):
            if not name.startswith(XATTR_PREFIX):
                with suppress(OSError):  # a security label
                    os.setxattr(fd, name, os.getxattr(source, name))
        if os.geteuid() == 0:
            os.fchown(fd, found.st_uid, found.st_gid)
        os.fchmod(fd, found.st_mode & 0o7777)
        os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))


def read_clock_ns(path: str) -> int:
    """The current time by the file system's clock, later than anything that has happened there so far."""
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
                raise OverlayUnavailable("the timestamps of its file system are too coarse to order changes")
            time.sleep(CLOCK_POLL_SECONDS)
    finally:
        os.close(fd)
