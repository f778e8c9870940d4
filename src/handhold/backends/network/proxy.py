"""The proxy: lives as long as the network that it serves, and handles one request per connection."""

import errno
import os
import re
import select
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, Thread, current_thread

from handhold.backends.network import NetworkAccess
from handhold.backends.network.proxy_request import MAX_HEAD_BYTES, BadRequest, ProxyRequest, parse_request
from handhold.core.policy.hosts import BadHost
from handhold.logs import log_swallowed, suppress_and_log

MAX_CONNECTIONS = 64
CLOSE_TIMEOUT_SECONDS = 1.0  # for all connections to end when the command has
CONNECT_TIMEOUT_SECONDS = 20.0  # for a request head, and for a host to accept
IDLE_TIMEOUT_SECONDS = 300.0  # without a byte in either direction
READ_CHUNK_BYTES = 64 * 1024
MAX_REPORTED_HOSTS = 20  # in a note
MAX_REFUSED_HOSTS = 1_000
_CHUNK_HEADER = re.compile(rb"([0-9A-Fa-f]{1,8})(?:;[\x20-\x7e]*)?\r\n")
_POLL_INTERVAL_SECONDS = 0.2  # how late a proxy may notice that its command has ended


@dataclass(frozen=True)
class Refusal:
    """A target that was refused: a host with its port, or the first line of a request that has none."""

    target: str
    because: str
    at: float  # on the monotonic clock
    may_ask: bool  # whether a person could allow it


def describe_refusals(refusals: Sequence[Refusal]) -> tuple[str, ...]:
    """For the reply: what was refused, and the commands that would allow it."""
    if not refusals:
        return ()
    refused = [f"{each.target} ({each.because})" for each in refusals[:MAX_REPORTED_HOSTS]]
    more = f" and {len(refusals) - MAX_REPORTED_HOSTS} more" if len(refusals) > MAX_REPORTED_HOSTS else ""
    told = f"The network is open only for allowed hosts. Refused: {', '.join(refused)}{more}"
    targets = [each.target for each in refusals[:MAX_REPORTED_HOSTS] if each.may_ask]
    return (f"{told}. A person can allow: handhold allow {' '.join(targets)}" if targets else told,)


class Proxy:
    """Serves the socket that it receives over another, until it is closed. Leaves nothing behind."""

    def __init__(self, control_socket: socket.socket, access: NetworkAccess) -> None:
        self._control_socket = control_socket
        self._access = access
        self._closed = Event()
        self._lock = Lock()
        self._connections: set[socket.socket] = set()
        self._workers: set[Thread] = set()
        self.reached_hosts: dict[str, None] = {}
        self._refusals: dict[str, Refusal] = {}  # by target, the last one at the end
        self._thread = Thread(target=self._serve, name="handhold-proxy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            for each in (self._control_socket, *self._connections):
                with suppress_and_log(OSError):
                    each.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        with self._lock:
            left = tuple(self._workers)
        until = time.monotonic() + CLOSE_TIMEOUT_SECONDS
        for worker in left:
            # Some may still be waiting for name resolution; they end by themselves.
            worker.join(max(0.0, until - time.monotonic()))
        self._control_socket.close()

    def list_refusals(self, since: float) -> list[Refusal]:
        """What was refused since a moment of the monotonic clock, to the command that started then."""
        with self._lock:
            return [each for each in self._refusals.values() if each.at >= since]

    # --- connections

    def _serve(self) -> None:
        try:
            _, fds, _, _ = socket.recv_fds(self._control_socket, 1, 1)
        except OSError:
            log_swallowed()
            return
        if not fds:
            return  # the command never started
        # `close` shuts it down, which wakes `accept`: the command has ended, and nobody waits for a time-out.
        with suppress_and_log(OSError), self._track(socket.socket(fileno=fds[0])) as listener:
            while not self._closed.is_set():
                self._accept(listener.accept()[0])

    def _accept(self, client: socket.socket) -> None:
        worker = Thread(target=self._handle_connection, args=(client,), name="handhold-proxy-connection", daemon=True)
        with self._lock:
            if len(self._workers) >= MAX_CONNECTIONS:
                client.close()
                return
            self._workers.add(worker)
        worker.start()

    def _handle_connection(self, client: socket.socket) -> None:
        try:
            with self._track(client):
                self._serve_request(client)
        except OSError:
            pass  # one side hung up
        finally:
            with self._lock:
                self._workers.discard(current_thread())

    @contextmanager
    def _track(self, connection: socket.socket) -> Generator[socket.socket]:
        with connection:
            with self._lock:
                if self._closed.is_set():
                    raise ConnectionAbortedError
                self._connections.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._connections.discard(connection)

    def _serve_request(self, client: socket.socket) -> None:
        client.settimeout(CONNECT_TIMEOUT_SECONDS)
        head, _, buffered = _read_head(client).partition(b"\r\n\r\n")
        if not buffered and not head:
            return
        try:
            request = parse_request(head)
        except (BadRequest, BadHost) as error:
            self._refuse(client, _format_request_line(head), str(error), 400)
            return
        where = f"{request.host}:{request.port}"
        access = self._access
        if because := access.find_denial_reason(request.host, request.port):
            self._refuse(client, where, because, 403, may_ask=access.may_ask(request.host, request.port))
            return
        try:
            server = self._connect(request)
        except BadHost as error:
            self._refuse(client, where, str(error), 403)
            return
        except OSError as error:
            _send_error(client, 502, f"{where} could not be reached: {error}")
            return
        with self._track(server):
            self.reached_hosts[where] = None
            if request.is_tunnel:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server.sendall(buffered)
                self._relay(client, server)
                return
            server.sendall(request.head)
            _send_body(request, buffered, client, server)
            self._relay(client, server, bidirectional=False)

    def _connect(self, request: ProxyRequest) -> socket.socket:
        failed: OSError = ConnectionRefusedError("nobody answers")
        for address in self._access.resolve(request.host, request.port):
            try:
                return self._dial(address, request.port)
            except OSError as error:
                failed = error
        raise failed

    def _dial(self, address: str, port: int) -> socket.socket:
        """Not by `create_connection`, which cannot be cancelled."""
        server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            server.settimeout(0)
            state = server.connect_ex((address, port))
            for _ in range(round(CONNECT_TIMEOUT_SECONDS / _POLL_INTERVAL_SECONDS)):
                if self._closed.is_set():
                    raise ConnectionAbortedError
                if (
                    state in (errno.EINPROGRESS, errno.EWOULDBLOCK)
                    and not select.select([], [server], [], _POLL_INTERVAL_SECONDS)[1]
                ):
                    continue
                state = server.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if state:
                    raise OSError(state, os.strerror(state))
                server.settimeout(CONNECT_TIMEOUT_SECONDS)
                return server
            raise TimeoutError("it does not answer")
        except BaseException:
            server.close()
            raise

    def _refuse(self, client: socket.socket, target: str, reason: str, status: int, *, may_ask: bool = False) -> None:
        with self._lock:
            self._refusals.pop(target, None)
            self._refusals[target] = Refusal(target, reason, time.monotonic(), may_ask)
            if len(self._refusals) > MAX_REFUSED_HOSTS:
                del self._refusals[next(iter(self._refusals))]
        _send_error(client, status, f"{target} was refused: {reason}")

    def _relay(self, client: socket.socket, server: socket.socket, *, bidirectional: bool = True) -> None:
        """Copy bytes both ways until both sides are done; unless `bidirectional`, only from the server."""
        other = {server: client, client: server} if bidirectional else {server: client}
        silent = 0.0
        while other and not self._closed.is_set():
            ready, _, _ = select.select([*other], [], [], _POLL_INTERVAL_SECONDS)
            silent = 0.0 if ready else silent + _POLL_INTERVAL_SECONDS
            if silent > IDLE_TIMEOUT_SECONDS:
                return
            for each in ready:
                data = each.recv(READ_CHUNK_BYTES)
                if data:
                    other[each].sendall(data)
                    continue
                with suppress_and_log(OSError):
                    other[each].shutdown(socket.SHUT_WR)
                del other[each]


def _read_head(client: socket.socket) -> bytes:
    """Up to the empty line, with anything after it; empty if it never arrives."""
    got = b""
    while b"\r\n\r\n" not in got[:MAX_HEAD_BYTES]:
        piece = client.recv(READ_CHUNK_BYTES)
        got += piece
        if not piece or len(got) > MAX_HEAD_BYTES + READ_CHUNK_BYTES:
            return b""
    return got


def _send_body(request: ProxyRequest, buffered: bytes, client: socket.socket, server: socket.socket) -> None:
    """Send exactly the body: anything after it would be a second, unchecked request."""

    def read_exactly(count: int) -> bytes:
        nonlocal buffered
        while len(buffered) < count:
            piece = client.recv(READ_CHUNK_BYTES)
            if not piece:
                raise ConnectionAbortedError
            buffered += piece
        taken, buffered = buffered[:count], buffered[count:]
        return taken

    _copy_bytes(read_exactly, server, request.content_length)
    while request.is_chunked:
        line = _read_line(read_exactly)
        size = _CHUNK_HEADER.fullmatch(line)
        if not size:
            raise ConnectionAbortedError
        server.sendall(line)
        _copy_bytes(read_exactly, server, int(size[1], 16))
        ending = read_exactly(2)
        if ending != b"\r\n":  # a trailer would be an unchecked header
            raise ConnectionAbortedError
        server.sendall(ending)
        if int(size[1], 16) == 0:
            return


def _copy_bytes(read_exactly: Callable[[int], bytes], server: socket.socket, count: int) -> None:
    while count:
        piece = read_exactly(min(count, READ_CHUNK_BYTES))
        server.sendall(piece)
        count -= len(piece)


def _read_line(read_exactly: Callable[[int], bytes]) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += read_exactly(1)
        if len(line) > 1000:
            raise ConnectionAbortedError
    return line


def _format_request_line(head: bytes) -> str:
    first = head.split(b"\r\n", 1)[0][:200].decode("latin-1")
    return "".join(char if char.isprintable() and char.isascii() else f"\\x{ord(char):02x}" for char in first)


def _send_error(client: socket.socket, status: int, reason: str) -> None:
    text = f"handhold: {reason}\n".encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\n"
    with suppress_and_log(OSError):
        client.sendall(f"{head}Connection: close\r\n\r\n".encode() + text)
