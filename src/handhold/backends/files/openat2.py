"""Resolve paths in the kernel, which is told to stay below the root: one call, without races.

What the kernel refuses or does not find is left to the walk resolver, which handles absolute links that lead inside,
reports what is missing, and accepts paths of any length. So both resolvers give the same answers.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import Protocol

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.backends.files.os_errors import to_tool_error
from handhold.backends.files.roots import Root, RootedPath, Roots
from handhold.backends.files.walk_resolver import BASE_OPEN_FLAGS, OpenedPath, WalkResolver
from handhold.logs import log_swallowed, warn_once

SYS_OPENAT2 = 437  # the same on every architecture except Alpha
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
MAX_TRIES = 32  # EAGAIN: a directory on the path was renamed while `..` was resolved
FALLBACK_ERRNOS = {
    *(errno.EXDEV, errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EAGAIN),
    *(errno.ENXIO, errno.ENODEV),  # sockets, and devices without a driver, which the walk resolver does not open
}
DELETED_SUFFIX = " (deleted)"
HOW_BYTES = 24

_libc = ctypes.CDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
_syscall.restype = ctypes.c_long


def pack_open_how(flags: int, resolve: int) -> bytes:
    """struct open_how: flags, mode, resolve. openat2 rejects flags that O_PATH makes meaningless."""
    return struct.pack("QQQ", flags | (os.O_CLOEXEC if flags & os.O_PATH else BASE_OPEN_FLAGS), 0, resolve)


PATH_HOW = pack_open_how(os.O_PATH, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
READ_HOW = pack_open_how(os.O_RDONLY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
DIRECTORY_HOW = pack_open_how(
    os.O_RDONLY | os.O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS
)


def openat2(fd: int, rel_path: bytes, how: bytes) -> int:
    tries = 1
    while (found := _syscall(SYS_OPENAT2, fd, rel_path, how, HOW_BYTES)) < 0:
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR) or tries == MAX_TRIES:
            raise OSError(number, os.strerror(number))
        tries += 1
    return found


def is_available(root: Root) -> bool:
    """Whether this kernel has openat2, allows it, and shows in /proc what a descriptor refers to."""
    try:
        with root.folder as folder:
            fd = openat2(folder, b".", PATH_HOW)
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:  # says nothing about the kernel
            raise to_exhausted_error(error, root.given) from error
        log_swallowed()
        return False
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == root.real
    except OSError:
        log_swallowed()
        return False
    finally:
        os.close(fd)


class Openat2Resolver:
    name = "openat2"

    def __init__(self, roots: Roots) -> None:
        self.fallback = WalkResolver(roots)

    def open(self, rooted: RootedPath, flags: int) -> OpenedPath:
        """Like WalkResolver.open, but FIFOs and devices are opened too, without blocking."""
        try:
            with rooted.root.folder as folder:
                fd = openat2(folder, os.fsencode(rooted.rel_path or "."), PATH_HOW if flags & os.O_PATH else READ_HOW)
        except OSError as error:
            if error.errno in FALLBACK_ERRNOS:
                return self.fallback.open(rooted, flags)
            raise to_tool_error(error, rooted.path) from error
        place = resolve_fd_path(fd, rooted.root)
        if place is None:
            os.close(fd)
            return self.fallback.open(rooted, flags)
        return OpenedPath(fd, place)

    def open_directory(self, root: Root, parts: Sequence[str]) -> int:
        """Like WalkResolver.open_directory."""
        try:
            with root.folder as folder:
                return openat2(folder, os.fsencode("/".join(parts) or "."), DIRECTORY_HOW)
        except OSError as error:
            if error.errno in FALLBACK_ERRNOS:
                return self.fallback.open_directory(root, parts)
            raise


def resolve_fd_path(fd: int, root: Root) -> str | None:
    """The path of a descriptor below its root; None if it has left the root, or is too deep for a path."""
    try:
        name = os.readlink(f"/proc/self/fd/{fd}")
        if name.endswith(DELETED_SUFFIX) and os.fstat(fd).st_nlink == 0:
            name = name[: -len(DELETED_SUFFIX)]
        if name.startswith(root.prefix) or name == root.real:
            return name
        with root.folder as folder:
            now = os.readlink(f"/proc/self/fd/{folder}")  # the root itself was renamed
    except OSError:
        log_swallowed()
        return None
    if name == now:
        return root.real
    return root.prefix + name[len(now) + 1 :] if name.startswith(now + "/") else None


class PathResolver(Protocol):
    """Opens a path without leaving the roots."""

    @property
    def name(self) -> str: ...

    def open(self, rooted: RootedPath, flags: int) -> OpenedPath: ...

    def open_directory(self, root: Root, parts: Sequence[str]) -> int: ...


def choose_resolver(resolver: str | None, roots: Roots) -> PathResolver:
    """The kernel's resolver if available, unless one is requested by name."""
    if resolver == "walk":
        return WalkResolver(roots)
    if is_available(roots.first):
        return Openat2Resolver(roots)
    if resolver == "openat2":
        raise NotImplementedError("this kernel has no openat2, or forbids it")
    warn_once("files", "The kernel does not offer openat2, so paths are resolved step by step, which is slower.")
    return WalkResolver(roots)
