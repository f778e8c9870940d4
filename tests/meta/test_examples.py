"""The examples work as shown."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]


def run(*arguments: str | Path, cwd: Path) -> str:
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_usual_way_from_list_to_read(tmp_path: Path):
    printed = run(PROJECT / "examples/explore.py", cwd=tmp_path)
    tools = ["list_files", "glob", "grep", "read_file"]
    assert [line[2:].partition("(")[0] for line in printed.splitlines() if line.startswith("> ")] == tools
    assert "shop/cart.py" in printed
    assert "     2→    def total(self) -> int:" in printed
    assert not list(tmp_path.iterdir())


def test_the_same_on_a_folder_of_ones_own(tmp_path: Path):
    (tmp_path / "a.py").write_text("x = 1\n" * 20 + "needle = 2\n", encoding="utf-8")
    printed = run(PROJECT / "examples/explore.py", tmp_path, "needle", cwd=tmp_path)
    assert "    21→needle = 2" in printed
    assert [path.name for path in tmp_path.iterdir()] == ["a.py"]
