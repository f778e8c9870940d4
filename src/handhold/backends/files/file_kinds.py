"""What a descriptor refers to: its kind, its identity, its file system."""

import ctypes
import os
import stat

from handhold.core.facts import FileIdentity, FileKind

PROC_SUPER_MAGIC, SYSFS_MAGIC = 0x9FA0, 0x62656572  # f_type of file systems that are kernel interfaces

_libc = ctypes.CDLL(None, use_errno=True)
_fstatfs = _libc.fstatfs
_fstatfs.argtypes = (ctypes.c_int, ctypes.c_void_p)


def identity_of(status: os.stat_result) -> FileIdentity:
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def kind_of(mode: int) -> FileKind:
    if stat.S_ISREG(mode):
        return "file"
    return "directory" if stat.S_ISDIR(mode) else "other"


def special_kind_of(mode: int) -> str:
    """The name of a special file's kind."""
    for is_one, name in ((stat.S_ISFIFO, "fifo"), (stat.S_ISSOCK, "socket"), (stat.S_ISLNK, "link")):
        if is_one(mode):
            return name
    return "device"


def is_virtual(fd: int) -> bool:
    """Whether it is on procfs or sysfs, where a read may reveal or block anything."""
    return file_system_type(fd) in (PROC_SUPER_MAGIC, SYSFS_MAGIC)


def file_system_type(fd: int) -> int:
    """The file system's type number; 0 if unknown."""
    found = (ctypes.c_long * 64)()  # larger than the struct on any system; f_type is its first field
    return found[0] if _fstatfs(fd, ctypes.byref(found)) == 0 else 0
