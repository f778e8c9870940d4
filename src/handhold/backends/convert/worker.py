"""The decoding process: it drops its privileges, then reads the file.

It has little memory, little time, and after its imports only the system calls needed to compute: it can open nothing,
connect to nothing and start nothing. The file is its standard input. The result goes to standard output as records: a
line of JSON, followed by as many bytes as that line says. A decoder's exception is printed, as by any program, and is
reported as the error of the file.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_PDEATHSIG = 38, 22, 1  # of prctl
SECCOMP_MODE_FILTER, SIGKILL = 2, 9
MAX_OPEN_FILES = 16


class SockFprog(ctypes.Structure):
    _fields_ = (("steps", ctypes.c_ushort), ("program", ctypes.c_char_p))


def main(job: dict[str, Any]) -> None:
    """Runs with nothing but the job: see `converter`."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    set_limit(resource.RLIMIT_AS, job["memory"])
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"] + 1))  # SIGXCPU first, then SIGKILL
    set_limit(resource.RLIMIT_CORE, 0)
    convert = load_converter(job)
    set_limit(resource.RLIMIT_FSIZE, 0)
    set_limit(resource.RLIMIT_NOFILE, MAX_OPEN_FILES)
    install_seccomp_filter(bytes.fromhex(job["filter"]))
    convert(job, sys.stdin.buffer, emit_record)
    os._exit(0)  # everything is written; a regular shutdown would only cost time


def load_converter(job: dict[str, Any]) -> Callable[[dict[str, Any], BinaryIO, Callable[..., None]], None]:
    """The decoder, with everything imported that it may ever need."""
    from handhold.backends.convert import images

    if job["medium"] == "pdf":
        from handhold.backends.convert import pdf

        images.warm_up("png")
        return pdf.convert_pdf
    images.warm_up(job["medium"])
    return images.convert_image


def set_limit(kind: int, maximum: int) -> None:
    resource.setrlimit(kind, (maximum, maximum))


def install_seccomp_filter(program: bytes) -> None:
    """Allow only the system calls in the filter, irrevocably; an empty filter restricts nothing."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    filter_program = SockFprog(len(program) // 8, program)
    if program and (
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        or prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(filter_program), 0, 0)
    ):
        raise OSError(ctypes.get_errno(), "the kernel does not accept the filter")


def emit_record(record: dict[str, Any], data: bytes = b"") -> None:
    out = sys.stdout.buffer
    out.write(json.dumps({**record, "bytes": len(data)}).encode() + b"\n" + data)
    out.flush()
