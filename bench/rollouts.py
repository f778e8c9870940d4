"""Many rollouts at once: 64 containers from one image, each with a toolbox and a journal of its own, thrown away at the
end. Every call is checked against a model of the workspace.

python -m bench.rollouts [--containers 64] [--calls 200] [--user 0 --user 1000]

Containers have Docker's default profile, no further capability and no network. Needs root. The exit status says whether
every rollout was right.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import run
from typing import Any

from tests.containers.container_image import build_image
from tests.containers.engine import PROJECT, Engine, archive_of, running_engine

DRIVER = PROJECT / "tests/containers/rollout_driver.py"
SECONDS = 1800
FORMAT = "{:<44} {:>10} {:>10} {:>10}"


def run_rollouts(engine: Engine, image: str, user: str, *, containers: int, calls: int) -> list[dict[str, Any]]:
    """The reports of all rollouts, which run at the same time."""
    given = archive_of({"rollout_driver.py": DRIVER.read_bytes()})

    def roll_out(seed: int) -> dict[str, Any]:
        argv = ["python3", "/rollout_driver.py", str(seed), str(calls)]
        limits = ["--network", "none", "--pids-limit", "256", "--memory", "512m", "--user", user]
        container = engine.docker("create", *limits, image, *argv, seconds=SECONDS).decode().strip()
        try:
            engine.docker("cp", "-", f"{container}:/", stdin=given, seconds=SECONDS)
            launched = time.time()
            report = json.loads(engine.docker("start", "--attach", container, seconds=SECONDS))
            return {**report, "launched": launched}
        finally:
            engine.docker("rm", "--force", "--volumes", container, seconds=SECONDS)

    with ThreadPoolExecutor(containers) as pool:
        return list(pool.map(roll_out, range(containers)))


def show(reports: list[dict[str, Any]], calls: int) -> None:
    def row(what: str, values: list[float], unit: str = "{:.2f} s") -> None:
        shown = (statistics.median(values), min(values), max(values))
        print(FORMAT.format(what, *(unit.format(each) for each in shown)))

    print(FORMAT.format("", "median", "least", "most"))
    row("from `docker start` to the first line", [each["started"] - each["launched"] for each in reports])
    row("from there to the first reply", [each["first_reply"] - each["started"] for each in reports])
    row("memory of a container, with cached files", [each["peak_bytes"] / 2**20 for each in reports], "{:.0f} MiB")
    row("memory of its Python process", [each["peak_process_bytes"] / 2**20 for each in reports], "{:.0f} MiB")
    row("calls a second, each rollout", [(calls - 1) / each["seconds"] for each in reports], "{:.1f}")
    begin = min(each["launched"] for each in reports)
    seconds = max(each["first_reply"] + each["seconds"] for each in reports) - begin
    total = calls * len(reports)
    print(f"all together: {total} calls in {seconds:.1f} s, {total / seconds:.0f} a second")


def build_wheel(folder: Path) -> Path:
    run(["uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), str(PROJECT)], check=True)
    (built,) = folder.glob("*.whl")
    return built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--containers", type=int, default=64)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--user", action="append")
    chosen = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with running_engine(folder) as engine:
            image = build_image(engine, engine.load_image(), build_wheel(folder / "wheel"))
            for user in chosen.user or ("0", "1000"):
                reports = run_rollouts(engine, image, user, containers=chosen.containers, calls=chosen.calls)
                held = {each["by"] for each in reports}
                print(f"== {len(reports)} containers, uid {user}, {chosen.calls} calls each, held by {', '.join(held)}")
                show(reports, chosen.calls)
                failed = [each for each in reports if each["wrong"]]
                for each in failed:
                    print(f"rollout {each['seed']}: {each['wrong']}")
                print(f"wrong: {len(failed)}")
                wrong += len(failed)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
