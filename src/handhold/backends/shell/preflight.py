"""Check before a command runs whether a root can be overlaid.

An overlay cannot cover a mount point, and in a user namespace it cannot copy files of an unmapped id. A root that
contains the user's home, or everything, is not overlaid.
"""

import os
import time
from collections import deque
from pathlib import Path

from handhold.backends.files.roots import Root
from handhold.backends.mounts import MOUNTINFO_ESCAPES, MOUNTINFO_PATH, list_mounts
from handhold.backends.shell.host_paths import find_homes, is_inside
from handhold.backends.shell.user_namespace import has_id_range

SCAN_TIMEOUT_SECONDS = 0.25  # to scan for owners: about eighty thousand files
RESCAN_FACTOR = 1000  # scanning again may take a thousandth of the time
ESCAPED_CHARS = frozenset(MOUNTINFO_ESCAPES.values())

_scan_cache: dict[tuple[int, int], tuple[float, str]] = {}  # by root: valid until, and a path with a foreign owner


def find_overlay_obstacle(root: Root) -> str:
    """Why this root cannot be overlaid; empty if it can."""
    if obstacle := find_mount_obstacle(root.real):
        return obstacle
    if not has_id_range() and (foreign := _find_foreign_owner(root)):
        return f"{foreign} belongs to another user or group"
    return ""


def find_mount_obstacle(real: str) -> str:
    """Why no overlay should or can be mounted over this folder; empty if one can. Owners are not checked."""
    if real == "/":
        return "the workspace is the root of the file system"
    if any(is_inside(home, real) for home in find_homes()):
        return "the workspace contains the user's home"
    if (mount := find_mount_below(real)) is not None:
        return f"{mount} is a mount point"
    return ""


def find_mount_below(path: str) -> str | None:
    # Runs before every command: a mount is rare, and a byte search takes a tenth of the time of parsing.
    if not ESCAPED_CHARS & {*path} and os.fsencode(f" {path}/") not in Path(MOUNTINFO_PATH).read_bytes():
        return None
    return next((point for point, _ in list_mounts() if point.startswith(path + "/")), None)


def _find_foreign_owner(root: Root) -> str:
    """A path that an overlay could not copy, according to the last scan.

    Scanning every file before every command would cost more than most commands. Owners rarely change, so a result is
    reused for a time proportional to the duration of the scan.
    """
    until, answer = _scan_cache.get(root.id, (0.0, ""))
    now = time.monotonic()
    if now >= until:
        answer = _scan_owners(root, now + SCAN_TIMEOUT_SECONDS)
        took = time.monotonic() - now
        _scan_cache[root.id] = now + took * RESCAN_FACTOR, answer
    return answer


def _scan_owners(root: Root, deadline: float) -> str:
    ours = os.geteuid(), os.getegid()
    everything = os.geteuid() == 0
    found = os.stat(root.real)
    if (found.st_uid, found.st_gid) != ours and (everything or os.access(root.real, os.W_OK)):
        return root.real
    ahead = deque([root.real])
    while ahead and time.monotonic() < deadline:
        folder = ahead.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        ahead.append(entry.path)
                    if (found.st_uid, found.st_gid) == ours:
                        continue
                    # A file that we could not write without an overlay either does not matter.
                    if everything or (not entry.is_symlink() and os.access(entry.path, os.W_OK)):
                        return entry.path
        except OSError:
            continue  # not accessible, or gone
    return ""
