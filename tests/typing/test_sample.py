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
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has the built wheel and nothing else of ours."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    here = tmp_path_factory.mktemp("typing")
    run(uv, "build", "--quiet", "--wheel", "--out-dir", here / "dist", PROJECT, cwd=here)
    (wheel,) = (here / "dist").glob("*.whl")
    run(uv, "venv", "--quiet", "--python", sys.executable, here / "env", cwd=here)
    run(uv, "pip", "install", "--quiet", "--python", here / "env/bin/python", wheel, cwd=here)
    return here / "env/bin/python"


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """The sample alone in a folder, so that no configuration of this project applies to it."""
    return Path(shutil.copy(SAMPLE, tmp_path))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sample_passes_pyright_in_strict_mode(python: Path, sample: Path):
    sample.with_name("pyrightconfig.json").write_text('{"typeCheckingMode": "strict", "pythonVersion": "3.11"}')
    assert "0 errors" in run(TOOLS / "pyright", "--pythonpath", python, "--warnings", sample.name, cwd=sample.parent)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sample_passes_mypy_in_strict_mode(python: Path, sample: Path):
    cache = sample.with_name("cache")
    run(TOOLS / "mypy", "--strict", "--python-executable", python, "--cache-dir", cache, sample.name, cwd=sample.parent)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_wrong_use_fails_both(python: Path, sample: Path):
    """The checks above can fail: a misspelled keyword, and a reply's text taken for a number."""
    wrong = sample.with_name("wrong.py")
    wrong.write_text(
        'from handhold import Toolbox\nToolbox.open("ws", polcy="ask")\nn: int = Toolbox.open("ws").call("a", {}).text\n'
    )
    sample.with_name("pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    for checker in (("pyright", "--pythonpath", python), ("mypy", "--strict", "--python-executable", python)):
        command = [str(TOOLS / checker[0]), *map(str, checker[1:]), wrong.name]
        done = subprocess.run(command, cwd=sample.parent, capture_output=True, text=True, check=False)
        assert "polcy" in done.stdout, done.stdout + done.stderr
        assert '"int"' in done.stdout, done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_sample_runs(python: Path, sample: Path):
    (sample.parent / "ws/tests").mkdir(parents=True)
    (sample.parent / "ws/tests/a.py").write_text("x = 1\n")
    shown = run(python, sample.name, "ws", "state", cwd=sample.parent)
    assert "ToolboxClosed\n" in shown
    assert "DENIED (policy)" in shown
    assert shown.endswith("Read\n")
