"""The process that decodes: it gives up what it could do to the machine, then takes the bytes.

It has little memory, little time, and after its imports only the system calls by which a program computes: it opens
nothing, reaches nothing and starts nothing. The file comes as standard input, what was made of it leaves as records
on standard output: a line of JSON and, behind it, as many bytes as that line says. Whatever a decoder raises is
printed, as by any program: that is the verdict on the file.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

NO_NEW_PRIVILEGES, SECCOMP, DEATH_SIGNAL = 38, 22, 1  # of prctl
FILTER, KILL = 2, 9
FEW_FILES = 16

Say = Callable[..., None]


class Filter(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_ushort), ("program", ctypes.c_char_p))


def main(job: dict[str, Any]) -> None:
    """Runs with nothing but the job: see `confined`."""
    ctypes.CDLL(None).prctl(DEATH_SIGNAL, KILL)
    bound(resource.RLIMIT_AS, job["memory"])
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 1))  # a word first, then the axe
    bound(resource.RLIMIT_CORE, 0)
    work = work_of(job)
    bound(resource.RLIMIT_FSIZE, 0)
    bound(resource.RLIMIT_NOFILE, FEW_FILES)
    shut(bytes.fromhex(job["filter"]))
    work(job, sys.stdin.buffer, say)
    os._exit(0)  # everything is said: taking the house down would only cost time


def work_of(job: dict[str, Any]) -> Callable[[dict[str, Any], BinaryIO, Say], None]:
    """The decoder, with everything imported that it may ever need."""
    from handhold.world.convert import images

    if job["medium"] == "pdf":
        from handhold.world.convert import pdf

        images.rehearse("png")
        return pdf.work
    images.rehearse(job["medium"])
    return images.work


def bound(what: int, most: int) -> None:
    resource.setrlimit(what, (most, most))


def shut(program: bytes) -> None:
    """No system call but those in the filter, for ever; without a filter for this processor, all of them stay."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    given = Filter(len(program) // 8, program)
    if program and (prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(SECCOMP, FILTER, ctypes.byref(given), 0, 0)):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter")


def say(record: dict[str, Any], data: bytes = b"") -> None:
    out = sys.stdout.buffer
    out.write(json.dumps({**record, "bytes": len(data)}).encode() + b"\n" + data)
    out.flush()
