"""The types that a user's checker sees: a sample program passes two of them, and runs, against the built wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
SAMPLE = Path(__file__).with_name("sample.py")
TOOLS = Path(sys.executable).parent


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the built wheel and nothing else of ours."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    here = tmp_path_factory.mktemp("typing")
    run(uv, "venv", "--quiet", "--python", sys.executable, here / "env", cwd=here)
    run(uv, "pip", "install", "--quiet", "--python", here / "env/bin/python", wheel, cwd=here)
    return here / "env/bin/python"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample alone in a folder, so that no configuration of this project applies to it."""
    return Path(shutil.copy(SAMPLE, tmp_path))


# A misspelled keyword, and a reply's text taken for a number: what shows that a checker can fail.
WRONG = """from handhold import Toolbox
Toolbox.open("ws", polcy="ask")
n: int = Toolbox.open("ws").call("a", {}).text
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "command",
    [("pyright", "--warnings", "--pythonpath"), ("mypy", "--strict", "--no-error-summary", "--python-executable")],
    ids=["pyright", "mypy"],
)
def test_the_sample_passes_in_strict_mode_and_a_wrong_use_does_not(
    python: Path, sample: Path, command: tuple[str, ...]
):
    sample.with_name("wrong.py").write_text(WRONG)
    sample.with_name("pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    checker, *options = command
    done = subprocess.run(
        [TOOLS / checker, *options, python, sample.name, "wrong.py"],
        cwd=sample.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if "error" in line or "warning" in line]
    found = [line for line in found if "errors, " not in line]
    assert [line for line in found if "wrong.py:" not in line] == []
    assert any("wrong.py:2" in line and "polcy" in line for line in found), done.stdout + done.stderr
    assert any("wrong.py:3" in line and "int" in line for line in found), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sample_runs(python: Path, sample: Path):
    (sample.parent / "ws/tests").mkdir(parents=True)
    (sample.parent / "ws/tests/a.py").write_text("x = 1\n")
    shown = run(python, sample.name, "ws", "state", cwd=sample.parent)
    assert "ToolboxClosed\n" in shown
    assert "DENIED (policy)" in shown
    assert shown.endswith("Read\n")
