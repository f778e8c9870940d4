"""What everyday work costs compared with bare bash: a build, a test suite, `true`, rewriting files, appending to a
large file, `git status` in a large repository. Measures calls of the tool `bash`, including the commit and the journal.

python -m bench.everyday [--only build,suite,true,rewrite,append,status] [--files 200000]

Figures are medians, measured in turns with bare bash. The exit status says whether every row is within its budget.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.shell import alternately, bash, called, opened

FORMAT = "{:<44} {:>10} {:>10} {:>10} {:>10} {:>5}"
MODULE = "int f{n}(int x) {{ int s = 0; for (int i = 0; i < x; i++) s += i * {n}; return s; }}\n"
TEST = "import unittest, json, re\nclass T(unittest.TestCase):\n"
ONE_TEST = "    def test_{n}(self):\n        self.assertEqual(len(json.dumps(list(range(20000)))), 128890)\n"


@dataclass(frozen=True)
class Measure:
    """One row: its setup, its command, the number of runs, and how much longer than bare bash it may take."""

    what: str
    lay_out: Callable[[Path], None]
    command: str
    runs: int
    most_ratio: float | None = None
    most_more_ms: float | None = None


def lay_out_nothing(_root: Path) -> None:
    pass


def lay_out_build(root: Path) -> None:
    for n in range(20):
        (root / f"m{n}.c").write_text(MODULE.format(n=n))
    (root / "main.c").write_text("int f0(int);\nint main(void) { return f0(1); }\n")
    names = " ".join(f"m{n}.o" for n in range(20))
    (root / "Makefile").write_text(f"app: main.o {names}\n\tgcc -o app main.o {names}\nclean:\n\trm -f app *.o\n")


def lay_out_suite(root: Path) -> None:
    (root / "test_all.py").write_text(TEST + "".join(ONE_TEST.format(n=n) for n in range(300)))


def lay_out_files(root: Path) -> None:
    (root / "made").mkdir()
    for n in range(5000):
        (root / f"made/{n}").write_text(f"{n}\n" * 50)


def lay_out_log(root: Path) -> None:
    with (root / "log").open("wb") as file:
        for _ in range(300):
            file.write(b"a line of a log, as long as most of them are\n" * 23302)


def lay_out_repository(root: Path, files: int) -> None:
    for first in range(0, files, 200):
        folder = root / f"d{first // 20000}/e{first // 200}"
        folder.mkdir(parents=True)
        for n in range(first, min(first + 200, files)):
            (folder / f"f{n}.txt").write_text(f"{n}\n")
    git = ["git", "-C", str(root), "-c", "user.name=U", "-c", "user.email=u@example.org", "-c", "gc.auto=0"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "First"], ["status", "-s"]):
        subprocess.run([*git, *arguments], check=True, stdout=subprocess.DEVNULL)


def measures(files: int) -> dict[str, Measure]:
    rewrite = "for f in made/*; do echo changed > $f; done"
    return {
        "build": Measure("make of 21 C files", lay_out_build, "make -s clean; make -s", 5, 1.1),
        "suite": Measure("a suite of 300 tests", lay_out_suite, "python3 -m unittest -q 2>&1", 5, 1.1),
        "true": Measure("true", lay_out_nothing, "true", 50, most_more_ms=10),
        "rewrite": Measure("5,000 files rewritten", lay_out_files, rewrite, 5, 2.5),
        "append": Measure("300 MB appended to", lay_out_log, "echo one more >> log", 5),
        "status": Measure(
            f"git status, {files:,} files", lambda root: lay_out_repository(root, files), "git status -s", 5, 1.5
        ),
    }


def within(measure: Measure) -> bool:
    with tempfile.TemporaryDirectory(prefix="handhold-bench-", ignore_cleanup_errors=True) as name:
        top = Path(name).resolve()
        with opened(top) as box:
            measure.lay_out(top / "root")
            shutil.copytree(top / "root", top / "bare", symlinks=True)
            if (top / "bare/.git").exists():
                subprocess.run(["git", "-C", str(top / "bare"), "status", "-s"], check=True, capture_output=True)
            bare, ours = alternately(
                lambda: bash(measure.command, top / "bare"), lambda: called(box, measure.command), measure.runs
            )
    ratio, more = ours / bare, (ours - bare) * 1e3
    good = (measure.most_ratio is None or ratio <= measure.most_ratio) and (
        measure.most_more_ms is None or more <= measure.most_more_ms
    )
    compared = f"+ {more:.1f} ms" if measure.most_more_ms else f"{ratio:.2f} ×"
    budget = f"+ {measure.most_more_ms:.0f} ms" if measure.most_more_ms else f"{measure.most_ratio or '-'} ×"
    told = f"{bare * 1e3:.1f} ms", f"{ours * 1e3:.1f} ms", compared, budget, "" if good else "OVER"
    print(FORMAT.format(measure.what, *told), flush=True)
    return good


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="build,suite,true,rewrite,append,status")
    parser.add_argument("--files", type=int, default=200_000, help="number of files in the repository")
    chosen = parser.parse_args(arguments)
    every = measures(chosen.files)
    print(FORMAT.format("", "bare bash", "handhold", "", "budget", ""))
    verdicts = [within(every[name]) for name in chosen.only.split(",")]
    return not all(verdicts)


if __name__ == "__main__":
    sys.exit(main())
