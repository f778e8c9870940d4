"""Runs in the container of an agent: starts the scripted model, installs Handhold, runs the agent once, and reports.

Reads a job from standard input and prints a report, both as JSON. Each job begins with an empty HOME and project.

A job may have several `runs` of the agent, and a command of the script may wait for a gate, a file outside the project:
so that it writes when its call is over, or when the agent has been killed, and not sooner.
"""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from tests.agents.clients import CLIENTS, PROJECT
from tests.agents.model_server import running_model

PACKAGES = Path("/agents")
HOME = Path("/home/user")
GATES = Path("/tmp/gates")
EVENTS = Path("/tmp/events")  # what hooks and the server were sent, if the job wants it; `handhold` writes it there
COMMAND_SECONDS = 60
AGENT_SECONDS = 200
LATE_SECONDS = 15
POLL_SECONDS = 0.02


def main() -> None:
    job = json.load(sys.stdin)
    client, project = CLIENTS[job["client"]], Path(PROJECT)
    clear(HOME)
    clear(project)
    clear(EVENTS)
    clear(GATES)
    write_files(project, job["files"])
    steps, subagent = fill_in(job["steps"]), fill_in(job.get("subagent", []))
    environment = {"HOME": str(HOME), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    if job.get("events"):
        write_files(EVENTS, {"wanted": ""})
    report: dict[str, Any] = {}
    trees: dict[int, dict[str, str]] = {}  # by the step that is asked for next

    def on_step(step: int) -> None:
        if step not in trees:
            if step == job.get("after_subagent"):
                wait_until(model.is_subagent_done, LATE_SECONDS)
            open_gates(project, job.get("gates", {}).get(str(step), {}))
            if job.get("trees"):
                trees[step] = read_tree(project)

    with running_model(steps, client.our_tools, on_step, subagent=subagent) as model:
        file, settings = client.settings
        write_files(HOME, {file: settings(model.url), **job.get("home", {})})
        environment |= client.environment(model.url)
        for words in job.get("before", []):
            run(words, environment, COMMAND_SECONDS)
        install = ["handhold", "install", job["client"], *client.install, *job["install"]]
        report["install"] = run(install, environment, COMMAND_SECONDS) if not job.get("plain") else {"status": 0}
        report["installed"] = read_tree(project)
        for words in job.get("between", []):
            run(words, environment, COMMAND_SECONDS)
        report["agents"] = []
        for each in job.get("runs", [{}]) if report["install"]["status"] == 0 else []:
            model.steps, model.last = fill_in(each["steps"]) if "steps" in each else steps, each.get("last")
            arguments = each.get("arguments") or job.get("arguments", client.arguments)
            argv = [*job.get("within", []), *(str(PACKAGES / part) for part in client.program), *arguments]
            report["agent"] = run(argv, environment, AGENT_SECONDS, each.get("signal"))
            before = read_tree(project)
            open_gates(project, each.get("gates", {}))
            report["agents"].append({**report["agent"], "tree": before, "late": read_tree(project)})
        report["requests"] = [vars(request) for request in model.requests]
    report["tree"] = read_tree(project)
    report["trees"] = [trees[step] for step in sorted(trees)]
    log = run(["handhold", "log", "--everyone", "--json"], environment, COMMAND_SECONDS)
    entries: list[dict[str, Any]] = json.loads(log["output"]) if log["status"] == 0 else []
    report["log"] = entries
    report["after"] = []
    own = [entry for entry in entries if entry["call"]["tool"] != "foreign"]
    calls = [entry["call"] for entry in own]
    names = {"{session}": calls[0]["session"]} if calls else {}
    names |= {f"{{entry {n}}}": f"#{entry['seq']}" for n, entry in enumerate(own)}
    names |= {f"{{turn of {call['call_id']}}}": call["turn"] for call in calls}
    for words in job.get("after", []):
        done = run([names.get(word, word) for word in words], environment, COMMAND_SECONDS)
        report["after"].append({**done, "tree": read_tree(project)})
    report["events"] = {path.name: path.read_text(errors="replace") for path in sorted(EVENTS.iterdir())}
    json.dump(report, sys.stdout)


def fill_in(steps: list[Any]) -> list[Any]:
    return json.loads(json.dumps(steps).replace("{project}", PROJECT))


def clear(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def write_files(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def read_tree(folder: Path) -> dict[str, str]:
    """Each path with its mode, and its content or target. Contents of git's own files are left out."""
    tree: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            tree[str(path.relative_to(folder))] = f"-> {os.readlink(path)}"
        elif stat.S_ISREG(mode):
            tree[str(path.relative_to(folder))] = f"{mode & 0o7777:o} {path.read_bytes().decode('latin-1')}"
        else:
            tree[str(path.relative_to(folder)) + "/"] = f"{mode & 0o7777:o}"
    return tree


def open_gates(project: Path, gates: dict[str, str]) -> None:
    """Let commands go on that wait for these gates, and wait until each has written its file, if it has one."""
    for gate, late in gates.items():
        (GATES / gate).touch()
        if late:
            wait_until((project / late).exists, LATE_SECONDS)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(POLL_SECONDS)
    return True


def run(
    argv: list[str], environment: dict[str, str], seconds: float, interrupt: dict[str, str] | None = None
) -> dict[str, Any]:
    """What a program printed, how it ended, and when; without a status if it took longer than `seconds`.

    `interrupt` names a signal, and the file of the project whose appearance is the time for it. What a killed program
    leaves running may hold its output open, so that goes to files.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            argv, env=environment, cwd=PROJECT, stdin=subprocess.DEVNULL, stdout=output, stderr=errors
        )
        if interrupt and wait_until(Path(PROJECT, interrupt["file"]).exists, seconds):
            process.send_signal(signal.Signals[interrupt["signal"]])
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            status = None
        printed = [read_all(file) for file in (output, errors)]
    return {
        "status": status,
        "output": printed[0],
        "errors": printed[1],
        "seconds": round(time.monotonic() - start, 1),
    }


def read_all(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


if __name__ == "__main__":
    main()
