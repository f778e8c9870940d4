"""Hash the content of a file, or say that it was not read.

Up to the size that tools edit, it is the hash by which the store keeps contents. Larger files are hashed in chunks, so
that holes cost nothing. A file that is not read has a placeholder of size and mtime.
"""

import errno
import os
from hashlib import sha256

from handhold.core.ports.files import MAX_EDITABLE_BYTES

CHUNK_BYTES = 1024 * 1024
ZERO_CHUNK_HASH = sha256(bytes(CHUNK_BYTES)).digest()
UNREAD = "unread "  # the beginning of a placeholder
WHOLE = "whole "  # the beginning of a hash of every byte of a tree or a very large file


def hash_file(fd: int, status: os.stat_result) -> str:
    """The hash of every byte of a file that is open at its start."""
    return _hash_chunks(fd) if status.st_size > MAX_EDITABLE_BYTES else hash_content(fd, status.st_size)


def is_whole(hash: str) -> bool:
    """Whether it is the hash of every byte of a tree or a very large file."""
    return hash.startswith(WHOLE)


def hash_content(fd: int, size: int) -> str:
    chunk = os.read(fd, min(size + 1, CHUNK_BYTES))
    state = sha256(chunk)
    if len(chunk) != size:  # it is longer, or has changed
        while chunk := os.read(fd, CHUNK_BYTES):
            state.update(chunk)
    return state.hexdigest()


def _hash_chunks(fd: int) -> str:
    """The hash of the hashes of its chunks. Holes are not read."""
    end = os.fstat(fd).st_size
    state, at = sha256(b"%d " % end), 0
    while at < end:
        data = _find_data(fd, at, end) // CHUNK_BYTES * CHUNK_BYTES
        for _ in range(at, data, CHUNK_BYTES):
            state.update(ZERO_CHUNK_HASH)
        at = max(at, data)
        if at < end:
            chunk = os.pread(fd, CHUNK_BYTES, at)
            state.update(sha256(chunk).digest())
            at += CHUNK_BYTES
    return WHOLE + state.hexdigest()


def _find_data(fd: int, at: int, end: int) -> int:
    """Where the next data begins at or after an offset."""
    try:
        return os.lseek(fd, at, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return end
        if error.errno in (errno.EINVAL, errno.EOPNOTSUPP):  # a file system that knows no holes
            return at
        raise


def placeholder_hash(status: os.stat_result) -> str:
    """A substitute for a file's hash, never equal to one."""
    return f"{UNREAD}{status.st_size} {status.st_mtime_ns}"


def is_placeholder(hash: str) -> bool:
    return hash.startswith(UNREAD)
