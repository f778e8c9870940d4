"""A session's shared loopback: its commands reach what its background commands serve, and nobody else does.

A network namespace lives as long as a descriptor refers to it. So there is no process to end: when the session is
closed, or Handhold is killed, the namespace disappears with the last command in it. bubblewrap creates it once. The
launcher joins it, then runs the bubblewrap that creates the command's other namespaces.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Literal

from handhold.backends.network import NetworkAccess
from handhold.backends.programs import TimeoutExpired, run_program
from handhold.backends.shell import orphans
from handhold.backends.shell.environment import find_system_program
from handhold.backends.shell.sandbox_support import ISOLATION_FLAGS, PROBE_TIMEOUT_SECONDS, detect_sandbox_support
from handhold.core.errors import NoShell

if TYPE_CHECKING:
    from handhold.backends.network.proxy import Proxy

# Root needs no user namespace to create a network namespace, unless a container dropped that capability.
OWNER_FLAGS: tuple[tuple[str, ...], ...] = ((), ("--unshare-user",))


class Loopback:
    """A network namespace with only `lo`, in which the proxy listens."""

    def __init__(self, bubblewrap: str, network: Literal[True] | NetworkAccess = True) -> None:
        """Raise NoShell if this machine does not allow a namespace that commands can join."""
        self._launcher = detect_sandbox_support().launcher
        self._lock = Lock()
        if not self._launcher:
            raise NoShell("the launcher was not compiled at installation")
        with ExitStack() as opened:
            self.proxy, proxy_fd = (None, -1) if network is True else open_proxy(network, opened)
            self._namespace = self._create_namespace(bubblewrap, proxy_fd)
            opened.callback(os.close, self._namespace)
            argv = (
                *self._build_join_argv(self._namespace),
                bubblewrap,
                "--ro-bind",
                "/",
                "/",
                *ISOLATION_FLAGS,
                "--share-net",
            )
            if error := _run((*argv, "--", find_system_program("true")), (self._namespace,)):
                raise NoShell(error)
            self._stack = opened.pop_all()

    def _create_namespace(self, bubblewrap: str, proxy_fd: int) -> int:
        error = ""
        for owner in OWNER_FLAGS:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                fds = (theirs.fileno(), *((proxy_fd,) if proxy_fd >= 0 else ()))
                launcher_argv = (self._launcher, "-u", str(fds[0]), *(("-n", str(proxy_fd)) if proxy_fd >= 0 else ()))
                argv = (
                    bubblewrap,
                    "--unshare-net",
                    *owner,
                    "--die-with-parent",
                    "--dev-bind",
                    "/",
                    "/",
                    "--",
                    *launcher_argv,
                )
                error = _run((*argv, "--", find_system_program("true")), fds)
                if error:
                    continue
                for namespace in socket.recv_fds(ours, 1, 1)[1]:
                    os.set_inheritable(namespace, False)  # noqa: FBT003
                    return namespace
                error = "no file descriptor is free"
        raise NoShell(error)

    def _build_join_argv(self, namespace: int) -> tuple[str, ...]:
        return (self._launcher, "-j", str(namespace), "--")

    def prepare_join(self, stack: ExitStack) -> tuple[tuple[str, ...], int]:
        """The argv prefix for a bubblewrap with `--share-net`, and the descriptor to pass, open as long as `stack`.

        The descriptor is a duplicate for this command: otherwise its number could be reused by another session.
        """
        with self._lock:
            if self._namespace < 0:
                raise NoShell("the shell is closed")
            namespace = os.dup(self._namespace)
        stack.callback(os.close, namespace)
        return self._build_join_argv(namespace), namespace

    def close(self) -> None:
        """Release the namespace. It lives until the last command in it has ended."""
        with self._lock:
            self._namespace = -1
        self._stack.close()


def open_proxy(access: NetworkAccess, stack: ExitStack) -> "tuple[Proxy, int]":
    """A proxy, and the descriptor over which it receives the socket that it serves."""
    from handhold.backends.network.proxy import Proxy

    if not detect_sandbox_support().launcher:
        raise NoShell("allowed hosts need the launcher, which was not compiled at installation")
    ours, theirs = socket.socketpair()
    stack.callback(theirs.close)
    proxy = Proxy(ours, access)
    stack.callback(proxy.close)
    return proxy, theirs.fileno()


def _run(command: Sequence[str], fds: Sequence[int]) -> str:
    """What went wrong; empty if nothing did."""
    env = orphans.build_tool_environment(os.getpid())
    try:
        done = run_program(command, pass_fds=fds, env=env, timeout=PROBE_TIMEOUT_SECONDS)
    except (OSError, TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
