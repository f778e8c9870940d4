"""Workloads that run other people's code, from source archives, on both sides in a throw-away container."""

import hashlib
import json
import subprocess
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.containers.engine import (
    BUILD_PACKAGES,
    CACHE,
    Engine,
    install_handhold,
    missing_programs,
    read_json_lines,
    running_engine,
)

ARCHIVES = CACHE.parent / "everyday"
SECONDS = 900
FETCH_SECONDS = 120
HOME = "/home/user"
GIT_CONFIG = b"[user]\n\tname = User\n\temail = user@example.org\n[init]\n\tdefaultBranch = main\n"
SETTINGS = ("PYTHONPATH=/app:/project", f"HOME={HOME}", "LANG=C.UTF-8", "GIT_CONFIG_GLOBAL=/gitconfig")
TMPFS = ("/ws", HOME, "/tmp", "/var/tmp")


@dataclass(frozen=True)
class Machine:
    """An engine, its image, and the files for each container."""

    engine: Engine
    image: str
    files: dict[str, bytes | Path]


@contextmanager
def started_engine(workloads: list[dict[str, Any]]) -> Iterator[Machine]:
    if absent := missing_programs():
        raise RuntimeError(f"not installed: {', '.join(absent)}")
    fetch_archives(sorted({requirement for each in workloads for requirement in each["container"]}))
    # The engine's sockets need a short path.
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        app = folder / "app"
        install_handhold(app)
        with running_engine(folder) as engine:
            yield Machine(
                engine, engine.load_image(BUILD_PACKAGES), {"app": app, "project/tests/everyday": Path(__file__).parent}
            )


def run_in_container(machine: Machine, workload: dict[str, Any]) -> dict[str, Any]:
    """The report of one workload, which finds its archives in /archives."""
    files = {
        **machine.files,
        **{f"archives/{each.partition('==')[0]}.tar.gz": archive_path(each) for each in workload["container"]},
        "workloads.json": json.dumps([workload]).encode(),
        "gitconfig": GIT_CONFIG,
    }
    argv = ["env", *SETTINGS, "python3", "-m", "tests.everyday.differential", "/ws", "/workloads.json"]
    try:
        output = machine.engine.run_hostile(machine.image, argv, files, tmpfs=TMPFS, seconds=SECONDS)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {"differences": [("broken", str(error))]}
    return read_json_lines(output)[0]


def run_in_default_container(
    workloads: list[dict[str, Any]], user: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each workload with its report, from one container with Docker's default profile, on a volume. Needs no archives.

    Workloads that need what the image does not have are left out.
    """
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        install_handhold(folder / "app")
        with running_engine(folder) as engine:
            image = engine.load_image()
            needed = sorted({need for each in workloads for need in each.get("needs", ())})
            look = ["sh", "-c", 'for name; do command -v "$name" >/dev/null && echo "$name"; done; true', "sh", *needed]
            there = engine.run_default(image, look, {}, user=user, seconds=60).decode().split()
            chosen = [each for each in workloads if set(each.get("needs", ())) <= set(there)]
            files = {"app": folder / "app", "project/tests/everyday": Path(__file__).parent, "gitconfig": GIT_CONFIG}
            given = {**files, "workloads.json": json.dumps(chosen).encode()}
            argv = ["env", *SETTINGS, "python3", "-m", "tests.everyday.differential", "/ws/everyday", "/workloads.json"]
            with engine.open_volume(image) as volume:
                output = engine.run_default(
                    image, argv, given, user=user, tmpfs=(HOME,), volumes={"/ws": volume}, seconds=4 * SECONDS
                )
            yield from zip(chosen, read_json_lines(output), strict=True)


def archive_path(requirement: str) -> Path:
    return ARCHIVES / f"{requirement.replace('==', '-')}.tar.gz"


def fetch_archives(requirements: list[str]) -> None:
    """Fetch source archives that the cache lacks. uv provides their URLs and hashes; none of their code is run."""
    wanted = [each for each in requirements if not archive_path(each).exists()]
    if not wanted:
        return
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        listed = ", ".join(f'"{each}"' for each in wanted)
        project = f'[project]\nname = "fetched"\nversion = "0"\nrequires-python = ">=3.11"\ndependencies = [{listed}]\n'
        Path(folder, "pyproject.toml").write_text(project)
        subprocess.run(["uv", "lock", "--quiet"], cwd=folder, check=True, timeout=FETCH_SECONDS)
        locked = tomllib.loads(Path(folder, "uv.lock").read_text())["package"]
    for package in locked:
        requirement = f"{package['name']}=={package['version']}"
        if requirement not in wanted:
            continue
        with urllib.request.urlopen(package["sdist"]["url"], timeout=FETCH_SECONDS) as answer:
            data = answer.read()
        if package["sdist"]["hash"] != f"sha256:{hashlib.sha256(data).hexdigest()}":
            raise RuntimeError(f"{requirement}: the archive is not the one that the registry names")
        archive_path(requirement).write_bytes(data)
