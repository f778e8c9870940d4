"""What a command must not reach: sockets of others on the same machine. Counts what arrives."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

POLL_SECONDS = 0.05


class Listeners:
    """TCP, UDP, two paths and an abstract name. `on_arrival` is called for whatever arrives."""

    def __init__(self, place: Path, stack: ExitStack, on_arrival: Callable[[], object] = lambda: None) -> None:
        self.arrived = 0
        self._on_arrival = on_arrival
        self.path = str(place / "s")
        tcp = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        self.tcp_port = tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        udp.bind(("::", 0))
        self.udp_port = udp.getsockname()[1]
        unix, datagram, abstract = (socket.socket(socket.AF_UNIX, kind) for kind in (1, 2, 1))
        for listener, name in ((unix, self.path), (datagram, self.path + "d")):
            listener.bind(name)
            Path(name).chmod(0o777)
        abstract.bind(f"\0{self.tcp_port}")
        for each in (unix, abstract):
            each.listen(64)
        for each in (tcp, unix, abstract):
            self._start(stack, each, lambda listener: listener.accept()[0].close())
        for each in (udp, datagram):
            self._start(stack, each, lambda listener: listener.recv(100))

    def _start(self, stack: ExitStack, listener: socket.socket, take: Callable[[socket.socket], object]) -> None:
        listener.settimeout(POLL_SECONDS)
        stop = threading.Event()

        def count() -> None:
            while not stop.is_set():
                try:
                    take(listener)
                except TimeoutError:
                    continue
                self.arrived += 1
                self._on_arrival()

        thread = threading.Thread(target=count, daemon=True)
        thread.start()
        stack.callback(listener.close)
        stack.callback(thread.join)
        stack.callback(stop.set)
