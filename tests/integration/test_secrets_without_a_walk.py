"""G-2 and G-4: with the default rules no folder is searched before there is a reason, and no secret gets through."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends.files.root_scan import RootScan
from tests.backends.shell.forked import as_user, place, who  # noqa: F401 — fixtures
from tests.counting import system_calls
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

TOKEN = "xK9mQ2vL7pR4tW8zA1"
ENV = f"API_TOKEN={TOKEN}\nDEBUG=true\n"
SHOWN = "[redacted: API_TOKEN]"


@contextmanager
def opened(ws: Path, **options: Any) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=ws.parent / "state", settings=False, policy="open", session="s", **options) as box:
        yield box


def lay(ws: Path, folders: int = 3) -> Path:
    for n in range(folders):
        (ws / f"f{n}").mkdir(parents=True)
        (ws / f"f{n}/a.py").write_text("x = 1\n")
    (ws / ".env").write_text(ENV)
    return ws


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    return lay(tmp_path.resolve() / "ws")


def run(box: Toolbox, command: str, **more: Any) -> str:
    reply = box.call("bash", {"command": command, **more})
    assert reply.code is None, reply.text
    assert TOKEN not in f"{reply.text}{reply.data}"  # diffs of ordinary files are not altered
    return reply.text


def listings(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The folders that are listed in search of denied files."""
    listed: list[bytes] = []
    real = RootScan._list_folder

    def list_folder(self: Any, tree: Any, rel_path: bytes) -> Any:
        listed.append(rel_path)
        return real(self, tree, rel_path)

    monkeypatch.setattr(RootScan, "_list_folder", list_folder)
    return listed


# --- nothing is searched without a reason


def test_g2_a_command_makes_as_many_calls_in_200_folders_as_in_20(tmp_path: Path):
    counts: dict[int, list[list[int]]] = {5: [], 20: [], 200: []}
    for n, folders in enumerate((5, 20, 200, 20, 200)):  # the first one also probes the machine
        ws = lay(tmp_path.resolve() / str(n) / "ws", folders)
        with opened(ws) as box:
            commands = ("true", "true", "echo ok", "touch new", "rm new")
            counts[folders].append([system_calls(lambda each=each: run(box, each)) for each in commands])
    print(counts)
    # The fewer of two: what is done once in a while is counted with some call. To look at each folder takes 180 more.
    few, many = ([min(both) for both in zip(*counts[folders], strict=True)] for folders in (20, 200))
    assert all(more - less <= 90 for less, more in zip(few, many, strict=True))


def test_g4_a_linked_file_is_read_with_as_many_calls_in_200_folders_as_in_20(tmp_path: Path):
    counts: dict[int, int] = {}
    for folders in (20, 200):
        ws = lay(tmp_path.resolve() / str(folders) / "ws", folders)
        os.link(ws / "f0/a.py", ws.parent / "elsewhere")
        with opened(ws) as box:
            counts[folders] = system_calls(lambda: box.call("read_file", {"path": "f0/a.py"}))
    print(counts)
    assert counts[20] == counts[200]


def test_g2_only_output_that_could_have_a_secret_is_a_reason(ws: Path, monkeypatch: pytest.MonkeyPatch):
    listed = listings(monkeypatch)
    with opened(ws) as box:
        for command in ("true", "echo ok", "head -c 1000 /dev/zero", "cat .env >/dev/null", "false", ". ./.env"):
            run(box, command)
        assert listed == []
        assert SHOWN in run(box, "cat .env")
        assert listed


# --- a secret that the command itself moves


@pytest.mark.parametrize(
    "commands",
    [
        ["mv .env plain.txt; cat plain.txt"],
        ["mv .env plain.txt", "cat plain.txt"],
        ["cp .env plain.txt; rm .env", "cat plain.txt"],
        ["cp .env plain.txt", "rm .env", "cat plain.txt"],
        ["mkdir .ssh; mv .env .ssh/x", "mv .ssh open", "cat open/x"],
        ["mv f0 .ssh; mv .env .ssh/x; mv .ssh open; cat open/x"],
        ["cp .env plain.txt; echo API_TOKEN=another-value-42 >.env", "cat plain.txt"],
        ["cp .env plain.txt; ln -sf f0/a.py .env; cat plain.txt", "cat plain.txt"],
        ["cp .env plain.txt; : >.env", "cat plain.txt"],
    ],
)
def test_e2_a_secret_whose_file_the_command_moves_or_removes_is_redacted(ws: Path, commands: list[str]):
    with opened(ws) as box:
        said = [run(box, command) for command in commands]
    assert SHOWN in said[-1]


@pytest.mark.parametrize("change", ["mv plain.txt .env", "mkdir .ssh; mv plain.txt .ssh/x"])
def test_e2_a_secret_that_gets_an_ordinary_name_by_undo_is_redacted(ws: Path, change: str):
    (ws / ".env").rename(ws / "plain.txt")
    with opened(ws) as box:
        run(box, change)
        assert box.undo().status == "success"
        assert SHOWN in run(box, "cat plain.txt")
        assert box.redo().status == "success"


def test_e2_a_secret_in_a_name_is_redacted_without_any_output(ws: Path):
    with opened(ws) as box:
        reply = box.call("bash", {"command": 'touch "$(cut -d= -f2 .env | head -n1)"'})
        assert reply.data["output"]["bytes"] == 0
        assert TOKEN not in f"{reply.text}{reply.data}"
        assert SHOWN in reply.text


def test_e2_a_job_is_redacted_whatever_it_moves_before(ws: Path):
    with opened(ws) as box:
        reply = box.call("bash", {"command": "mv .env plain.txt; cat plain.txt; rm plain.txt", "background": True})
        job, said = reply.data["job"], reply.text
        while box.call("bash_output", {"job": job}).data["running"]:
            pass
        said += box.call("bash_output", {"job": job, "offset": 0}).text
    assert TOKEN not in said
    assert SHOWN in said


def test_e2_links_that_are_swapped_meanwhile_show_nothing(ws: Path, tmp_path: Path):
    """The name of the secret leads to it and elsewhere in turn, while commands print it."""
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    swap = tmp_path / "swap"
    subprocess.run([cc, "-O2", "-o", swap, Path(__file__).parents[1] / "faults/swap.c"], check=True)
    (ws / ".env").rename(ws / "real.env")
    (ws / "plain.txt").write_text("harmless line of text\n")
    (ws / ".env").symlink_to("real.env")
    (ws / "spare").symlink_to("plain.txt")
    swapping = subprocess.Popen([swap, ws / ".env", ws / "spare"])
    try:
        with opened(ws) as box:
            for _ in range(12):
                run(box, "cat .env real.env plain.txt")
    finally:
        swapping.kill()
        swapping.wait()


# --- outside the workspace


@pytest.mark.root
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_e2_values_of_a_secret_outside_that_a_link_leads_to_are_redacted(ws: Path, kind: str):
    if os.geteuid() != 0:
        pytest.skip("only root writes where commands can read outside")
    outside = Path(f"/var/lib/handhold-test-{os.getpid()}")
    outside.mkdir()
    try:
        (outside / "values").write_text(ENV)
        os.mkfifo(outside / "pipe")  # reading it would block
        (ws / ".env").unlink()
        (ws / "f0" / (".env" if kind == "file" else ".ssh")).symlink_to(
            outside / "values" if kind == "file" else outside
        )
        with opened(ws) as box:
            assert SHOWN in run(box, f"cat {outside}/values")
    finally:
        shutil.rmtree(outside)


# --- other names of a secret file


def test_g4_a_second_name_of_a_secret_file_is_denied(who: str, place: Path):  # noqa: F811
    def work() -> None:
        ws = lay(place / "ws")
        os.link(ws / ".env", ws / "f1/plain.txt")
        large = "x" * 300_000 + "\n" + ENV  # more than is read to see whether it has a secret
        (ws / "f2/.env").write_text(large)
        os.link(ws / "f2/.env", ws / "f2/large.txt")
        os.link(ws / "f0/a.py", ws / "f0/b.py")
        with opened(ws) as box:
            for path in ("f1/plain.txt", "f2/large.txt"):
                for tool, more in (("read_file", {}), ("edit_file", {"old_string": "DEBUG", "new_string": "X"})):
                    reply = box.call(tool, {"path": path, **more})
                    assert reply.code == "DENIED", (path, tool, reply.text)
            assert box.call("read_file", {"path": "f0/b.py"}).status == "success"
            edit = {"path": "f0/b.py", "old_string": "1", "new_string": "2"}
            assert box.call("edit_file", edit).status == "success"
        assert (ws / "f0/a.py").read_text() == "x = 2\n"

    as_user(who, work)


def test_g4_a_linked_file_that_gets_a_secret_is_denied_from_then_on(ws: Path):
    (ws / "f1/.env").write_text("PORT=3000\n")
    os.link(ws / "f1/.env", ws / "plain.txt")
    with opened(ws) as box:
        assert "3000" in box.call("read_file", {"path": "plain.txt"}).text  # commands may print it as well
        (ws / "f1/.env").write_text(ENV)
        assert box.call("read_file", {"path": "plain.txt"}).code == "DENIED"
