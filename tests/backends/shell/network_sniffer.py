"""Tries ways of `network_ways.py` in a network namespace with a cable to another one, where a sniffer counts frames.

python -m tests.backends.shell.network_sniffer UID broker|bare WAY …

Needs root. Prints a JSON object: how many frames arrived by each way. Whatever reaches a listener of others at the near
end is relayed to the far end, and so counts too.
"""

import ctypes
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.backends.shell.listeners import Listeners
from tests.backends.shell.shells import bench

WAYS = Path(__file__).with_name("network_ways.py")
NEW_NETWORK = 0x40000000
NEAR, FAR = "198.18.7.1", "198.18.7.2"
NEAR_6, FAR_6 = "fd18:7::1", "fd18:7::2"
NEAR_LINK, FAR_LINK = "fe80::1", "fe80::2"
NEAR_MAC, FAR_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
NEAR_END, FAR_END = "near0", "far0"
ALL_FRAMES = 3
IPV4 = b"\x08\x00"
TEST_TYPE = b"\x88\xb5"
QUIET_SECONDS = 0.15
WAY_SECONDS = 20


def change_network(call: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc[call](*arguments):
        raise OSError(ctypes.get_errno(), call)


class Sniffer:
    """The far end of the cable: answers, and counts what a command sent. This process is at the near end."""

    def __init__(self) -> None:
        change_network("unshare", NEW_NETWORK)
        far = os.open("/proc/self/ns/net", os.O_RDONLY)
        change_network("unshare", NEW_NETWORK)
        near = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter = ["nsenter", f"--net=/proc/self/fd/{far}"]
        cable = f"link add {NEAR_END} address {NEAR_MAC} type veth peer name {FAR_END} address {FAR_MAC}"
        self._ip(f"{cable}\nlink set {NEAR_END} netns {os.getpid()}", enter, far)
        # Neighbours are known, so that the kernel has nothing to ask for.
        self._set_up(FAR_END, (FAR, FAR_6, FAR_LINK), (NEAR, NEAR_6, NEAR_LINK), NEAR_MAC, enter, far)
        self._set_up(NEAR_END, (NEAR, NEAR_6, NEAR_LINK), (FAR, FAR_6, FAR_LINK), FAR_MAC)
        change_network("setns", far, NEW_NETWORK)
        self._frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        self._frames.bind((FAR_END, ALL_FRAMES))
        self._answering = socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)
        change_network("setns", near, NEW_NETWORK)

    def _set_up(
        self,
        end: str,
        own: tuple[str, ...],
        others: tuple[str, ...],
        mac: str,
        enter: list[str] | None = None,
        far: int = -1,
    ) -> None:
        lines = [f"address add {each}/{64 if ':' in each else 24} dev {end}" for each in own]
        lines += [f"link set {end} up", "link set lo up", f"route add 239.0.0.0/8 dev {end}"]
        lines += [f"neighbour replace {each} lladdr {mac} nud permanent dev {end}" for each in others]
        # Otherwise an address cannot be used for a second.
        self._ip(
            "\n".join(line + (" nodad" if ":" in line and line.startswith("address") else "") for line in lines),
            enter,
            far,
        )

    def _ip(self, lines: str, enter: list[str] | None = None, far: int = -1) -> None:
        passed = (far,) if far >= 0 else ()
        subprocess.run([*(enter or ()), "ip", "-batch", "-"], input=lines.encode(), check=True, pass_fds=passed)

    def relay(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.sendto(b"relayed", (FAR, 9))

    def count(self) -> int:
        """Frames since the last call. What the kernel announces by itself, to groups of IPv6, does not count."""
        found = 0
        self._frames.settimeout(QUIET_SECONDS)
        while True:
            try:
                frame, (_, _, kind, *_) = self._frames.recvfrom(4096)
            except TimeoutError:
                return found
            sent_here = kind != socket.PACKET_OUTGOING
            found += sent_here and (
                frame[12:14] in (IPV4, TEST_TYPE) or frame[:6] == bytes.fromhex(FAR_MAC.replace(":", ""))
            )


def try_ways(
    run: Callable[[list[str]], object], arguments: list[str], ways: list[str], sniffer: Sniffer
) -> dict[str, int]:
    arrived: dict[str, int] = {}
    for name in ways:
        while sniffer.count():  # what is left of the way before
            pass
        run(["python3", "ways.py", *arguments, "--only", name])
        arrived[name] = sniffer.count()
    return arrived


def run_as(user: int, work: Callable[[], object]) -> bytes:
    """The JSON of what `work` returns, in a child process with this user id."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        if user:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        os.write(writer, json.dumps(work()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        result = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError("the ways could not be tried")
    return result


def main(user: int, holder: str, ways: list[str]) -> None:
    sniffer = Sniffer()
    place = Path(tempfile.mkdtemp(prefix="sniffed-"))
    place.chmod(0o755)
    (home := place / "home").mkdir()
    (home / "ws").mkdir()
    shutil.copy(WAYS, home / "ws/ways.py")
    for path in (home, home / "ws"):
        os.chown(path, user, user)
    held = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)  # somebody else's, for a way that takes it

    def work() -> dict[str, int]:
        os.environ["HOME"] = str(home)
        if holder == "bare":
            return try_ways(
                lambda argv: subprocess.run(
                    argv, cwd=home / "ws", check=False, capture_output=True, timeout=WAY_SECONDS
                ),
                arguments,
                ways,
                sniffer,
            )
        with bench(home, mode="brokered") as shell:
            return try_ways(lambda argv: shell(shlex.join(argv), seconds=WAY_SECONDS), arguments, ways, sniffer)

    with ExitStack() as stack:
        stack.callback(shutil.rmtree, place)
        listeners = Listeners(place, stack, sniffer.relay)
        near = [str(listeners.tcp_port), str(listeners.udp_port), listeners.path]
        arguments = [*near, FAR, FAR_6, NEAR_END, str(os.getpid()), str(held.fileno())]
        sys.stdout.write(run_as(user, work).decode() + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
