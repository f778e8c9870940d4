"""Runs workloads twice in the same path, in bare bash and through the tool, and reports differences; then undo, redo.

Reads workloads from a JSON file and writes a report for each, one JSON object per line:

python -m tests.everyday.differential FOLDER WORKLOADS.json

The caller empties FOLDER. Setup scripts and commands run unmodified, so run other people's code in a container.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from handhold import Target, Toolbox
from handhold.core.ports.approvals import Question
from tests.everyday.sides import PRELUDE, BareBash, ByTool, Outcome, Side, perform
from tests.everyday.tree import Tree, changed_files, compare, take_tree

MOST_DIFFERENCES = 20  # per report
AGE_NS = 10 * 10**9
# Expected differences in the output of programs, wherever they appear.
BY_NATURE = (
    ("seconds", re.compile(r"\b\d+(\.\d+)? ?(s|ms|secs?|seconds)\b"), "# s"),
    ("process ids", re.compile(r"(?<=\bpid )\d+|(?<=\[)\d{2,7}(?=\])|(?<=: line \d: ) *\d+(?= \w)"), "#"),
    ("colours, which a reply leaves out", re.compile(r"\x1b\[[\d;]*m"), ""),
    ("addresses in memory", re.compile(r"\b0x[0-9a-f]{6,16}\b"), "0x#"),
)


@dataclass
class Report:
    """The result of a workload. `differences` are pairs of an aspect and a sentence."""

    name: str
    differences: list[tuple[str, str]] = field(default_factory=list)
    bare_seconds: float = 0
    tool_seconds: float = 0
    steps: int = 0
    printed: str = ""  # through the tool, all steps together
    bare_printed: str = ""


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    for workload in json.loads(Path(sys.argv[2]).read_text()):
        try:
            report = run_workload(workload, folder)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            output = getattr(error, "output", None) or b""
            report = Report(workload["name"], [("broken", f"{error} {output.decode(errors='replace')[-2000:]}")])
        print(json.dumps(asdict(report)), flush=True)


def run_workload(workload: dict[str, Any], folder: Path) -> Report:
    workspace, template = folder / "ws", folder / "template"
    for place in (workspace, template, folder / "state"):
        remove(place)
    folder.mkdir(exist_ok=True)
    workspace.mkdir()
    subprocess.run(
        ["bash", "-euc", PRELUDE + workload.get("setup", "")],
        cwd=workspace,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    age(workspace)
    workspace.rename(template)
    report = Report(workload["name"], steps=len(workload["commands"]))

    started = lay_out(template, workspace)
    bare, report.bare_seconds = perform_all(BareBash(workspace), workload["commands"])
    expected = take_tree(workspace, started)

    started = lay_out(template, workspace)
    before = take_tree(workspace)
    trees = [before]
    person = Person() if "asks" in workload else None
    options: dict[str, Any] = {"settings": False, "approver": person, **workload.get("options", {})}
    with Toolbox.open(workspace, state=folder / "state", **options) as box:
        ours, report.tool_seconds = perform_all(
            ByTool(box), workload["commands"], lambda: trees.append(take_tree(workspace, started))
        )
        after = trees[-1]
        if person and not person.asked:
            report.differences.append(("asks", "nobody was asked"))
        report.printed, report.bare_printed = ("".join(each.output for each in side) for side in (ours, bare))
        replaced = [(re.compile(each["pattern"]), each["with"]) for each in workload.get("normalise", ())]
        for step, one, other in zip(workload["commands"], bare, ours, strict=True):
            report.differences += compare_outcomes(step, one, other, replaced)
        report.differences += compare(expected, after)
        edited = {step["write"] for step in workload["commands"] if "write" in step and isinstance(step, dict)}
        take_back(box, report, workspace, trees, started, frozenset(edited))
    report.differences = shorten(report.differences)
    return report


def lay_out(template: Path, workspace: Path) -> int:
    """A fresh copy of the template, and the time at which its use begins.

    A git index records inodes, so it is refreshed: otherwise git would treat every file of the copy as changed.
    """
    remove(workspace)
    subprocess.run(["cp", "-a", "--reflink=auto", str(template), str(workspace)], check=True)
    for repository in [each.parent for each in workspace.rglob(".git") if (each / "index").exists()]:
        index = repository / ".git/index"
        times = index.stat()
        subprocess.run(["git", "-C", str(repository), "update-index", "-q", "--refresh"], check=False)
        os.utime(index, ns=(times.st_atime_ns, times.st_mtime_ns))
    time.sleep(0.03)
    return time.time_ns()


def age(folder: Path) -> None:
    """Make what the setup wrote older than anything the commands write, even in whole seconds."""
    now = time.time_ns()
    for parent, folders, files in os.walk(folder, topdown=False):
        for path in (*(os.path.join(parent, name) for name in (*folders, *files)), parent):
            facts = os.lstat(path)
            if now - 600 * 10**9 < facts.st_mtime_ns <= now:
                then = facts.st_mtime_ns - AGE_NS
                os.utime(path, ns=(then, then), follow_symlinks=False)


def remove(folder: Path) -> None:
    """Including folders that nobody may list."""
    for parent, _, _ in os.walk(folder) if folder.is_dir() else ():
        for entry in os.scandir(parent):
            if entry.is_dir(follow_symlinks=False):
                os.chmod(entry.path, 0o700)
    shutil.rmtree(folder, ignore_errors=True)


def perform_all(side: Side, steps: list[Any], look: Callable[[], None] = lambda: None) -> tuple[list[Outcome], float]:
    """The output of each step, and their total time; `look` is called after each step and not timed."""
    outcomes: list[Outcome] = []
    seconds = 0.0
    for step in steps:
        started = time.perf_counter()
        outcomes.append(perform(side, step))
        seconds += time.perf_counter() - started
        look()
    return outcomes, round(seconds, 3)


def compare_outcomes(
    step: Any, bare: Outcome, ours: Outcome, replaced: list[tuple[re.Pattern[str], str]]
) -> list[tuple[str, str]]:
    label = str(step if isinstance(step, str) else next(iter(step.items())))[:60]
    found: list[tuple[str, str]] = []
    if bare.status != ours.status:
        found.append(("status", f"{label!r}: {bare.status} became {ours.status}: {ours.output[-1500:]!r}"))
    one, other = (normalise(each.output, replaced) for each in (bare, ours))
    if one != other:
        found.append(("output", f"{label!r}: {first_difference(one, other)}"))
    return found


def normalise(text: str, replaced: list[tuple[re.Pattern[str], str]]) -> str:
    """Without expected differences, and as a reply shows it: lines as on a terminal, without the last newline."""
    text = "\n".join(map(overwrite, text.split("\n")))
    for _, pattern, instead in BY_NATURE:
        text = pattern.sub(instead, text)
    for pattern, instead in replaced:
        text = pattern.sub(instead, text)
    return text.removesuffix("\n")


def overwrite(line: str) -> str:
    """How a terminal shows a line with carriage returns."""
    shown = ""
    for part in line.split("\r"):
        shown = part + shown[len(part) :]
    return shown


def first_difference(one: str, other: str) -> str:
    lines = one.split("\n"), other.split("\n")
    position = next((at for at, (a, b) in enumerate(zip(*lines, strict=False)) if a != b), min(map(len, lines)))
    shown = ["\n".join(each[position : position + 4])[:300] for each in lines]
    return f"line {position + 1}: {shown[0]!r} became {shown[1]!r}"


def take_back(
    box: Toolbox, report: Report, workspace: Path, trees: list[Tree], started: int, edited: frozenset[str]
) -> None:
    """Undo and redo the whole session, with the old times and then without, and compare each time.

    The journal keeps no times of files that a file tool has written.
    """
    if not any(entry.changed for entry in box.log()):
        return
    retimed = frozenset[str]().union(*(changed_files(*pair) for pair in pairwise(trees)))  # undo sets their time to now
    for verb, reverse, wanted, exempt in (
        ("undo", partial(box.undo, keep_times=True), trees[0], edited),
        ("redo", partial(box.redo, keep_times=True), trees[-1], edited),
        ("undo", box.undo, trees[0], retimed),
        ("redo", box.redo, trees[-1], retimed),
    ):
        reply = reverse(Target.session())
        if reply.status != "success":
            report.differences.append((verb, reply.text))
            return
        for aspect, sentence in compare(wanted, take_tree(workspace, started), retimed=exempt):
            report.differences.append(
                (f"{verb} {aspect}" if aspect in ("folder times", "git times") else verb, sentence)
            )


class Person:
    """Approves everything."""

    asked = 0

    def __call__(self, question: Question) -> bool:
        self.asked += 1
        return True


def shorten(differences: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Limit the number per aspect, but keep all aspects."""
    seen: dict[str, int] = {}
    kept: list[tuple[str, str]] = []
    for aspect, sentence in differences:
        seen[aspect] = seen.get(aspect, 0) + 1
        if seen[aspect] <= MOST_DIFFERENCES:
            kept.append((aspect, sentence))
    return kept


if __name__ == "__main__":
    main()
