"""As a user sees it: the wheel, in an empty environment and an empty folder."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.scale import scaled

PROJECT = Path(__file__).parents[2]
FENCE = re.compile(r"```python\n(.*?)```", re.DOTALL)
# A bit of everything.
SAMPLE = """
import base64
from pathlib import Path
from handhold import Toolbox

root = Path("sample")
root.mkdir()
(root / "a.py").write_text("x = 1\\n")
pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
(root / "a.png").write_bytes(base64.b64decode(pixel))
box = Toolbox.open(root, dialect="claude", state="kept")

def call(name, **arguments):
    reply = box.call(name, arguments)
    assert reply.status != "error", reply
    return reply

path = str(root.resolve() / "a.py")
assert "x = 1" in call("Read", file_path=path).text
call("Edit", file_path=path, old_string="x = 1", new_string="x = 2")
assert "a.py" in call("Grep", pattern="x = 2", path=str(root.resolve())).text
assert "hi" in call("Bash", command="echo hi", description="Say hi").text
assert call("Read", file_path=str(root.resolve() / "a.png")).images
box.undo()
assert Path(path).read_text() == "x = 1\\n"
print("all of it")
"""

# Each module imported first, by itself: it must import what it needs. What only an extra provides may be missing.
IMPORTS = """
import asyncio, ctypes, dataclasses, json, sqlite3, subprocess, tempfile, typing  # once, not in every child
import os, sys
from importlib import import_module
from pathlib import Path

top = Path(sys.argv[1])
files = sorted(top.rglob("*.py"))[:: int(sys.argv[2])]
for path in files:
    parts = ("handhold", *path.relative_to(top).with_suffix("").parts)
    child = os.fork()
    if child == 0:
        try:
            import_module(".".join(parts).removesuffix(".__init__"))
        except ModuleNotFoundError as error:
            os._exit((error.name or "").startswith("handhold"))
        except BaseException as error:
            print(path, repr(error), file=sys.stderr)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, path
print(len(files))
"""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def description(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith("/METADATA"))
        return opened.read(metadata).decode()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_first_example_of_the_readme_works_as_it_stands(wheel: Path, tmp_path: Path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
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
    assert "Undid" in said
    other = tmp_path / "other"
    other.mkdir()
    assert "Undid" in run(python, "-c", FENCE.findall(description(wheel))[0], cwd=other)

    (package,) = (tmp_path / "env/lib").glob("python3*/site-packages/handhold")
    run(python, "-W", "error", "-m", "compileall", "-q", "-f", package, cwd=empty)

    (empty / "imports.py").write_text(IMPORTS, encoding="utf-8")
    every = scaled(8, 1)
    modules = len(list((PROJECT / "src").rglob("*.py")))
    assert int(run(python, "imports.py", package, str(every), cwd=empty)) == len(range(0, modules, every))

    command = tmp_path / "env/bin/handhold"
    assert "Check how commands are sandboxed on this machine" in run(command, "doctor", "--help", cwd=empty)
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

    run(uv, "pip", "install", "--quiet", "--python", python, f"handhold[images,shell] @ {wheel.as_uri()}", cwd=empty)
    (empty / "sample.py").write_text(SAMPLE, encoding="utf-8")
    assert run(python, "sample.py", cwd=empty) == "all of it\n"
