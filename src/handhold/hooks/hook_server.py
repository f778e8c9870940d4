"""The socket at which a running server takes the events of hooks: the hook of a client then has little to do.

Of all servers of a user that have the same state folder, the one that holds a lock listens; when it ends, the next one
does. Only the same user is answered. The socket records events and offers nothing else: a command that could reach it
could at most record a call that was never made.
"""

import os
import socket
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread

from handhold.backends.state.hook_socket import wait_and_listen
from handhold.backends.state.state_folder import default_state_root, ensure_private_folder
from handhold.hooks.hook_client import MAX_EVENT_BYTES, SOCKET_FILE
from handhold.hooks.recording import HookRequest, answer_event, copy_changed
from handhold.logs import log_swallowed

MAX_THREADS = 8
READ_SECONDS = 5.0
CREDENTIALS = struct.Struct("3i")  # process, user, group


def start_hook_server(state: Path | None = None) -> None:
    """Listen in the background as soon as no other server does, until this process ends."""
    if hasattr(socket, "SO_PEERCRED"):
        folder = ensure_private_folder(state or default_state_root())
        Thread(target=_serve, args=(folder, state), name="hooks", daemon=True).start()


def _serve(folder: Path, state: Path | None) -> None:
    try:
        with wait_and_listen(folder, SOCKET_FILE) as listener, ThreadPoolExecutor(MAX_THREADS, "hook") as pool:
            while True:
                connection, _ = listener.accept()
                pool.submit(_handle, connection, state)
    except OSError:
        log_swallowed()


def _handle(connection: socket.socket, state: Path | None) -> None:
    try:
        with connection:
            connection.settimeout(READ_SECONDS)
            if _read_user(connection) != os.geteuid():
                return
            client, process, folder, strict, event = _read_all(connection).split(b"\0", 4)
            request = HookRequest(client.decode(), event, process.decode(), os.fsdecode(folder), bool(strict))
            done = answer_event(request, state, copies=False)
            fields = (str(done.status), done.output, done.errors)
            connection.sendall(b"".join(field.replace("\0", "").encode() + b"\0" for field in fields))
        copy_changed(request, state)
    except (OSError, ValueError, KeyError):
        log_swallowed()  # the hook then does the work itself


def _read_user(connection: socket.socket) -> int:
    _, user, _ = CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size))
    return user


def _read_all(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    size = 0
    while size <= MAX_EVENT_BYTES and (data := connection.recv(65536)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)
