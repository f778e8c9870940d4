"""Resolving a path in the kernel, which is told to stay beneath the root: one call, nothing to race with.

What the kernel refuses or does not find goes to the walk: it knows absolute links that lead inside, names
what is missing, and takes paths of any length. So both resolvers give the same answers.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence

from handhold.world.files.roots import Root, Roots, Spot
from handhold.world.files.trouble import trouble
from handhold.world.files.walk import ALWAYS, Opened, Walk

OPENAT2 = 437  # the same on every architecture but Alpha
NO_MAGICLINKS, NO_SYMLINKS, BENEATH = 0x02, 0x04, 0x08
TRIES = 32  # EAGAIN: somebody renamed a directory on the way while `..` was resolved
WALKED = {
    *(errno.EXDEV, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EAGAIN),
    *(errno.ENXIO, errno.ENODEV),  # sockets, and devices without a driver, which the walk does not open
}
GONE = " (deleted)"

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def how(flags: int, resolve: int) -> bytes:
    """struct open_how: flags, mode, resolve. Here the kernel refuses flags that O_PATH makes meaningless."""
    return struct.pack("QQQ", flags | (os.O_CLOEXEC if flags & os.O_PATH else ALWAYS), 0, resolve)


LOOK = how(os.O_PATH, BENEATH | NO_MAGICLINKS)
READ = how(os.O_RDONLY, BENEATH | NO_MAGICLINKS)
PARENT = how(os.O_RDONLY | os.O_DIRECTORY, BENEATH | NO_MAGICLINKS | NO_SYMLINKS)


def openat2(fd: int, way: bytes, how: bytes) -> int:
    for _ in range(TRIES):
        found = _syscall(OPENAT2, fd, way, how, len(how))
        if found >= 0:
            return found
        if (number := ctypes.get_errno()) not in (errno.EAGAIN, errno.EINTR):
            raise OSError(number, os.strerror(number))
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


def available(root: Root) -> bool:
    """Whether this kernel has openat2, lets us use it, and shows through /proc what a descriptor is."""
    try:
        fd = openat2(root.fd, b".", LOOK)
    except OSError:
        return False
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == root.real
    except OSError:
        return False
    finally:
        os.close(fd)


class Kernel:
    name = "openat2"

    def __init__(self, roots: Roots) -> None:
        self.walk = Walk(roots)

    def open(self, spot: Spot, flags: int) -> Opened:
        """As Walk.open, but a FIFO or device is opened too, without blocking."""
        try:
            fd = openat2(spot.root.fd, os.fsencode(spot.way or "."), LOOK if flags & os.O_PATH else READ)
        except OSError as error:
            if error.errno in WALKED:
                return self.walk.open(spot, flags)
            raise trouble(error, spot.path) from error
        place = spelling(fd, spot.root)
        if place is None:
            os.close(fd)
            return self.walk.open(spot, flags)
        return Opened(fd, place)

    def directory(self, root: Root, way: Sequence[str]) -> int:
        """As Walk.directory."""
        try:
            return openat2(root.fd, os.fsencode("/".join(way) or "."), PARENT)
        except OSError as error:
            if error.errno in WALKED:
                return self.walk.directory(root, way)
            raise


def spelling(fd: int, root: Root) -> str | None:
    """The name of a descriptor beneath its root; None if it has left the root, or is too deep to be spelled."""
    try:
        name = os.readlink(f"/proc/self/fd/{fd}")
        if name.endswith(GONE) and os.fstat(fd).st_nlink == 0:
            name = name[: -len(GONE)]
        if name.startswith(root.prefix) or name == root.real:
            return name
        now = os.readlink(f"/proc/self/fd/{root.fd}")  # the root itself was renamed
    except OSError:
        return None
    if name == now:
        return root.real
    return root.prefix + name[len(now) + 1 :] if name.startswith(now + "/") else None
