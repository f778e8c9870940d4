"""The filter, tested by running it: it is a small program, and this file has an interpreter for it."""

import errno
import re
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.shell import seccomp

ALLOW = 0x7FFF0000
MACHINES = tuple(seccomp.ARCHITECTURES)
HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
modes = seccomp.CHANGE_MODE_SYSCALLS | seccomp.MAKE_FILE_SYSCALLS | seccomp.OPEN_FILE_SYSCALLS
by_argument = {name: numbers for name, (numbers, _) in modes.items()} | {
    "openat2": seccomp.OPENAT2,
    "clone": seccomp.CLONE,
    "clone3": seccomp.CLONE3,
    "unshare": seccomp.UNSHARE,
    "personality": seccomp.PERSONALITY,
    "socket": seccomp.SOCKET,
    "ioctl": seccomp.IOCTL,
}


def answer(machine: str, number: int, *arguments: int, audit: int | None = None, direct: bool = False) -> int:
    """What the kernel would do: ALLOW, or the error it would return."""
    kind = seccomp.ARCHITECTURES[machine]
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, kind.audit_arch if audit is None else audit, 0, *padded)
    steps = list(struct.iter_unpack("=HBBI", seccomp.build_filter(machine, direct=direct)))
    value, at = 0, 0
    while True:
        code, then, otherwise, given = steps[at]
        at += 1
        match code:
            case 0x20:
                (value,) = struct.unpack_from("<I", data, given)
            case 0x15:
                at += then if value == given else otherwise
            case 0x35:
                at += then if value >= given else otherwise
            case 0x45:
                at += then if value & given else otherwise
            case 0x06:
                return ALLOW if given == ALLOW else given - 0x50000
            case _:
                raise AssertionError(code)


@pytest.mark.parametrize("machine", MACHINES)
def test_each_refused_call_answers_eperm(machine: str):
    column = seccomp.ARCHITECTURES[machine].column
    numbers = [pair[column] for pair in seccomp.REFUSED_SYSCALLS.values()]
    assert all(answer(machine, number) == errno.EPERM for number in numbers if number is not None)
    assert len({number for number in numbers if number is not None}) == len([n for n in numbers if n is not None])


@given(machine=st.sampled_from(MACHINES), number=st.integers(0, 0x3FFFFFFF), argument=st.integers(0, 2**64 - 1))
def test_every_other_call_is_allowed_whatever_its_arguments(machine: str, number: int, argument: int):
    column = seccomp.ARCHITECTURES[machine].column
    named = {pair[column] for pair in (*seccomp.REFUSED_SYSCALLS.values(), *by_argument.values())}
    if number not in named:
        assert answer(machine, number, argument, argument, argument) == ALLOW


@given(machine=st.sampled_from(MACHINES), number=st.integers(0, 2**32 - 1), audit=st.integers(0, 2**32 - 1))
def test_numbers_of_another_machine_are_never_taken_for_ours(machine: str, number: int, audit: int):
    if audit != seccomp.ARCHITECTURES[machine].audit_arch:
        assert answer(machine, number, audit=audit) == errno.EPERM


@given(st.integers(0x40000000, 2**32 - 1))
def test_x32_never_gets_through(number: int):
    assert answer("x86_64", number) == errno.EPERM


NAMESPACES = (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


@given(machine=st.sampled_from(MACHINES), flags=st.integers(0, 2**64 - 1))
def test_a_process_is_never_made_in_a_new_namespace(machine: str, flags: int):
    column = seccomp.ARCHITECTURES[machine].column
    new = any(flags & flag for flag in NAMESPACES)
    assert answer(machine, seccomp.CLONE[column], flags) == (errno.EPERM if new else ALLOW)
    assert answer(machine, seccomp.UNSHARE[column], flags) == (errno.EPERM if new or flags & 0x80 else ALLOW)
    assert answer(machine, seccomp.CLONE3[column], flags) == errno.ENOSYS


@given(machine=st.sampled_from(MACHINES), above=st.integers(0, 2**32 - 1))
def test_nobody_types_into_a_terminal(machine: str, above: int):
    """The kernel reads only the lower half of the number, so higher bits do not help."""
    number = seccomp.IOCTL[seccomp.ARCHITECTURES[machine].column]
    assert answer(machine, number, 0, 0x5412 | above << 32) == errno.EPERM
    assert answer(machine, number, 0, 0x541C | above << 32) == errno.EPERM
    assert answer(machine, number, 0, 0x5413 | above << 32) == ALLOW  # the size of a window


@given(
    machine=st.sampled_from(MACHINES),
    name=st.sampled_from(sorted(modes)),
    mode=st.integers(0, 2**64 - 1),
    flags=st.integers(0, 2**32 - 1),
    direct=st.booleans(),
)
def test_r14_no_file_is_ever_made_set_user_id(machine: str, name: str, mode: int, flags: int, direct: bool):
    """The kernel reads only the lower bits of a mode. If open does not create a file, it ignores the mode."""
    numbers, at = modes[name]
    number = numbers[seccomp.ARCHITECTURES[machine].column]
    if number is None:
        return
    opens = name in seccomp.OPEN_FILE_SYSCALLS
    arguments = [0] * at
    if opens:
        arguments[-1] = flags
    bits = 0o4000 | (0o2000 if direct or name not in seccomp.CHANGE_MODE_SYSCALLS else 0)
    refused = mode & bits and (not opens or flags & 0o20000100)
    assert answer(machine, number, *arguments, mode, direct=direct) == (errno.EPERM if refused else ALLOW)
    assert answer(machine, seccomp.OPENAT2[0], 0, 0, mode) == errno.ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_and_personalities(machine: str):
    column = seccomp.ARCHITECTURES[machine].column
    made = {family: answer(machine, seccomp.SOCKET[column], family, 1, 0) for family in range(46)}
    assert {family for family, what in made.items() if what == ALLOW} == {1, 2, 10, 16}
    assert answer(machine, seccomp.SOCKET[column], 16, 3, 9) == errno.EPROTONOSUPPORT
    assert answer(machine, seccomp.PERSONALITY[column], 0xFFFFFFFF) == ALLOW
    assert answer(machine, seccomp.PERSONALITY[column], 0x400000) == errno.EPERM  # whatever is readable is executable


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_those_of_the_kernel(machine: str):
    if not HEADERS[machine].exists():
        pytest.skip("no headers of the kernel here")
    text = HEADERS[machine].read_text()
    there = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)$", text, re.MULTILINE)
    }
    column = seccomp.ARCHITECTURES[machine].column
    ours = {name: pair[column] for name, pair in (seccomp.REFUSED_SYSCALLS | by_argument).items()}
    assert {name: number for name, number in ours.items() if name in there} == {
        name: there[name] for name in ours if name in there
    }
    assert len(ours.keys() & there.keys()) > 40


def test_a_machine_without_numbers_has_no_filter():
    assert seccomp.build_filter("sparc64") == b""
