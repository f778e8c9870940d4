import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from handhold.cli.commands import handhold
from handhold.cli.doctor import check_analysis, format_verdict, list_installs
from handhold.core.errors import ExtraMissing
from handhold.core.policy import shell

contained = pytest.mark.skipif(
    detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine"
)


@contained
def test_it_tells_what_holds_here(tmp_path: Path):
    said = CliRunner().invoke(handhold, ["doctor", "--root", str(tmp_path)])
    assert said.exit_code == 0
    held = {line[7:25].strip() for line in said.output.splitlines() if line.startswith("  yes  ")}
    assert {"user namespace", "processes", "network", "capabilities", "system-call filter"} <= held
    assert "Commands run in a sandbox" in said.output


@contained
def test_it_tells_programs_the_same(tmp_path: Path):
    said = CliRunner().invoke(handhold, ["doctor", "--json", "--root", str(tmp_path)])
    told = json.loads(said.output)
    assert told["contained"] is True
    findings = {each["what"]: each for each in told["findings"]}
    network = findings["network"]
    assert (network["holds"], network["detail"]) == (True, "blocked")
    assert told["undo"] == ("all" if findings["overlay"]["holds"] else "file tools only")


@pytest.mark.root
@contained
def test_a_root_on_which_no_overlay_can_be_mounted_is_named(tmp_path: Path):
    """A volume is mounted inside the root."""
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("needs root")
    (tmp_path / "root/volume").mkdir(parents=True)
    script = f'mount -t tmpfs none {tmp_path}/root/volume && exec "$0" -c "from handhold.cli import main; main()" doctor --json --root {tmp_path}/root'
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    assert told["contained"] is True
    assert told["undo"] == "file tools only"
    (overlay,) = [each for each in told["findings"] if each["what"] == "overlay"]
    assert f"{tmp_path}/root/volume is a mount point" in overlay["detail"]
    assert done.returncode == 0


def test_where_commands_cannot_be_contained_it_ends_with_status_one(tmp_path: Path):
    """A machine without bubblewrap and without the broker."""
    done = diagnose_without_bubblewrap(tmp_path, "module.find_broker = lambda: ('', 'it was not built')\n")
    assert done.returncode == 1, done
    assert "cannot be sandboxed" in done.stdout
    assert "handhold[shell]" in done.stdout


def test_where_there_is_no_namespace_it_says_that_the_broker_holds_commands(tmp_path: Path):
    done = diagnose_without_bubblewrap(tmp_path, "", "--json")
    told = json.loads(done.stdout)
    assert (told["contained"], told["held_by"], told["undo"]) == (True, "broker", "all")
    assert any("/tmp" in reason for reason in told["why_not"])
    assert done.returncode == 0


def diagnose_without_bubblewrap(folder: Path, change: str, *flags: str) -> "subprocess.CompletedProcess[str]":
    program = (
        "import handhold.backends.shell.sandbox_support, sys\n"
        "module = sys.modules['handhold.backends.shell.sandbox_support']\n"
        "module.find_candidates = lambda: iter(())\n"
        f"{change}"
        "from handhold.cli import main; main()\n"
    )
    argv = [sys.executable, "-c", program, "doctor", *flags]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=50)


@contained
def test_n4_in_the_home_a_command_starts_and_the_state_in_it_is_hidden(tmp_path: Path):
    """The state is below a folder that a rule masks, and is hidden itself."""
    home = tmp_path / "home"
    (home / ".local/state").mkdir(parents=True)
    environment = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / ".local/state")}

    def run(*words: str) -> str:
        program = [sys.executable, "-c", "from handhold.cli import main; main()", *words]
        return subprocess.run(
            program, cwd=home, env=environment, capture_output=True, text=True, check=False, timeout=100
        ).stdout

    listed = run("call", "--policy", "open", "bash", '{"command": "ls -A .local/state/handhold; echo ended"}')
    (own,) = (home / ".local/state/handhold").iterdir()
    assert "ended" in listed.splitlines(), listed
    assert own.name not in listed
    assert [each["holds"] for each in json.loads(run("doctor", "--json"))["findings"] if each["what"] == "command"] == [
        True
    ]


@contained
def test_r18_it_runs_a_command(tmp_path: Path):
    told = json.loads(CliRunner().invoke(handhold, ["doctor", "--json", "--root", str(tmp_path)]).output)
    (command,) = [each for each in told["findings"] if each["what"] == "command"]
    assert (command["holds"], command["detail"]) == (True, "ran")


@pytest.mark.root
@contained
def test_r18_a_command_that_cannot_be_run_is_told(tmp_path: Path):
    """A bubblewrap that passes every check and fails to run a command."""
    found = detect_sandbox_support().bubblewrap
    if os.getuid() or shutil.which("unshare") is None or found is None or found.source == "system":
        pytest.skip("needs root, and no bubblewrap of the system's")
    bwrap = tmp_path / "bin/bwrap"
    bwrap.parent.mkdir()
    bwrap.write_text(f'#!/bin/sh\ncase "$*" in *--args*) echo no room >&2; exit 1;; esac\nexec {found.path} "$@"\n')
    bwrap.chmod(0o755)
    script = 'mount --bind "$1" /usr/local/bin && exec "$0" -c "from handhold.cli import main; main()" doctor'
    command = ["unshare", "-m", "sh", "-c", script, sys.executable, str(bwrap.parent)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "Commands cannot run here" in done.stdout
    assert "no room" in done.stdout


LEFT = (".git", ".envrc", ".mcp.json", "handhold.toml", ".vscode")


def with_leftovers(folder: Path) -> list[str]:
    """Folders that an earlier version left, next to folders that a person created."""
    for name in (*LEFT, ".idea", "src", ".kept"):
        (folder / name).mkdir()
    (folder / ".idea/workspace.xml").write_text("mine\n")
    (folder / ".husky").symlink_to("src")
    (folder / ".claude").write_text("")
    return sorted(str(folder / name) for name in LEFT)


def test_e4_empty_folders_that_an_earlier_version_may_have_left_are_listed_and_stay(tmp_path: Path):
    left = with_leftovers(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    told = json.loads(CliRunner().invoke(handhold, ["doctor", "--json", "--root", str(tmp_path)]).output)
    assert (sorted(told["leftovers"]), told["removed"]) == (left, [])
    said = CliRunner().invoke(handhold, ["doctor", "--root", str(tmp_path)]).output
    assert all(path in said for path in left)
    assert "handhold doctor --remove-leftovers" in said
    assert sorted(tmp_path.rglob("*")) == before


def test_e4_they_are_removed_on_request_and_nothing_else_is(tmp_path: Path):
    left = with_leftovers(tmp_path)
    said = CliRunner().invoke(handhold, ["doctor", "--remove-leftovers", "--root", str(tmp_path)]).output
    assert all(f"removed {path}" in said for path in left)
    assert sorted(each.name for each in tmp_path.iterdir()) == [".claude", ".husky", ".idea", ".kept", "src"]
    again = json.loads(
        CliRunner().invoke(handhold, ["doctor", "--json", "--remove-leftovers", "--root", str(tmp_path)]).output
    )
    assert (again["leftovers"], again["removed"]) == ([], [])


@pytest.mark.root
def test_e4_what_cannot_be_removed_is_told(tmp_path: Path):
    if os.getuid() or shutil.which("unshare") is None:
        pytest.skip("needs root")
    (tmp_path / ".envrc").mkdir()
    (tmp_path / ".zed").mkdir()
    script = (
        f'mount -t tmpfs none {tmp_path}/.envrc && exec "$0" -c "from handhold.cli import main; main()" '
        f"doctor --remove-leftovers --root {tmp_path}"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )
    assert f"removed {tmp_path}/.zed" in done.stdout, done
    assert f"{tmp_path}/.envrc could not be removed: Device or resource busy" in done.stdout
    assert "To remove them" not in done.stdout


def test_e4_a_clean_workspace_is_not_mentioned(tmp_path: Path):
    assert "Empty folders" not in CliRunner().invoke(handhold, ["doctor", "--root", str(tmp_path)]).output


def test_n15_without_the_analysis_of_commands_it_says_that_each_needs_approval(monkeypatch: pytest.MonkeyPatch):
    def analyze(*_: object) -> None:
        raise ExtraMissing("shell")

    monkeypatch.setattr(shell, "analyze_command", analyze)
    found = check_analysis("/")
    assert (found.holds, "handhold[shell]" in found.detail) == (False, True)
    assert any(
        "each command needs approval" in line for line in format_verdict(detect_sandbox_support(), [found], "all")
    )
    assert list(list_installs([found])) == ["pip install 'handhold[shell]'"]
