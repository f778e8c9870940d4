"""The proxy connects only to allowed names, at the address it resolved, and refuses ambiguous requests."""

import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import pytest

from handhold.backends.network import NetworkAccess
from handhold.backends.network.addresses import is_public, resolve_public
from handhold.core.policy.hosts import BadHost
from tests.backends.network.hostile_hosts import HOSTILE, SAME
from tests.backends.network.served import proxied, said, served

NAME = "files.example.org"


@pytest.mark.parametrize("name", SAME)
def test_c83_a_host_that_is_named_is_reached(name: str):
    with served() as server, proxied(server.opening(f"{NAME}:{server.port}")) as (proxy, port):
        where = f"{name}:{server.port}"
        plain = said(port, f"GET http://{where}/a?b HTTP/1.1\r\nHost: {where}\r\n\r\n".encode())
        assert b"hello from outside" in plain
        tunnel = f"CONNECT {where} HTTP/1.1\r\n\r\nGET /c HTTP/1.0\r\nHost: {NAME}\r\n\r\n"
        assert b"hello from outside" in said(port, tunnel.encode())
        assert server.asked == [(f"{NAME}:{server.port}", "/a?b"), (NAME, "/c")]
        assert not proxy.list_refusals(since=0)


def test_c83_a_hundred_hostile_names_reach_nothing():
    reached: list[str] = []
    with served() as server, proxied(server.opening(NAME, f"{NAME}:{server.port}")) as (proxy, port):
        for name in HOSTILE:
            for ending in (f":{server.port}", ":443", ""):
                where = (name + ending).encode("utf-8", "surrogatepass")
                for request in (
                    b"CONNECT " + where + b" HTTP/1.1\r\nHost: " + where + b"\r\n\r\nGET / HTTP/1.0\r\n\r\n",
                    b"CONNECT " + where + b" HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n",
                    b"GET http://" + where + b"/ HTTP/1.1\r\nHost: " + where + b"\r\n\r\n",
                    b"GET http://" + where + b"/ HTTP/1.1\r\nHost: " + NAME.encode() + b"\r\n\r\n",
                ):
                    answer = said(port, request)
                    if b" 200 " in answer or b"hello" in answer:
                        reached.append(f"{name!r}: {request!r}")
        print(
            f"{len(HOSTILE)} hostile names in 12 requests each: {len(reached)} got through, {len(server.names)} resolved"
        )
        assert len(HOSTILE) >= 100
        assert not reached
        assert not server.asked
        assert not server.names
        assert len(proxy.list_refusals(since=0)) >= 100


@pytest.mark.parametrize(
    "request_",
    [
        b"GET http://{} HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\r\nHost: {}\r\nHost: evil.test\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\nHost: {}\n\n",
        b"GET http://{}/ HTTP/1.1\r\n Host: {}\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\r\nHost : {}\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"GET http://{}/ HTTP/1.1\r\nContent-Length: +5\r\n\r\nabcde",
        b"GET http://{}/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"GET http://{}/ HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"GET https://{}/ HTTP/1.1\r\n\r\n",
        b"GET //{}/ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: {}\r\n\r\n",
        b"GET http://{}/ HTTP/2\r\n\r\n",
        b"get http://{}/ HTTP/1.1\r\n\r\n",
        b"GET\thttp://{}/ HTTP/1.1\r\n\r\n",
        b"GET  http://{}/ HTTP/1.1\r\n\r\n",
        b"CONNECT http://{} HTTP/1.1\r\n\r\n",
        b"CONNECT {} HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x05\x01\x00",
        b"GET http://{}/" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    ],
)
def test_c83_what_two_readers_could_take_in_two_ways_is_refused(request_: bytes):
    with served() as server, proxied(server.opening(f"{NAME}:{server.port}")) as (_, port):
        answer = said(port, request_.replace(b"{}", f"{NAME}:{server.port}".encode()))
        assert not answer or answer.startswith(b"HTTP/1.1 400 ")
        assert not server.asked


def test_c83_a_second_request_on_one_connection_goes_nowhere():
    with served() as server, proxied(server.opening(f"{NAME}:{server.port}")) as (_, port):
        where = f"{NAME}:{server.port}"
        second = "GET /smuggled HTTP/1.1\r\nHost: other.example\r\n\r\n"
        for head, body in (
            ("", ""),
            ("Content-Length: 3\r\n", "abc"),
            ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ):
            said(port, f"POST http://{where}/first HTTP/1.1\r\nHost: {where}\r\n{head}\r\n{body}{second}".encode())
        assert [path for _, path in server.asked] == ["/first"] * 3


def test_c83_a_body_arrives_whole():
    with served() as server, proxied(server.opening(f"{NAME}:{server.port}")) as (_, port):
        body = os.urandom(300_000)
        head = f"POST http://{NAME}:{server.port}/ HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
        assert said(port, head.encode() + body).endswith(body)


# --- name resolution


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.1",
        ),
        *("255.255.255.255", "192.0.2.1", "198.18.0.1", "240.0.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1"),
        *("ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "64:ff9b::a00:1", "2002:a00:1::", "2001::1", "::7f00:1"),
        *("2001:db8::1", "fec0::1", "not an address"),
    ],
)
def test_c83_an_address_that_is_not_public_is_told(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111"])
def test_c83_an_address_that_is_public_is_told(address: str):
    assert is_public(address)


def test_c83_a_name_that_leads_to_this_machine_is_refused(monkeypatch: pytest.MonkeyPatch):
    def rebound(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(2, 1, 6, "", ("93.184.216.34", 443)), (2, 1, 6, "", ("127.0.0.1", 443))]

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    with pytest.raises(BadHost, match=r"resolves to 127\.0\.0\.1"):
        resolve_public("rebound.example.org", 443)


# --- shutdown


def test_c83_nothing_is_left_of_it():
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with served() as server:
        for _ in range(20):
            with proxied(server.opening(f"{NAME}:{server.port}")) as (_, port):
                said(port, f"GET http://{NAME}:{server.port}/ HTTP/1.1\r\n\r\n".encode())
                idle = socket.create_connection(("127.0.0.1", port))
                idle.sendall(f"CONNECT {NAME}:{server.port} HTTP/1.1\r\n\r\n".encode())
                assert idle.recv(100).startswith(b"HTTP/1.1 200")
            assert idle.recv(100) == b"", "the proxy has hung up"
            idle.close()
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors)


def test_c83_a_crowd_is_bounded():
    with served() as server, proxied(server.opening(f"{NAME}:{server.port}")) as (_, port):
        crowd = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for each in crowd:
            each.close()
        where = f"{NAME}:{server.port}"
        for _ in range(50):  # slots of closed connections become free one by one
            if b"hello" in said(port, f"GET http://{where}/ HTTP/1.1\r\n\r\n".encode()):
                return
        pytest.fail("nobody is served any more")


def test_names_that_nobody_resolves_do_not_delay_the_end_of_a_command():
    """The resolver of the system cannot be interrupted, and 64 connections may wait for it."""
    asked, answer = threading.Semaphore(0), threading.Event()

    def resolve(name: str, port: int) -> Sequence[str]:
        asked.release()
        answer.wait(60)
        raise BadHost("nobody knows it")

    access = NetworkAccess(lambda host, port: "", resolve)
    with ExitStack() as stack:
        stack.callback(answer.set)
        proxy, port = stack.enter_context(proxied(access))
        for number in range(40):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            connection.sendall(f"CONNECT h{number}.example.org:443 HTTP/1.1\r\n\r\n".encode())
        assert all(asked.acquire(timeout=30) for _ in range(40))
        began = time.monotonic()
        proxy.close()
        assert time.monotonic() - began < 20  # one after the other, it would be 40
