"""Best of N: one program in several forks of a project, a check in each, a table. You choose which one to merge.

    python examples/best_of_n.py 3 "pytest -q" -- claude -p "Make the tests pass"

Each program gets its number in the variable ATTEMPT. Nothing changes in the project until `handhold fork merge`.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def main() -> int:
    attempts, check, separator, *program = sys.argv[1:]
    if separator != "--" or not program:
        raise SystemExit(__doc__)
    names = [f"attempt-{number}" for number in range(1, int(attempts) + 1)]
    with ThreadPoolExecutor(len(names)) as pool:  # every fork is a process of its own
        results = list(pool.map(lambda name: attempt(name, check, program), names))
    print(f"{'fork':12} {'program':>8} {'check':>8}  changes")
    for name, (ended, checked) in zip(names, results, strict=True):
        stat = handhold("fork", "diff", name, "--stat", capture=True).stdout.splitlines()
        print(f"{name:12} {ended:>8} {'passed' if checked == 0 else 'failed':>8}  {stat[-1] if stat else ''}")
    print("\nMerge one with `handhold fork merge NAME`; remove the others with `handhold fork drop NAME`.")
    return 0 if any(checked == 0 for _, checked in results) else 1


def attempt(name: str, check: str, program: list[str]) -> tuple[int, int]:
    """The exit status of the program, and of the check after it."""
    ended = handhold("fork", name, "--", *program, number=name.removeprefix("attempt-")).returncode
    return ended, handhold("fork", "run", name, "--", "sh", "-c", check, capture=True).returncode


def handhold(*arguments: str, number: str = "", capture: bool = False) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("handhold")), *arguments]
    environment = os.environ | ({"ATTEMPT": number} if number else {})
    return subprocess.run(command, check=False, text=True, capture_output=capture, env=environment)


if __name__ == "__main__":
    sys.exit(main())
