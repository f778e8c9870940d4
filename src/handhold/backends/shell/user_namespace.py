"""A user namespace for root's commands, in which every id is mapped to itself.

bubblewrap maps a single id into the namespaces it creates, but archives contain files of several owners. So root's
commands join a namespace that is created once here, and kept by a descriptor. They have two capabilities in it: to
change owners, and to change the mode and times of others' files. Modes still apply to reading and writing.
"""

import os
import re
import select
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from handhold.backends.programs import DEVNULL, PIPE, TimeoutExpired, build_own_environment, run_program, start_program
from handhold.backends.shell.environment import find_system_program
from handhold.backends.shell.orphans import build_tool_environment
from handhold.backends.shell.sandbox_support import (
    ISOLATION_FLAGS,
    PROBE_FOLDER,
    PROBE_TIMEOUT_SECONDS,
    build_base_flags,
    build_overlay_flags,
    build_sys_flags,
    detect_sandbox_support,
)
from handhold.logs import suppress_and_log

# What `--disable-userns` does, which bubblewrap supports only with a namespace of its own.
DISABLE_NAMESPACES_COMMAND = "echo 0 >/proc/sys/user/max_user_namespaces"
ID_RANGE_ISOLATION_FLAGS = (
    *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
    *("--assert-userns-disabled", "--cap-drop", "ALL", "--cap-add", "CAP_CHOWN", "--cap-add", "CAP_FOWNER"),
    *("--die-with-parent", "--new-session", "--hostname", "handhold"),
)
CHILD_PID_PATTERN = re.compile(rb'"child-pid": (\d+)\D')


def has_id_range() -> bool:
    """Whether commands on an overlay can own files as any user: only for root, and if the kernel supports it."""
    return os.geteuid() == 0 and _open_id_range() >= 0


def build_id_range_flags() -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The isolation flags for a command on an overlay, and the descriptor to pass with them."""
    if not has_id_range():
        return ISOLATION_FLAGS, ()
    return (*ID_RANGE_ISOLATION_FLAGS, "--userns", str(_open_id_range())), (_open_id_range(),)


@cache
def _open_id_range() -> int:
    """The namespace as a descriptor; -1 if it is not available."""
    support = detect_sandbox_support()
    found = support.bubblewrap
    if found is None or not found.overlay or not support.launcher:
        return -1
    with suppress_and_log(OSError, TimeoutExpired), ExitStack() as opened:
        namespace = _create_namespace(found.path)
        opened.callback(os.close, namespace)
        _verify_namespace(found.path, namespace)
        opened.pop_all()
        return namespace
    return -1


def _create_namespace(bubblewrap: str) -> int:
    made = (bubblewrap, "--unshare-user", "--userns-block-fd", "0", "--info-fd", "1", "--cap-add", "CAP_SYS_RESOURCE")
    command = (
        *made,
        "--die-with-parent",
        "--dev-bind",
        "/",
        "/",
        "--",
        find_system_program("sh"),
        "-c",
        DISABLE_NAMESPACES_COMMAND,
    )
    # If this process is killed now, bubblewrap dies with it, but not the child that waits for it: that is an orphan.
    environment = build_own_environment(**build_tool_environment(os.getpid()))
    with (
        ExitStack() as opened,
        start_program(command, stdin=PIPE, stderr=DEVNULL, env=environment) as process,
    ):
        opened.callback(process.kill)
        assert process.stdin
        assert process.stdout
        info = b""
        while not (child := CHILD_PID_PATTERN.search(info)):
            if not select.select([process.stdout], [], [], PROBE_TIMEOUT_SECONDS)[0]:
                raise TimeoutError
            if not (more := os.read(process.stdout.fileno(), 4096)):
                raise OSError("bubblewrap did not create a user namespace")
            info += more
        inside = Path("/proc", child[1].decode())
        for ids in ("uid_map", "gid_map"):
            ours = (line.split() for line in Path("/proc/self", ids).read_text().splitlines())
            (inside / ids).write_text("".join(f"{first} {first} {count}\n" for first, _, count in ours))
        namespace = os.open(inside / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        opened.callback(os.close, namespace)
        process.communicate(b"\n", timeout=PROBE_TIMEOUT_SECONDS)
        if process.returncode:
            raise OSError("the user namespace allows others below it")
        return os.dup(namespace)


def _verify_namespace(bubblewrap: str, namespace: int) -> None:
    """Raise OSError unless a command runs in it, on an overlay."""
    laid = (
        *build_base_flags(),
        *build_overlay_flags((PROBE_FOLDER,)),
        *build_sys_flags(),
        *ID_RANGE_ISOLATION_FLAGS,
        "--userns",
        str(namespace),
    )
    command = (bubblewrap, *laid, "--", find_system_program("true"))
    if run_program(command, pass_fds=(namespace,), timeout=PROBE_TIMEOUT_SECONDS).returncode:
        raise OSError("bubblewrap cannot join it")
