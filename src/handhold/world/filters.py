"""Filters of system calls, as small programs for the kernel: the steps they are made of, and how processors count."""

import struct
from dataclasses import dataclass

# Offsets in struct seccomp_data. Both machines are little-endian: the low half of an argument comes first.
NR, ARCH, ARGS = 0, 4, 16
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000


@dataclass(frozen=True)
class Machine:
    """How one kind of processor counts. `column` is its number in a table of calls."""

    audit: int
    column: int


MACHINES = {"x86_64": Machine(0xC000003E, 0), "aarch64": Machine(0xC00000B7, 1)}


def load(offset: int) -> bytes:
    return _step(LOAD, 0, 0, offset)


def test(how: int, value: int, then: int, otherwise: int) -> bytes:
    """How many steps to leave out if it holds, and if not."""
    return _step(how, then, otherwise, value)


def answer(what: int) -> bytes:
    return _step(RETURN, 0, 0, what)


def _step(code: int, then: int, otherwise: int, value: int) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)
