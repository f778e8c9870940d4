"""What `handhold --version` costs, compared with an interpreter that does nothing.

python -m bench.version
"""

import os
import subprocess
import sys
from time import perf_counter

ROUNDS = 10


def seconds(*command: str) -> float:
    started = perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return perf_counter() - started


def ratio() -> float:
    """The best of several runs taken in turns, since the machine may be shared."""
    ours = os.path.join(os.path.dirname(sys.executable), "handhold")
    both = [(seconds(sys.executable, "-c", "pass"), seconds(ours, "--version")) for _ in range(ROUNDS)]
    return min(told for _, told in both) / min(bare for bare, _ in both)


if __name__ == "__main__":
    print(f"handhold --version: {ratio():.2f} x a bare interpreter")
