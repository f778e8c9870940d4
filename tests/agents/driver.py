"""Runs in the container of an agent: starts the scripted model, installs Handhold, runs the agent once, and reports.

Reads a job from standard input and prints a report, both as JSON. Each job begins with an empty HOME and project.
"""

import json
import os
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.agents.clients import CLIENTS, PROJECT
from tests.agents.model_server import running_model

PACKAGES = Path("/agents")
HOME = Path("/home/user")
EVENTS = Path("/tmp/events")  # what hooks and the server were sent, if the job wants it; `handhold` writes it there
COMMAND_SECONDS = 60
AGENT_SECONDS = 200


def main() -> None:
    job = json.load(sys.stdin)
    client, project = CLIENTS[job["client"]], Path(PROJECT)
    clear(HOME)
    clear(project)
    clear(EVENTS)
    write_files(project, job["files"])
    steps = json.loads(json.dumps(job["steps"]).replace("{project}", PROJECT))
    environment = {"HOME": str(HOME), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
    if job.get("events"):
        write_files(EVENTS, {"wanted": ""})
    report: dict[str, Any] = {}
    trees: dict[int, dict[str, str]] = {}  # by the step that is asked for next
    on_step = (lambda step: trees.setdefault(step, read_tree(project))) if job.get("trees") else (lambda _: None)
    with running_model(steps, client.our_tools, on_step) as model:
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
        if report["install"]["status"] == 0:
            arguments = job.get("arguments", client.arguments)
            argv = [*(str(PACKAGES / part) for part in client.program), *arguments]
            report["agent"] = run(argv, environment, AGENT_SECONDS)
        report["requests"] = [vars(request) for request in model.requests]
    report["tree"] = read_tree(project)
    report["trees"] = [trees[step] for step in sorted(trees)]
    log = run(["handhold", "log", "--everyone", "--json"], environment, COMMAND_SECONDS)
    entries: list[dict[str, Any]] = json.loads(log["output"]) if log["status"] == 0 else []
    report["log"] = entries
    report["after"] = []
    session = next((entry["call"]["session"] for entry in entries if entry["call"]["tool"] != "foreign"), "")
    for words in job.get("after", []):
        done = run([word.replace("{session}", session) for word in words], environment, COMMAND_SECONDS)
        report["after"].append({**done, "tree": read_tree(project)})
    report["events"] = {path.name: path.read_text(errors="replace") for path in sorted(EVENTS.iterdir())}
    json.dump(report, sys.stdout)


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


def run(argv: list[str], environment: dict[str, str], seconds: float) -> dict[str, Any]:
    """What a program printed, how it ended, and when; without a status if it took longer than `seconds`."""
    start = time.monotonic()
    try:
        done = subprocess.run(
            argv,
            check=False,
            env=environment,
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
        )
        status, output, errors = done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as timeout:
        status, output, errors = None, timeout.stdout or b"", timeout.stderr or b""
    return {
        "status": status,
        "output": output.decode(errors="replace"),
        "errors": errors.decode(errors="replace"),
        "seconds": round(time.monotonic() - start, 1),
    }


if __name__ == "__main__":
    main()
