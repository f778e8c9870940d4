"""Give a file with several names a copy of its own under one of them, before it is changed under that name.

Who judged a path knows nothing of the file's other names (hard links). They keep the old file, as on an overlay.
"""

import errno
import os
from contextlib import suppress
from secrets import token_hex

from handhold.backends.files.commit.file_metadata import READ_FLAGS, copy_metadata, file_id
from handhold.backends.files.commit.tree_copier import copy_data


def separate_name(folder: int, name: str, expected: os.stat_result) -> None:
    """Raise PermissionError if the name is another file's by now, or a copy would differ."""
    source = os.open(name, READ_FLAGS, dir_fd=folder)
    try:
        found = os.fstat(source)
        if file_id(found) != file_id(expected):
            raise PermissionError(errno.EACCES, name)
        # It has no name until it is complete, so that nothing is left of it after a kill.
        copy = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600, dir_fd=folder)
        try:
            copy_data(source, copy, found.st_size)
            if not copy_metadata(source, copy, found):
                raise PermissionError(errno.EACCES, name)
            os.utime(copy, ns=(found.st_atime_ns, found.st_mtime_ns))
            _replace(folder, name, copy)
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _replace(folder: int, name: str, copy: int) -> None:
    times = os.stat(".", dir_fd=folder)
    beside = f".{token_hex(8)}"
    os.link(f"/proc/self/fd/{copy}", beside, dst_dir_fd=folder, follow_symlinks=True)
    try:
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        os.unlink(beside, dir_fd=folder)
        raise
    with suppress(PermissionError):  # a folder of another user
        os.utime(f"/proc/self/fd/{folder}", ns=(times.st_atime_ns, times.st_mtime_ns))
