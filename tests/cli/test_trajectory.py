"""`handhold log --atif` and `--jsonl`: the journal as a trajectory, valid by Harbor's own model."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import which
from typing import Any

import pytest
from click.testing import CliRunner

from handhold import Toolbox
from handhold.cli.commands import handhold

HARBOR = "harbor==0.25.0"  # needs Python 3.12; the module with the model runs on ours too


@pytest.fixture
def workspace(tmp_path: Path) -> list[str]:
    (root := tmp_path / "ws").mkdir()
    (root / "a.py").write_text("x = 1\n")
    with Toolbox.open(root, state=tmp_path / "state", settings=False, session="s") as box:
        box.call("read_file", {"path": "a.py"}, call_id="1", turn="first")
        box.call("edit_file", {"path": "a.py", "old_string": "1", "new_string": "2"}, call_id="2", turn="first")
        box.call("read_file", {"path": "none.py"}, call_id="1", turn="second")
        box.call("list_files", {})
    return ["--root", str(root), "--state", str(tmp_path / "state"), "--session", "s"]


def run(*words: str) -> str:
    result = CliRunner().invoke(handhold, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_the_calls_of_a_turn_are_one_step(workspace: list[str]):
    found: Any = json.loads(run("log", "--atif", *workspace))
    assert (found["session_id"], found["schema_version"]) == ("s", "ATIF-v1.6")
    steps = found["steps"]
    assert [step["step_id"] for step in steps] == [1, 2, 3]
    assert [[call["function_name"] for call in step["tool_calls"]] for step in steps] == [
        ["read_file", "edit_file"], ["read_file"], ["list_files"],
    ]  # fmt: skip
    assert steps[0]["tool_calls"][1]["arguments"]["new_string"] == "2"
    assert "Edited a.py" in steps[0]["observation"]["results"][1]["content"]
    assert steps[0]["extra"]["calls"][1]["changed"] == 1
    assert steps[1]["extra"]["calls"][0]["code"] == "NOT_FOUND"
    assert steps[2]["observation"]["results"][0]["content"] is None  # replies of calls without an id are not kept


def test_jsonl_has_one_object_per_call(workspace: list[str]):
    rows = [json.loads(line) for line in run("log", "--jsonl", *workspace).splitlines()]
    assert [row["tool"] for row in rows] == ["read_file", "edit_file", "read_file", "list_files"]
    assert rows[1]["arguments"] == {"path": "a.py", "old_string": "1", "new_string": "2"} | rows[1]["arguments"]
    assert [row["status"] for row in rows] == ["success", "success", "error", "success"]


@pytest.mark.nightly(sampled_by="tests/cli/test_trajectory.py::test_the_calls_of_a_turn_are_one_step")
def test_it_is_valid_by_harbors_own_model(workspace: list[str], tmp_path: Path):
    pip = which("pip") or "pip"
    fetch = [
        pip,
        "download",
        "-q",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--python-version",
        "3.12",
        "-d",
        str(tmp_path),
    ]
    subprocess.run([*fetch, HARBOR], check=True)
    (wheel,) = tmp_path.glob("harbor-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "harbor")
    program = "import sys; from harbor.models.trajectories.trajectory import Trajectory as T; print(len(T.model_validate_json(sys.stdin.read()).steps))"
    for form in (["log", "--atif", *workspace], ["log", "--atif", "--everyone", *workspace]):
        done = subprocess.run(
            [sys.executable, "-c", program], input=run(*form), env={"PYTHONPATH": str(tmp_path / "harbor")}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stdout == "3\n"
