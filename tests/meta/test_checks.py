"""The checks of the house can fail: each is shown a planted fault."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(PROJECT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(PROJECT / "checks", tmp_path / "checks")
    shutil.copy(PROJECT / "pyproject.toml", tmp_path)
    return tmp_path


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(project / "src"), "PATH": "/usr/bin:/bin"}
    command = [str(BIN / "lint-imports"), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def one_door(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "checks/one_door.py", "src/handhold"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def plant(project: Path, file: str, line: str) -> None:
    target = project / "src/handhold" / file
    target.write_text(target.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")


def test_the_house_as_it_stands_passes(copy: Path):
    imports = lint_imports(copy)
    assert imports.returncode == 0, imports.stdout + imports.stderr
    door = one_door(copy)
    assert door.returncode == 0, door.stdout


@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("core/results.py", "import os", "Core does not touch the machine"),
        ("core/tools/edit.py", "from pathlib import Path", "Core does not touch the machine"),
        ("dialects/claude/__init__.py", "import handhold.toolbox", "Imports go one way"),
        ("dialects/handhold/__init__.py", "import handhold.dialects.claude", "Dialects know nothing of each other"),
        ("backends/memory.py", "import handhold.dialects.claude", "Imports go one way"),
        ("core/text/lines.py", "import handhold.core.tools", "Inside core, imports go one way"),
    ],
)
def test_an_import_against_the_grain_fails_the_check(copy: Path, file: str, line: str, contract: str):
    plant(copy, file, line)
    judged = lint_imports(copy)
    assert judged.returncode != 0
    assert f"{contract} BROKEN" in judged.stdout


@pytest.mark.parametrize(
    "line",
    [
        "def f(p): os.rename(p, p)",
        "def f(p): os.open(p, os.O_WRONLY)",
        "def f(p): p.write_text('x')",
        "def f(p): p.open('w')",
        "from os import unlink",
        "import shutil",
        "def f(libc): libc.renameat2(0, b'', 0, b'', 0)",
    ],
)
@pytest.mark.parametrize("file", ["toolbox.py", "core/tools/edit.py", "backends/files/workspace.py", "cli/commands.py"])
def test_a_second_way_to_change_a_file_fails_the_check(copy: Path, file: str, line: str):
    plant(copy, file, line)
    assert one_door(copy).returncode == 1


def test_the_architecture_page_names_every_folder():
    page = (PROJECT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    source = PROJECT / "src/handhold"
    folders = [folder for folder in source.rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    missing = [
        folder.relative_to(source).as_posix() for folder in folders if f"`{folder.relative_to(source)}/`" not in page
    ]
    assert not missing
