"""What must be true afterwards: of the files, the journal, and the leftovers on the machine."""

import json
import os
import re
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.load.client import Slot
from bench.load.machine import bury, descendants, mounted
from bench.load.server import HANDHOLD
from bench.load.words import WORDS

Ledgers = Mapping[Slot, list[dict[str, Any]]]


def untrue(top: Path, ledgers: Ledgers) -> list[str]:
    """Where the clients, the files and the journal disagree."""
    wrong: list[str] = []
    journal = {dialect: journalled(top, dialect) for dialect in WORDS}
    texts: dict[str, Counter[str]] = {}
    last: dict[str, str] = {}
    for place, lines in ledgers.items():
        answers = {said["id"]: said for said in lines if "ok" in said}
        for asked in lines:
            if "ok" not in asked and asked["id"] not in answers:
                wrong.append(f"{asked['id']}: nobody got an answer")
        for said in answers.values():
            if not (mark := said["mark"]):
                continue
            done = journal[place.dialect][said["id"]]
            if done != (1 if said["ok"] else 0):
                wrong.append(f"{said['id']} {said['tool']}: ok is {said['ok']}, and {done} times in the journal")
            file = said["file"]
            if said["tool"] in ("write_file", "Write"):
                if said["ok"]:
                    last[file] = mark
                continue
            if file not in texts:
                there = Path(file).read_text() if os.path.exists(file) else ""
                texts[file] = Counter(re.findall("<c[0-9]+-[0-9]+>", there))
            if texts[file].pop(mark, 0) != (1 if said["ok"] else 0):
                wrong.append(f"{said['id']} {said['tool']}: ok is {said['ok']}, but not so in {file}")
    for file, mark in last.items():
        if set(Path(file).read_text().split()) != {mark}:
            wrong.append(f"{file} does not hold {mark} alone")
    wrong += [f"{file} holds {mark}, which nobody put there" for file, marks in texts.items() for mark in marks]
    return wrong


def journalled(top: Path, dialect: str) -> Counter[str]:
    """How often the journal has each call as done, and with a change. The journal's hash chain must be valid too."""
    where = ["--root", str(top / "roots" / dialect), "--state", str(top / "state/tokens" / dialect)]
    subprocess.run([*HANDHOLD, "log", *where, "--verify"], check=True, stdout=subprocess.DEVNULL)
    shown = [*HANDHOLD, "log", *where, "--everyone", "--json", "--last", "10000000"]
    entries = json.loads(subprocess.run(shown, check=True, stdout=subprocess.PIPE).stdout)
    return Counter(
        each["call"]["call_id"]
        for each in entries
        if each["changed"] and each["outcome"] and each["outcome"]["status"] == "success"
    )


def quiet(pid: int) -> list[str]:
    """What still runs under an idle server."""
    until = time.monotonic() + 15
    while (children := descendants(pid)) and time.monotonic() < until:
        time.sleep(0.1)
    return [f"still running, with nobody there: {each}" for each in children.values()]


def left(top: Path, mounts: set[str]) -> list[str]:
    """Processes, mounts and temporary files that remain after the server stopped."""
    time.sleep(0.5)
    bury()
    wrong = [f"process left: {each}" for each in descendants(os.getpid()).values()]
    wrong += [f"mount left: {each}" for each in mounted() - mounts if str(top) in each]
    wrong += [f"temporary file left: {each}" for each in (top / "tmp").rglob("*")]
    wrong += [f"stray file: {each}" for each in strays(top)]
    wrong += [f"on the shelf for nothing: {each}" for each in unneeded(top)]
    if "Traceback" in (log := (top / "server.log").read_text()):
        wrong.append(f"the server printed {log[-2000:]}")
    if (broken := top / "broken.log").exists():
        wrong += broken.read_text().splitlines()
    return wrong


def strays(top: Path) -> Iterator[Path]:
    """Files in the roots that no client created."""
    known = re.compile(r"(whole|lines)\d+\.txt|(printed|slept)\d+\.log|\d+\.(ipynb|txt)")
    for each in (top / "roots").rglob("*"):
        if not each.is_dir() and not known.fullmatch(each.name):
            yield each


def unneeded(top: Path) -> Iterator[Path]:
    """Staged files of commands that the journal does not need."""
    for state in (top / "state").rglob("state.db"):
        with closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as database:
            needed = {command.decode() for (command,) in database.execute("SELECT command FROM slots")}
        yield from (each for each in (state.parent / "shelf").glob("*/") if each.name not in needed)
