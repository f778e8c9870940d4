"""One loopback for a session: its commands reach what its background commands serve, and nobody else does.

A network namespace lasts as long as somebody holds it, and a descriptor is enough to hold one. So there is no process
to end: when the session is closed, or when we are killed, the namespace goes with the last command in it. bubblewrap
makes it once. The launcher joins it, then becomes the bubblewrap that makes the command's own namespaces below.
"""

import os
import socket
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING

from handhold.core.errors import NoShell
from handhold.world.network import Opening
from handhold.world.shell import orphans
from handhold.world.shell.abilities import SECONDS, WALLS, abilities
from handhold.world.shell.environment import systems

if TYPE_CHECKING:
    from handhold.world.network.proxy import Proxy

# Root needs no user namespace to make a network namespace, unless a container left it without that capability.
OWNERS: tuple[tuple[str, ...], ...] = ((), ("--unshare-user",))


class Loopback:
    """A network namespace with nothing but `lo` in it, where the proxy for named hosts listens if there are any."""

    def __init__(self, bubblewrap: str, opening: Opening | None = None) -> None:
        """NoShell if this machine does not allow one that commands can join."""
        self._launcher = abilities().launcher
        self._lock = Lock()
        if not self._launcher:
            raise NoShell("the launcher was not compiled when this was installed")
        with ExitStack() as opened:
            self.proxy, over = open_proxy(opening, opened) if opening else (None, -1)
            self._namespace = self._make(bubblewrap, over)
            opened.callback(os.close, self._namespace)
            joined = (*self._join(self._namespace), bubblewrap, "--ro-bind", "/", "/", *WALLS, "--share-net")
            if trouble := _run((*joined, "--", systems("true")), (self._namespace,)):
                raise NoShell(trouble)
            self._opened = opened.pop_all()

    def _make(self, bubblewrap: str, over: int) -> int:
        trouble = ""
        for owner in OWNERS:
            ours, theirs = socket.socketpair()
            with ours, theirs:
                fds = (theirs.fileno(), *((over,) if over >= 0 else ()))
                inside = (self._launcher, "-u", str(fds[0]), *(("-n", str(over)) if over >= 0 else ()))
                made = (bubblewrap, "--unshare-net", *owner, "--die-with-parent", "--dev-bind", "/", "/", "--", *inside)
                trouble = _run((*made, "--", systems("true")), fds)
                if trouble:
                    continue
                for namespace in socket.recv_fds(ours, 1, 1)[1]:
                    os.set_inheritable(namespace, False)  # noqa: FBT003
                    return namespace
                trouble = "no descriptor is free"
        raise NoShell(trouble)

    def _join(self, namespace: int) -> tuple[str, ...]:
        return (self._launcher, "-j", str(namespace), "--")

    def joining(self, opened: ExitStack) -> tuple[tuple[str, ...], int]:
        """What to put before a bubblewrap with `--share-net`, and the descriptor to pass, open as long as `opened`.

        The descriptor is the command's own: the number of one that is closed meanwhile may pass to another session's.
        """
        with self._lock:
            if self._namespace < 0:
                raise NoShell("the shell is closed")
            namespace = os.dup(self._namespace)
        opened.callback(os.close, namespace)
        return self._join(namespace), namespace

    def close(self) -> None:
        """It lasts until the last command in it has ended."""
        with self._lock:
            self._namespace = -1
        self._opened.close()


def open_proxy(opening: Opening, opened: ExitStack) -> "tuple[Proxy, int]":
    """A proxy, and the descriptor over which it is to be handed the socket that it serves."""
    from handhold.world.network.proxy import Proxy

    if not abilities().launcher:
        raise NoShell("named hosts need a launcher that was not compiled when this was installed")
    ours, theirs = socket.socketpair()
    opened.callback(theirs.close)
    proxy = Proxy(ours, opening)
    opened.callback(proxy.close)
    return proxy, theirs.fileno()


def _run(command: Sequence[str], fds: Sequence[int]) -> str:
    """What went wrong; empty if nothing did."""
    env = orphans.mark(os.getpid())
    try:
        done = subprocess.run(
            command, pass_fds=fds, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if not done.returncode:
        return ""
    return done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
