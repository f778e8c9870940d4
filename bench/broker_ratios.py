"""What the broker costs compared with bare bash, in a default Docker container on an ext4 volume.

python -m bench.broker_ratios [--rounds 5] [--user 1000] [--only make,pip,checkout,status,grep,true]

Prints medians, measured in turns with bare bash. *command* is the time of the command itself, from start to exit;
*processor* is the processor time of command and broker, which a busy machine changes less; *call* is the whole call of
the tool, in which its changes are rolled back, judged, committed and journaled. Budgets are for the command. `true` is
the broker's program alone, without Python. Needs root. The exit status says whether all rows are within budget.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path("/bench")
FORMAT = "{:<28} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>8} {:>5}"
TRUE_RUNS = 100
SECONDS = 3000
HEADERS = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
SOURCE = HEADERS + 'int f{n}(int x) {{ return x * {n} + (int)strlen(getenv("A")); }}\n'
MODULE = "import os\n\n\ndef function{n}(a, b):\n    return a * {n} + b\n\n\nclass C{n}:\n    value = {n}\n"
GIT = "git -c user.name=U -c user.email=u@example.org -c gc.auto=0"


@dataclass(frozen=True)
class Workload:
    """What is there before, the command, and how many times as long as bare bash it may take."""

    what: str
    lay_out: Callable[[Path], None]
    command: str
    budget: float
    changes: bool = True


def lay_out_build(root: Path) -> None:
    names = [f"m{n}" for n in range(120)]
    for n, name in enumerate(names):
        (root / f"{name}.c").write_text(SOURCE.format(n=n))
    (root / "main.c").write_text("int main(void) { return 0; }\n")
    objects = " ".join(f"{name}.o" for name in (*names, "main"))
    (root / "Makefile").write_text(f"app: {objects}\n\tgcc -o app {objects}\n")


def lay_out_wheel(root: Path) -> None:
    """A package of 4,450 modules, of which pip makes 8,900 files."""
    (root / "wheels").mkdir()
    info = "big-1.dist-info"
    files = {f"big/part{n // 100}/module{n}.py": MODULE.format(n=n) for n in range(4450)}
    files[f"{info}/METADATA"] = "Metadata-Version: 2.1\nName: big\nVersion: 1\n"
    files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD"))
    with zipfile.ZipFile(root / "wheels/big-1-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)


def write_files(root: Path, count: int) -> None:
    for first in range(0, count, 100):
        folder = root / f"d{first // 10000}/e{first // 100}"
        folder.mkdir(parents=True)
        for n in range(first, first + 100):
            (folder / f"f{n}.txt").write_text(f"line {n}\n" * 20)


def lay_out_branches(root: Path) -> None:
    git = f"{GIT} commit -qm"
    subprocess.run(
        ["bash", "-ec", f"git init -q -b empty && {git} Empty --allow-empty && git switch -qc full"],
        cwd=root,
        check=True,
    )
    write_files(root, 20_000)
    subprocess.run(["bash", "-ec", f"git add -A && {git} Full && git switch -q empty"], cwd=root, check=True)


def lay_out_repository(root: Path) -> None:
    write_files(root, 50_000)
    subprocess.run(
        ["bash", "-ec", f"git init -q && git add -A && {GIT} commit -qm First && git status -s"], cwd=root, check=True
    )


PIP = "python3 -m pip install -q --disable-pip-version-check --no-index --find-links wheels --target site big"
WORKLOADS = {
    "make": Workload("make -j2, 121 C files", lay_out_build, "make -s -j2", 1.1),
    "pip": Workload("pip install, 8,900 files", lay_out_wheel, PIP, 1.5),
    "checkout": Workload("git checkout, 20,000 files", lay_out_branches, "git checkout -q full", 2),
    "status": Workload("git status, 50,000 files", lay_out_repository, "git status -s", 1.1, changes=False),
    "grep": Workload("grep, 50,000 files", lay_out_repository, "grep -rc 'line 77$' d* | wc -l", 1.1, changes=False),
}


# --- in the container


def measure(workload: Workload, rounds: int) -> None:
    from handhold import Toolbox

    bare, commands, calls = [], [], []
    used: dict[bool, list[float]] = {False: [], True: []}
    template, workspace = FOLDER / "template", FOLDER / "ws"
    template.mkdir()
    workload.lay_out(template)
    for number in range(rounds + 1):  # the first is for the caches
        for is_ours in (False, True) if number % 2 else (True, False):
            if workload.changes or not workspace.exists():
                shutil.rmtree(workspace, ignore_errors=True)
                subprocess.run(["cp", "-a", str(template), str(workspace)], check=True)
                if (workspace / ".git").exists():
                    subprocess.run(["git", "status", "-s"], cwd=workspace, check=True, capture_output=True)
            os.sync()
            if not is_ours:
                before, started = read_processor_time(), time.perf_counter()
                subprocess.run(["bash", "-c", workload.command], cwd=workspace, check=True, capture_output=True)
                bare.append(time.perf_counter() - started)
                used[False].append(read_processor_time() - before)
                continue
            state = FOLDER / f"state{number}"
            with Toolbox.open(workspace, state=state, policy="open", settings=False) as box:
                box.call("bash", {"command": "true"})
                os.sync()
                before, started = read_processor_time(), time.perf_counter()
                reply = box.call("bash", {"command": workload.command, "timeout": 600})
                calls.append(time.perf_counter() - started)
                used[True].append(read_processor_time() - before)
                assert reply.data["exit_status"] == 0, reply.text
                assert reply.data["sandbox"]["by"] == "broker"
                commands.append(float(reply.data["seconds"]))
            shutil.rmtree(state)
    shutil.rmtree(template)
    shutil.rmtree(workspace)
    shown = [statistics.median(times[1:]) for times in (bare, commands, calls)]
    ratio, whole = shown[1] / shown[0], shown[2] / shown[0]
    processor = statistics.median(used[True][1:]) / statistics.median(used[False][1:])
    good = ratio <= workload.budget
    times = (f"{each:.2f} s" for each in shown)
    over = "" if good else "OVER"
    print(
        FORMAT.format(
            workload.what, *times, *(f"{each:.2f} ×" for each in (ratio, processor, whole, workload.budget)), over
        ),
        flush=True,
    )


def read_processor_time() -> float:
    """Of all processes that this one started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure_true() -> None:
    """The broker's program with `true`, against `true`."""
    from handhold.backends.shell import sandbox_support, seccomp
    from handhold.backends.shell.broker_filter import build_broker_filter

    path = sandbox_support.find_broker()[0]
    bare, ours = [], []
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        root, store = Path(folder, "root"), Path(folder, "store")
        root.mkdir()
        store.mkdir()
        for number in range(TRUE_RUNS):
            started = time.perf_counter()
            subprocess.run(["/bin/true"], check=True)
            bare.append(time.perf_counter() - started)
            fds = [sandbox_support.create_memfd("f", data) for data in (seccomp.build_filter(), build_broker_filter())]
            lifeline = os.pipe()
            flags = ["-L", str(lifeline[0]), "-l", f"{folder}/log{number}", "-R", str(root), str(store), "-r", "/"]
            flags += [flag for fd in fds for flag in ("-f", str(fd))]
            started = time.perf_counter()
            subprocess.run([path, *flags, "--", "/bin/true"], check=True, pass_fds=(*fds, lifeline[0]))
            ours.append(time.perf_counter() - started)
            for fd in (*fds, *lifeline):
                os.close(fd)
    shown = [statistics.median(times) * 1e3 for times in (bare, ours)]
    more = shown[1] - shown[0]
    good = more <= 3
    times = (f"{each:.1f} ms" for each in shown)
    print(
        FORMAT.format(
            "true, launcher and broker", *times, "", f"+ {more:.1f} ms", "", "", "+ 3 ms", "" if good else "OVER"
        )
    )


def run_inside(only: str, rounds: int) -> None:
    print(FORMAT.format("", "bare bash", "command", "call", "command", "processor", "call", "budget", ""), flush=True)
    for name in only.split(","):
        measure_true() if name == "true" else measure(WORKLOADS[name], rounds)


# --- outside


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--user", default="1000")
    parser.add_argument("--only", default=",".join((*WORKLOADS, "true")))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)  # how this program calls itself
    chosen = parser.parse_args()
    if chosen.inside:
        run_inside(chosen.only, chosen.rounds)
        return 0
    from bench.rollouts import build_wheel
    from tests.containers.container_image import build_image
    from tests.containers.engine import running_engine

    with tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with running_engine(folder) as engine:
            image = build_image(engine, engine.load_image(), build_wheel(folder / "wheel"))
            argv = ["python3", "/ratios.py", "--inside", "--only", chosen.only, "--rounds", str(chosen.rounds)]
            given: dict[str, bytes | Path] = {"ratios.py": Path(__file__).read_bytes()}
            with engine.open_volume(image) as volume:
                volumes = {str(FOLDER): volume}
                output = engine.run_default(image, argv, given, user=chosen.user, volumes=volumes, seconds=SECONDS)
    print(output.decode())
    return b"OVER" in output


if __name__ == "__main__":
    sys.exit(main())
