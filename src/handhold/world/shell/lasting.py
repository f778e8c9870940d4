"""A shell that lasts, made of shells that do not: where one ended the next one begins.

Before a command bash reads a few lines of ours, which go to the folder and leave a trap for its end; the trap says
where it stands, and what is exported, into a small file without a name. So nothing is said through the output, the
command is bash's own argument as it came, and what comes back is data that is never run. A command that sets a trap
of its own for its end, or becomes another program by `exec`, leaves things as they were.
"""

import fcntl
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Literal

Lasts = Literal["nothing", "folder", "exports"]

MOST_SAID = 128 * 1024  # bytes, folder and exports together
FOLDER = "HANDHOLD_FOLDER"
BEGIN = """\
builtin cd -- "${FOLDER}" 2>/dev/null
builtin unset BASH_ENV {FOLDER} OLDPWD
builtin exec {begins}<&-
builtin trap '{{ builtin pwd -P && builtin printf "\\0"{exports} && builtin printf "{LAST}\\0"; }} >&{fd} 2>&-' EXIT
"""
EXPORTS = " && builtin command -p env -0"
LAST = "/end"  # no variable is called so
OWN = frozenset(("BASH_ENV", FOLDER, "PWD", "OLDPWD", "SHLVL", "_", "LD_PRELOAD"))


@dataclass
class Lasting:
    """What one shell hands on to the next."""

    lasts: Lasts
    folder: str
    exports: dict[str, str] = field(default_factory=dict[str, str])

    def begin(self, opened: ExitStack) -> "Memory | None":
        """What the next shell needs to remember, and to say what the one after it should; None if nothing lasts."""
        if self.lasts == "nothing":
            return None
        said = os.memfd_create("handhold", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        opened.callback(os.close, said)
        os.ftruncate(said, MOST_SAID)
        fcntl.fcntl(said, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)  # nobody fills our memory
        exports = EXPORTS if self.lasts == "exports" else ""
        begins = os.memfd_create("handhold", os.MFD_CLOEXEC)
        opened.callback(os.close, begins)
        with os.fdopen(begins, "w", closefd=False) as file:
            file.write(BEGIN.format(FOLDER=FOLDER, LAST=LAST, exports=exports, fd=said, begins=begins))
        env = self.exports | {"BASH_ENV": f"/proc/self/fd/{begins}", FOLDER: self.folder}
        return Memory(env, (said, begins))

    def learn(self, memory: "Memory", given: Mapping[str, str]) -> None:
        """From a shell that has ended, which had been `given` its variables."""
        said, whole, _ = os.pread(memory.fds[0], MOST_SAID, 0).partition(f"\0{LAST}\0".encode())
        folder, *variables = said.split(b"\0")
        if not whole or not folder.startswith(b"/"):
            return
        self.folder = os.fsdecode(folder.removesuffix(b"\n"))
        if self.lasts == "exports":
            pairs = (os.fsdecode(each).partition("=") for each in variables if each)
            before = self.exports
            self.exports = {
                name: value
                for name, _, value in pairs
                if name not in OWN and (name in before or given.get(name) != value)
            }


@dataclass(frozen=True)
class Memory:
    env: Mapping[str, str]
    fds: tuple[int, int]
