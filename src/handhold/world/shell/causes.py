"""Why this machine gives a plain program no user namespace, and what its owner can do about it.

A sandbox needs one. Several settings and filters forbid it, and bubblewrap's own words are the same for most of them.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from errno import EINVAL, ENOSPC, ENOSYS, EPERM
from pathlib import Path

SECONDS = 5
SYSCTLS = Path("/proc/sys")
MOST, CLONE = "user.max_user_namespaces", "kernel.unprivileged_userns_clone"
APPARMOR = "kernel.apparmor_restrict_unprivileged_userns"
STATUS = Path("/proc/self/status")

# Prints the error number of making a user namespace, and of making a mount namespace with the rights that it gives.
TRIAL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def unshare(flag):
    return ctypes.get_errno() if libc.unshare(flag) else 0
print(unshare(0x10000000), unshare(0x00020000))
"""

PROFILE = """\
abi <abi/4.0>,
include <tunables/global>

profile handhold-bwrap {path} flags=(unconfined) {{
  userns,
  include if exists <local/handhold-bwrap>
}}
"""
PROFILE_FILE = "/etc/apparmor.d/handhold-bwrap"


@dataclass(frozen=True)
class Cause:
    why: str
    remedy: str  # for the owner of the machine: lines to paste into a shell, or a sentence


def find_cause(bubblewrap: str) -> Cause | None:
    """What keeps the bubblewrap at a path from making its namespaces; None if nothing that we know."""
    settings = {name: _setting(name) for name in (MOST, CLONE, APPARMOR)}
    return cause_of(*_tried(), settings, is_filtered=_is_filtered(), is_root=os.geteuid() == 0, bubblewrap=bubblewrap)


def cause_of(
    made: int, used: int, settings: Mapping[str, int | None], *, is_filtered: bool, is_root: bool, bubblewrap: str
) -> Cause | None:
    """By the error numbers of making a user namespace and of using it, and by what the settings say."""
    if not made and not used:
        return None
    if made in (ENOSYS, EINVAL):
        return Cause("this kernel has no user namespaces", "A kernel with CONFIG_USER_NS, or a container that has one")
    if made == ENOSPC or settings[MOST] == 0:
        return Cause(f"{MOST} is {settings[MOST]}", _sysctl(MOST, 15_000))
    if not is_root and settings[CLONE] == 0:
        return Cause(f"{CLONE} is 0: only root may make user namespaces", _sysctl(CLONE, 1))
    if not is_root and settings[APPARMOR] == 1:
        return Cause(
            f"AppArmor gives programs without a profile no rights in user namespaces ({APPARMOR} is 1)",
            _profile(bubblewrap),
        )
    if made == EPERM and is_filtered:
        return Cause(
            "a system-call filter forbids user namespaces, as the default one of container engines does",
            "Start the container with a seccomp profile that allows clone, unshare, mount, umount2 and pivot_root; or\n"
            'leave it to the container to confine commands: --shell external, or Toolbox.open(…, shell="external")',
        )
    return None


def _sysctl(name: str, value: int) -> str:
    return (
        f"sudo sysctl -w {name}={value}\n"
        f"echo '{name} = {value}' | sudo tee /etc/sysctl.d/60-handhold.conf  # and after the next start"
    )


def _profile(bubblewrap: str) -> str:
    """For this bubblewrap alone; the setting would lift the restriction for every program."""
    return (
        f"sudo tee {PROFILE_FILE} >/dev/null <<'END'\n{PROFILE.format(path=_quoted(bubblewrap))}END\n"
        f"sudo apparmor_parser --replace {PROFILE_FILE}"
    )


def _quoted(path: str) -> str:
    """As AppArmor reads it: some characters stand for many names, unless they are escaped."""
    return '"' + "".join(f"\\{each}" if each in '\\"*?[]{}^@' else each for each in path) + '"'


def _setting(name: str) -> int | None:
    """None if this kernel does not have it."""
    try:
        return int((SYSCTLS / name.replace(".", "/")).read_text())
    except (OSError, ValueError):
        return None


def _is_filtered() -> bool:
    lines = dict(line.split(":\t", 1) for line in STATUS.read_text().splitlines() if ":\t" in line)
    return lines.get("Seccomp", "0").strip() == "2"


def _tried() -> tuple[int, int]:
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", TRIAL], capture_output=True, text=True, timeout=SECONDS, check=True
        )
        made, used = map(int, done.stdout.split())
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0, 0  # nobody can tell
    return made, used
