"""Questions on a real terminal."""

import json
import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from handhold.cli.prompt import MAX_DIFF_LINES, ask, format_question, list_choices
from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.approvals import Question
from tests.scale import sampled
from tests.suites.store_suite import change

MAIN = [sys.executable, "-c", "from handhold.cli import main; main()"]
LAST = "n (no): "


class Terminal:
    """A pseudo-terminal that runs `handhold call`."""

    def __init__(self, root: Path, tool: str, arguments: dict[str, object], *more: str) -> None:
        where = ["--root", str(root), "--state", str(root.parent / "state")]
        self.begin([*MAIN, "call", tool, json.dumps(arguments), *where, *more])

    @classmethod
    def of(cls, command: list[str]) -> "Terminal":
        """A pseudo-terminal that runs another command."""
        terminal = cls.__new__(cls)
        terminal.begin(command)
        return terminal

    def begin(self, command: list[str]) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True)
        os.close(theirs)
        self.seen = ""

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + 50
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            assert self.read(), self.seen

    def read(self) -> bool:
        """Read available output. False at the end."""
        ready, _, _ = select.select([self.ours], [], [], 50)
        try:
            data = os.read(self.ours, 65536) if ready else b""
        except OSError:  # the process closed its side
            return False
        self.seen += data.decode(errors="replace")
        return bool(data)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def end(self) -> int:
        while self.read():
            pass
        return self.process.wait(50)


@contextmanager
def terminal(root: Path, tool: str, arguments: dict[str, object], *more: str) -> Iterator[Terminal]:
    screen = Terminal(root, tool, arguments, *more)
    try:
        yield screen
    finally:
        screen.process.kill()
        screen.process.wait()
        os.close(screen.ours)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


def entries(root: Path) -> list[dict[str, object]]:
    command = [*MAIN, "log", "--json", "--root", str(root), "--state", str(root.parent / "state")]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_c90_a_change_is_shown_and_happens_after_a_yes(root: Path):
    with terminal(root, "write_file", {"path": "a.py", "content": "x = 1\n"}) as screen:
        screen.wait_for(LAST)
        assert not (root / "a.py").exists()
        assert "write_file would change 1 path." in screen.seen
        assert "\x1b[32m+x = 1\x1b[0m" in screen.seen
        assert "s (for this session: " in screen.seen
        screen.type(b"y\n")
        assert screen.end() == 0
    assert (root / "a.py").read_text() == "x = 1\n"
    assert entries(root)[-1]["decision"] == "approved"
    assert "@" in str(entries(root)[-1]["approver"])


@pytest.mark.parametrize("keys", sampled([b"n\n", b"\n", b"yes\n", b"q\n", b"\x04", b"p\n", b"\xff\xfe\n"], 3))
def test_c90_everything_else_and_silence_is_a_no(root: Path, keys: bytes):
    with terminal(root, "write_file", {"path": "a.py", "content": "x = 1\n"}) as screen:
        screen.wait_for(LAST)
        screen.type(keys)
        assert screen.end() == 1
    assert not (root / "a.py").exists()
    assert entries(root)[-1]["decision"] == "refused"


def test_c90_an_answer_for_the_session_is_not_asked_again(root: Path):
    with terminal(root, "write_file", {"path": "a.py", "content": "x = 1\n"}) as screen:
        screen.wait_for(LAST)
        screen.type(b"s\n")
        assert screen.end() == 0
    with terminal(root, "write_file", {"path": "b.py", "content": "x = 1\n"}) as screen:
        assert screen.end() == 0
        assert LAST not in screen.seen
    assert (root / "b.py").exists()


def test_c90_what_was_typed_before_the_question_is_no_answer(root: Path):
    with terminal(root, "write_file", {"path": "a.py", "content": "x = 1\n"}) as screen:
        screen.type(b"y\ny\ny\n")
        screen.wait_for(LAST)
        screen.type(b"n\n")
        assert screen.end() == 1
    assert not (root / "a.py").exists()


def test_c90_nothing_that_a_file_holds_moves_the_cursor(root: Path):
    trick = "safe\x1b[2K\x1b[1A\r\x9b2J\x07\u202e\n"
    with terminal(root, "write_file", {"path": "a\x1b[2J.py", "content": trick}, "--session", "s\x1b[2J") as screen:
        screen.wait_for(LAST)
        for raw in ("\x1b[2", "\x1b[1A", "\x9b", "\x07", "\u202e"):
            assert raw not in screen.seen
        assert "+safe\\x1b[2K\\x1b[1A\\x0d\\x9b2J\\x07\\u202e" in screen.seen


def test_c90_where_nobody_sits_nobody_is_asked(root: Path):
    """Without a terminal the default mode asks no questions."""
    command = [*MAIN, "call", "write_file", json.dumps({"path": "a.py", "content": ""}), "--root", str(root)]
    done = subprocess.run(
        [*command, "--state", str(root.parent / "state")], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert (root / "a.py").exists()


# --- the text of a question


def test_a_long_diff_is_cut_and_what_is_left_out_is_said():
    diff = "".join(f"+line {n}\n" for n in range(1000))
    lines = list(format_question(Question("Write", (change(),), diff, "because")))
    assert len(lines) == MAX_DIFF_LINES + 3
    assert lines[-1] == f"… and {1000 - MAX_DIFF_LINES} more lines, which are not shown here"
    *_, line = format_question(Question("Write", (), "+" + "x" * 5000, "because"))
    assert "4601 more characters" in line


def test_a_command_is_shown_before_it_runs_and_after():
    before = list(
        format_question(Question("Bash", (), "", "it may reach the network", "curl x\nrm y", rule="mode ask"))
    )
    assert before == [
        "Bash would run a command:",
        "    curl x",
        "    rm y",
        "Reason for asking: it may reach the network",
    ]
    made = (FileChange("/ws/a", None, InlineContent(b"")), FileChange("/ws/b", None, InlineContent(b"")))
    after = list(format_question(Question("Bash", made, "", "many files", "make")))
    assert after == [
        "Bash would change 2 paths. Nothing is applied yet.",
        "    make",
        "Reason for asking: many files",
    ]
    assert [ask(Question("Bash", made[:n], "", "", "make")) for n in (0, 1, 2)] == [
        "Run this command?",
        "Apply this change?",
        "Apply these changes?",
    ]


def test_only_what_can_be_said_can_be_chosen():
    assert list(list_choices(Question("Write", (), "", "because"))) == ["y", "n"]
    offered = list_choices(Question("Bash", (), "", "because", session="changes", patterns=("npm run *",)))
    assert {letter: consent for letter, (consent, _) in offered.items()} == {
        "y": "once",
        "s": "session",
        "p": "pattern",
        "n": "no",
    }
    assert "npm run *" in offered["p"][1]
