"""What redaction costs on 1 GB of output, through the shell, with and without secrets in the workspace.

python -m bench.redaction [--megabytes 1000]
python -m bench.redaction --false-positives    # what the rules for tokens find in the output of real projects
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from bench.edits.packages import Package, download
from handhold import Toolbox
from handhold.core.text.token_rules import make_token_redactor

PROJECTS = (
    Package("pip", "django", ("5.1.4",)),
    Package("npm", "react-native", ("0.73.0",)),
    Package("apt", "golang-golang-x-net-dev"),
)

LINE = "2026-11-16T06:00:00Z INFO worker 7: GET /api/v1/items/4711 took 31 ms, cache=hit\\n"
ENV = "".join(f"SERVICE_{n}_TOKEN=xK9mQ2vL7pR4tW8z{n:04}\n" for n in range(20))


def measure(folder: Path, megabytes: int, *, secrets: bool) -> float:
    root = folder / f"ws-{secrets}"
    root.mkdir()
    if secrets:
        (root / ".env").write_text(ENV)
    command = f"yes '{LINE}' | head -c {megabytes * 1_000_000}"
    with Toolbox.open(root, state=folder / f"state-{secrets}", settings=False, policy="open") as box:
        box.call("bash", {"command": "true"})
        began = time.perf_counter()
        reply = box.call("bash", {"command": command, "timeout": 600})
        took = time.perf_counter() - began
    assert reply.data["output"]["bytes"] == megabytes * 1_000_000, reply.text
    return megabytes / took


def count_false_positives(folder: Path) -> None:
    """Everything that git, grep and ls print of three published projects: whatever is redacted is printed here."""
    for package in PROJECTS:
        tree = download(package, package.releases[0] if package.releases else None, folder)
        git = ["git", "-C", str(tree), "-c", "user.name=u", "-c", "user.email=u@example.org"]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "add", "-A", "-f"], check=True)
        subprocess.run([*git, "commit", "-qm", "all"], check=True)
        outputs = [
            subprocess.run(command, cwd=tree, capture_output=True, check=False).stdout.decode(errors="replace")
            for command in ([*git, "show"], ["grep", "-rnI", "."], ["ls", "-lR"])
        ]
        redact = make_token_redactor()
        changed = [
            (before, after)
            for output in outputs
            for before, after in zip(output.splitlines(), map(redact, output.splitlines()), strict=True)
            if before != after
        ]
        whole = sum(redact(output).count("[redacted: ") - output.count("[redacted: ") for output in outputs)
        size, lines = sum(map(len, outputs)), sum(output.count("\n") for output in outputs)
        print(f"{package.name}: {size / 1e6:.0f} MB, {lines:,} lines, {whole} redactions")
        for before, after in changed[:40]:
            print(f"    {after.strip()[:150]}\n  < {before.strip()[:150]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--false-positives", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if chosen.false_positives:
            count_false_positives(Path(folder))
            return
        for secrets in (False, True):
            rate = measure(Path(folder), chosen.megabytes, secrets=secrets)
            print(f"{'20 secrets' if secrets else 'none':<12} {rate:>8.0f} MB/s")


if __name__ == "__main__":
    main()
