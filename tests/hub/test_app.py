"""The HTTP interface of a hub, in process, on both pairs of stores."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from handhold.hub.app import HubApp
from handhold.hub.service import HubStores, open_stores
from handhold.hub.tenants import TenantLimits
from tests.hub.servers import Postgres, SeaweedFS
from tests.suites.record_store_suite import call_records, encode_chain, journal

DATA = b"some content\n"
HASH = sha256(DATA).hexdigest()


@pytest.fixture(params=["folder", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStores]:
    with ExitStack() as opened:
        if request.param == "folder":
            yield opened.enter_context(open_stores(str(tmp_path / "hub"), ""))
            return
        postgres: Postgres = request.getfixturevalue("postgres")
        seaweed: SeaweedFS = request.getfixturevalue("seaweed")
        for name, value in seaweed.environment.items():
            monkeypatch.setenv(name, value)
        stores = opened.enter_context(open_stores(postgres.make_database(), f"{seaweed.url}/{tmp_path.name}"))
        assert stores.tenants
        assert stores.tenants.add_tenant("first", TenantLimits()) == 1
        yield stores


@pytest.fixture
def lines() -> list[dict]:
    return []


@pytest.fixture
def client(stores: HubStores, lines: list[dict]) -> TestClient:
    return TestClient(HubApp(stores.records, stores.tokens, stores.contents, log=lines.append).asgi)


def bearer(stores: HubStores, role, workspace: str | None = None) -> dict[str, str]:
    return {"authorization": f"Bearer {stores.tokens.create_token(1, role, workspace).token}"}


def test_records_contents_and_calls_travel(client: TestClient, stores: HubStores, lines: list[dict]):
    agent, reader = bearer(stores, "agent", "shop"), bearer(stores, "reader")
    sent = journal(3)
    assert client.get("/v1/chain", headers=agent).json() == {"record": 0, "digest": "00" * 32, "diverged_at": 0}
    assert client.post("/v1/contents/have", json={"hashes": [HASH]}, headers=agent).json() == {"present": []}
    assert client.put(f"/v1/contents/{HASH}", content=DATA, headers=agent).status_code == 200
    assert client.post("/v1/contents/have", json={"hashes": [HASH, "0" * 64]}, headers=agent).json() == {
        "present": [HASH]
    }
    answer = client.post("/v1/records", content=b"\n".join(sent), headers={**agent, "handhold-head": "20"})
    assert answer.json() == {"record": 12, "digest": sha256(sent[-1]).hexdigest(), "diverged_at": 0}
    (workspace,) = client.get("/v1/workspaces", headers=reader).json()["workspaces"]
    assert (workspace["name"], workspace["record"], workspace["lag"]) == ("shop", 12, 8)
    calls = client.get("/v1/calls", params={"session": "s", "last": 2}, headers=reader).json()["calls"]
    assert [(each["workspace"], each["seq"], each["paths"]) for each in calls] == [
        ("shop", 2, ["/ws/f2"]),
        ("shop", 3, ["/ws/f3"]),
    ]
    assert [
        each["seq"] for each in client.get("/v1/calls", params={"path": "/ws/f1"}, headers=reader).json()["calls"]
    ] == [1]
    assert client.get(
        "/v1/workspaces/shop/records", params={"after": 4, "limit": 3}, headers=reader
    ).content == b"".join(line + b"\n" for line in sent[4:7])
    assert client.get("/v1/workspaces/shop/records", params={"seq": 2}, headers=reader).content == b"".join(
        line + b"\n" for line in sent[4:8]
    )
    assert client.get(f"/v1/workspaces/shop/contents/{HASH}", headers=reader).content == DATA
    assert client.get(f"/v1/workspaces/shop/contents/{'0' * 64}", headers=reader).status_code == 404
    assert {"route": "/v1/records", "status": 200, "tenant": 1, "role": "agent"}.items() <= next(
        each for each in lines if each["method"] == "POST" and each["route"] == "/v1/records"
    ).items()
    assert "handhold_hub_records_total 12.0" in client.get("/metrics").text


def test_a_gap_and_a_diverged_chain_are_told_with_the_head(client: TestClient, stores: HubStores):
    agent, admin = bearer(stores, "agent", "shop"), bearer(stores, "admin")
    sent = journal(3)
    client.post("/v1/records", content=b"\n".join(sent[:4]), headers=agent)
    gap = client.post("/v1/records", content=b"\n".join(sent[8:]), headers=agent)
    assert (gap.status_code, gap.json()["error"], gap.json()["record"]) == (409, "GAP", 4)
    other = encode_chain(call_records(9, "/ws/z"))
    refused = client.post("/v1/records", content=b"\n".join(other), headers=agent)
    assert (refused.status_code, refused.json()["error"], refused.json()["diverged_at"]) == (409, "DIVERGED", 1)
    assert client.get("/v1/workspaces", headers=admin).json()["workspaces"][0]["diverged_at"] == 1
    assert client.get("/v1/chain", headers=agent).json()["diverged_at"] == 1
    assert client.post("/v1/workspaces/shop/restart", headers=bearer(stores, "reader")).status_code == 403
    assert client.post("/v1/workspaces/shop/restart", headers=admin).json()["record"] == 0
    assert client.post("/v1/records", content=b"\n".join(other), headers=agent).json()["record"] == 4


@pytest.mark.parametrize("body", [b"", b"{}", b"\xff\n", b"\n\n"])
def test_what_is_no_batch_is_refused(client: TestClient, stores: HubStores, body: bytes):
    answer = client.post("/v1/records", content=body, headers=bearer(stores, "agent", "shop"))
    assert (answer.status_code, answer.json()["error"]) == (422, "INVALID_RECORDS")


def test_a_content_with_another_hash_is_refused_and_leaves_nothing(client: TestClient, stores: HubStores):
    agent = bearer(stores, "agent", "shop")
    assert client.put(f"/v1/contents/{HASH}", content=b"another", headers=agent).json()["error"] == "HASH_MISMATCH"
    assert client.post("/v1/contents/have", json={"hashes": [HASH]}, headers=agent).json() == {"present": []}
    chain = stores.records.open_chain(1, "shop")
    assert stores.records.find_content(chain, HASH) is None
    assert [page for page in stores.contents._store.list() if page] == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer x", "Basic eDp5", "Bearer \udcff".encode("utf-8", "surrogateescape")]
)
def test_without_a_valid_token_nothing_is_answered(client: TestClient, authorization):
    for method, path in (
        ("GET", "/v1/chain"),
        ("POST", "/v1/records"),
        ("GET", "/v1/calls"),
        ("POST", "/v1/tokens"),
        ("PUT", f"/v1/contents/{HASH}"),
    ):
        answer = client.request(method, path, headers={"authorization": authorization})
        assert (answer.status_code, answer.json()["error"]) == (401, "UNAUTHORIZED")


def test_roles_and_workspaces_bound_a_token(client: TestClient, stores: HubStores):
    agent, reader, scoped, admin = (
        bearer(stores, "agent", "a"),
        bearer(stores, "reader"),
        bearer(stores, "reader", "a"),
        bearer(stores, "admin"),
    )
    for name in ("a", "b"):
        client.post("/v1/records", content=b"\n".join(journal(1)), headers=bearer(stores, "agent", name))
    assert client.get("/v1/calls", headers=agent).status_code == 403
    assert client.post("/v1/records", content=b"\n".join(journal(1)), headers=reader).status_code == 403
    assert client.post("/v1/tokens", json={"role": "reader"}, headers=reader).status_code == 403
    assert {each["workspace"] for each in client.get("/v1/calls", headers=reader).json()["calls"]} == {"a", "b"}
    assert {each["workspace"] for each in client.get("/v1/calls", headers=scoped).json()["calls"]} == {"a"}
    for path in (
        "/v1/calls?workspace=b",
        "/v1/workspaces/b/records",
        f"/v1/workspaces/b/contents/{HASH}",
        "/v1/workspaces/c/records",
    ):
        assert client.get(path, headers=scoped).status_code == 404
    made = client.post("/v1/tokens", json={"role": "agent", "workspace": "c", "days": 1}, headers=admin)
    assert made.status_code == 201
    token = {"authorization": f"Bearer {made.json()['token']}"}
    assert client.get("/v1/chain", headers=token).status_code == 200
    assert client.delete(f"/v1/tokens/{made.json()['id']}", headers=admin).status_code == 200
    assert stores.tokens.authenticate(made.json()["token"]) is None
    for wanted in (
        {"role": "agent"},
        {"role": "root"},
        {"role": "reader", "workspace": "a/b"},
        {"role": "reader", "workspace": "\x00"},
        {"role": "reader", "days": -1},
        [],
    ):
        assert client.post("/v1/tokens", content=json.dumps(wanted), headers=admin).status_code == 422


def test_health_and_readiness(client: TestClient):
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
