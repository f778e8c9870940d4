"""The way a user meets it: the wheel, in an empty environment and an empty folder."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_first_example_of_the_readme_works_as_it_stands(tmp_path: Path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    run(uv, "build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", PROJECT, cwd=tmp_path)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size < 500_000
    run(uv, "venv", "--quiet", "--python", sys.executable, tmp_path / "env", cwd=tmp_path)
    python = tmp_path / "env/bin/python"
    run(uv, "pip", "install", "--quiet", "--python", python, wheel, cwd=tmp_path)
    installed = run(uv, "pip", "list", "--quiet", "--python", python, cwd=tmp_path).splitlines()[2:]
    assert len(installed) <= 10, installed

    empty = tmp_path / "empty"
    empty.mkdir()
    example = FENCE.findall((PROJECT / "README.md").read_text(encoding="utf-8"))[0]
    (empty / "first.py").write_text(example, encoding="utf-8")
    said = run(python, "first.py", cwd=empty)
    assert "File has not been read yet." in said
    assert "Taken back" in said

    command = tmp_path / "env/bin/handhold"
    assert run(command, "--version", cwd=empty).startswith("handhold ")
    assert "print" in run(
        command, "call", "read_file", '{"path": "greet.py"}', "--root", "demo", "--state", "state", cwd=empty
    )
    run(command, "call", "edit_file", '{"path": "greet.py", "old_string": "Hi", "new_string": "Ho"}', "--root", "demo", "--state", "state", cwd=empty)  # fmt: skip
    assert b"Ho" in (empty / "demo/greet.py").read_bytes()
    assert "edit_file" in run(command, "log", "--root", "demo", "--state", "state", cwd=empty)
    assert "+    print(\"Ho\")" in run(command, "diff", "--root", "demo", "--state", "state", cwd=empty)  # fmt: skip
    run(command, "undo", "--root", "demo", "--state", "state", cwd=empty)
    assert b"Hi" in (empty / "demo/greet.py").read_bytes()
