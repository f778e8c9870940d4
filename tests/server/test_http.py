"""The HTTP server for clients of both protocol revisions, and for clients that it rejects."""

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from handhold.pipeline.idempotency import CHANGED_SINCE
from handhold.server.admission import ServerLimits
from handhold.server.http import HostAllowlist
from handhold.server.tokens import AccessTokens
from tests.server.web import PLAIN, Answer, Client, Web, served, token_for


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "a.py").write_text("price = 1\n")
    return folder


@pytest.fixture
def web(root: Path, tmp_path: Path) -> Iterator[Web]:
    with served(AccessTokens((token_for("anna", root, tmp_path / "state"),))) as web:
        yield web


@pytest.fixture
def anna(web: Web) -> Client:
    return Client(web.port, "anna")


# --- both revisions


def test_a_client_without_sessions_reads_and_then_edits_in_one_conversation(anna: Client, root: Path):
    assert "price = 1" in anna.tool("read_file", {"path": "a.py"}).text
    edited = anna.tool("edit_file", {"path": "a.py", "old_string": "1", "new_string": "2"})
    assert edited.result["isError"] is False
    assert (root / "a.py").read_text() == "price = 2\n"


def test_a_client_with_a_session_reads_and_then_edits_in_it_and_no_other_session_has_read(
    anna: Client, root: Path, web: Web
):
    assert anna.begin().result["serverInfo"]["name"] == "handhold"
    assert "price = 1" in anna.old_tool("read_file", {"path": "a.py"}).text
    other = Client(web.port, "anna")
    other.begin()
    edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
    assert other.old_tool("edit_file", edit).result["isError"] is True
    assert anna.old_tool("edit_file", edit).result["isError"] is False
    assert (root / "a.py").read_text() == "price = 2\n"


def test_a_handle_names_a_session_and_new_begins_one(anna: Client):
    handle = anna.tool("read_file", {"path": "a.py", "session": "new"}).result["_meta"]["handhold/session"]
    edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
    assert anna.tool("edit_file", edit).result["isError"] is True, "the token's own conversation has not read it"
    assert anna.tool("edit_file", {**edit, "session": handle}).result["isError"] is False


def test_tools_take_a_session_only_where_there_is_none(anna: Client):
    anna.begin()
    modern, legacy = (each("tools/list").result["tools"][0] for each in (anna.modern, anna.legacy))
    assert {"session", "call_id"} <= modern["inputSchema"]["properties"].keys()
    assert not {"session", "call_id"} & legacy["inputSchema"]["properties"].keys()


def test_the_same_call_id_is_carried_out_once_in_both_revisions(anna: Client, root: Path):
    call = {"path": "new.txt", "content": "once\n"}
    anna.begin()
    for calls in (anna.tool, anna.old_tool):
        (root / "new.txt").unlink(missing_ok=True)
        first = calls("write_file", call, **{"handhold/callId": "c1"})
        (root / "new.txt").write_text("changed by hand\n")
        again = calls("write_file", call, **{"handhold/callId": "c1"})
        assert again.text == f"{first.text}\n\n{CHANGED_SINCE.format(paths='new.txt')}"
        assert (root / "new.txt").read_text() == "changed by hand\n"


def test_sessions_outlive_the_server(root: Path, tmp_path: Path):
    tokens = AccessTokens((token_for("anna", root, tmp_path / "state"),))
    with served(tokens) as web:
        anna = Client(web.port, "anna")
        anna.begin()
        anna.old_tool("read_file", {"path": "a.py"})
    with served(tokens) as web:
        anna.port = web.port
        edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
        assert anna.old_tool("edit_file", edit).result["isError"] is False


def test_a_session_that_was_ended_is_gone_and_its_jobs_with_it(root: Path, tmp_path: Path):
    with served(AccessTokens((token_for("anna", root, tmp_path / "state", policy="open"),))) as web:
        anna = Client(web.port, "anna")
        anna.begin()
        started = anna.old_tool("bash", {"command": "sleep 987", "background": True})
        assert started.result["isError"] is False, started.text
        assert anna.raw("DELETE", "/mcp", headers=anna.headers).status == 200
        assert anna.legacy("tools/list").status == 404
        assert not running("sleep 987")


@pytest.mark.parametrize("modern", [True, False])
def test_progress_comes_on_the_stream_of_the_call(anna: Client, modern: bool):
    anna.begin()
    call = anna.tool if modern else anna.old_tool
    answer = call("bash", {"command": "echo one; sleep 0.5; echo two"}, progressToken="p")
    said = [each["params"] for each in answer.messages if each.get("method") == "notifications/progress"]
    assert said
    assert {each["progressToken"] for each in said} == {"p"}
    assert "one" in said[0]["message"]
    assert "two" in answer.text


def test_a_client_that_hangs_up_takes_its_command_with_it(anna: Client, web: Web):
    anna.begin()
    for era, seconds in (
        ({"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "bash"}, 986),
        (anna.headers, 985),
    ):
        command = f"sleep {seconds}"
        with socket.create_connection(("127.0.0.1", web.port)) as line:
            line.sendall(request_bytes(anna, era, command))
            until(partial(running, command))
        until(partial(ended, command))


def test_a_call_that_is_cancelled_by_another_request_ends_and_is_told_so(anna: Client, web: Web):
    anna.begin()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(anna.old_tool, "bash", {"command": "sleep 984"})
        until(lambda: running("sleep 984"))
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": anna.ids}}
        assert anna.post(cancelled, anna.headers).status == 202
        assert waiting.result(20).message["error"]["code"] == -32800
    assert ended("sleep 984")


def test_a_question_is_asked_on_the_stream_of_the_call_and_answered_by_another_request(root: Path, tmp_path: Path):
    with served(AccessTokens((token_for("anna", root, tmp_path / "state", policy="ask"),))) as web:
        anna = Client(web.port, "anna")
        anna.begin({"elicitation": {}})
        for action, stands in (("accept", True), ("decline", False)):
            name = f"{action}.txt"
            body = {"name": "write_file", "arguments": {"path": name, "content": "x\n"}, "_meta": {}}
            message = {"jsonrpc": "2.0", "id": action, "method": "tools/call", "params": body}
            with socket.create_connection(("127.0.0.1", web.port), timeout=20) as line:
                line.sendall(posted(anna, anna.headers, message))
                question = next(each for each in heard(line) if each.get("method") == "elicitation/create")
                stranger = Client(web.port, "anna")
                stranger.begin()
                reply = {
                    "jsonrpc": "2.0",
                    "id": question["id"],
                    "result": {"action": "accept", "content": accepted(question)},
                }
                assert stranger.post(reply, stranger.headers).status == 202, (
                    "another session may answer nothing of ours"
                )
                assert not (root / name).exists()
                mine = {**reply, "result": reply["result"] if action == "accept" else {"action": action}}
                assert anna.post(mine, anna.headers).status == 202
                assert next(each for each in heard(line) if each.get("id") == action)["result"]["isError"] is not stands
            assert (root / name).exists() is stands


# --- who is let in


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", "Bearer anne", "Bearer annaa", "Basic anna", "anna", "Bearer anna anna"]
)
def test_nobody_comes_in_without_a_token(web: Web, given: str):
    answer = Client(web.port).raw("POST", "/mcp", b"{}", {**PLAIN, "authorization": given})
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert b"shop" not in answer.body


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "127.0.0.1.evil.example"}, 421),
        ({"host": "localhost:80:80"}, 421),
        ({"host": ""}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://localhost.evil.example"}, 403),
        ({"origin": "https://localhost"}, 403),
        ({"origin": "http://localhost:3000"}, 200),
        ({"host": "localhost:9"}, 200),
        ({"host": "LocalHost"}, 200),
    ],
)
def test_a_page_whose_name_was_led_to_us_gets_nothing(anna: Client, headers: dict[str, str], status: int):
    assert anna.raw("GET", "/healthz", headers=headers).status == status
    assert (anna.raw("POST", "/mcp", b"{}", {**PLAIN, **headers}).status == status) is (status != 200)


def test_names_that_were_allowed_are_believed(root: Path, tmp_path: Path):
    access = HostAllowlist(("tools.example", *HostAllowlist.hosts), ("https://desk.example",))
    with served(AccessTokens((token_for("anna", root, tmp_path / "state"),)), allowlist=access) as web:
        anna = Client(web.port, "anna")
        assert (
            anna.raw("GET", "/healthz", headers={"host": "tools.example", "origin": "https://desk.example"}).status
            == 200
        )


def test_health_is_told_to_everybody_and_says_nothing_of_roots(web: Web, root: Path):
    answer = Client(web.port).raw("GET", "/healthz")
    assert (answer.status, answer.message) == (200, {"status": "ok"})
    assert Client(web.port).raw("POST", "/healthz").status == 405


# --- limits


def test_a_body_that_is_too_large_is_refused_by_its_length_and_by_its_bytes(root: Path, tmp_path: Path):
    with served(
        AccessTokens((token_for("anna", root, tmp_path / "state"),)), limits=ServerLimits(max_body_bytes=1000)
    ) as web:
        anna = Client(web.port, "anna")
        assert anna.raw("POST", "/mcp", b" " * 1001, PLAIN).status == 413
        with socket.create_connection(("127.0.0.1", web.port), timeout=20) as line:
            line.sendall(
                head(anna, {"transfer-encoding": "chunked"})
                + b"200\r\n"
                + b" " * 512
                + b"\r\n"
                + b"200\r\n"
                + b" " * 512
                + b"\r\n"
            )
            assert b" 413 " in line.recv(100)
        assert anna.modern("tools/list").status == 200


def test_a_client_that_sends_its_body_slowly_is_sent_away_and_the_others_do_not_wait(root: Path, tmp_path: Path):
    with served(
        AccessTokens((token_for("anna", root, tmp_path / "state"),)), limits=ServerLimits(body_timeout_seconds=0.5)
    ) as web:
        anna = Client(web.port, "anna")
        with socket.create_connection(("127.0.0.1", web.port), timeout=20) as line:
            line.sendall(head(anna, {"content-length": "100"}) + b"{")
            assert anna.modern("tools/list").status == 200
            assert b" 408 " in line.recv(100)


def test_a_client_that_drips_its_headers_is_sent_away(web: Web, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("handhold.http_listener.protocol.HEADERS_TIMEOUT_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", web.port), timeout=20) as line:
        line.sendall(b"POST /mcp HTTP/1.1\r\n")
        until(partial(dripped, line))


def dripped(line: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    line.settimeout(0.1)
    try:
        line.sendall(b"x: y\r\n")
        return line.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_too_many_calls_at_once_are_told_to_come_again(root: Path, tmp_path: Path):
    tokens = AccessTokens(tuple(token_for(name, root, tmp_path / "state") for name in ("anna", "ben")))
    with served(tokens, limits=ServerLimits(max_calls=4)) as web, ThreadPoolExecutor() as pool:
        anna, ben = Client(web.port, "anna"), Client(web.port, "ben")
        waiting = [
            pool.submit(Client(web.port, "anna").tool, "bash", {"command": "sleep 2; echo awake"}) for _ in range(2)
        ]
        until(lambda: len(running("sleep 2")) >= 2)
        refused = anna.modern("tools/list")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1"), "a half is the most for one token"
        assert ben.modern("tools/list").status == 200
        more = [pool.submit(Client(web.port, "ben").tool, "bash", {"command": "sleep 2; echo awake"}) for _ in range(2)]
        until(lambda: len(running("sleep 2")) >= 4)
        refused = ben.modern("tools/list")
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert anna.raw("GET", "/healthz").status == 200
        assert all("awake" in each.result(30).text for each in [*waiting, *more])
        assert anna.modern("tools/list").status == 200


class InChunks(Client):
    def raw(self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Answer:
        return super().raw(method, path, cast("bytes", iter([body])), headers)


def test_r21_a_small_body_in_chunks_is_a_small_body(root: Path, tmp_path: Path):
    """A chunked body reserves the maximum at first, and its real size after it was read."""
    with (
        served(
            AccessTokens((token_for("anna", root, tmp_path / "state"),)), limits=ServerLimits(max_body_bytes=10_000)
        ) as web,
        ThreadPoolExecutor(12) as pool,
    ):
        many = 10
        waiting = [pool.submit(InChunks(web.port, "anna").tool, "bash", {"command": "sleep 3.5"}) for _ in range(many)]
        until(lambda: len(running("sleep 3.5")) >= many)
        assert [each.result(30).status for each in waiting] == [200] * many


# --- the log


def test_the_log_is_a_line_of_json_for_each_request_and_holds_no_secret(root: Path, tmp_path: Path):
    lines: list[str] = []
    with served(AccessTokens((token_for("anna", root, tmp_path / "state"),)), log=lines.append) as web:
        anna = Client(web.port, "anna")
        anna.tool("write_file", {"path": "s.txt", "content": "sesame"})
        anna.raw("POST", "/mcp/sesame?token=sesame", b"sesame", {"authorization": "Bearer sesame", "cookie": "sesame"})
    assert not [line for line in lines if "sesame" in line]
    said = [json.loads(line) for line in lines]
    assert [(each["token"], each["path"], each["status"]) for each in said] == [
        ("anna", "/mcp", 200),
        ("", "other", 404),
    ]


# --- by hand


def head(client: Client, headers: dict[str, str]) -> bytes:
    given = {"host": "localhost", "authorization": f"Bearer {client.token}", **PLAIN, **headers}
    return "\r\n".join(["POST /mcp HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", ""]).encode()


def posted(client: Client, headers: dict[str, str], message: object) -> bytes:
    body = json.dumps(message).encode()
    return head(client, {**headers, "content-length": str(len(body))}) + body


def request_bytes(client: Client, headers: dict[str, str], command: str) -> bytes:
    from tests.server.web import ENVELOPE

    meta = ENVELOPE if "mcp-name" in headers else {}
    params = {"name": "bash", "arguments": {"command": command}, "_meta": meta}
    return posted(client, headers, {"jsonrpc": "2.0", "id": command, "method": "tools/call", "params": params})


def heard(line: socket.socket) -> Iterator[dict[str, Any]]:
    """The messages of a stream, as they arrive."""
    data = b""
    while piece := line.recv(65536):
        data += piece
        while b"\n" in data:
            each, _, data = data.partition(b"\n")
            if each.startswith(b"data: "):
                yield json.loads(each[6:])


def accepted(question: dict[str, Any]) -> dict[str, Any]:
    """The first choice of each required field."""
    schema = question["params"]["requestedSchema"]
    chosen: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        options = field.get("enum") or [each["const"] for each in field.get("oneOf", [])]
        chosen[name] = options[0] if options else True
    return chosen


def running(command: str) -> list[str]:
    found: list[str] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b" ".join(words[:-1]).decode(errors="replace") == command:
            found.append(folder.name)
    return found


def ended(command: str) -> bool:
    return not running(command)


def until(so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not so():
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)
