"""What to spawn for a command, and the unnamed files that are passed to it."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from handhold.backends.shell.environment import find_system_program
from handhold.backends.shell.sandbox_support import create_memfd
from handhold.backends.shell.streams import StandardStreams
from handhold.core.errors import NoShell

if TYPE_CHECKING:
    from handhold.backends.network.proxy import Proxy

BASH = "bash"
MAX_ARGUMENT_BYTES = 100_000  # the kernel's limit is 131,071


@dataclass(frozen=True)
class LaunchSpec:
    """What to spawn. The caller closes it when the command has ended.

    `env` is for the spawned process, `command_env` for the command: variables that a command sets can control how a
    program is loaded, so bubblewrap, which runs outside, gets none of them.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    command_env: Mapping[str, str]
    pass_fds: tuple[int, ...] = ()
    proxy: "Proxy | None" = None  # if the network is open for named hosts
    streams: StandardStreams | None = None  # of the spawned process; None: ours, to collect what is printed
    broker: str = ""  # its path in `argv`, if the command is brokered
    cleanup: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)

    def close(self) -> None:
        self.cleanup.close()


class PassedFiles:
    """Small unnamed files, passed by descriptor."""

    def __init__(self, stack: ExitStack) -> None:
        self.stack = stack
        self.fds: list[int] = []

    def add_data(self, data: bytes) -> str:
        return self._add_fd(create_memfd("handhold", data))

    def build_copy_flags(self, path: str, mode: str, place: str = "") -> tuple[str, ...]:
        """Flags for a copy of a small file, which takes a third of the time of a mount."""
        fd = self._add_fd(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return ("--perms", mode, "--file", fd, place or path)

    def _add_fd(self, fd: int) -> str:
        self.stack.callback(os.close, fd)
        self.fds.append(fd)
        return str(fd)

    def add_arguments(self, flags: Sequence[str]) -> str:
        """Pass flags in a file, since anybody on the machine can read a command line."""
        joined = "\0".join((*flags, ""))
        if joined.count("\0") != len(flags):
            raise NoShell("a path or a variable contains a NUL")
        return self.add_data(os.fsencode(joined))


def build_argv(command: str, stack: ExitStack) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Bash with the command as an argument; a very long command is passed as an unnamed file."""
    encoded = os.fsencode(command)
    if b"\0" in encoded:
        raise NoShell("the command contains a NUL, which cannot be passed to a program")
    if len(encoded) <= MAX_ARGUMENT_BYTES:
        return (find_system_program(BASH), "-c", command, BASH), ()  # the last one is $0, as shown in error messages
    script = create_memfd("command", encoded)
    stack.callback(os.close, script)
    return (find_system_program(BASH), f"/proc/self/fd/{script}"), (script,)
