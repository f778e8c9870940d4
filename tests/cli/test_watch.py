"""`handhold watch`, `adopt` and `forget`, as a person uses them."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.trees import tree

HANDHOLD = Path(sys.executable).with_name("handhold")


def handhold(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # pyright: ignore[reportCallIssue, reportUnknownVariableType]
        [HANDHOLD, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        **options,  # pyright: ignore[reportArgumentType]
    )


def test_c94_a_watched_command_ends_as_it_would_and_is_undone(folder: Path):
    script = "echo out; echo problem >&2; cat; echo changed > a.txt; rm -r sub; exit 3"
    done = handhold(folder, "watch", "--", "sh", "-c", script, input="given\n")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out\ngiven\n", "problem\n")
    assert handhold(folder, "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder / "sub/b.txt").read_text() == "two\n"


def test_c94_a_watched_command_that_a_signal_ends_ends_us_by_the_same_signal(folder: Path):
    assert handhold(folder, "watch", "--", "sh", "-c", "echo x > a.txt; kill -KILL $$").returncode == -signal.SIGKILL
    assert handhold(folder, "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"


DENY_SECRET = """\
[[rule]]
name = "no keys"
verdict = "deny"
verbs = ["read", "create", "change", "delete"]
paths = ["keys/**"]
because = "keys are not for tools"
covers = ["keys/a"]
does_not_cover = ["a.txt"]
"""


@pytest.mark.parametrize("had_settings", [True, False])
def test_v13_a_watched_command_that_breaks_the_settings_is_looked_at_and_undone(folder: Path, *, had_settings: bool):
    settings = folder / "handhold.toml"
    if had_settings:
        settings.write_text(DENY_SECRET)
    script = "echo = > handhold.toml; echo = = > handhold.toml; echo changed > a.txt"
    assert handhold(folder, "watch", "--", "sh", "-c", script).returncode == 0
    assert "handhold.toml" in handhold(folder, "call", "read_file", '{"path": "a.txt"}').stderr  # fail closed
    assert "a.txt" in handhold(folder, "log", "--stat").stdout
    done = handhold(folder, "undo", "--yes")
    assert done.returncode == 0, done.stderr
    assert (folder / "a.txt").read_text() == "one\n"
    assert (settings.read_text() if had_settings else settings.exists()) == (DENY_SECRET if had_settings else False)


def test_v13_what_broken_settings_denied_before_is_neither_shown_nor_undone(folder: Path):
    (folder / "keys").mkdir()
    (folder / "keys/a").write_text("one\n")
    watched = handhold(folder, "watch", "--", "sh", "-c", "echo private > keys/a; echo changed > a.txt")
    assert watched.returncode == 0
    settings = folder / "handhold.toml"
    settings.write_text(DENY_SECRET)
    assert handhold(folder, "watch", "--", "sh", "-c", "echo = > handhold.toml").returncode == 0
    shown = handhold(folder, "diff").stdout
    assert "+changed" in shown
    assert "private" not in shown
    refused = handhold(folder, "undo", "--all", "--yes")
    assert refused.returncode != 0
    assert "keys are not for tools" in refused.stdout + refused.stderr
    assert (folder / "keys/a").read_text() == "private\n"
    settings.write_text("= by hand =")  # nobody knows what it denied
    refused = handhold(folder, "undo", "--yes")
    assert refused.returncode != 0
    assert "handhold.toml" in refused.stderr


def test_c94_a_signal_reaches_the_watched_command(folder: Path):
    script = "trap 'echo ended > a.txt; exit 7' TERM; touch ready; while :; do sleep 0.1; done"
    process = subprocess.Popen([HANDHOLD, "watch", "--", "sh", "-c", script], cwd=folder)
    while not (folder / "ready").exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 7
    assert handhold(folder, "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"
    assert not (folder / "ready").exists()


def test_c94_a_command_that_is_not_there_is_told_as_a_shell_tells_it(folder: Path):
    done = handhold(folder, "watch", "--", "no-such-program")
    assert done.returncode == 127
    assert "no-such-program" in done.stderr


def test_c94_a_folder_inside_a_recorded_one_has_the_same_journal(folder: Path):
    handhold(folder, "watch", "--", "true")
    handhold(folder / "sub", "watch", "--", "sh", "-c", "echo changed > ../a.txt")
    assert "a.txt" in handhold(folder, "log").stdout
    assert handhold(folder / "sub", "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"


def test_c94_what_others_changed_is_adopted_by_path(folder: Path):
    refused = handhold(folder, "adopt", "a.txt")
    assert refused.returncode == 1
    assert "NOT_RECORDED" in refused.stderr
    handhold(folder, "watch", "--", "true")
    (folder / "a.txt").write_text("by an editor\n")
    (folder / "sub/b.txt").write_text("this too\n")
    assert "a.txt" in handhold(folder, "adopt", "a.txt").stdout
    assert handhold(folder, "undo").returncode == 0
    assert (folder / "a.txt").read_text() == "one\n"
    assert (folder / "sub/b.txt").read_text() == "this too\n"


def test_c94_what_is_forgotten_is_not_known_any_more(folder: Path):
    handhold(folder, "watch", "--", "true")
    assert handhold(folder, "forget", "--yes").returncode == 0
    (folder / "a.txt").write_text("by an editor\n")
    assert "NOT_RECORDED" in handhold(folder, "adopt", "a.txt").stderr


def test_c94_a_home_folder_is_not_recorded(folder: Path):
    done = handhold(folder, "watch", "--", "touch", "x", env={**os.environ, "HOME": str(folder)})
    assert done.returncode == 1
    assert "home" in done.stderr
    assert not (folder / "x").exists()


# --- real programs, with and without

MAKEFILE = """\
all: program page
program: program.c
\tcc -o program program.c && ./program
page:
\t@echo page >&2; mkdir -p site/empty && echo page > site/page && ln -s page site/index
broken:
\techo half > half; exit 4
"""
NPM = ("npm", "install", "--offline", "--install-links", "--no-audit", "--no-fund", "./one", "./two")


def lay_project(root: Path) -> Path:
    for name, text in {
        "Makefile": MAKEFILE,
        "program.c": '#include <stdio.h>\nint main(void) { return puts("built") < 0; }\n',
        "package.json": '{"name": "app", "version": "1.0.0"}',
        "one/package.json": '{"name": "one", "version": "1.0.0", "bin": "cli.js"}',
        "one/cli.js": "#!/usr/bin/env node\n",
        "two/package.json": '{"name": "two", "version": "1.0.0", "scripts": {"install": "echo made > made"}}',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "command",
    [
        NPM,
        ("make",),
        ("make", "broken"),
        ("sh", "-c", "exit 3"),
        ("sh", "-c", "echo out; echo changed > Makefile; kill -TERM $$"),
    ],
    ids=["npm", "make", "make that fails", "status", "signal"],
)
def test_c94_a_program_does_the_same_with_and_without_and_one_undo_undoes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    alone, watched = lay_project(tmp_path / "a/work"), lay_project(tmp_path / "b/work")
    before = tree(watched)
    expected = subprocess.run(command, cwd=alone, capture_output=True, text=True, check=False)
    done = handhold(watched, "watch", "--", *command)
    assert done.returncode == expected.returncode
    assert without_times(done.stdout) == without_times(expected.stdout)
    assert done.stderr == expected.stderr
    assert tree(watched) == tree(alone)
    assert tree(watched) != before or command[-1] == "exit 3"
    if tree(watched) != before:
        assert handhold(watched, "undo").returncode == 0
    assert tree(watched) == before


def without_times(text: str) -> str:
    return re.sub(r"in \d+m?s", "in a while", text)


def test_c94_an_interrupt_at_the_terminal_ends_a_watched_program_as_it_ends_it_alone(folder: Path):
    lay_project(folder)
    ends: list[tuple[int, str, str]] = []
    before = tree(folder)
    # Not make: interrupted while it reaps its child, it now and then ends with "wait: No child processes" also alone.
    program = ["bash", "-c", "echo begun > begun; sleep 30; echo not reached"]
    for command in (program, [HANDHOLD, "watch", "--", *program]):
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        while not (folder / "begun").exists():
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
        ends.append((*process.communicate(timeout=30), process.returncode))  # pyright: ignore[reportArgumentType]
        if command is program:
            (folder / "begun").unlink()
    assert ends == [("", "", -signal.SIGINT)] * 2
    assert handhold(folder, "undo").returncode == 0
    assert tree(folder) == before
