"""`handhold fork` and `handhold forks`, as a person uses them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from handhold.backends.shell.overlay_xattrs import PARTIAL_COPY_XATTRS
from handhold.cli.fork import fork
from handhold.forks import RESERVED_NAMES
from tests.faults.trees import tree

HANDHOLD = Path(sys.executable).with_name("handhold")
needs_git = pytest.mark.skipif(not shutil.which("git"), reason="texts are merged by git")


def handhold(folder: Path, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [HANDHOLD, *arguments], cwd=folder, capture_output=True, text=True, check=False, input=given, timeout=50
    )


def succeed(folder: Path, *arguments: str) -> str:
    done = handhold(folder, *arguments)
    assert done.returncode == 0, done
    return done.stdout


def test_a_program_in_a_fork_has_its_own_streams_and_exit_status(folder: Path):
    script = "cat; echo problem >&2; pwd; echo changed > ../a.txt; exit 3"
    done = handhold(folder / "sub", "fork", "try", "--root", str(folder), "--", "sh", "-c", script, given="given\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, f"given\n{folder}/sub\n", "problem\n")
    assert (folder / "a.txt").read_text() == "one\n"
    assert (
        json.loads(succeed(folder, "forks", "--json"))[0].items()
        >= {"name": "try", "running": False, "files": 1}.items()
    )


def test_a_contained_program_has_its_own_streams_and_exit_status(folder: Path):
    script = "cat; echo problem >&2; echo changed > a.txt; touch ~/x /usr/x 2>/dev/null; exit 3"
    done = handhold(folder, "fork", "--contained", "try", "--", "sh", "-c", script, given="given\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "given\n", "problem\n")
    assert succeed(folder, "fork", "run", "try", "--contained", "--", "cat", "a.txt") == "changed\n"
    assert (folder / "a.txt").read_text() == "one\n"
    assert handhold(folder, "fork", "--network", "try", "--", "true").returncode == 2


@pytest.mark.parametrize("contained", [(), ("--contained",)])
def test_forks_tells_how_the_last_command_ended(folder: Path, contained: tuple[str, ...]):
    started = time.time()
    assert handhold(folder, "fork", *contained, "try", "--", "true").returncode == 0
    assert handhold(folder, "fork", "run", "try", *contained, "--", "sh", "-c", "exit 3").returncode == 3
    (told,) = json.loads(succeed(folder, "forks", "--json"))
    assert (told["last_run"]["command"], told["last_run"]["status"]) == (["sh", "-c", "exit 3"], 3)
    assert started <= told["last_run"]["ended"] <= time.time()
    assert "sh -c 'exit 3': exit 3, " in succeed(folder, "forks")


def test_fork_diff_run_merge_undo(folder: Path):
    before = tree(folder)
    assert handhold(folder, "fork", "try", "--", "sh", "-c", "echo two >> a.txt; rm -r sub").returncode == 0
    assert "+two" in succeed(folder, "fork", "diff", "try")
    assert "a.txt" in succeed(folder, "fork", "diff", "try", "--stat")
    assert json.loads(succeed(folder, "fork", "diff", "try", "--json"))["added"] == 1
    assert succeed(folder, "fork", "run", "try", "--", "cat", "a.txt") == "one\ntwo\n"
    assert tree(folder) == before
    report = json.loads(succeed(folder, "fork", "merge", "try", "--json"))
    assert report["paths"] == [str(folder / "a.txt"), str(folder / "sub")]
    assert report["dropped"]
    assert (folder / "a.txt").read_text() == "one\ntwo\n"
    succeed(folder, "undo")
    assert tree(folder) == before
    assert "no forks" in succeed(folder, "forks")


@needs_git
def test_a_conflict_is_shown_and_a_side_can_be_taken(folder: Path):
    assert handhold(folder, "fork", "try", "--", "sh", "-c", "echo fork > a.txt").returncode == 0
    (folder / "a.txt").write_text("base\n")
    done = handhold(folder, "fork", "merge", "try")
    assert done.returncode == 1
    assert "    fork\n" in done.stderr
    assert "    base\n" in done.stderr
    assert "MERGE_CONFLICT" in done.stderr
    assert "`--take fork:a.txt`" in done.stderr
    assert json.loads(handhold(folder, "fork", "merge", "try", "--json").stdout)["error"]["code"] == "MERGE_CONFLICT"
    assert handhold(folder, "fork", "merge", "try", "--take", "theirs").returncode == 2
    succeed(folder, "fork", "merge", "try", "--take", "base", "--take", "fork:a.txt")
    assert (folder / "a.txt").read_text() == "fork\n"


@needs_git
def test_n10_a_side_decides_the_lines_that_conflict_and_no_others(folder: Path):
    lines = [f"{n}\n" for n in range(20)]
    (folder / "a.txt").write_text("".join(lines))
    assert (
        handhold(folder, "fork", "try", "--", "sed", "-i", "1s/.*/fork/;10s/.*/by the fork/", "a.txt").returncode == 0
    )
    (folder / "a.txt").write_text("".join(["base\n", *lines[1:-1], "by the workspace\n"]))
    assert handhold(folder, "fork", "merge", "try").returncode == 1
    succeed(folder, "fork", "merge", "try", "--take", "fork:a.txt")
    merged = (folder / "a.txt").read_text().splitlines()
    assert (merged[0], merged[9], merged[19]) == ("fork", "by the fork", "by the workspace")


@needs_git
def test_a_side_is_taken_only_for_the_path_that_was_meant(folder: Path):
    (folder / "sub/a.txt").write_text("one\n")
    assert handhold(folder, "fork", "try", "--", "sh", "-c", "echo fork | tee a.txt >sub/a.txt").returncode == 0
    for path in ("a.txt", "sub/a.txt"):
        (folder / path).write_text("base\n")
    merge = ("fork", "merge", "try", "--root", str(folder), "--take", "base")
    for wrong in ("fork:", "base:", "fork"):
        assert handhold(folder, *merge, "--take", wrong).returncode == 2
    assert handhold(folder, *merge, "--take", "fork:a.txt", "--take", "base:./a.txt").returncode == 2
    done = handhold(folder, *merge, "--take", "fork:typo.txt")
    assert (done.returncode, str(folder / "typo.txt") in done.stderr) == (1, True)
    assert (folder / "a.txt").read_text() == "base\n"
    succeed(folder / "sub", *merge, "--take", "fork:a.txt")
    assert [(folder / path).read_text() for path in ("a.txt", "sub/a.txt")] == ["base\n", "fork\n"]


def test_a_name_with_a_newline_is_printed_on_one_line(folder: Path):
    assert handhold(folder, "fork", "try", "--", "touch", "two\nlines").returncode == 0
    assert len(succeed(folder, "fork", "merge", "try").splitlines()) == 1


def test_a_fork_that_cannot_be_read_does_not_hide_the_others(folder: Path, tmp_path: Path):
    for name in ("broken", "fine"):
        assert handhold(folder, "fork", name, "--state", str(tmp_path / "state"), "--", "touch", "new").returncode == 0
    (file,) = tmp_path.glob("state/*/forks/broken/layers/0/upper/new")
    os.setxattr(file, next(iter(PARTIAL_COPY_XATTRS)), b"")
    done = handhold(folder, "forks", "--state", str(tmp_path / "state"), "--json")
    assert [each["name"] for each in json.loads(done.stdout)] == ["fine"]
    assert done.stderr.startswith("broken: ")


def test_no_fork_has_the_name_of_a_command():
    assert {*fork.commands} == RESERVED_NAMES


def test_an_unknown_fork_is_refused(folder: Path):
    for arguments in (("diff", "no"), ("merge", "no"), ("drop", "no"), ("run", "no", "--", "true")):
        done = handhold(folder, "fork", *arguments)
        assert (done.returncode, "NO_FORK" in done.stderr) == (1, True)


def test_a_signal_reaches_the_program(folder: Path, tmp_path: Path):
    ready = tmp_path / "ready"
    script = f"trap 'echo ended > a.txt; exit 7' TERM; touch {ready}; while :; do sleep 0.1; done"
    process = subprocess.Popen([HANDHOLD, "fork", "try", "--", "sh", "-c", script], cwd=folder)
    while not ready.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 7
    assert "+ended" in succeed(folder, "fork", "diff", "try")
    succeed(folder, "fork", "drop", "--yes", "try")


@pytest.mark.slow
def test_the_example_lets_forks_compete_and_merges_none(folder: Path):
    example = Path(__file__).parents[2] / "examples/best_of_n.py"
    program = ["sh", "-c", 'echo "attempt $ATTEMPT" > a.txt']
    command = [sys.executable, str(example), "2", "grep -q 'attempt 2' a.txt", "--", *program]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 0, done
    rows = [line.split()[:3] for line in done.stdout.splitlines()[1:3]]
    assert rows == [["attempt-1", "0", "failed"], ["attempt-2", "0", "passed"]]
    assert (folder / "a.txt").read_text() == "one\n"
    succeed(folder, "fork", "merge", "attempt-2")
    assert (folder / "a.txt").read_text() == "attempt 2\n"
