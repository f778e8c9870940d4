"""What an ordinary call costs the machine: the basis of the estimates in docs/numbers.md.

    python -m bench.calls [--calls 200]

Measures processor time rather than elapsed time, since the machine may be shared. The time of a command includes its
child processes.
"""

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench._memory import peak_kib
from handhold import Toolbox

LINES = 300
Asked = tuple[str, dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200)
    calls = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as top:
        root, state = Path(top) / "root", Path(top) / "state"
        root.mkdir()
        (root / "a.py").write_text("".join(f"line {n}\n" for n in range(LINES)))
        with Toolbox.open(root, state=state) as box:
            for what, call in KINDS.items():
                box.call("read_file", {"path": "a.py"})
                print(f"{what:<28} {spent(box, call, calls) / calls * 1000:8.2f} ms of processor time a call")
        print(f"most memory of the process   {peak_kib() / 1024:8.1f} MB")
        size = sum(file.stat().st_size for file in state.rglob("*") if file.is_file())
        print(f"state                        {size / calls / len(KINDS) / 1024:8.1f} KB a call")


def read(_: int) -> Asked:
    return "read_file", {"path": "a.py"}


def edit(number: int) -> Asked:
    old = f"edited {number - 1}\n" if number else "line 7\n"
    return "edit_file", {"path": "a.py", "old_string": old, "new_string": f"edited {number}\n"}


def look(_: int) -> Asked:
    return "bash", {"command": "true"}


def make(number: int) -> Asked:
    return "bash", {"command": f"echo {number} > made.txt"}


KINDS: dict[str, Callable[[int], Asked]] = {
    "read 300 lines": read,
    "edit a line": edit,
    "a command that does nothing": look,
    "a command that makes a file": make,
}


def spent(box: Toolbox, call: Callable[[int], Asked], calls: int) -> float:
    began = clock()
    for number in range(calls):
        reply = box.call(*call(number))
        assert reply.status == "success", reply.text
    return clock() - began


def clock() -> float:
    """Processor seconds of this process and of its finished children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


if __name__ == "__main__":
    main()
