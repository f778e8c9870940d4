"""What an uplink does while its hub is away, or its own machine fails: nothing secret leaves later, nothing ends silently."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.uplink import uplink
from handhold.core.errors import NoSpace, SystemFailure
from handhold.core.plans import digest
from tests.hub.servers import wait_until
from tests.hub.test_uplink import SECRET, Sandbox, all_sent, alone, handhold, reader, write

__all__ = ["alone", "reader"]
pytestmark = pytest.mark.timeout(120)
COPY = {"command": "(echo '# more'; cat .env) > more.txt"}


def list_contents(sandbox: Sandbox) -> list[bytes]:
    return [path.read_bytes() for path in Path(sandbox.hub.database, "contents").rglob("*") if path.is_file()]


def delete_by_command(sandbox: Sandbox) -> None:
    with Toolbox.open(sandbox.root, state=sandbox.state) as box:
        assert box.call("bash", {"command": "rm .env"}).ok


def rotate_outside(sandbox: Sandbox) -> None:
    (sandbox.root / ".env").write_text("API_KEY=sk-live-other-4f0c9a7be2d14\n")


@pytest.mark.parametrize("change", [delete_by_command, rotate_outside])
def test_c89_a_secret_that_changed_while_the_hub_was_away_is_not_shipped_by_a_later_process(
    alone: Sandbox, reader: str, change: Callable[[Sandbox], None]
):
    (alone.root / ".env").write_text(SECRET)
    alone.hub.kill()
    with alone.open() as box:
        assert box.call("bash", COPY).ok
    change(alone)
    alone.hub.start()
    with alone.open() as box:
        write(box, "plain.txt", "plain\n")
        wait_until(lambda: all_sent(box), "shipping")
    assert alone.has_content(reader, b"plain\n")
    assert not [data for data in list_contents(alone) if b"sk-live" in data]


def test_c89_nor_what_a_process_without_the_hub_recorded_if_the_secret_is_still_kept_for_undo(
    alone: Sandbox, reader: str
):
    (alone.root / ".env").write_text(SECRET)
    with Toolbox.open(alone.root, state=alone.state) as box:
        assert box.call("bash", COPY).ok
        assert box.call("bash", {"command": "mv .env plain.env; echo x > plain.txt; rm plain.env"}).ok
    with alone.open() as box:
        wait_until(lambda: all_sent(box), "shipping")
    assert alone.has_content(reader, b"x\n")
    assert not [data for data in list_contents(alone) if b"sk-live" in data]


def test_new_contents_are_judged_between_two_tries(alone: Sandbox, reader: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(uplink, "FIRST_RETRY_SECONDS", 1000.0)
    (alone.root / ".env").write_text(SECRET)
    alone.hub.kill()
    with alone.open() as box:
        write(box, "a.txt", "one\n")
        wait_until(lambda: bool((status := box.store.hub_status()) and status.problem), "the first try")
        assert box.call("bash", COPY).ok
        copied = (alone.root / "more.txt").read_bytes()
        link = box._session.hub  # pyright: ignore[reportPrivateUsage]
        assert isinstance(link, uplink.Uplink)
        state = link._state  # pyright: ignore[reportPrivateUsage]
        wait_until(lambda: bool(state.select_withheld({digest(copied)})), "judging", 10)


def test_what_could_not_be_read_when_it_was_judged_is_not_shipped_later(
    alone: Sandbox, reader: str, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise SystemFailure("slot", "input/output error")

    alone.hub.kill()
    with alone.open() as box:
        link = box._session.hub  # pyright: ignore[reportPrivateUsage]
        assert isinstance(link, uplink.Uplink)
        with monkeypatch.context() as broken:
            broken.setattr(link, "_read_content", fail)
            write(box, "a.txt", "one\n")
            state = link._state  # pyright: ignore[reportPrivateUsage]
            wait_until(lambda: bool(state.select_withheld({digest(b"one\n")})), "judging")
        write(box, "b.txt", "two\n")
        alone.hub.start()
        wait_until(lambda: all_sent(box), "shipping")
    assert alone.has_content(reader, b"two\n")
    assert not alone.has_content(reader, b"one\n")


@pytest.mark.parametrize("token", ["hhub_old\nhhub_new\n", "", "hhub_ä"])
def test_a_broken_token_file_is_told_and_a_mended_one_used(
    alone: Sandbox, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: str
):
    monkeypatch.setattr(uplink, "REFUSED_RETRY_SECONDS", 0.1)
    file = tmp_path / "token"
    file.write_text(token)
    valid = os.environ["HANDHOLD_HUB_TOKEN"]
    monkeypatch.setenv("HANDHOLD_HUB_TOKEN_FILE", str(file))
    with alone.open() as box:
        write(box, "a.txt", "one\n")
        wait_until(lambda: bool((status := box.store.hub_status()) and "token" in status.problem), "telling")
        file.write_text(valid)
        wait_until(lambda: all_sent(box), "shipping with the new token")
    assert alone.shipped(reader) == alone.lines()


def test_an_uplink_that_cannot_note_its_problem_says_so_and_goes_on(
    alone: Sandbox, reader: str, monkeypatch: pytest.MonkeyPatch
):
    alone.hub.kill()

    def fail(*_: object, **__: object) -> None:
        raise NoSpace("state.db", "database or disk is full")

    with alone.open() as box:
        link = box._session.hub  # pyright: ignore[reportPrivateUsage]
        assert isinstance(link, uplink.Uplink)
        with monkeypatch.context() as full:
            full.setattr(link._state, "note_problem", fail)  # pyright: ignore[reportPrivateUsage]
            write(box, "a.txt", "one\n")
            wait_until(lambda: "disk is full" in link.warning, "warning")
            assert "disk is full" in write(box, "b.txt", "two\n").data["hub"]
        alone.hub.start()
        wait_until(lambda: all_sent(box), "shipping after all")
        assert link.warning == ""
    assert alone.shipped(reader) == alone.lines()


def test_a_change_larger_than_the_bound_is_made_while_the_hub_is_there(alone: Sandbox, reader: str):
    with alone.open(undo_bytes=1_000_000) as box:
        command = "for i in 1 2 3 4 5 6; do head -c 100000 /dev/urandom > $i.bin; done"
        for folder in ("made", "."):  # a new folder is not shipped, and does not count
            assert box.call("bash", {"command": f"mkdir -p {folder}; cd {folder}; {command}"}).ok
            wait_until(lambda: all_sent(box), "shipping")
        status = box.store.hub_status()
        assert status
        assert status.unsent_bytes == 0
    assert alone.has_content(reader, (alone.root / "6.bin").read_bytes())


def test_a_hub_that_is_given_up_refuses_nothing_more(alone: Sandbox, monkeypatch: pytest.MonkeyPatch):
    alone.hub.kill()
    with alone.open() as box:
        write(box, "a.txt", "one\n")
    where = ["--root", str(alone.root), "--state", str(alone.state)]
    with Toolbox.open(alone.root, state=alone.state, undo_bytes=200_000) as box:
        refused = None
        for n in range(20):
            refused = box.call("write_file", {"path": f"{n}.txt", "content": os.urandom(8000).hex()})
            if not refused.ok:
                break
        assert refused
        assert refused.code == "HUB_BACKLOG_FULL"
        assert "handhold forget --hub" in refused.text
        done = handhold("forget", "--hub", *where)
        assert done.exit_code == 0, done.output
        assert f"Gave up the hub at {alone.hub.url}" in done.output
        write(box, "last.txt", "y\n")
        assert box.store.hub_status() is None
    assert "no hub" in handhold("forget", "--hub", *where).output
    assert handhold("forget", "--hub", "a.txt", *where).exit_code == 2


def test_durable_hub_does_not_acknowledge_once_the_hub_is_given_up(alone: Sandbox):
    with alone.open(durable="hub") as box:
        write(box, "a.txt", "one\n")
        box.store.give_up_hub()
        assert box.call("write_file", {"path": "b.txt", "content": "two\n"}).code == "HUB_UNREACHABLE"


def test_an_idle_uplink_notices_that_the_hub_was_restored(
    alone: Sandbox, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uplink, "COMPARE_SECONDS", 0.5)
    with alone.open() as box:
        write(box, "a.txt", "one\n")
        wait_until(lambda: all_sent(box), "shipping")
        alone.back_up_hub(tmp_path / "backup")
        write(box, "b.txt", "two\n")
        wait_until(lambda: all_sent(box), "shipping")
        alone.restore_hub(tmp_path / "backup")
        wait_until(lambda: alone.shipped(reader) == alone.lines(), "shipping again without a call")
