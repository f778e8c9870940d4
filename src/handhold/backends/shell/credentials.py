"""Credentials for git without showing them: a helper over a Unix socket that answers for the user's chosen hosts only.

Inside the sandbox, git asks its own `credential-cache` helper, which talks to the socket. Outside, the user's own
helpers are asked, by `git credential fill`: once, and again when git erases what a server has refused. The password is
in no variable and no file of the sandbox, only in the memory of whoever asks; any command may ask. Whatever git would
store is ignored, and the user's helpers are not told what it erases.
"""

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock, Thread
from uuid import uuid4

from handhold.backends.program_search import find_program
from handhold.backends.programs import TimeoutExpired, build_user_environment, run_program
from handhold.backends.shell.host_paths import HANDHOLD_FOLDER
from handhold.backends.state.hook_socket import remove_socket
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import NoShell
from handhold.core.policy.hosts import CredentialHost
from handhold.logs import log_swallowed, suppress_and_log

SOCKET_PATH = f"{HANDHOLD_FOLDER}/credential"  # in the sandbox
MAX_REQUEST_BYTES = 64 * 1024
REQUEST_TIMEOUT_SECONDS = 10.0
FILL_TIMEOUT_SECONDS = 20.0  # for the user's helpers

_TOKEN_AS_NAME = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]{16,}")  # some hosts take it instead of a name

Credential = Mapping[str, str]  # username and password


@dataclass
class CredentialServer:
    """Answers git's requests about these hosts until it is closed."""

    hosts: Sequence[CredentialHost]
    path: str  # of the socket, outside
    learn: Callable[[str, str], None] | None  # gets each host with what is secret there, before anybody else does
    _listener: socket.socket | None = None
    _known: dict[CredentialHost, Credential] = field(default_factory=dict[CredentialHost, Credential])
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def start(
        cls, hosts: Sequence[CredentialHost], state: Path, learn: Callable[[str, str], None] | None
    ) -> "CredentialServer":
        """Ask the user's helpers first, so that what they answer is redacted from the first command on."""
        folder = ensure_private_folder(state / "credentials")
        server = cls(hosts, str(folder / uuid4().hex), learn)
        for host in hosts:
            if not server._find(host):
                raise NoShell(f"git's credential helpers on this machine have no password for {host.url}")
        server._listener = _bind(folder, os.path.basename(server.path))
        Thread(target=server._serve, name="handhold-credentials", daemon=True).start()
        return server

    def close(self) -> None:
        if self._listener:
            with suppress_and_log(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            remove_socket(self.path)

    def build_git_settings(self) -> bytes:
        """Git's settings in the sandbox: for these hosts this helper and no other."""
        lines = (
            f'[credential "{host.url}"]\n\thelper =\n\thelper = cache --socket={SOCKET_PATH}\n' for host in self.hosts
        )
        return "".join(lines).encode()

    def _serve(self) -> None:
        listener = self._listener
        assert listener is not None
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed
            Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(REQUEST_TIMEOUT_SECONDS)
            try:
                request = _parse(_receive(connection))
                asked = CredentialHost(request.get("protocol", ""), request.get("host", "").lower())
                match request.get("action"):
                    case "get" if asked in self.hosts:
                        found = self._find(asked)
                        connection.sendall("".join(f"{key}={found[key]}\n" for key in found).encode())
                    case "erase":
                        self._forget(asked, request.get("password"))
                    case _:
                        pass
            except OSError:
                log_swallowed()

    def _find(self, host: CredentialHost) -> Credential:
        with self._lock:
            if host not in self._known:
                found = fill_credential(host)
                if password := found.get("password"):
                    username = found.get("username", "")
                    for secret in (password, username) if _TOKEN_AS_NAME.search(username) else (password,):
                        if self.learn:
                            self.learn(host.host, secret)
                    self._known[host] = found
            return self._known.get(host, {})

    def _forget(self, host: CredentialHost, password: str | None) -> None:
        """Ask again next time, unless this is an earlier password."""
        with self._lock:
            if password in (None, self._known.get(host, {}).get("password")):
                self._known.pop(host, None)


def fill_credential(host: CredentialHost) -> Credential:
    """What the user's own helpers answer; nothing if they would have to ask. No repository's settings apply."""
    env = build_user_environment(GIT_TERMINAL_PROMPT="0", GIT_ASKPASS="", SSH_ASKPASS="", GCM_INTERACTIVE="never")
    env = {name: value for name, value in env.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    question = f"protocol={host.protocol}\nhost={host.host}\n\n"
    try:
        done = run_program(
            (find_program("git"), "-c", "core.askPass=", "credential", "fill"),
            data=question.encode(),
            env=env,
            timeout=FILL_TIMEOUT_SECONDS,
        )
    except (OSError, TimeoutExpired):
        log_swallowed()
        return {}
    answer = _parse(done.stdout.decode("utf-8", "replace")) if done.returncode == 0 else {}
    return {key: answer[key] for key in ("username", "password") if key in answer}


def _parse(text: str) -> dict[str, str]:
    return {key: value for key, split, value in (line.partition("=") for line in text.splitlines()) if split}


def _receive(connection: socket.socket) -> str:
    """Until git has sent everything."""
    data = b""
    while len(data) < MAX_REQUEST_BYTES and (piece := connection.recv(4096)):
        data += piece
    return data.decode("utf-8", "replace")


def _bind(folder: Path, name: str) -> socket.socket:
    """The folder's own path may be longer than the address of a socket can be."""
    listener = socket.socket(socket.AF_UNIX)
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{opened}/{name}")
        listener.listen()
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(opened)
    return listener
