"""Our searches compared with bare ripgrep, on a large real tree and on a tree of a million files.

    python -m bench.search [--rounds 15] [--cache FOLDER] [--skip-million]

The tree is the source of Linux as Debian packages it; apt fetches it once. Each row is measured in turns with bare
ripgrep in the same run; figures are medians. The exit status says whether every row is within its budget.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from bench._memory import peak_kib
from handhold import Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.backends.search import DiskSearch
from handhold.backends.search.ripgrep_binary import ENV, RipgrepBinary, find_ripgrep
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import Search
from handhold.core.requests import Glob, Grep

RARE, COMMON = "snd_hda_codec_set_name", "int"
ORDINARY = "netif_carrier_off"
PAGE = {"limit": 100, "chars": 30_000}
FOLDERS, FILES = 1_000, 1_000
SOME = 700
MOST_SECONDS, MOST_MB = 2.0, 150
RANKING_SECONDS = 20.0  # `search_seconds`: the newest are known when all were looked at
PAGES = 5  # number of times that a first page is requested


@dataclass(frozen=True)
class Row:
    name: str
    ours: Callable[[], object]
    bare: Callable[[], object]
    budget: float | None  # a ratio, or milliseconds over the bare one; None: reported only
    over: bool = False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "handhold-search")
    parser.add_argument("--skip-million", action="store_true")
    parser.add_argument("--first-page", nargs=2, metavar=("WHAT", "ROOT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.first_page:
        return first_page(*arguments.first_page)
    arguments.cache.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        kept = [measured(row, arguments.rounds) for row in rows(stack, arguments.cache)]
        if not arguments.skip_million:
            kept += pages_of_a_million(arguments.cache)
    return 0 if all(kept) else 1


# --- rows


def rows(stack: ExitStack, cache: Path) -> Iterator[Row]:
    linux, some = source_of_linux(cache), some_files(cache)
    print(f"{sum(len(files) for _, _, files in os.walk(linux)):,} files; medians in milliseconds\n")
    print(f"| {'search':<60} | ours | bare `rg` | ours / bare | budget |   |")
    print(f"| {'-' * 60} | ---: | ---: | ---: | ---: | --- |")
    best, by_walk = (Ours(stack, linux, engines) for engines in (("ripgrep", "walk"), ("walk",)))
    rg = Bare(linux)
    rare_l, rare_json = rg("-l0", "-F", "-e", RARE), rg("--json", "-F", "-e", RARE)
    common_l, common_json = rg("-l0", "-F", "-e", COMMON), rg("--json", "-F", "-e", COMMON)
    yield Row("grep, rare literal, files", best.grep(RARE), rare_l, 1.10)
    yield Row("grep, rare literal, lines", best.grep(RARE, mode="content"), rare_json, 1.10)
    yield Row("grep, rare literal, counts", best.grep(RARE, mode="count"), rg("-c0", "-H", "-F", "-e", RARE), 1.10)
    yield Row("grep, common literal, unsorted, first 100 files", best.grep(COMMON, sort="none"), common_l, 0.05)
    lines = best.grep(COMMON, mode="content", sort="none")
    yield Row("grep, common literal, unsorted, first 100 lines", lines, common_json, 0.05)
    yield Row("grep, common literal, newest 100 of 66,000 files", best.grep(COMMON), common_l, None)
    yield Row("grep, common literal, newest 100 lines", best.grep(COMMON, mode="content"), common_json, None)
    few, many, most = "**/*sched*.c", "**/Makefile", "**/*.c"
    yield Row("glob, few hits, newest first", best.glob(few), rg.files(few), 1.15)
    yield Row("glob, 3,000 hits, unsorted, first 100", best.glob(many, sort="none"), rg.files(many), 1.15)
    yield Row("glob, 3,000 hits, newest first", best.glob(many), rg.files(many), None)
    sorted_ = rg.files(many, "--sortr=modified")
    yield Row("glob, 3,000 hits, newest first, beside `rg --sortr modified`", best.glob(many), sorted_, 1.15)
    sorted_ = rg.files(most, "--sortr=modified")
    yield Row("glob, 34,000 hits, newest first, beside the same", best.glob(most), sorted_, None)
    yield Row("grep, rare literal, by our own walk", by_walk.grep(RARE), rare_l, 6.0)
    small, bare = Ours(stack, some, ("ripgrep", "walk")), Bare(some)
    said = bare("-l0", "-F", "-e", ORDINARY)
    yield Row("grep, 700 files (milliseconds over bare)", small.grep(ORDINARY), said, 2.0, over=True)
    yield Row("the same as a tool call", called(stack, some, "grep", pattern=ORDINARY), said, 2.0, over=True)
    call = called(stack, linux, "grep", pattern=RARE)
    yield Row("grep, rare literal, as a tool call", call, rare_l, 1.10)
    yield Row("glob, few hits, as a tool call", called(stack, linux, "glob", pattern=few), rg.files(few), 1.15)


class Ours:
    def __init__(self, stack: ExitStack, root: Path, engines: Sequence[str]) -> None:
        workspace = Workspace([root], SqliteStore.in_memory())
        stack.callback(workspace.close)
        self.root = workspace.roots[0]
        self.searcher = DiskSearch(workspace, engines=engines)

    def grep(self, pattern: str, **how: Any) -> Callable[[], object]:
        return self._searching(Grep(pattern=pattern, **PAGE, **how))

    def glob(self, pattern: str, **how: Any) -> Callable[[], object]:
        return self._searching(Glob(pattern=pattern, **PAGE, **how))

    def _searching(self, request: Grep | Glob) -> Callable[[], object]:
        search = Search(request, self.root, 60.0)
        return lambda: must_find(self.searcher.search(search, visible=lambda _: True).hits)


class Bare:
    def __init__(self, root: Path) -> None:
        ripgrep = find_ripgrep()
        assert isinstance(ripgrep, RipgrepBinary), ripgrep
        self.rg = ripgrep.path
        self.root = root

    def __call__(self, *arguments: str) -> Callable[[], object]:
        argv = [self.rg, "--no-config", *arguments, "./"]

        def run() -> None:
            said = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=self.root, env=ENV, check=True
            )
            must_find(said.stdout)

        return run

    def files(self, pattern: str, *more: str) -> Callable[[], object]:
        return self("--files", "-0", "-g", f"/{pattern}", *more)


def called(stack: ExitStack, root: Path, tool: str, **arguments: Any) -> Callable[[], object]:
    state = stack.enter_context(tempfile.TemporaryDirectory())
    box = stack.enter_context(Toolbox.open(root, state=state))
    return lambda: must_find(box.call(tool, arguments).status in ("success", "partial"))


def must_find(found: object) -> None:
    assert found, "a search that should have found something did not"


def measured(row: Row, rounds: int) -> bool:
    ours: list[float] = []
    bare: list[float] = []
    for _ in range(rounds):
        for way, times in ((row.bare, bare), (row.ours, ours)):
            began = perf_counter()
            way()
            times.append((perf_counter() - began) * 1000)
    mine, other = median(ours), median(bare)
    figure = mine - other if row.over else mine / other
    kept = row.budget is None or figure <= row.budget
    budget = "" if row.budget is None else f"{'+ ' if row.over else ''}{row.budget:.2f}"
    shown = f"+ {figure:.2f}" if row.over else f"{figure:.3f}"
    print(f"| {row.name:<60} | {mine:.1f} | {other:.1f} | {shown} | {budget} | {'' if kept else 'over'} |", flush=True)
    return kept


# --- a million files


def pages_of_a_million(cache: Path) -> Iterator[bool]:
    root = million(cache)
    print(f"\n| first page of {FOLDERS * FILES:,} files | seconds | most memory, MB | budget |   |")
    print("| --- | ---: | ---: | ---: | --- |")
    for what in ("glob", "glob unsorted", "grep", "grep unsorted", "grep lines"):
        command = [sys.executable, "-m", "bench.search", "--first-page", what, str(root)]
        said = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(PAGES)]
        seconds, megabytes = (median(float(each.split()[at]) for each in said) for at in (0, 1))
        most_seconds = MOST_SECONDS if "unsorted" in what else RANKING_SECONDS
        kept = seconds <= most_seconds and megabytes <= MOST_MB
        budget = f"{most_seconds:.0f} s, {MOST_MB} MB"
        print(f"| {what} | {seconds:.2f} | {megabytes:.0f} | {budget} | {'' if kept else 'over'} |", flush=True)
        yield kept


def first_page(what: str, root: str) -> int:
    """In a separate process, which reports its time and peak memory."""
    with ExitStack() as stack:
        ours = Ours(stack, Path(root), ("ripgrep", "walk"))
        sort = {"sort": "none"} if "unsorted" in what else {}
        mode = {"mode": "content"} if "lines" in what else {}
        search = ours.grep("line", **sort, **mode) if what.startswith("grep") else ours.glob("**/*.txt", **sort)
        began = perf_counter()
        search()
        print(perf_counter() - began, peak_kib() / 1024)
    return 0


def million(cache: Path) -> Path:
    """Created once: a complete folder is renamed to its final name."""
    root = cache / "million"
    if root.exists():
        return root
    making = Path(tempfile.mkdtemp(dir=cache))
    for number in range(FOLDERS):
        folder = making / f"folder{number:03}"
        folder.mkdir()
        fd = os.open(folder, os.O_RDONLY)
        for file in range(FILES):
            opened = os.open(f"file{file:03}.txt", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=fd)
            os.write(opened, b"a line\n")
            os.close(opened)
        os.close(fd)
    making.rename(root)
    return root


# --- trees


def source_of_linux(cache: Path) -> Path:
    root = cache / "linux"
    if root.exists():
        return root
    making = Path(tempfile.mkdtemp(dir=cache))
    making.chmod(0o755)  # apt downloads as another user
    said = subprocess.run(["apt-cache", "depends", "linux-source"], check=True, capture_output=True, text=True).stdout
    package = next(line.split()[-1] for line in said.splitlines() if "Depends: linux-source-" in line)
    subprocess.run(["apt-get", "download", "-q", package], cwd=making, check=True)
    (archive,) = making.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, making / "package"], check=True)
    (source,) = (making / "package/usr/src").glob("*.tar.*")
    (making / "linux").mkdir()
    subprocess.run(["tar", "-xf", source, "-C", making / "linux", "--strip-components=1"], check=True)
    (making / "linux").rename(root)
    shutil.rmtree(making)
    return root


def some_files(cache: Path) -> Path:
    """A project of ordinary size: the first files of a part of Linux."""
    root = cache / "some"
    if root.exists():
        return root
    making = Path(tempfile.mkdtemp(dir=cache))
    source = cache / "linux/drivers/net"
    files = sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink())[:SOME]
    for path in files:
        target = making / path.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    making.rename(root)
    return root


if __name__ == "__main__":
    sys.exit(main())
