"""A persistent shell made of separate processes: each one starts where the previous one ended.

Before a command, bash reads a few lines of ours that change to the folder and set an EXIT trap. The trap writes the
working directory and the exports to a small unnamed file. So nothing passes through the output, the command is bash's
own argument, unchanged, and what comes back is data that is never executed. A command that sets its own EXIT trap, or
replaces the shell by `exec`, leaves the state unchanged.
"""

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

StatePersistence = Literal["nothing", "folder", "exports"]

MAX_STATE_BYTES = 128 * 1024  # folder and exports together
FOLDER_VARIABLE = "HANDHOLD_FOLDER"
STARTUP_SCRIPT = """\
builtin cd -- "${FOLDER}" 2>/dev/null
builtin unset BASH_ENV {FOLDER} OLDPWD
builtin exec {begins}<&-
builtin trap '{{ builtin pwd -P && builtin printf "\\0"{exports} && builtin printf "{LAST}\\0"; }} >&{fd} 2>&-' EXIT
"""
PRINT_EXPORTS = " && builtin command -p env -0"
END_MARKER = "/end"  # no variable can have this name
UNSAVED_VARIABLES = frozenset(("BASH_ENV", FOLDER_VARIABLE, "PWD", "OLDPWD", "SHLVL", "_", "LD_PRELOAD"))


@dataclass
class PersistentShellState:
    """What one shell passes on to the next."""

    persistence: StatePersistence
    folder: str
    exports: dict[str, str] = field(default_factory=dict[str, str])

    def prepare(self, stack: ExitStack) -> "StateTransfer | None":
        """What the next shell needs to restore the state and to report the new one; None if nothing persists."""
        if self.persistence == "nothing":
            return None
        state_fd = os.memfd_create("handhold", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        stack.callback(os.close, state_fd)
        os.ftruncate(state_fd, MAX_STATE_BYTES)
        fcntl.fcntl(state_fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)  # to bound our memory
        exports = PRINT_EXPORTS if self.persistence == "exports" else ""
        startup_fd = os.memfd_create("handhold", os.MFD_CLOEXEC)
        stack.callback(os.close, startup_fd)
        with os.fdopen(startup_fd, "w", closefd=False) as file:
            file.write(
                STARTUP_SCRIPT.format(
                    FOLDER=FOLDER_VARIABLE, LAST=END_MARKER, exports=exports, fd=state_fd, begins=startup_fd
                )
            )
        env = self.exports | {"BASH_ENV": f"/proc/self/fd/{startup_fd}", FOLDER_VARIABLE: self.folder}
        return StateTransfer(env, (state_fd, startup_fd))

    def load(self, transfer: "StateTransfer", command_env: Mapping[str, str]) -> None:
        """Load the state from a shell that has ended; `command_env` are the variables that it was given."""
        data, end, _ = os.pread(transfer.fds[0], MAX_STATE_BYTES, 0).partition(f"\0{END_MARKER}\0".encode())
        folder, *variables = data.split(b"\0")
        if not end or not folder.startswith(b"/"):
            return
        self.folder = os.fsdecode(folder.removesuffix(b"\n"))
        if self.persistence == "exports":
            pairs = (os.fsdecode(each).partition("=") for each in variables if each)
            before = self.exports
            self.exports = {
                name: value
                for name, _, value in pairs
                if name not in UNSAVED_VARIABLES and (name in before or command_env.get(name) != value)
            }


@dataclass(frozen=True)
class StateTransfer:
    env: Mapping[str, str]
    fds: tuple[int, int]
