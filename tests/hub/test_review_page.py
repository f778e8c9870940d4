"""Who sees the review page of a hub, and what it does not offer. What it shows is tested with the page: tests/review."""

import json
import re
from collections.abc import Iterator
from hashlib import sha256

import pytest
from starlette.testclient import TestClient

from handhold.hub.access import Role
from handhold.hub.service import HubStores, build_app, is_loopback, list_origins, open_stores
from handhold.hub.tenants import TenantLimits
from handhold.review.access import COOKIE_NAME
from tests.hub.servers import Postgres
from tests.suites.record_store_suite import batch, call_records, encode_chain

ORIGIN = "http://127.0.0.1:8790"
FORM = {"origin": ORIGIN}
PLACES = ("/review/", "/review/w/shop/timeline", "/review/w/shop/call/1", "/review/w/shop/history?path=/ws/a.py")


@pytest.fixture(scope="module")
def stores(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubStores]:
    contents = tmp_path_factory.mktemp("contents").as_uri()
    with open_stores(postgres.make_database(), contents) as stores:
        assert stores.tenants
        tenant = stores.tenants.add_tenant("acme", TenantLimits())
        for name in ("shop", "blog", "x<b>&'\" é", "static", "enter"):
            chain = stores.records.open_chain(tenant, name)
            stores.records.append(chain, batch(encode_chain(call_records(1, "/ws/a.py"))), claimed=4)
        yield stores


def browse(stores: HubStores, origin: str = ORIGIN) -> TestClient:
    """A browser that knows nobody yet."""
    return TestClient(build_app(stores, origins=[origin]), base_url=origin, follow_redirects=False)


def new_token(stores: HubStores, role: Role = "reader", workspace: str | None = None, days: float | None = None):
    return stores.tokens.create_token(1, role, workspace, days)


def enter(stores: HubStores, **options) -> TestClient:
    client = browse(stores)
    response = client.post("/review/enter", data={"token": new_token(stores, **options).token}, headers=FORM)
    assert response.status_code == 303, response.text
    return client


def read_csrf(client: TestClient) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', client.get("/review/").text)
    assert found
    return found[1]


@pytest.mark.parametrize("role", ["reader", "admin"])
def test_a_token_is_exchanged_for_a_cookie_once(stores: HubStores, role: Role):
    client = browse(stores)
    for place in PLACES:
        refused = client.get(place)
        assert refused.status_code == 403
        assert "shop" not in re.sub(r"/review/[^\"]*", "", refused.text)
    response = client.post(
        "/review/enter", data={"token": new_token(stores, role).token, "again": PLACES[1]}, headers=FORM
    )
    assert (response.status_code, response.headers["location"]) == (303, PLACES[1])
    cookie = response.headers["set-cookie"].lower()
    assert {"httponly", "samesite=strict", "path=/review/", "max-age=14400"} <= set(cookie.split("; "))
    assert "secure" not in cookie
    for place in PLACES:
        assert client.get(place).status_code == 200, place
    assert "shop" in client.get("/review/").text


def test_over_https_the_cookie_is_secure(stores: HubStores):
    client = browse(stores, "https://hub.example")
    data = {"token": new_token(stores).token}
    response = client.post("/review/enter", data=data, headers={"origin": "https://hub.example"})
    assert "secure" in response.headers["set-cookie"].lower().split("; ")
    refused = client.post("/review/enter", data=data, headers={"origin": "http://hub.example"})
    assert refused.status_code == 403


def test_only_a_valid_token_of_a_reader_or_an_admin_opens_it(stores: HubStores):
    client = browse(stores)
    expired = new_token(stores, days=1e-9).token
    for token in ("", "x", "' OR true --", "\x00", expired, new_token(stores, "agent", "shop").token):
        response = client.post("/review/enter", data={"token": token}, headers=FORM)
        assert (response.status_code, response.headers.get("set-cookie")) == (403, None), token
    token = new_token(stores).token
    for response in (
        client.get("/review/enter", params={"token": token}),  # never in an address
        client.get("/review/", headers={"authorization": f"Bearer {token}"}),
        client.get("/review/", headers={"cookie": f"{COOKIE_NAME}={token}"}),
    ):
        assert response.headers.get("set-cookie") is None
        assert "Workspaces" not in response.text


def test_nobody_is_led_elsewhere_after_entering(stores: HubStores):
    for again in ("https://evil.example/", "//evil.example/review/", "/review/../../evil", "\\\\evil", "/v1/chain"):
        data = {"token": new_token(stores).token, "again": again}
        response = browse(stores).post("/review/enter", data=data, headers=FORM)
        assert response.headers["location"].startswith("/review/"), again


def test_another_name_origin_or_frame_is_refused(stores: HubStores):
    client = enter(stores)
    assert client.get("/review/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/review/", headers={"sec-fetch-dest": "iframe"}).status_code == 403
    for headers in (
        {},
        {"origin": "null"},
        {"origin": "http://evil.example"},
        {**FORM, "sec-fetch-site": "cross-site"},
    ):
        data = {"token": new_token(stores).token}
        assert client.post("/review/enter", data=data, headers=headers).status_code == 403
        assert client.post("/review/leave", data={"csrf": read_csrf(client)}, headers=headers).status_code == 403
    assert client.post("/review/leave", data={"csrf": "guess"}, headers=FORM).status_code == 403
    headers = client.get("/review/w/shop/timeline").headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert (headers["x-content-type-options"], headers["cache-control"]) == ("nosniff", "no-store")


def test_a_session_ends_with_leaving_and_with_its_token(stores: HubStores):
    client = enter(stores)
    cookie = client.cookies[COOKIE_NAME]
    assert client.post("/review/leave", data={"csrf": read_csrf(client)}, headers=FORM).status_code == 303
    replayed = browse(stores).get("/review/", headers={"cookie": f"{COOKIE_NAME}={cookie}"})
    assert replayed.status_code == 403
    client, made = browse(stores), new_token(stores)
    client.post("/review/enter", data={"token": made.token}, headers=FORM)
    assert client.get("/review/").status_code == 200
    two = {"cookie": f"{COOKIE_NAME}=x; {COOKIE_NAME}={client.cookies[COOKIE_NAME]}"}
    assert browse(stores).get("/review/", headers=two).status_code == 403
    assert stores.tokens.revoke_token(1, made.id)
    assert client.get("/review/").status_code == 403
    assert stores.tenants
    client = enter(stores)
    with stores.tenants._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        connection.execute("UPDATE browser_sessions SET expires = now() - interval '1 second'")
    assert client.get("/review/").status_code == 403


def test_a_cookie_is_no_token(stores: HubStores):
    cookie = enter(stores, role="admin").cookies[COOKIE_NAME]
    for path in ("/v1/workspaces", "/v1/calls"):
        headers = {"authorization": f"Bearer {cookie}", "cookie": f"{COOKIE_NAME}={cookie}"}
        assert browse(stores).get(path, headers=headers).status_code == 401


def test_a_token_for_one_workspace_shows_that_one(stores: HubStores):
    client = enter(stores, workspace="blog")
    assert re.findall(r'class="go" href="([^"]+)"', client.get("/review/").text) == ["/review/w/blog/timeline"]
    assert client.get("/review/w/blog/timeline").status_code == 200
    answers = {client.get(f"/review/w/{name}/timeline").text for name in ("shop", "none", "x" * 300, "%00")}
    assert len(answers) == 1
    assert "There is nothing here." in answers.pop()


def test_every_name_leads_to_its_workspace_and_the_list_goes_on(stores: HubStores, monkeypatch: pytest.MonkeyPatch):
    from handhold.hub import review_app

    monkeypatch.setattr(review_app, "PAGE_WORKSPACES", 2)
    client, place, links = enter(stores), "/review/", list[str]()
    while place:
        text = client.get(place).text
        links += re.findall(r'class="go" href="([^"]+)"', text)
        more = re.search(r'href="(/review/\?from=[^"]+)"', text)
        place = more[1] if more else ""
    assert len(links) == len(set(links)) == 5
    for link in links:
        assert "edit_file" in client.get(link).text, link


def test_what_needs_the_workspace_is_not_offered_and_the_page_says_so(stores: HubStores):
    client = enter(stores, role="admin")
    for place in PLACES:
        text = client.get(place).text
        assert "Answers, undoing, forks and live output are on the machine with the workspace" in text
        assert not re.search(r"/(undo|redo|forks|now|question|events)\b", text)
    csrf = read_csrf(client)
    for path in ("call/1/undo", "call/1/redo", "forks", "now", "events", "question/1/answer", "forks/a/merge"):
        for method in ("GET", "POST"):
            answer = client.request(method, f"/review/w/shop/{path}", headers=FORM, data={"csrf": csrf})
            assert answer.status_code == 404, (method, path)
    assert client.post("/review/w/shop/timeline", headers=FORM, data={"csrf": csrf}).status_code == 405


def test_records_that_no_sandbox_would_write_do_not_break_a_page(stores: HubStores):
    """Whoever has an agent's token can ship anything that is a chain."""
    chain = stores.records.open_chain(1, "odd")
    contents = (
        {"kind": "file", "hash": 7, "size": "large"},
        {"kind": "file"},
        {"kind": "shelved", "thing": "moon", "hash": "x", "size": 1, "mode": "rw", "device": "1", "inode": "1"},
        {"kind": "folder", "mode": None, "owner": None, "attributes": None},
        {"kind": "unknown", "size": {}},
    )
    lines, previous, number = list[bytes](), bytes(32), 0
    for seq, content in enumerate(contents, 1):
        for kind, body in (
            ("call", {"session": "s", "turn": "", "call_id": "", "tool": "bash", "dialect": "", "arguments": "[" * 99}),
            ("intent", {"decision": {}, "files": [{"path": "/a", "before": None, "after": content, "mode": "x"}]}),
            ("outcome", {"status": "success", "code": None, "time_us": 1, "reply": {"x": 1}, "decision": None}),
        ):
            body |= {"takes_back": [seq], "transaction": ""} if kind == "intent" else {}
            number += 1
            found = {"at": 1, "body": body, "kind": kind, "previous": previous.hex(), "record": number, "seq": seq}
            lines.append(json.dumps({**found, "version": 1}).encode())
            previous = sha256(lines[-1]).digest()
    stores.records.append(chain, batch(lines), claimed=number)
    client = enter(stores)
    for path in ("timeline", "timeline?q=x&path=a", *(f"call/{n}" for n in range(1, 6)), "history?path=/a"):
        assert client.get(f"/review/w/odd/{path}").status_code == 200, path
    assert client.get(f"/review/w/odd/call/{2**70}").status_code == 404


def test_without_its_database_it_says_so(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory):
    with open_stores(postgres.make_database(), tmp_path_factory.mktemp("contents").as_uri()) as stores:
        assert stores.tenants
        stores.tenants.add_tenant("acme", TenantLimits())
        client = enter(stores)
    response = client.get("/review/")  # the pool is closed
    assert (response.status_code, "storage does not answer" in response.text) == (503, True)


def test_it_is_served_only_where_its_name_is_known(stores: HubStores, tmp_path_factory: pytest.TempPathFactory):
    assert TestClient(build_app(stores)).get("/review/").status_code == 404
    with open_stores(str(tmp_path_factory.mktemp("folder")), "") as folder:  # has no read port
        assert TestClient(build_app(folder, origins=[ORIGIN])).get("/review/").status_code == 404
    assert list_origins("0.0.0.0", 8790, "") == list_origins("10.0.0.1", 80, "") == []
    assert list_origins("0.0.0.0", 8790, "https://Hub.Example/") == ["https://hub.example"]
    assert ORIGIN in list_origins("127.0.0.1", 8790, "")
    assert [is_loopback(each) for each in ("::1", "127.9.9.9", "localhost", "example.org")] == [True, True, True, False]


def test_requests_for_pages_are_counted_and_logged(stores: HubStores):
    lines: list[dict] = []
    client = TestClient(build_app(stores, origins=[ORIGIN], log=lines.append), base_url=ORIGIN)
    token = new_token(stores).token
    client.post("/review/enter", data={"token": token}, headers=FORM)
    assert client.get("/review/w/shop/timeline").status_code == 200
    assert (lines[-1]["route"], lines[-1]["status"], lines[-1]["role"]) == ("/review", 200, "reader")
    assert token not in json.dumps(lines)
    assert 'handhold_hub_requests_total{route="/review",status="200"}' in client.get("/metrics").text
