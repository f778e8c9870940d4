"""Runs in the container of an agent: starts the scripted model, installs Handhold, runs the agent once, and reports.

Reads a job from standard input and prints a report, both as JSON. Each job begins with an empty HOME and project.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.agents.clients import CLIENTS, PROJECT
from tests.agents.model_server import running_model

PACKAGES = Path("/agents")
HOME = Path("/home/user")
INSTALL_SECONDS = 30
AGENT_SECONDS = 150


def main() -> None:
    job = json.load(sys.stdin)
    client, project = CLIENTS[job["client"]], Path(PROJECT)
    clear(HOME)
    clear(project)
    write_files(project, job["files"])
    steps = json.loads(json.dumps(job["steps"]).replace("{project}", PROJECT))
    with running_model(steps, client.our_tools) as model:
        file, settings = client.settings
        write_files(HOME, {file: settings(model.url)})
        environment = {"HOME": str(HOME), "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
        environment |= client.environment(model.url)
        report: dict[str, Any] = {}
        if job["install"]:
            report["install"] = run(["handhold", "install", job["client"]], environment, INSTALL_SECONDS)
        elif client.entry is not None:
            write_files(project, dict([client.entry]))
        if not job["install"] or report["install"]["status"] == 0:
            argv = [*(str(PACKAGES / part) for part in client.program), *client.arguments]
            report["agent"] = run(argv, environment, AGENT_SECONDS)
        report["requests"] = [vars(request) for request in model.requests]
    log = run(["handhold", "log", "--everyone", "--json"], environment, INSTALL_SECONDS)
    report["log"] = json.loads(log["output"]) if log["status"] == 0 else log
    report["files"] = {
        str(path.relative_to(project)): path.read_text(errors="replace")
        for path in project.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
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
