"""What redaction costs on 1 GB of output, through the shell, with and without secrets in the workspace.

python -m bench.redaction [--megabytes 1000]
"""

import argparse
import tempfile
import time
from pathlib import Path

from handhold import Toolbox

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=1000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for secrets in (False, True):
            rate = measure(Path(folder), chosen.megabytes, secrets=secrets)
            print(f"{'20 secrets' if secrets else 'none':<12} {rate:>8.0f} MB/s")


if __name__ == "__main__":
    main()
