"""The checks can fail: each one is given a planted fault."""

import ast
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


def part(tmp_path: Path, *files: str) -> Path:
    """A project with only these files: enough if a check reads files one by one."""
    shutil.copytree(PROJECT / "checks", tmp_path / "checks", ignore=shutil.ignore_patterns("__pycache__"))
    for file in files:
        target = tmp_path / "src/handhold" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / "src/handhold" / file, target)
    return tmp_path


def lint_imports(project: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(project / "src"), "PATH": "/usr/bin:/bin"}
    command = [str(BIN / "lint-imports"), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def file_writes(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "checks/file_writes.py", "src/handhold"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def naming(project: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "checks/naming.py", "src/handhold"]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def plant(project: Path, file: str, line: str) -> None:
    target = project / "src/handhold" / file
    target.write_text(target.read_text(encoding="utf-8") + f"\n\n{line}\n", encoding="utf-8")


GRAIN = [
    ("core/results.py", "import os", "Core does not touch the machine"),
    ("core/tools/edit.py", "from pathlib import Path", "Core does not touch the machine"),
    ("dialects/claude/__init__.py", "import handhold.toolbox", "Imports go one way"),
    ("dialects/handhold/__init__.py", "import handhold.dialects.claude", "Dialects know nothing of each other"),
    ("backends/memory.py", "import handhold.dialects.claude", "Imports go one way"),
    ("core/text/lines.py", "import handhold.core.tools", "Inside core, imports go one way"),
    ("core/tools/text_page.py", "import handhold.core.tools.read", "No import cycles"),
]


def test_an_import_against_the_grain_fails_the_check(copy: Path):
    for file, line, _ in GRAIN:
        plant(copy, file, line)
    judged = lint_imports(copy)
    assert judged.returncode != 0
    broken = {line.removesuffix(" BROKEN") for line in judged.stdout.splitlines() if line.endswith(" BROKEN")}
    assert broken == {contract for _, _, contract in GRAIN}
    importers = [file for file, _, contract in GRAIN if contract != "No import cycles"]  # of a cycle, it names folders
    modules = [file.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for file in importers]
    assert [module for module in modules if f"handhold.{module}" not in judged.stdout] == []


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
def test_a_second_way_to_change_a_file_fails_the_check(tmp_path: Path, file: str, line: str):
    project = part(tmp_path, file)
    plant(project, file, line)
    assert file_writes(project).returncode == 1


START_LINES = [
    "import subprocess",
    "import multiprocessing.connection",
    "from subprocess import Popen",
    "from multiprocessing import Process",
    "import pickle",
    "import os as o",
    "from os import execv",
    "from os import *",
    "from shutil import which",
    "from concurrent.futures import ProcessPoolExecutor",
    "def f(): import marshal",
    "def f(): os.posix_spawn('a', [], {})",
    "def f(): os.execve('a', [], {})",
    "def f(): os.fork()",
    "def f(): getattr(os, 'system')('a')",
    "def f(name): getattr(os, name)('a')",
    "def f(): importlib.import_module('subprocess')",
    "def f(): __import__('pickle')",
    "def f(): asyncio.create_subprocess_exec('a')",
]


@pytest.mark.parametrize("line", START_LINES)
def test_v1_a_second_way_to_start_a_program_fails_the_check(line: str):
    sys.path.insert(0, str(PROJECT / "checks"))
    try:
        from starts import find_starts  # pyright: ignore[reportMissingImports]
    finally:
        sys.path.pop(0)
    assert list(find_starts(ast.parse(line)))
    assert not list(find_starts(ast.parse("import os\ndef f(): os.getpid(), platform.system(), box.fork('a')")))


def test_a_part_of_the_source_passes_as_the_whole_does(tmp_path: Path):
    project = part(tmp_path, "toolbox.py", "core/tools/edit.py", "backends/files/workspace.py", "cli/commands.py")
    assert file_writes(project).returncode == 0
    assert naming(project).returncode == 0


def test_the_architecture_page_names_every_folder():
    page = (PROJECT / "docs/ARCHITECTURE.md").read_text(encoding="utf-8")
    source = PROJECT / "src/handhold"
    folders = [folder for folder in source.rglob("*") if folder.is_dir() and folder.name != "__pycache__"]
    folders = [folder for folder in folders if folder.parent.name != "dialects"]  # each is a dialect, by its name
    missing = [
        folder.relative_to(source).as_posix() for folder in folders if f"`{folder.relative_to(source)}/`" not in page
    ]
    assert not missing


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("class Toolbox: ...", "Toolbox is defined more than once"),
        ("def open_door(): ...", "open_door has the word door"),
        ("class NeedleReader: ...", "NeedleReader has the word needle"),
        ("SHEETS_MAX = 1", "SHEETS_MAX has the word sheet"),
        ("def f(right_hand): ...", "right_hand has the word hand"),
    ],
)
def test_a_name_that_nobody_could_guess_fails_the_check(tmp_path: Path, line: str, problem: str):
    project = part(tmp_path, "toolbox.py", "core/tools/edit.py")
    plant(project, "core/tools/edit.py", line)
    judged = naming(project)
    assert judged.returncode == 1
    assert problem in judged.stdout


@pytest.mark.parametrize("line", ["handhold = 1", "def handle(): ...", "def on_shore(): ...", "class Worldwide: ..."])
def test_a_word_that_only_looks_like_a_banned_one_passes(tmp_path: Path, line: str):
    project = part(tmp_path, "core/tools/edit.py")
    plant(project, "core/tools/edit.py", line)
    assert naming(project).returncode == 0
