"""The proxy itself: it lives as long as the network that it serves, and takes one request a connection."""

import errno
import os
import re
import select
import socket
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread, current_thread

from handhold.core.policy.hosts import BadHost
from handhold.world.network import Opening
from handhold.world.network.requests import LONGEST, Asked, BadRequest, asked

AT_ONCE = 64  # connections
GRACE = 1.0  # seconds for a connection to end when the command has
PATIENCE = 20.0  # seconds for a head, and for a host to answer its phone
IDLE = 300.0  # seconds without a byte in either direction
PIECE = 64 * 1024
MOST_TOLD = 20  # hosts in a note
MOST_KNOWN = 1_000  # hosts that were refused
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\x20-\x7e]*)?\r\n")
_TURN = 0.2  # seconds; how late a proxy may learn that its command has ended


class Proxy:
    """Serves the socket that it is handed over another, until it is closed. Nothing of it is left then."""

    def __init__(self, handed: socket.socket, opening: Opening) -> None:
        self._handed = handed
        self._opening = opening
        self._over = Event()
        self._lock = Lock()
        self._open: set[socket.socket] = set()
        self._workers: set[Thread] = set()
        self.reached: dict[str, None] = {}
        self.refused: dict[str, tuple[float, str]] = {}  # when last, and why; in that order
        self._thread = Thread(target=self._serve, name="handhold-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._over.set()
        with self._lock:
            for each in (self._handed, *self._open):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        with self._lock:
            left = tuple(self._workers)
        for worker in left:
            worker.join(GRACE)  # one may still wait for the answer to a name; it ends with that, by itself
        self._handed.close()

    def notes(self, since: float) -> tuple[str, ...]:
        """What was refused since a moment of the monotonic clock, for the reply to the command that began then."""
        with self._lock:
            refused = [f"{host} ({why})" for host, (last, why) in self.refused.items() if last >= since]
        told = refused[:MOST_TOLD]
        more = f" and {len(refused) - MOST_TOLD} more" if len(refused) > MOST_TOLD else ""
        return (f"The network is open for named hosts only. Refused: {', '.join(told)}{more}",) if told else ()

    # --- connections

    def _serve(self) -> None:
        try:
            _, fds, _, _ = socket.recv_fds(self._handed, 1, 1)
        except OSError:
            return
        if not fds:
            return  # the command never began
        with socket.socket(fileno=fds[0]) as listener:
            listener.settimeout(_TURN)
            while not self._over.is_set():
                with suppress(TimeoutError):
                    self._take(listener.accept()[0])

    def _take(self, client: socket.socket) -> None:
        worker = Thread(target=self._answer, args=(client,), name="handhold-proxy-connection", daemon=True)
        with self._lock:
            if len(self._workers) >= AT_ONCE:
                client.close()
                return
            self._workers.add(worker)
        worker.start()

    def _answer(self, client: socket.socket) -> None:
        try:
            with self._held(client):
                self._talk(client)
        except OSError:
            pass  # one of the two hung up
        finally:
            with self._lock:
                self._workers.discard(current_thread())

    @contextmanager
    def _held(self, connection: socket.socket) -> Generator[None]:
        with connection:
            with self._lock:
                if self._over.is_set():
                    raise ConnectionAbortedError
                self._open.add(connection)
            try:
                yield
            finally:
                with self._lock:
                    self._open.discard(connection)

    def _talk(self, client: socket.socket) -> None:
        client.settimeout(PATIENCE)
        head, _, more = _read_head(client).partition(b"\r\n\r\n")
        if not more and not head:
            return
        try:
            request = asked(head)
        except (BadRequest, BadHost) as error:
            self._refuse(client, _shown(head), str(error), 400)
            return
        where = f"{request.host}:{request.port}"
        try:
            server = self._connected(request)
        except BadHost as error:
            self._refuse(client, where, str(error), 403)
            return
        except OSError as error:
            _reply(client, 502, f"{where} could not be reached: {error}")
            return
        with self._held(server):
            self.reached[where] = None
            if request.tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(more)
                self._relay(client, server)
                return
            server.sendall(request.head)
            _send_body(request, more, client, server)
            self._relay(client, server, both=False)

    def _connected(self, request: Asked) -> socket.socket:
        if why := self._opening.objection(request.host, request.port):
            raise BadHost(why)
        failed: OSError = ConnectionRefusedError("nobody answers")
        for address in self._opening.resolve(request.host, request.port):
            try:
                return self._dialled(address, request.port)
            except OSError as error:
                failed = error
        raise failed

    def _dialled(self, address: str, port: int) -> socket.socket:
        """Not by `create_connection`, which cannot be called off."""
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            server.settimeout(0)
            state = server.connect_ex((address, port))
            for _ in range(round(PATIENCE / _TURN)):
                if self._over.is_set():
                    raise ConnectionAbortedError
                if state in (errno.EINPROGRESS, errno.EWOULDBLOCK) and not select.select([], [server], [], _TURN)[1]:
                    continue
                state = server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if state:
                    raise OSError(state, os.strerror(state))
                server.settimeout(PATIENCE)
                return server
            raise TimeoutError("it does not answer")
        except BaseException:
            server.close()
            raise

    def _refuse(self, client: socket.socket, what: str, why: str, status: int) -> None:
        with self._lock:
            self.refused.pop(what, None)
            self.refused[what] = time.monotonic(), why
            if len(self.refused) > MOST_KNOWN:
                del self.refused[next(iter(self.refused))]
        _reply(client, status, f"{what} was refused: {why}")

    def _relay(self, client: socket.socket, server: socket.socket, *, both: bool = True) -> None:
        """Bytes from one to the other until both are done. `both` unset: only what comes back."""
        other = {server: client, client: server} if both else {server: client}
        silent = 0.0
        while other and not self._over.is_set():
            ready, _, _ = select.select([*other], [], [], _TURN)
            silent = 0.0 if ready else silent + _TURN
            if silent > IDLE:
                return
            for each in ready:
                data = each.recv(PIECE)
                if data:
                    other[each].sendall(data)
                    continue
                with suppress(OSError):
                    other[each].shutdown(socket.SHUT_WR)
                del other[each]


def _read_head(client: socket.socket) -> bytes:
    """Up to the empty line, with whatever came behind it; empty if it never came."""
    got = b""
    while b"\r\n\r\n" not in got[:LONGEST]:
        piece = client.recv(PIECE)
        got += piece
        if not piece or len(got) > LONGEST + PIECE:
            return b""
    return got


def _send_body(request: Asked, more: bytes, client: socket.socket, server: socket.socket) -> None:
    """The body and not a byte more: what follows it would be a second request, which nobody looked at."""

    def take(count: int) -> bytes:
        nonlocal more
        while len(more) < count:
            piece = client.recv(PIECE)
            if not piece:
                raise ConnectionAbortedError
            more += piece
        taken, more = more[:count], more[count:]
        return taken

    _stream(take, server, request.length)
    while request.chunked:
        line = _line(take)
        size = _CHUNK.fullmatch(line)
        if not size:
            raise ConnectionAbortedError
        server.sendall(line)
        _stream(take, server, int(size[1], 16))
        ending = take(2)
        if ending != b"\r\n":  # a trailer would be a header that nobody looked at
            raise ConnectionAbortedError
        server.sendall(ending)
        if int(size[1], 16) == 0:
            return


def _stream(take: Callable[[int], bytes], server: socket.socket, count: int) -> None:
    while count:
        piece = take(min(count, PIECE))
        server.sendall(piece)
        count -= len(piece)


def _line(take: Callable[[int], bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += take(1)
        if len(line) > 1000:
            raise ConnectionAbortedError
    return line


def _shown(head: bytes) -> str:
    first = head.split(b"\r\n", 1)[0][:200].decode("latin-1")
    return "".join(char if char.isprintable() and char.isascii() else f"\\x{ord(char):02x}" for char in first)


def _reply(client: socket.socket, status: int, why: str) -> None:
    text = f"handhold: {why}\n".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    with suppress(OSError):
        client.sendall(f"{head}Connection: close\r\n\r\n".encode() + text)
