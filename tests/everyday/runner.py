"""Everyday work in bare bash and through the tool: is the result the same, and can it be undone?

just everyday [NAME …] [--tag git] [--ci] [--json FILE] [--list]
just everyday --ratios
just everyday --brokered 0|1000

`--brokered` runs our own workloads in a container with Docker's default profile, on ext4 and as this user: there the broker
holds commands. Differences that are known of the overlay need not occur there; `brokered` in the data has further ones.

Workloads are data, in workloads/*.toml. Ours run in a temporary folder. Other people's code (`container`) runs as uid 1000 in a
throw-away container without network, on both sides. Known differences are in the data, with their reasons. The exit status is 0
if no workload has another difference and every known difference still occurs.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from bench.everyday import main as measure_ratios

DATA = Path(__file__).with_name("workloads")
PROJECT = Path(__file__).parents[2]
GIT_SETTINGS = "[user]\n\tname = User\n\temail = user@example.org\n[init]\n\tdefaultBranch = main\n"
SECONDS = 900
FORMAT = "{:<28} {:<10} {:<6} {:<6} {:>8} {:>8}  {}"
UNDOING = ("undo", "redo")


@dataclass(frozen=True)
class Row:
    """A workload's report, compared with its known differences."""

    name: str
    found: dict[str, list[str]]  # by aspect
    known: dict[str, str]  # reasons by aspect
    bare_seconds: float
    tool_seconds: float
    printed: str
    bare_printed: str
    brokered: bool = False

    @property
    def unknown(self) -> dict[str, list[str]]:
        return {aspect: found for aspect, found in self.found.items() if aspect not in self.known}

    @property
    def resolved(self) -> list[str]:
        """Known differences of this workload that no longer occur."""
        return [aspect for aspect in self.known if aspect not in self.found and aspect not in read_known()]

    @property
    def equal(self) -> bool:
        return not any(aspect not in read_known() and aspect not in UNDOING for aspect in self.found)

    def exact(self, verb: str) -> bool:
        return verb not in self.found and "broken" not in self.found

    @property
    def good(self) -> bool:
        return not self.unknown and (self.brokered or not self.resolved)


def read_known() -> dict[str, str]:
    """Differences that many workloads have, by aspect."""
    return tomllib.loads((DATA / "known.toml").read_text())["known"]


def read_workloads() -> list[dict[str, Any]]:
    """All workloads; the name of the file is a tag."""
    found: list[dict[str, Any]] = []
    for path in sorted(DATA.glob("*.toml")):
        for workload in tomllib.loads(path.read_text()).get("workload", []):
            found.append({"tag": path.stem, **workload})
    return found


def missing(workload: dict[str, Any]) -> list[str]:
    """Programs that it needs, but that are not installed."""
    return [name for name in workload.get("needs", ()) if shutil.which(name, path=search_path()) is None]


def search_path() -> str:
    # A launcher in a home may select a Python version by settings that commands do not see.
    return f"{sys.base_prefix}/bin{os.pathsep}{os.environ['PATH']}"


def run_here(workloads: list[dict[str, Any]]) -> Iterator[Row]:
    """Run our own workloads in a temporary folder, each in its own process with its own home."""
    for workload in workloads:
        with tempfile.TemporaryDirectory(prefix="everyday-", ignore_cleanup_errors=True) as folder:
            home = Path(folder, "home")
            home.mkdir()
            (home / ".gitconfig").write_text(GIT_SETTINGS)
            env = {"PATH": search_path(), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", "SHELL": "/bin/bash"}
            env["npm_config_update_notifier"] = "false"
            env |= {name: os.environ[name] for name in ("CI",) if name in os.environ}
            if (toolchains := Path.home() / ".rustup").is_dir():
                env["RUSTUP_HOME"] = str(toolchains)
            (data := Path(folder, "workloads.json")).write_text(json.dumps([workload]))
            done = subprocess.run(
                [sys.executable, "-m", "tests.everyday.differential", str(Path(folder).resolve()), str(data)],
                check=False,
                cwd=PROJECT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=SECONDS,
            )
            report = json.loads(done.stdout or '{"differences": []}')
            if done.returncode:
                report["differences"].append(("broken", f"the process ended with {done.returncode}"))
            yield judge(workload, report)


def run_in_containers(workloads: list[dict[str, Any]]) -> Iterator[Row]:
    """Run other people's code on both sides in throw-away containers, as uid 1000, without network."""
    from tests.everyday.container import run_in_container, started_engine

    with started_engine(workloads) as machine:
        for workload in workloads:
            yield judge(workload, run_in_container(machine, workload))


def run_brokered(workloads: list[dict[str, Any]], user: str) -> int:
    from tests.everyday.container import run_in_default_container

    ours = [
        {**each, "known": [*each.get("known", ()), *each.get("brokered", ())]}
        for each in workloads
        if "container" not in each and not (each.get("root") and user != "0")
    ]
    pairs = run_in_default_container(ours, user)
    rows = show(replace(judge(workload, report), brokered=True) for workload, report in pairs)
    equal, exact = (sum(row.equal for row in rows), sum(row.exact("undo") for row in rows))
    print(f"{len(rows)} of {len(ours)} workloads as uid {user}: {equal} equal, undo exact in {exact}")
    return 0 if rows and all(row.good for row in rows) else 1


def judge(workload: dict[str, Any], report: dict[str, Any]) -> Row:
    found: dict[str, list[str]] = {}
    for aspect, sentence in report["differences"]:
        found.setdefault(aspect, []).append(sentence)
    known = read_known() | {each["aspect"]: each["why"] for each in workload.get("known", ())}
    seconds = report.get("bare_seconds", 0), report.get("tool_seconds", 0)
    return Row(workload["name"], found, known, *seconds, report.get("printed", ""), report.get("bare_printed", ""))


def show(rows: Iterable[Row]) -> list[Row]:
    """Print the table as the rows come in."""
    print(FORMAT.format("", "equal", "undo", "redo", "bash s", "tool s", ""))
    shown: list[Row] = []
    for row in rows:
        own = [aspect for aspect in row.known if aspect in row.found.keys() - read_known()]
        remark = "; ".join(f"{aspect}: {row.known[aspect]}" for aspect in own)
        marks = ["yes" if good else "NO" for good in (row.equal, row.exact("undo"), row.exact("redo"))]
        print(FORMAT.format(row.name, *marks, f"{row.bare_seconds:.2f}", f"{row.tool_seconds:.2f}", remark), flush=True)
        for aspect, sentences in row.unknown.items():
            for sentence in sentences[:6]:
                print(f"    {aspect}: {sentence}", flush=True)
        for aspect in row.resolved if not row.brokered else ():
            print(f"    {aspect}: known difference that no longer occurs: {row.known[aspect]}", flush=True)
        shown.append(row)
    return shown


def summarise(rows: list[Row], skipped: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "workloads": len(rows),
        "equal": sum(row.equal for row in rows),
        "undo_exact": sum(row.exact("undo") for row in rows),
        "redo_exact": sum(row.exact("redo") for row in rows),
        "unknown": {row.name: row.unknown for row in rows if row.unknown},
        "resolved": {row.name: row.resolved for row in rows if row.resolved},
        "skipped": skipped,
        "rows": [
            {
                "name": row.name,
                "equal": row.equal,
                "undo": row.exact("undo"),
                "redo": row.exact("redo"),
                "bare_seconds": row.bare_seconds,
                "tool_seconds": row.tool_seconds,
                "differences": {aspect: row.known.get(aspect, "unknown") for aspect in row.found},
                "printed": row.printed[-400:],
            }
            for row in rows
        ],
    }


def choose(workloads: list[dict[str, Any]], chosen: argparse.Namespace) -> list[dict[str, Any]]:
    if unknown := set(chosen.names) - {each["name"] for each in workloads}:
        raise SystemExit(f"no such workload: {', '.join(sorted(unknown))}")
    return [
        each
        for each in workloads
        if (not chosen.names or each["name"] in chosen.names)
        and (not chosen.tag or each["tag"] in chosen.tag)
        and (not chosen.ci or each.get("ci"))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tag", action="append", help="run only the workloads of this file")
    parser.add_argument(
        "--ci", action="store_true", help="run only workloads that are short and need no package registry"
    )
    parser.add_argument("--json", type=Path, help="write the summary to this file")
    parser.add_argument("--list", action="store_true", help="list the workloads and exit")
    parser.add_argument(
        "--ratios", action="store_true", help="measure instead what some of them cost compared with bare bash"
    )
    parser.add_argument("--brokered", metavar="UID", help="run them in a default container, as this user")
    chosen = parser.parse_args()
    if chosen.ratios:
        return measure_ratios([])
    workloads = choose(read_workloads(), chosen)
    if chosen.brokered is not None:
        return run_brokered(workloads, chosen.brokered)
    if chosen.list:
        print("\n".join(f"{each['tag']}: {each['name']}{' (ci)' if each.get('ci') else ''}" for each in workloads))
        return 0
    skipped = {each["name"]: missing(each) for each in workloads if "container" not in each and missing(each)}
    here = [each for each in workloads if "container" not in each and each["name"] not in skipped]
    strangers = [each for each in workloads if "container" in each]
    rows = show(chain(run_here(here), run_in_containers(strangers) if strangers else ()))
    summary = summarise(rows, skipped)
    if chosen.json:
        chosen.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(
        f"{summary['workloads']} workloads: {summary['equal']} equal, undo exact in {summary['undo_exact']}, "
        f"redo in {summary['redo_exact']}; {len(summary['unknown'])} with a difference that is not known"
    )
    for name, programs in skipped.items():
        print(f"skipped: {name}, for want of {', '.join(programs)}")
    return 0 if all(row.good for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
