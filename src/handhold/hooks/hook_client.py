"""The quick way of `handhold hook`: pass the event to a running server, which does the work in its own process.

A hook runs before and after every call of a client, so this imports as little as it can: the modules `socket` and
`json` take longer than the rest. Where no server answers, the hook does the work itself.

A request is the client, its process, the folder and "strict" or nothing, each with a NUL behind it, then the event. The
answer is the status, the output and the errors, each with a NUL behind it.
"""

import io
import os
import sys
from _socket import AF_UNIX, SHUT_WR, SOCK_STREAM, socket  # what the module socket wraps

from handhold.hooks.client_process import find_client_process, log_swallowed

SOCKET_FILE = "hooks.sock"  # in the folder that has the states of all workspaces
ANSWER_SECONDS = 25.0
MAX_EVENT_BYTES = 64 * 1024 * 1024


def read_event() -> bytes:
    return sys.stdin.buffer.read(MAX_EVENT_BYTES)


def pass_on(words: list[str]) -> int | None:
    """The exit status of `handhold hook WORDS`; None if no server answers or the words need a closer look."""
    client, *flags = words or [""]
    if not client or client.startswith("-") or flags not in ([], ["--strict"]):
        return None
    server = socket(AF_UNIX, SOCK_STREAM)
    if not _connect(server):
        return None
    event = read_event()
    try:
        status, output, errors = _ask(server, client, event, is_strict=bool(flags))
    except (OSError, ValueError):  # it was killed, or is too busy
        log_swallowed()
        sys.stdin = io.TextIOWrapper(io.BytesIO(event))  # for who does the work instead
        return None
    sys.stdout.write(output + "\n" if output else "")
    sys.stderr.write(errors + "\n" if errors else "")
    return status


def socket_folder() -> str:
    """As `default_state_root`, without its imports."""
    home = os.environ.get("XDG_STATE_HOME", "")
    base = home if os.path.isabs(home) else os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "handhold")


def _connect(server: socket) -> bool:
    """Through the folder's descriptor: the path of a socket must be short."""
    if sys.platform != "linux":
        return False
    try:
        folder = os.open(socket_folder(), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        log_swallowed()
        return False
    try:
        server.settimeout(ANSWER_SECONDS)
        server.connect(f"/proc/self/fd/{folder}/{SOCKET_FILE}")
    except OSError:
        log_swallowed()
        return False
    finally:
        os.close(folder)
    return True


def _ask(server: socket, client: str, event: bytes, *, is_strict: bool) -> tuple[int, str, str]:
    """Raises ValueError if the answer is not whole."""
    head = (client, find_client_process(), os.getcwd(), "strict" if is_strict else "")
    server.sendall(b"".join(os.fsencode(field) + b"\0" for field in head) + event)
    server.shutdown(SHUT_WR)
    answer = b""
    while data := server.recv(65536):
        answer += data
    status, output, errors, _ = answer.split(b"\0")
    return int(status), output.decode(), errors.decode()
