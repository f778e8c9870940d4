"""Hosts that a person allowed after a command was refused them.

An answer is bound to a name and a port. It holds for the session, or only while the call that asked runs again.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock

from handhold.core.ports.approvals import ApprovalStore
from handhold.core.ports.policy import Verb


class AllowedHosts:
    """Of one session. Thread-safe."""

    def __init__(self, session: str, approvals: ApprovalStore) -> None:
        self._session = session
        self._approvals = approvals
        self._lock = Lock()
        self._of_calls: Counter[str] = Counter()

    def __contains__(self, host: str) -> bool:
        """Whether a host may be reached now: `name:port`."""
        with self._lock:
            if self._of_calls[host]:
                return True
        return make_host_key(host) in self._approvals.list_grants(self._session)

    def __bool__(self) -> bool:
        with self._lock:
            if any(self._of_calls.values()):
                return True
        return any(key.startswith(make_host_key("")) for key in self._approvals.list_grants(self._session))

    @contextmanager
    def during_call(self, hosts: Sequence[str]) -> Generator[None]:
        with self._lock:
            self._of_calls.update(hosts)
        try:
            yield
        finally:
            with self._lock:
                self._of_calls.subtract(hosts)


def make_host_key(host: str) -> str:
    """The key under which a session allows a host."""
    return f"{Verb.CONNECT} {host}"
