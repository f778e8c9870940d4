"""What forbids a shadow of a root, found before a command runs on one.

An overlay cannot be laid over a mount point, and in a user namespace it cannot copy what belongs to an id that is not
mapped there. A root that holds the user's whole home, or everything, is no workspace to be shadowed.
"""

import os
import time
from collections import deque
from pathlib import Path

from handhold.backends.files.roots import Root
from handhold.backends.mounts import MOUNTINFO_ESCAPES, MOUNTINFO_PATH, list_mounts
from handhold.backends.shell.host_paths import find_homes, is_inside
from handhold.backends.shell.user_namespace import has_id_range

SCAN_TIMEOUT_SECONDS = 0.25  # seconds to look for owners: some eighty thousand files
RESCAN_FACTOR = 1000  # looking again may take a thousandth of the time
ESCAPED_CHARS = frozenset(MOUNTINFO_ESCAPES.values())

_scan_cache: dict[tuple[int, int], tuple[float, str]] = {}  # by root: until when, and whose something is


def find_overlay_obstacle(root: Root) -> str:
    """Why there can be no shadow of this root; empty if nothing speaks against it."""
    if root.real == "/":
        return "the workspace is the whole machine"
    if any(is_inside(home, root.real) for home in find_homes()):
        return "the workspace holds the user's home"
    if (mount := find_mount_below(root.real)) is not None:
        return f"{mount} is a mount point"
    if not has_id_range() and (foreign := _find_foreign_owner(root)):
        return f"{foreign} belongs to another user or group"
    return ""


def find_mount_below(path: str) -> str | None:
    # Before every command: it is rarely there, and looking for its bytes takes a tenth of the time.
    if not ESCAPED_CHARS & {*path} and os.fsencode(f" {path}/") not in Path(MOUNTINFO_PATH).read_bytes():
        return None
    return next((point for point, _ in list_mounts() if point.startswith(path + "/")), None)


def _find_foreign_owner(root: Root) -> str:
    """Something that an overlay could not copy, as far as the last look tells.

    Looking at every file before every command would cost more than most commands. Owners hardly change, so one look
    counts for a while: the longer, the longer it took.
    """
    found = os.fstat(root.fd)
    key = found.st_dev, found.st_ino
    until, answer = _scan_cache.get(key, (0.0, ""))
    now = time.monotonic()
    if now >= until:
        answer = _scan_owners(root, now + SCAN_TIMEOUT_SECONDS)
        took = time.monotonic() - now
        _scan_cache[key] = now + took * RESCAN_FACTOR, answer
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
                    # What we may not write without an overlay either is no loss with one.
                    if everything or (not entry.is_symlink() and os.access(entry.path, os.W_OK)):
                        return entry.path
        except OSError:
            continue  # closed to us, or gone
    return ""
