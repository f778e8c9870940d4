"""A sandbox with an uplink, and a hub as its own process."""

import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold import Rule, Toolbox
from handhold.backends.uplink import uplink
from handhold.core.errors import SettingsBroken
from handhold.core.plans import digest
from handhold.hub.access import Role
from handhold.hub.local_records import SqliteRecordStore
from tests.hub.hubs import Hub
from tests.hub.servers import free_port, wait_until

SECRET = "API_KEY=sk-live-51Habcdefghijklmnop\n"


DENY = Rule("internal", "deny", ["read"], "it is internal", ["internal/x"], ["x"], paths=["internal/**"])


class Sandbox:
    """A workspace, and the hub that its journal is shipped to."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.root, self.state, self.hub, self.name = folder / "ws", folder / "state", hub, folder.name
        self.root.mkdir()

    def new_token(self, role: Role, workspace: str | None = None) -> str:
        with closing(SqliteRecordStore(Path(self.hub.database, "hub.db"))) as store:
            return store.create_token(1, role, workspace).token

    @contextmanager
    def open(self, **options) -> Iterator[Toolbox]:
        with Toolbox.open(self.root, **{"state": self.state, "hub": self.hub.url, "session": "s", **options}) as box:
            yield box

    def status(self):
        with Toolbox.open(self.root, state=self.state) as box:
            return box.store.hub_status()

    def lines(self) -> list[str]:
        """Hashes of our own chain."""
        with closing(sqlite3.connect(next(self.state.rglob("state.db")))) as connection:
            tables = ("calls", "intents", "outcomes", "finished")
            rows = connection.execute(
                " UNION ALL ".join(f"SELECT record, digest FROM {each}" for each in tables) + " ORDER BY 1"
            )
            return [each.hex() for _, each in rows]

    # --- at the hub

    def shipped(self, reader: str) -> list[str]:
        return [digest(line) for line in self.hub.get(f"/v1/workspaces/{self.name}/records", reader).splitlines()]

    def has_content(self, reader: str, data: bytes) -> bool:
        try:
            return self.hub.get(f"/v1/workspaces/{self.name}/contents/{digest(data)}", reader) == data
        except OSError:
            return False

    def back_up_hub(self, copy: Path) -> None:
        self.hub.stop()
        shutil.copytree(self.hub.database, copy)
        self.hub.start()

    def restore_hub(self, copy: Path) -> None:
        self.hub.stop()
        shutil.rmtree(self.hub.database)
        shutil.copytree(copy, self.hub.database)
        self.hub.start()


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    server = Hub(str(folder / "hub"), "", folder / "log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def sandbox(tmp_path: Path, shared_hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    return make_sandbox(tmp_path, shared_hub, monkeypatch)


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """With a hub of its own, to be killed."""
    server = Hub(str(tmp_path / "hub"), "", tmp_path / "hub.log")
    server.start()
    yield make_sandbox(tmp_path, server, monkeypatch)
    server.stop()


def make_sandbox(folder: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    sandbox = Sandbox(folder, hub)
    monkeypatch.setenv("HANDHOLD_HUB_TOKEN", sandbox.new_token("agent", sandbox.name))
    return sandbox


@pytest.fixture
def reader(request: pytest.FixtureRequest) -> str:
    name = "alone" if "alone" in request.fixturenames else "sandbox"
    return request.getfixturevalue(name).new_token("reader")


def write(box: Toolbox, path: str, content: str, **more):
    reply = box.call("write_file", {"path": path, "content": content}, **more)
    assert reply.ok, reply.text
    return reply


def all_sent(box: Toolbox) -> bool:
    status = box.store.hub_status()
    return status is not None and not status.lag


def test_the_journal_and_its_contents_reach_the_hub(sandbox: Sandbox, reader: str):
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
        box.call("read_file", {"path": "a.txt"})
        assert box.call("edit_file", {"path": "a.txt", "old_string": "one", "new_string": "two"}, call_id="c7").ok
        wait_until(lambda: all_sent(box), "shipping")
    assert sandbox.shipped(reader) == sandbox.lines()
    assert sandbox.has_content(reader, b"one\n")
    assert sandbox.has_content(reader, b"two\n")
    calls = sandbox.hub.get_json(f"/v1/calls?workspace={sandbox.name}&session=s", reader)["calls"]
    assert [(each["call"]["tool"], each["outcome"]["status"]) for each in calls] == [
        ("write_file", "success"),
        ("read_file", "success"),
        ("edit_file", "success"),
    ]
    (reply,) = [
        json.loads(line)["body"]["reply"]
        for line in sandbox.hub.get(f"/v1/workspaces/{sandbox.name}/records?seq=3", reader).splitlines()
        if b'"outcome"' in line
    ]
    assert b"two" in sandbox.hub.get(f"/v1/workspaces/{sandbox.name}/contents/{reply}", reader)


def test_closing_ships_what_is_left(sandbox: Sandbox, reader: str):
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
    assert sandbox.shipped(reader) == sandbox.lines() != []


def test_a_journal_from_before_the_hub_is_shipped_from_its_first_record(sandbox: Sandbox, reader: str):
    with Toolbox.open(sandbox.root, state=sandbox.state) as box:
        write(box, "a.txt", "one\n")
    with sandbox.open():
        pass
    assert sandbox.shipped(reader) == sandbox.lines() != []


def test_commands_are_shipped_with_their_contents(sandbox: Sandbox, reader: str):
    with sandbox.open() as box:
        assert box.call("bash", {"command": "echo made > made.txt; mkdir sub; echo deep > sub/deep.txt"}).ok
        assert box.call("bash", {"command": "echo changed > made.txt"}).ok
    assert sandbox.has_content(reader, b"made\n")
    assert sandbox.has_content(reader, b"changed\n")


def test_while_the_hub_is_away_calls_go_on_and_nothing_is_lost(alone: Sandbox, reader: str):
    with alone.open() as box:
        write(box, "a.txt", "one\n")
        wait_until(lambda: all_sent(box), "shipping")
        alone.hub.kill()
        for n in range(20):
            write(box, f"f{n}.txt", f"{n}\n")
        status = box.store.hub_status()
        assert status
        assert status.lag >= 60
        alone.hub.start()
        wait_until(lambda: all_sent(box), "shipping after the hub came back")
    assert alone.shipped(reader) == alone.lines()
    assert all(alone.has_content(reader, f"{n}\n".encode()) for n in range(20))


def test_what_is_unsent_is_kept_until_its_bound_then_changes_are_refused_and_reads_go_on(alone: Sandbox, reader: str):
    with alone.open(undo_bytes=400_000) as box:
        write(box, "first.txt", "x\n")
        wait_until(lambda: all_sent(box), "shipping")
        alone.hub.kill()
        refused = None
        for n in range(100):
            reply = box.call("write_file", {"path": f"f{n}.txt", "content": os.urandom(4000).hex()})
            if not reply.ok:
                refused = reply
                break
        assert refused
        assert refused.code == "HUB_BACKLOG_FULL"
        assert n >= 20
        assert not (alone.root / f"f{n}.txt").exists()
        assert box.call("read_file", {"path": "first.txt"}).ok
        assert box.call("bash", {"command": "cat first.txt"}).ok
        alone.hub.start()
        wait_until(lambda: all_sent(box), "shipping after the hub came back")
        write(box, "last.txt", "y\n")
    for each in alone.root.glob("f*.txt"):
        assert alone.has_content(reader, each.read_bytes())


def test_a_diverged_chain_is_refused_and_said_on_every_face(sandbox: Sandbox, reader: str, tmp_path: Path):
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
    shutil.copytree(sandbox.state, tmp_path / "backup")
    with sandbox.open() as box:
        write(box, "b.txt", "two\n")
    first = sandbox.shipped(reader)
    shutil.rmtree(sandbox.state)
    shutil.copytree(tmp_path / "backup", sandbox.state)  # somebody restored an older state folder
    with sandbox.open() as box:
        wait_until(lambda: bool((status := box.store.hub_status()) and status.diverged_at), "noticing")
        wait_until(lambda: bool(box._session.hub and box._session.hub.warning), "warning")  # pyright: ignore[reportPrivateUsage]
        reply = write(box, "d.txt", "four\n")
        assert "refuses this journal from record" in reply.data["hub"]
        assert reply.data["hub"] in reply.text
        again = write(box, "e.txt", "five\n")
        assert again.data["hub"] == reply.data["hub"]
        assert again.data["hub"] not in again.text  # said once
    assert sandbox.shipped(reader) == first
    status = sandbox.status()
    assert status
    assert status.diverged_at == 5
    assert "refuses this journal" in status.describe()


def test_a_rewritten_chain_is_kept_apart_and_can_be_accepted(sandbox: Sandbox, reader: str):
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
    shutil.rmtree(sandbox.state)  # a new journal begins
    with sandbox.open() as box:
        write(box, "a2.txt", "other\n")
        write(box, "b.txt", "other\n")
        wait_until(lambda: bool((status := box.store.hub_status()) and status.diverged_at), "noticing")
    (found,) = (
        each for each in sandbox.hub.get_json("/v1/workspaces", reader)["workspaces"] if each["name"] == sandbox.name
    )
    assert 1 <= found["diverged_at"] <= 4  # the last record that both had when the uplink compared
    admin = sandbox.new_token("admin")
    import urllib.request

    urllib.request.urlopen(
        urllib.request.Request(
            sandbox.hub.url + f"/v1/workspaces/{sandbox.name}/restart", b"", {"authorization": f"Bearer {admin}"}
        )
    )
    with sandbox.open() as box:
        wait_until(lambda: all_sent(box), "shipping from the beginning")
    assert sandbox.shipped(reader) == sandbox.lines()


def test_a_hub_restored_from_a_backup_gets_the_rest_again(alone: Sandbox, reader: str, tmp_path: Path):
    with alone.open() as box:
        write(box, "a.txt", "one\n")
    alone.back_up_hub(tmp_path / "backup")
    with alone.open() as box:
        write(box, "b.txt", "two\n")
        write(box, "c.txt", "three\n")
        wait_until(lambda: all_sent(box), "shipping")
        alone.restore_hub(tmp_path / "backup")
        write(box, "d.txt", "four\n")
        wait_until(lambda: all_sent(box), "shipping again")
    assert alone.shipped(reader) == alone.lines()
    assert alone.has_content(reader, b"two\n")


def test_durable_hub_acknowledges_a_change_only_when_the_hub_has_it(
    alone: Sandbox, reader: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uplink.Uplink.__init__, "__kwdefaults__", {"ack_seconds": 1.0})
    with alone.open(durable="hub") as box:
        write(box, "a.txt", "one\n", call_id="1")
        assert len(alone.shipped(reader)) >= 3  # the outcome is there before the reply
        alone.hub.kill()
        arguments = {"path": "b.txt", "content": "two\n"}
        reply = box.call("write_file", arguments, call_id="2")
        assert (reply.code, reply.error_source) == ("HUB_UNREACHABLE", "infra")
        assert box.call("read_file", {"path": "a.txt"}).ok  # reads do not wait
        assert box.call("write_file", arguments, call_id="2").code == "HUB_UNREACHABLE"
        alone.hub.start()
        settled = box.call("write_file", arguments, call_id="2")
        assert settled.ok
        assert settled.replayed
        assert (alone.root / "b.txt").read_text() == "two\n"
        assert box.undo().ok
        assert alone.shipped(reader)[:-1] == alone.lines()[: len(alone.shipped(reader)) - 1]


def test_contents_of_secret_files_are_never_shipped(sandbox: Sandbox, reader: str):
    """C-89."""
    (sandbox.root / ".env").write_text(SECRET)
    (sandbox.root / "internal").mkdir()
    copied = f"# a copy with more around it\n{SECRET}"
    with sandbox.open(rules=(DENY,)) as box:
        assert box.call(
            "bash",
            {
                "command": "cp .env copy.txt; (echo '# a copy with more around it'; cat .env) > more.txt; echo OTHER_KEY=abcdefghijklmnop12345 >> .env; echo plain > plain.txt; echo concealed > internal/x.txt; base64 .env > encoded.txt"
            },
        ).ok
        assert box.call("bash", {"command": "rm .env copy.txt internal/x.txt"}).ok
        wait_until(lambda: all_sent(box), "shipping")
    assert sandbox.has_content(reader, b"plain\n")
    found = [path.read_bytes() for path in Path(sandbox.hub.database, "contents").rglob("*") if path.is_file()]
    assert found
    for data in found:
        assert b"sk-live" not in data
        assert b"abcdefghijklmnop12345" not in data
        assert b"concealed" not in data or b"echo concealed" in data  # the command itself is in the reply
    assert not sandbox.has_content(reader, copied.encode())


def test_what_was_hidden_when_it_was_written_stays_hidden_under_later_rules(sandbox: Sandbox, reader: str):
    (sandbox.root / "internal").mkdir()
    with Toolbox.open(sandbox.root, state=sandbox.state, rules=(DENY,)) as box:
        assert box.call(
            "bash", {"command": "echo private > open.txt; mv open.txt internal/x.txt; echo public > y.txt"}
        ).ok
        assert not box.call("read_file", {"path": "internal/x.txt"}).ok
    with sandbox.open() as box:
        assert box.call("bash", {"command": "cp internal/x.txt z.txt"}).ok
    assert sandbox.has_content(reader, b"public\n")
    assert not sandbox.has_content(reader, b"private\n")


def test_a_new_token_in_the_file_is_used_without_a_restart(
    sandbox: Sandbox, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uplink, "REFUSED_RETRY_SECONDS", 0.2)
    monkeypatch.delenv("HANDHOLD_HUB_TOKEN")
    file = tmp_path / "token"
    file.write_text("hhub_not-a-token\n")
    monkeypatch.setenv("HANDHOLD_HUB_TOKEN_FILE", str(file))
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
        wait_until(lambda: "UNAUTHORIZED" in str(box.store.hub_status()), "refusal")
        file.write_text(sandbox.new_token("agent", sandbox.name) + "\n")
        wait_until(lambda: all_sent(box), "shipping with the new token")
    assert sandbox.shipped(reader) == sandbox.lines()


def test_the_token_is_needed_and_not_in_reach_of_tools(
    sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with sandbox.open() as box:
        assert "hhub_" not in box.call("bash", {"command": "env"}).text
    monkeypatch.delenv("HANDHOLD_HUB_TOKEN")
    with pytest.raises(SettingsBroken), sandbox.open():
        pass
    (sandbox.root / "token").write_text("hhub_x")
    monkeypatch.setenv("HANDHOLD_HUB_TOKEN_FILE", str(sandbox.root / "token"))
    with pytest.raises(SettingsBroken), sandbox.open():
        pass


@pytest.mark.parametrize("url", ["http://hub.example.org", "ftp://x", "hub", "https://u:p@x", "https://x?y", ""])
def test_a_hub_elsewhere_needs_https(tmp_path: Path, url: str):
    with pytest.raises(ValueError, match="hub must be"):
        Toolbox.open(tmp_path, hub=url)


def test_two_processes_on_one_state_ship_one_chain(sandbox: Sandbox, reader: str):
    """Each ships what it finds; the hub has every record once."""
    import subprocess
    import sys

    code = (
        "import sys; from handhold import Toolbox\n"
        "with Toolbox.open(sys.argv[1], state=sys.argv[2], hub=sys.argv[3]) as box:\n"
        "    for n in range(15): assert box.call('write_file', {'path': f'{sys.argv[4]}-{n}', 'content': 'x'}).ok\n"
    )
    argv = [sys.executable, "-c", code, str(sandbox.root), str(sandbox.state), sandbox.hub.url]
    processes = [subprocess.Popen([*argv, str(n)]) for n in range(3)]
    assert [each.wait(50) for each in processes] == [0, 0, 0]
    with sandbox.open() as box:
        wait_until(lambda: all_sent(box), "shipping")
    assert sandbox.shipped(reader) == sandbox.lines()


def test_no_request_and_no_fsync_is_in_the_path_of_a_call(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch):
    """Counted by thread: the uplink syncs and sends in its own."""
    import http.client

    synced: list[int] = []
    sent: list[int] = []
    fsync, request = os.fsync, http.client.HTTPConnection.request

    def count_sync(handle: int) -> None:
        synced.append(threading.get_ident())
        fsync(handle)

    def count_request(self, *args, **options) -> None:
        sent.append(threading.get_ident())
        request(self, *args, **options)

    monkeypatch.setattr(os, "fsync", count_sync)
    monkeypatch.setattr(http.client.HTTPConnection, "request", count_request)
    here = threading.get_ident()

    def count(**options) -> int:
        with sandbox.open(**options) as box:
            write(box, f"{len(options)}.txt", "first\n")
            synced.clear()
            for n in range(5):
                write(box, f"{len(options)}-{n}.txt", "x\n")
            mine = synced.count(here)
            if box.store.hub_status():
                wait_until(lambda: all_sent(box), "shipping")
            return mine

    without = count(hub=None, state=sandbox.root.parent / "other-state")
    assert count() == without > 0
    assert sent
    assert here not in sent
    assert set(synced) - {here}  # the uplink made its records durable itself


def test_a_hub_that_never_answers_delays_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import socket

    monkeypatch.setenv("HANDHOLD_HUB_TOKEN", "hhub_x")
    (tmp_path / "ws").mkdir()
    with socket.create_server(("127.0.0.1", free_port())) as silent:
        box = Toolbox.open(tmp_path / "ws", state=tmp_path / "state", hub=f"http://127.0.0.1:{silent.getsockname()[1]}")
        write(box, "first.txt", "x\n")
        started = time.thread_time(), time.monotonic()
        for n in range(10):
            write(box, f"{n}.txt", "x\n")
        assert time.monotonic() - started[1] < 10  # ten changes; a request would wait for thirty seconds
        box.close()


# --- on the command line


def handhold(*arguments: str, **more: str) -> Result:
    from handhold.cli.commands import handhold as group

    return CliRunner().invoke(group, arguments, env=more)


def test_call_log_diff_and_doctor_know_the_hub(sandbox: Sandbox, reader: str):
    where = ["--root", str(sandbox.root), "--state", str(sandbox.state)]
    made = handhold(
        "call",
        "write_file",
        '{"path": "a.txt", "content": "one\\n"}',
        *where,
        "--hub",
        sandbox.hub.url,
        "--durable",
        "hub",
    )
    assert made.exit_code == 0, made.output
    assert sandbox.shipped(reader) == sandbox.lines()
    assert "has all 4 records" in handhold("doctor", *where).output
    status = json.loads(handhold("doctor", *where, "--json").output)["hub"]
    assert (status["head"], status["acknowledged"], status["diverged_at"]) == (4, 4, 0)
    shown = handhold("log", "--hub", sandbox.hub.url, "--workspace", sandbox.name, HANDHOLD_HUB_TOKEN=reader)
    assert shown.exit_code == 0, shown.output
    assert f"{sandbox.name}/default/#1" in shown.output
    assert "write_file" in shown.output
    assert f" {sandbox.root}/a.txt" in shown.output
    (found,) = json.loads(
        handhold(
            "log", "--hub", sandbox.hub.url, "--path", str(sandbox.root), "--json", HANDHOLD_HUB_TOKEN=reader
        ).stdout
    )
    assert (found["workspace"], found["changed"]) == (sandbox.name, 1)
    diff = handhold(
        "diff", "--hub", sandbox.hub.url, "--workspace", sandbox.name, "--call", "#1", HANDHOLD_HUB_TOKEN=reader
    )
    assert "+one" in diff.output, diff.output
    assert handhold("diff", "--hub", sandbox.hub.url, HANDHOLD_HUB_TOKEN=reader).exit_code == 2
    assert handhold("log", "--hub", sandbox.hub.url, HANDHOLD_HUB_TOKEN="hhub_no").exit_code == 1
    assert handhold("call", "read_file", "{}", *where, "--durable", "hub").exit_code == 2


def test_the_log_says_what_the_hub_lacks(sandbox: Sandbox):
    with sandbox.open() as box:
        write(box, "a.txt", "one\n")
    with Toolbox.open(sandbox.root, state=sandbox.state) as box:
        write(box, "b.txt", "two\n")
    shown = handhold("log", "--root", str(sandbox.root), "--state", str(sandbox.state))
    assert "lacks 4 of 8 records" in shown.stderr


def test_a_diff_from_the_hub_equals_the_local_one(sandbox: Sandbox, reader: str):
    with sandbox.open() as box:
        assert box.call("bash", {"command": "printf 'a\\nb\\n' > x.txt; echo y > y.txt"}).ok
        assert box.call("bash", {"command": "printf 'a\\nc\\n' > x.txt; chmod +x x.txt; rm y.txt; mkdir d"}).ok
        local = box.diff(box.log()[-1])
    options = ("--hub", sandbox.hub.url, "--workspace", sandbox.name, "--call", "#2")
    found = handhold("diff", *options, HANDHOLD_HUB_TOKEN=reader)
    assert "+c" in local
    assert found.output.replace(str(sandbox.root).removeprefix("/") + "/", "") == local
