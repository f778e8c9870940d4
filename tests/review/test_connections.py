"""Other users of this machine can connect to the review page: they must not keep its browsers out."""

import http.client
import socket
from contextlib import ExitStack, closing

import pytest

from tests.hub.test_hub_connections import NAGLE_SECONDS, measure_quickest
from tests.review.hosting import Reviewed

pytestmark = pytest.mark.timeout(60)

MANY = 300


def test_h12_idle_connections_do_not_keep_a_browser_out(reviewed: Reviewed):
    client = reviewed.enter_plainly()
    with ExitStack() as opened:
        for n in range(MANY):
            line = opened.enter_context(socket.create_connection(("127.0.0.1", reviewed.port), timeout=30))
            line.sendall(b"GET / HTTP/1.1\r\n" * (n % 2))
        assert client.get("/now").status == 200
        reviewed.server.keys.renew_link()
        assert client.get(f"/enter?token={reviewed.server.keys.link_token}").status == 200


def test_h6_an_answer_on_a_kept_connection_waits_for_no_second_packet(reviewed: Reviewed):
    client = reviewed.enter_plainly()
    with closing(http.client.HTTPConnection("127.0.0.1", reviewed.port, timeout=30)) as connection:
        path = f"{reviewed.server.base}/static/icon.svg"
        assert measure_quickest(connection, path, Cookie=client.cookie) < NAGLE_SECONDS / 2
