"""All commands: lazy imports, shell completion and JSON output."""

import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from handhold.cli import candidates
from handhold.cli.commands import COMMANDS, handhold
from handhold.version import VERSION
from tests.scale import nightly

MAIN = [sys.executable, "-c", "from handhold.cli import main; main()"]
SERVERS = ("mcp", "serve")  # they speak a protocol instead of JSON output


def command(name: str) -> click.Command:
    found = handhold.get_command(click.Context(handhold), name)
    assert found is not None
    return found


def test_the_help_imports_no_command():
    code = (
        "import sys\nfrom handhold.cli.commands import COMMANDS, handhold\n"
        "try: handhold(['--help'])\nexcept SystemExit: pass\n"
        "assert not {each.import_path.partition(':')[0] for each in COMMANDS.values()} & set(sys.modules)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert [name for name in COMMANDS if f"  {name} " in told] == [
        name for name, each in COMMANDS.items() if each.group
    ]
    assert "1  refused" in told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_does_and_how_it_ends(name: str):
    told = CliRunner().invoke(handhold, [name, "--help"])
    assert told.exit_code == 0
    assert "Exit status" in told.output


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS if name not in (*SERVERS, "review", "run", "watch", "fork", "hook", "hub")]
)
def test_every_command_speaks_to_programs_too(name: str):
    assert any(option.name == "as_json" for option in command(name).params)


def test_without_its_extra_the_review_page_names_it():
    code = "import sys; sys.modules['jinja2'] = None\nsys.argv[1:] = ['review', '--no-browser']\nfrom handhold.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, "pip install 'handhold[review]'" in done.stderr, done.stdout) == (1, True, "")


@pytest.mark.parametrize("name", SERVERS)
def test_without_its_extra_a_server_names_it(name: str):
    code = f"import sys; sys.modules['mcp'] = sys.modules['mcp_types'] = None\nsys.argv[1:] = ['{name}']\nfrom handhold.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, "pip install 'handhold[mcp]'" in done.stderr, done.stdout) == (1, True, "")


def test_a_command_that_is_not_there_is_a_wrong_command_line():
    assert CliRunner().invoke(handhold, ["frobnicate"]).exit_code == 2


def test_what_cannot_be_done_is_told_to_programs_as_json(tmp_path: Path):
    (tmp_path / "state").write_text("a file")
    for arguments in (["log"], ["diff"], ["undo"], ["redo"], ["approve"]):
        where = ["--root", str(tmp_path), "--state", str(tmp_path / "state"), "--json"]
        done = CliRunner().invoke(handhold, [*arguments, *where])
        assert done.exit_code == 1
        assert set(json.loads(done.stdout)["error"]) == {"code", "error_source", "message", "facts"}
    none = CliRunner().invoke(handhold, ["diff", "--json", "--root", str(tmp_path), "--state", str(tmp_path / "other")])
    assert json.loads(none.stdout)["error"]["code"] == "NOTHING_TO_UNDO"


# --- completion


@pytest.fixture
def worked(tmp_path: Path) -> list[str]:
    """The options for a workspace with one call in its journal."""
    (tmp_path / "ws").mkdir()
    where = ["--root", str(tmp_path / "ws"), "--state", str(tmp_path / "state")]
    call = [
        "call",
        "write_file",
        '{"path": "a", "content": "x"}',
        "--session",
        "monday",
        "--call-id",
        "w1",
        "--turn",
        "t1",
    ]
    assert CliRunner().invoke(handhold, [*call, *where]).exit_code == 0
    return where


def completed(*words: str) -> list[str]:
    """The candidates that bash gets for the last word."""
    surroundings = {
        **os.environ,
        "_HANDHOLD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["handhold", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(MAIN, env=surroundings, capture_output=True, text=True, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


def test_commands_tools_dialects_sessions_calls_and_turns_are_completed(worked: list[str]):
    assert completed("und") == ["undo"]
    assert completed("call", "edit") == ["edit_file"]
    assert completed("call", "--dialect", "claude", "Ed") == ["Edit"]
    assert "claude" in completed("tools", "--dialect", "c")
    assert completed("log", *worked, "--session", "mo") == ["monday"]
    assert completed("undo", *worked, "--session", "monday", "--call", "w") == ["w1"]
    assert completed("undo", *worked, "--session", "monday", "--turn", "t") == ["t1"]
    assert "zed" in completed("install", "")


def test_completion_makes_no_state_and_fails_at_nothing(tmp_path: Path):
    where = ["--root", str(tmp_path), "--state", str(tmp_path / "state")]
    assert completed("log", *where, "--session", "") == []
    assert not (tmp_path / "state").exists()
    assert completed("approve", *where, "") == []


def test_a_name_that_could_speak_to_a_shell_is_not_offered():
    offered = candidates.make_completer(lambda ctx: ["good", "bad\x1b[2J", "two words", "good"])
    context = click.Context(handhold)
    assert offered(context, handhold.params[0], "") == ["good"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_taught(shell: str):
    script = CliRunner().invoke(handhold, ["completion", shell]).output
    assert f"_HANDHOLD_COMPLETE={shell}_complete" in script


def test_bash_completes_with_what_it_was_taught(tmp_path: Path):
    """A real bash that runs the real command."""
    (tmp_path / "handhold").write_text(f"#!{sys.executable}\nfrom handhold.cli import main\nmain()\n")
    (tmp_path / "handhold").chmod(0o755)
    script = 'eval "$(handhold completion bash)"; COMP_WORDS=(handhold und); COMP_CWORD=1; _handhold_completion handhold; echo "${COMPREPLY[@]}"'
    surroundings = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout == "undo\n"


# --- --version


def test_the_version_is_told_before_anything_is_imported():
    code = "import sys; sys.argv[1:] = ['--version']; from handhold.cli import main; main(); assert not {'click', 'typing', 'importlib.metadata', 're'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2] / 'src')!r}); {code}"], check=True, capture_output=True, text=True)  # fmt: skip
    assert done.stdout == f"handhold {VERSION}\n"


@nightly(sampled_by="tests/cli/test_group.py::test_the_version_is_told_before_anything_is_imported")
@pytest.mark.alone
def test_the_version_costs_at_most_two_bare_interpreters():
    import bench.version

    ratios: list[float] = []
    for _ in range(5):
        ratios.append(bench.version.ratio())
        if ratios[-1] <= 2:
            break
    print(f"handhold --version: {min(ratios):.2f} x a bare interpreter")
    assert min(ratios) <= 2
