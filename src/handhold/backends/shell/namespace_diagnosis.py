"""Diagnose why this machine does not allow unprivileged user namespaces, and what its owner can do about it.

A sandbox needs one. Several settings and filters forbid it, and bubblewrap's message is the same for most of them.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from errno import EINVAL, ENOSPC, ENOSYS, EPERM
from pathlib import Path

from handhold.backends.programs import SubprocessError, find_interpreter, run_program
from handhold.logs import log_swallowed

PROBE_TIMEOUT_SECONDS = 5
SYSCTL_FOLDER = Path("/proc/sys")
MAX_NAMESPACES_SYSCTL, UNPRIVILEGED_CLONE_SYSCTL = "user.max_user_namespaces", "kernel.unprivileged_userns_clone"
APPARMOR_SYSCTL = "kernel.apparmor_restrict_unprivileged_userns"
STATUS_FILE = Path("/proc/self/status")

# Prints the error numbers of creating a user namespace, and of creating a mount namespace inside it.
PROBE_SCRIPT = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def unshare(flag):
    return ctypes.get_errno() if libc.unshare(flag) else 0
print(unshare(0x10000000), unshare(0x00020000))
"""

PROFILE_TEMPLATE = """\
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
    remedy: str  # for the machine's owner: shell commands, or a sentence


def find_cause(bubblewrap: str) -> Cause | None:
    """What prevents this bubblewrap from creating its namespaces; None if no known cause applies."""
    settings = {
        name: _read_sysctl(name) for name in (MAX_NAMESPACES_SYSCTL, UNPRIVILEGED_CLONE_SYSCTL, APPARMOR_SYSCTL)
    }
    return diagnose(
        *_probe_namespaces(),
        settings,
        is_filtered=_has_seccomp_filter(),
        is_root=os.geteuid() == 0,
        bubblewrap=bubblewrap,
    )


def diagnose(
    create_errno: int,
    use_errno: int,
    settings: Mapping[str, int | None],
    *,
    is_filtered: bool,
    is_root: bool,
    bubblewrap: str,
) -> Cause | None:
    """Diagnose by the error numbers of creating and using a user namespace, and by sysctl settings."""
    if not create_errno and not use_errno:
        return None
    if create_errno in (ENOSYS, EINVAL):
        return Cause("this kernel has no user namespaces", "A kernel with CONFIG_USER_NS, or a container that has one")
    if create_errno == ENOSPC or settings[MAX_NAMESPACES_SYSCTL] == 0:
        return Cause(
            f"{MAX_NAMESPACES_SYSCTL} is {settings[MAX_NAMESPACES_SYSCTL]}",
            _format_sysctl_remedy(MAX_NAMESPACES_SYSCTL, 15_000),
        )
    if not is_root and settings[UNPRIVILEGED_CLONE_SYSCTL] == 0:
        return Cause(
            f"{UNPRIVILEGED_CLONE_SYSCTL} is 0: only root may create user namespaces",
            _format_sysctl_remedy(UNPRIVILEGED_CLONE_SYSCTL, 1),
        )
    if not is_root and settings[APPARMOR_SYSCTL] == 1:
        return Cause(
            f"AppArmor gives programs without a profile no rights in user namespaces ({APPARMOR_SYSCTL} is 1)",
            _format_profile_remedy(bubblewrap),
        )
    if create_errno == EPERM and is_filtered:
        return Cause(
            "a system-call filter forbids user namespaces, as the default one of container engines does",
            "Start the container with a seccomp profile that allows clone, unshare, mount, umount2 and pivot_root; or\n"
            'leave it to the container to confine commands: --shell external, or Toolbox.open(…, shell="external")',
        )
    return None


def _format_sysctl_remedy(name: str, value: int) -> str:
    return (
        f"sudo sysctl -w {name}={value}\n"
        f"echo '{name} = {value}' | sudo tee /etc/sysctl.d/60-handhold.conf  # and after the next start"
    )


def _format_profile_remedy(bubblewrap: str) -> str:
    """An AppArmor profile for this bubblewrap only; changing the setting would affect every program."""
    return (
        f"sudo tee {PROFILE_FILE} >/dev/null <<'END'\n{PROFILE_TEMPLATE.format(path=_quote_path(bubblewrap))}END\n"
        f"sudo apparmor_parser --replace {PROFILE_FILE}"
    )


def _quote_path(path: str) -> str:
    """Quote for AppArmor, where some characters are wildcards unless escaped."""
    return '"' + "".join(f"\\{each}" if each in '\\"*?[]{}^@' else each for each in path) + '"'


def _read_sysctl(name: str) -> int | None:
    """None if this kernel does not have the setting."""
    try:
        return int((SYSCTL_FOLDER / name.replace(".", "/")).read_text())
    except (OSError, ValueError):
        log_swallowed()
        return None


def _has_seccomp_filter() -> bool:
    lines = dict(line.split(":\t", 1) for line in STATUS_FILE.read_text().splitlines() if ":\t" in line)
    return lines.get("Seccomp", "0").strip() == "2"


def _probe_namespaces() -> tuple[int, int]:
    try:
        done = run_program((find_interpreter(), "-I", "-S", "-c", PROBE_SCRIPT), timeout=PROBE_TIMEOUT_SECONDS)
        create_errno, use_errno = map(int, done.stdout.split())
    except (OSError, ValueError, SubprocessError):
        return 0, 0  # unknown
    return create_errno, use_errno
