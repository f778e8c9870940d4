"""Whoever connects to a hub: nobody holds it by being slow, and a kept connection is quick."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from handhold.http_listener import protocol
from handhold.hub.service import HubStores, open_stores
from tests.hub.hubs import serving

pytestmark = pytest.mark.timeout(120)

SLOW_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: "
NAGLE_SECONDS = 0.04  # what an answer waits for if its head and its body are two packets


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[HubStores]:
    with open_stores(str(tmp_path / "hub"), "") as stores:
        yield stores


def get_status(port: int, path: str = "/healthz", token: str = "") -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", path, headers={"authorization": f"Bearer {token}"} if token else {})
        return connection.getresponse().status


def connect(port: int, sent: bytes = b"") -> socket.socket:
    line = socket.create_connection(("127.0.0.1", port), timeout=30)
    line.sendall(sent)
    return line


def has_ended(line: socket.socket) -> bool:
    """Whether the hub closes it, after what it has sent."""
    try:
        while line.recv(1000):
            pass
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_h5_connections_with_slow_headers_are_closed(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "HEADERS_TIMEOUT_SECONDS", 1.0)
    with serving(stores) as port, ExitStack() as opened:
        lines = [opened.enter_context(connect(port, SLOW_HEADERS)) for _ in range(50)]
        assert all(has_ended(line) for line in lines)


def test_h5_connections_that_show_no_token_leave_room_for_others(stores: HubStores):
    token = stores.tokens.create_token(1, "agent", "w").token
    with serving(stores, max_connections=40) as port, ExitStack() as opened:
        for n in range(120):
            opened.enter_context(connect(port, SLOW_HEADERS if n % 2 else b""))
        assert get_status(port, "/v1/chain", token) == 200


def test_h5_a_tenant_with_many_connections_leaves_room_for_others(stores: HubStores):
    token = stores.tokens.create_token(1, "agent", "w").token
    headers = {"authorization": f"Bearer {token}"}
    with serving(stores, max_connections=40) as port, ExitStack() as opened:
        kept = [http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(60)]
        for each in kept:
            opened.callback(each.close)
            each.request("GET", "/v1/chain", headers=headers)
            assert each.getresponse().read()
        assert kept[0].sock
        assert has_ended(kept[0].sock)
        kept[-1].request("GET", "/v1/chain", headers=headers)
        assert kept[-1].getresponse().status == 200
        assert get_status(port) == 200


def test_h5_a_pipelined_body_that_does_not_arrive_is_given_up(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "BODY_GRACE_SECONDS", 1.0)
    token = stores.tokens.create_token(1, "admin").token
    first = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = f"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n"
    with serving(stores) as port, connect(port, first + head.encode()) as line:
        answer = b"".join(iter(lambda: line.recv(1000), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"HTTP/1.1 408" in answer


def test_h6_an_answer_on_a_kept_connection_waits_for_no_second_packet(stores: HubStores):
    with serving(stores) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        assert measure_quickest(connection, "/healthz") < NAGLE_SECONDS / 2


def measure_quickest(connection: http.client.HTTPConnection, path: str, **headers: str) -> float:
    """Of many requests: the machine may be busy, but the packets would wait each time."""
    took: list[float] = []
    for _ in range(40):
        started = time.perf_counter()
        connection.request("GET", path, headers=headers)
        assert connection.getresponse().read()
        took.append(time.perf_counter() - started)
    return min(took)
