"""G-2: a user's rule that can match anywhere holds for files that appear between two calls, watched or not."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handhold import Rule, Toolbox
from handhold.backends.files import folder_watch, root_scan
from tests.backends.shell.forked import as_user, place, who  # noqa: F401 — fixtures
from tests.counting import system_calls
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.usefixtures("held_by"),
]

TOKEN = "hunter2hunter2"
ANYWHERE = Rule("pem", "deny", ["read"], "kept apart", ["a/x.pem"], ["a"], paths=["**/*.pem"])
ONE_PLACE = Rule("one", "deny", ["read"], "kept apart", ["conf/key"], ["a"], paths=["conf/key", "vault/**"])


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "SHARE_NAME", f"\0handhold-test-{os.getpid()}-{{uid}}-{{index}}")
    monkeypatch.setattr(root_scan, "WATCH_RETRY_SECONDS", 0.0)


@contextmanager
def opened(ws: Path, rule: Rule, **options: Any) -> Iterator[Toolbox]:
    state = ws.parent / "state"
    with Toolbox.open(ws, state=state, settings=False, policy="open", session="s", rules=[rule], **options) as box:
        yield box


def lay(ws: Path, folders: int) -> Path:
    for n in range(folders):
        (ws / f"f{n}").mkdir(parents=True)
        (ws / f"f{n}/a.py").write_text("x = 1\n")
    return ws


def cat(box: Toolbox, path: str, **more: Any) -> str:
    reply = box.call("bash", {"command": f"cat {path}; true", **more})
    assert reply.status == "success", reply.text
    assert TOKEN not in f"{reply.text}{reply.data}"
    text = reply.text
    if more.get("background"):
        while box.call("bash_output", {"job": reply.data["job"]}).data["running"]:
            pass
        text += box.call("bash_output", {"job": reply.data["job"], "offset": 0}).text
        assert TOKEN not in text
    return text


def is_watching() -> bool:
    return folder_watch._queue is not None  # pyright: ignore[reportPrivateUsage]


def test_g2_what_appears_between_two_calls_is_hidden(who: str, place: Path):  # noqa: F811
    def work() -> None:
        ws = lay(place / "ws", 6)
        (ws / "plain").write_text(TOKEN)
        outside = place / "outside"
        outside.mkdir()
        with opened(ws, ANYWHERE) as box:
            for _ in range(2):
                assert "x = 1" in cat(box, "f1/a.py")
            assert is_watching()

            (ws / "f1/k.pem").write_text(TOKEN)
            assert "denied" in cat(box, "f1/k.pem")
            (ws / "new/deep").mkdir(parents=True)
            (ws / "new/deep/k.pem").write_text(TOKEN)
            assert cat(box, "new/deep/k.pem f1/k.pem").count("denied") == 2
            os.link(ws / "plain", ws / "f2/k.pem")  # makes an old file a denied one
            assert "denied" in cat(box, "plain")
            (outside / "sub").mkdir()
            (outside / "sub/k.pem").write_text(TOKEN)
            (outside / "sub").rename(ws / "f3/sub")
            assert "denied" in cat(box, "f3/sub/k.pem")
            (ws / "f3").rename(ws / "f3x")
            assert "denied" in cat(box, "f3x/sub/k.pem")
            (ws / "f3x/sub/k.pem").rename(ws / "f3x/late.pem")
            assert "denied" in cat(box, "f3x/late.pem")
            assert "denied" in cat(box, "f3x/late.pem", background=True)
            assert "denied" in cat(box, "f3x/late.pem", preview=True)
            assert box.call("bash", {"command": "mkdir made; cp f0/a.py made/own.pem"}).status == "success"
            (ws / "made/k.pem").write_text(TOKEN)  # in a folder of our own commit
            assert "denied" in cat(box, "made/k.pem")
            assert is_watching()

            os.close(folder_watch._queue._fd)  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
            (ws / "f4/k.pem").write_text(TOKEN)
            assert "denied" in cat(box, "f4/k.pem")
            (ws / "f5/k.pem").write_text(TOKEN)
            assert "denied" in cat(box, "f5/k.pem")
        assert not is_watching()

    as_user(who, work)


def test_g2_links_that_are_swapped_meanwhile_lead_nowhere(tmp_path: Path):
    """A link with a denied name stands for what it leads to, and that changes all the time."""
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    subprocess.run([cc, "-O2", "-o", tmp_path / "swap", Path(__file__).parents[1] / "faults/swap.c"], check=True)
    ws = lay(tmp_path.resolve() / "ws", 3)
    (ws / "f1/real.pem").write_text(TOKEN)
    (ws / "f1/link.pem").symlink_to("real.pem")
    (ws / "f1/spare").symlink_to("a.py")
    swapping = subprocess.Popen([tmp_path / "swap", ws / "f1/link.pem", ws / "f1/spare"])
    try:
        with opened(ws, ANYWHERE) as box:
            for _ in range(10):
                cat(box, "f1/real.pem f1/link.pem f1/spare")
                for path in ("f1/link.pem", "f1/spare", "f1/real.pem"):
                    assert TOKEN not in box.call("read_file", {"path": path}).text
    finally:
        swapping.kill()
        swapping.wait()


@pytest.mark.parametrize("rule", [ANYWHERE, ONE_PLACE], ids=["anywhere", "one place"])
def test_g2_a_command_makes_as_many_calls_in_200_folders_as_in_20(tmp_path: Path, rule: Rule):
    counts: dict[int, list[int]] = {}
    for folders in (20, 200):
        ws = lay(tmp_path.resolve() / str(folders) / "ws", folders)
        (ws / "f1/k.pem").write_text(TOKEN)
        (ws / "conf").mkdir()
        (ws / "conf/key").write_text(TOKEN)
        with opened(ws, rule) as box:
            for _ in range(3):
                cat(box, "f1/k.pem" if rule is ANYWHERE else "conf/key")
            counts[folders] = [
                system_calls(lambda each=each: box.call("bash", {"command": each}))
                for each in ("true", "true", "echo a line that could have a secret", "touch f3/new")
            ]
    print(counts)
    # To look at each folder once would take 180 more.
    assert all(more - less <= 90 for less, more in zip(counts[20], counts[200], strict=True))


def test_g4_a_linked_file_is_read_with_as_many_calls_in_200_folders_as_in_20(tmp_path: Path):
    """With a rule about one place, also if the denied file has another name."""
    counts: dict[int, list[int]] = {}
    codes: list[str | None] = []
    for folders in (20, 200):
        ws = lay(tmp_path.resolve() / str(folders) / "ws", folders)
        (ws / "conf").mkdir()
        (ws / "conf/key").write_text(TOKEN)
        os.link(ws / "conf/key", ws / "f1/second")
        os.link(ws / "f2/a.py", ws / "f2/b.py")
        with opened(ws, ONE_PLACE) as box:
            box.call("read_file", {"path": "f3/a.py"})  # what is done once
            calls = [{"path": path} for path in ("f2/b.py", "f2/b.py", "f1/second")]
            counts[folders] = [
                system_calls(lambda box=box, each=each: codes.append(box.call("read_file", each).code))
                for each in calls
            ]
            assert "denied" in cat(box, "f1/second")
    print(counts)
    assert codes == [None, None, "DENIED"] * 2
    assert counts[20] == counts[200]
