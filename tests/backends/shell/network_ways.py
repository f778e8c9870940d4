"""Ways to send a byte to an address, tried one after another: `python network_ways.py TCP_PORT UDP_PORT UNIX_PATH`.

Runs as a command under test, with whatever Python the machine has. Prints the name of each way that raised no error;
the listeners outside count what arrives.
"""

import array
import ctypes
import os
import socket
import sys
from collections.abc import Callable

TCP_PORT, UDP_PORT, PATH = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
TIMEOUT_SECONDS = 0.5
FASTOPEN, TCP_FASTOPEN_CONNECT, BIND_TO_INTERFACE = 0x20000000, 30, 62
MPTCP, SMC = 262, 43
ways: dict[str, Callable[[], object]] = {}


def way(function: Callable[[], object]) -> Callable[[], object]:
    ways[function.__name__] = function
    return function


def make(family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM, protocol: int = 0) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    made.settimeout(TIMEOUT_SECONDS)
    return made


def send_tcp(host: str, made: socket.socket) -> None:
    made.connect((host, TCP_PORT))
    made.send(b"x")


for host in ("127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost"):
    ways[f"tcp {host}"] = lambda host=host: send_tcp(host, make())
    ways[f"udp {host}"] = lambda host=host: make(kind=socket.SOCK_DGRAM).sendto(b"x", (host, UDP_PORT))
for host in ("::1", "::", "::ffff:127.0.0.1", "::ffff:127.0.0.2", "::1%1"):
    ways[f"tcp {host}"] = lambda host=host: send_tcp(host, make(socket.AF_INET6))
    ways[f"udp {host}"] = lambda host=host: make(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", (host, UDP_PORT))
for protocol in (MPTCP, socket.IPPROTO_SCTP, socket.IPPROTO_UDPLITE):
    ways[f"protocol {protocol}"] = lambda protocol=protocol: send_tcp("127.0.0.1", make(protocol=protocol))
for family in (SMC, socket.AF_PACKET, 40, 44, 38):
    ways[f"family {family}"] = lambda family=family: make(family, socket.SOCK_RAW).send(b"x")
for protocol in (socket.IPPROTO_RAW, socket.IPPROTO_ICMP, socket.IPPROTO_UDP, socket.IPPROTO_TCP):
    ways[f"raw {protocol}"] = lambda protocol=protocol: make(kind=socket.SOCK_RAW, protocol=protocol).sendto(
        b"x" * 64, ("127.0.0.1", 0)
    )


@way
def fast_open() -> object:
    return make().sendto(b"x", FASTOPEN, ("127.0.0.1", TCP_PORT))


@way
def fast_open_message() -> object:
    return make().sendmsg([b"x"], [], FASTOPEN, ("127.0.0.1", TCP_PORT))


@way
def fast_open_option() -> None:
    made = make()
    made.setsockopt(socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1)
    send_tcp("127.0.0.1", made)


@way
def other_interface() -> None:
    made = make()
    made.setsockopt(socket.SOL_SOCKET, BIND_TO_INTERFACE, 0)
    send_tcp("127.0.0.1", made)


@way
def laundered_port() -> None:
    """A listener of our own with the same port on another address must not open theirs."""
    own = make()
    own.bind(("127.0.0.3", TCP_PORT))
    own.listen()
    send_tcp("127.0.0.1", make())


@way
def disconnected() -> None:
    """A connection of our own that is taken apart and led elsewhere."""
    own = make()
    own.bind(("127.0.0.1", 0))
    own.listen()
    made = make()
    made.connect(own.getsockname())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.connect(made.fileno(), ctypes.create_string_buffer(16), 16)
    send_tcp("127.0.0.1", made)


@way
def accepted() -> None:
    own = make()
    own.bind(("127.0.0.1", 0))
    own.listen()
    made = make()
    made.connect(own.getsockname())
    other, _ = own.accept()
    libc = ctypes.CDLL(None, use_errno=True)
    libc.connect(other.fileno(), ctypes.create_string_buffer(16), 16)
    send_tcp("127.0.0.1", other)


@way
def passed_descriptor() -> None:
    here, there = socket.socketpair()
    made = make()
    here.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]).tobytes())])
    _, control, _, _ = there.recvmsg(1, 64)
    send_tcp("127.0.0.1", socket.socket(fileno=array.array("i", control[0][2])[0]))


@way
def unix_path() -> None:
    made = make(socket.AF_UNIX)
    made.connect(PATH)
    made.send(b"x")


@way
def unix_path_by_link() -> None:
    os.symlink(PATH, "link-to-socket")
    made = make(socket.AF_UNIX)
    made.connect("link-to-socket")
    made.send(b"x")


@way
def unix_datagram() -> None:
    make(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", PATH)


@way
def unix_datagram_of_a_pair() -> None:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", PATH)


@way
def abstract() -> None:
    made = make(socket.AF_UNIX)
    made.connect(f"\0{TCP_PORT}")
    made.send(b"x")


@way
def sent_in_a_batch() -> None:
    made = make(kind=socket.SOCK_DGRAM)
    made.connect(("127.0.0.1", UDP_PORT))
    made.send(b"x")


@way
def netlink() -> object:
    return make(socket.AF_NETLINK, socket.SOCK_RAW, 15).send(b"x")


for name, function in ways.items():
    try:
        function()
    except (OSError, ValueError, OverflowError):
        continue
    sys.stdout.write(f"{name}\n")
sys.stdout.write(f"tried {len(ways)}\n")
