"""Ways to send a byte to an address that is not allowed.

python network_ways.py TCP_PORT UDP_PORT UNIX_PATH [FAR_IPV4 FAR_IPV6 INTERFACE PID DESCRIPTOR] [--only WAY | --list]

Runs as a command under test, with whatever Python the machine has. The ports and the path are listeners of others on this
machine; the far addresses are beyond a network interface; process PID has a UDP socket open as DESCRIPTOR. Without
`--only`, tries one way after another and prints the name of each that raised no error. Others count what arrives.
"""

import array
import ctypes
import mmap
import os
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

FLAGS = [argument for argument in sys.argv if argument.startswith("--")]
GIVEN = sys.argv[1 : sys.argv.index(FLAGS[0])] if FLAGS else sys.argv[1:]
TCP_PORT, UDP_PORT, PATH = int(GIVEN[0]), int(GIVEN[1]), GIVEN[2]
FAR = GIVEN[3:]
TIMEOUT_SECONDS = 0.5
FASTOPEN, TCP_FASTOPEN_CONNECT, BIND_TO_INTERFACE = 0x20000000, 30, 62
MPTCP, SMC, DCCP = 262, 43, 33
IP_PKTINFO = 8  # Python 3.11 does not know it
SENDMMSG, PIDFD_OPEN, PIDFD_GETFD = 307, 434, 438  # x86-64; both others have the same number everywhere
ways: dict[str, Callable[[], object]] = {}
libc = ctypes.CDLL(None, use_errno=True)


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


def send_udp(host: str, made: socket.socket) -> None:
    made.sendto(b"x", (host, UDP_PORT))


def system_call(number: int, *arguments: int) -> int:
    result = libc.syscall(number, *map(ctypes.c_long, arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


# --- listeners of others on this machine

for host in ("127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost"):
    ways[f"tcp {host}"] = lambda host=host: send_tcp(host, make())
    ways[f"udp {host}"] = lambda host=host: send_udp(host, make(kind=socket.SOCK_DGRAM))
for host in ("::1", "::", "::ffff:127.0.0.1", "::ffff:127.0.0.2", "::1%1"):
    ways[f"tcp {host}"] = lambda host=host: send_tcp(host, make(socket.AF_INET6))
    ways[f"udp {host}"] = lambda host=host: send_udp(host, make(socket.AF_INET6, socket.SOCK_DGRAM))
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
def reused_port() -> None:
    """A listener of our own on the same port, bound beside theirs."""
    own = make()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    own.bind(("127.0.0.1", TCP_PORT))
    send_tcp("127.0.0.1", make())


@way
def disconnected() -> None:
    """A connection of our own that is taken apart and led elsewhere."""
    own = make()
    own.bind(("127.0.0.1", 0))
    own.listen()
    made = make()
    made.connect(own.getsockname())
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
def unix_path_by_descriptor() -> None:
    made = make(socket.AF_UNIX)
    made.connect(f"/proc/self/fd/{os.open(PATH, os.O_PATH)}")
    made.send(b"x")


@way
def unix_datagram() -> None:
    make(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", PATH + "d")


@way
def unix_datagram_connected() -> None:
    made = make(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.connect(PATH + "d")
    made.send(b"x")


@way
def unix_datagram_of_a_pair() -> None:
    socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", PATH + "d")


@way
def abstract() -> None:
    made = make(socket.AF_UNIX)
    made.connect(f"\0{TCP_PORT}")
    made.send(b"x")


@way
def connected_datagram() -> None:
    made = make(kind=socket.SOCK_DGRAM)
    made.connect(("127.0.0.1", UDP_PORT))
    made.send(b"x")


@way
def netlink() -> object:
    return make(socket.AF_NETLINK, socket.SOCK_RAW, 15).send(b"x")


# --- addresses beyond an interface


def encode_address(host: str, port: int) -> bytes:
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(host) + bytes(8)


def send_batch(made: socket.socket, host: str, port: int, flags: int) -> None:
    """sendmmsg with one message."""
    address = ctypes.create_string_buffer(encode_address(host, port), 16)
    data = ctypes.create_string_buffer(b"x", 1)
    parts = (ctypes.c_size_t * 2)(ctypes.addressof(data), 1)
    header = (ctypes.c_size_t * 8)(ctypes.addressof(address), 16, ctypes.addressof(parts), 1, 0, 0, 0, 0)
    system_call(SENDMMSG, made.fileno(), ctypes.addressof(header), 1, flags)


def send_as_32_bit_program(host: str) -> None:
    """socket and connect by `int 0x80`, whose numbers and arguments are those of i386."""
    code = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, 7)  # below 4 GiB, executable
    start = ctypes.addressof(ctypes.c_char.from_buffer(code))
    # eax = edi; ebx = esi; ecx = edx; int 0x80; the C convention has the arguments in edi, esi, edx
    code[:64] = (b"\x53\x89\xf8\x89\xf3\x89\xd1\xcd\x80\x5b\x48\x98\xc3").ljust(64, b"\x90")
    call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint)(start)
    code[128:140] = struct.pack("=III", socket.AF_INET, socket.SOCK_DGRAM, 0)
    made = call(102, 1, start + 128)  # socketcall: socket
    if made < 0:
        raise OSError(-made, "")
    code[256:272] = encode_address(host, UDP_PORT)
    code[160:184] = struct.pack("=IIIIII", made, start + 272, 1, 0, start + 256, 16)
    if call(102, 11, start + 160) < 0:  # socketcall: sendto
        raise OSError("sendto")


def add_far_ways(host: str, host6: str, interface: str, pid: str, descriptor: str) -> None:
    link_local = f"fe80::2%{interface}"
    for kind, protocol in (("tcp", socket.SOCK_STREAM), ("udp", socket.SOCK_DGRAM)):
        send = send_tcp if kind == "tcp" else send_udp
        ways[f"{kind} far"] = lambda s=send, p=protocol: s(host, make(kind=p))
        for name, target in (("6", host6), ("mapped", f"::ffff:{host}"), ("scoped", link_local)):
            ways[f"{kind} far {name}"] = lambda s=send, t=target, p=protocol: s(t, make(socket.AF_INET6, p))

    def prepared(kind: int, *options: tuple[int, int, int | bytes], protocol: int = 0) -> socket.socket:
        made = make(kind=kind, protocol=protocol)
        for option in options:
            made.setsockopt(*option)
        return made

    def run(*argv: str) -> None:
        if os.spawnvp(os.P_WAIT, argv[0], argv):
            raise OSError(argv[0])

    def from_thread() -> None:
        thread = threading.Thread(target=lambda: send_udp(host, make(kind=socket.SOCK_DGRAM)))
        thread.start()
        thread.join()

    def after_the_end() -> None:
        """By a daemon, when the command has ended."""
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for fd in range(3):
                    os.close(fd)
                time.sleep(0.1)
                send_udp(host, make(kind=socket.SOCK_DGRAM))
            os._exit(0)

    def nonblocking() -> None:
        made = make()
        made.setblocking(False)
        made.connect_ex((host, TCP_PORT))
        time.sleep(0.1)

    def bound_to_the_interface() -> None:
        own = make()
        own.bind((socket.inet_ntoa(socket.inet_aton(host)[:3] + b"\1"), 0))
        send_tcp(host, own)

    def sent_from_an_interface() -> None:
        chosen = struct.pack("=I4s4s", socket.if_nametoindex(interface), bytes(4), bytes(4))
        udp = make(kind=socket.SOCK_DGRAM)
        udp.sendmsg([b"x"], [(socket.IPPROTO_IP, IP_PKTINFO, chosen)], 0, (host, UDP_PORT))

    def taken_from_another_process() -> None:
        theirs = system_call(PIDFD_GETFD, system_call(PIDFD_OPEN, int(pid), 0), int(descriptor), 0)
        socket.socket(fileno=theirs).sendto(b"x", ("::ffff:" + host, UDP_PORT))

    def frame(kind: int) -> None:
        raw = make(socket.AF_PACKET, kind, socket.htons(0x88B5))
        raw.sendto(b"\xff" * 6 + bytes(6) + b"\x88\xb5" + b"x" * 50, (interface, 0x88B5, 0, 0, b"\xff" * 6))

    datagram, stream = socket.SOCK_DGRAM, socket.SOCK_STREAM
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 0, 1, 0, 64, 253, 0, bytes(4), socket.inet_aton(host))
    echo = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
    ways.update(
        {
            "far fast open": lambda: make().sendto(b"x", FASTOPEN, (host, TCP_PORT)),
            "far fast open message": lambda: make().sendmsg([b"x"], [], FASTOPEN, (host, TCP_PORT)),
            "far fast open batch": lambda: send_batch(make(), host, TCP_PORT, FASTOPEN),
            "far fast open option": lambda: send_tcp(
                host, prepared(stream, (socket.IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1))
            ),
            "far batch": lambda: send_batch(make(kind=datagram), host, UDP_PORT, 0),
            "far message": lambda: make(kind=datagram).sendmsg([b"x"], [], 0, (host, UDP_PORT)),
            "far nonblocking": nonblocking,
            "far device": lambda: send_tcp(
                host, prepared(stream, (socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode()))
            ),
            "far interface number": lambda: send_tcp(
                host, prepared(stream, (socket.SOL_SOCKET, BIND_TO_INTERFACE, socket.if_nametoindex(interface)))
            ),
            "far mark": lambda: send_tcp(host, prepared(stream, (socket.SOL_SOCKET, socket.SO_MARK, 1))),
            "far transparent": lambda: send_tcp(host, prepared(stream, (socket.IPPROTO_IP, 19, 1))),
            "far own address": bound_to_the_interface,
            "far packet info": sent_from_an_interface,
            "far multicast": lambda: prepared(
                datagram,
                (socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(host)[:3] + b"\1"),
            ).sendto(b"x", ("239.1.2.3", UDP_PORT)),
            "far broadcast": lambda: prepared(datagram, (socket.SOL_SOCKET, socket.SO_BROADCAST, 1)).sendto(
                b"x", (host.rpartition(".")[0] + ".255", UDP_PORT)
            ),
            "far ping": lambda: make(kind=datagram, protocol=socket.IPPROTO_ICMP).sendto(echo, (host, 0)),
            "far raw echo": lambda: make(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_ICMP).sendto(echo, (host, 0)),
            "far raw header": lambda: make(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_RAW).sendto(
                header + b"x" * 40, (host, 0)
            ),
            "far raw udp": lambda: make(kind=socket.SOCK_RAW, protocol=socket.IPPROTO_UDP).sendto(b"x" * 40, (host, 0)),
            "far raw 6": lambda: make(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP).sendto(
                b"x" * 40, (host6, 0)
            ),
            "far frame": lambda: frame(socket.SOCK_RAW),
            "far packet": lambda: frame(datagram),
            "far mptcp": lambda: send_tcp(host, make(protocol=MPTCP)),
            "far sctp": lambda: send_tcp(host, make(protocol=socket.IPPROTO_SCTP)),
            "far udplite": lambda: send_udp(host, make(kind=datagram, protocol=socket.IPPROTO_UDPLITE)),
            "far dccp": lambda: send_tcp(host, make(kind=6, protocol=DCCP)),
            "far 32-bit": lambda: send_as_32_bit_program(host),
            "far x32": lambda: system_call(0x40000000 + 41, socket.AF_INET, datagram, 0),
            "far bash tcp": lambda: run("bash", "-c", f"echo x >/dev/tcp/{host}/{TCP_PORT}"),
            "far bash udp": lambda: run("bash", "-c", f"echo x >/dev/udp/{host}/{UDP_PORT}"),
            "far thread": from_thread,
            "far daemon": after_the_end,
            "far taken": taken_from_another_process,
        }
    )


if FAR:
    add_far_ways(*FAR)
if "--list" in FLAGS:
    sys.stdout.write("\n".join(ways) + "\n")
    sys.exit()
if "--only" in FLAGS:
    ways[sys.argv[-1]]()
    sys.exit()
for name, function in ways.items():
    try:
        function()
    except (OSError, ValueError, OverflowError):
        continue
    sys.stdout.write(f"{name}\n")
sys.stdout.write(f"tried {len(ways)}\n")
