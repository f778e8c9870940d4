"""Shows hostile files to a toolbox, and reports the cost.

    python -m tests.faults.hostile_media FOLDER
    python -m tests.faults.hostile_shown FOLDER [--json]

Every file has its own worker, as in production. The files are created elsewhere and loaded one at a time: the
kernel counts a process's memory at its fork as its own, so a process that measures small ones must be small.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from handhold import Toolbox
from handhold.backends.convert.converter import ConfinedConverter
from handhold.backends.convert.worker_process import WorkerResult

MIB = 1 << 20
MOST_TEXT, MOST_IMAGE = 80_000, 5_000_000  # characters of a reply, and of an image in base64


@dataclass(frozen=True)
class Answered:
    """The result for one file. Processor seconds and bytes are those of its worker, if there was one."""

    name: str
    answer: str
    seconds: float
    memory: int
    waited: float
    flaw: str


class Watched(ConfinedConverter):
    """The production converter, which also records the cost of its workers."""

    gone: WorkerResult | None = None

    def run_job(self, job: dict[str, object], data: bytes) -> WorkerResult:
        self.gone = super().run_job(job, data)
        return self.gone


def shown(file: Path) -> Answered:
    converter = Watched()
    box = Toolbox.in_memory({file.name: file.read_bytes()}, converter=converter)
    started = monotonic()
    reply = box.call("read_file", {"path": file.name})
    waited = monotonic() - started
    flaws = {
        "no words": not reply.text,
        "too many words": len(reply.text) > MOST_TEXT,
        "an image too large": any(len(block.base64) > MOST_IMAGE for block in reply.images),
        "an image in an error": reply.status == "error" and bool(reply.images),
    }
    cost = converter.gone.usage if converter.gone else None
    return Answered(
        name=file.name,
        answer=reply.code or reply.status,
        seconds=cost.cpu_seconds if cost else 0.0,
        memory=cost.peak_memory_bytes if cost else 0,
        waited=waited,
        flaw=", ".join(flaw for flaw, there in flaws.items() if there),
    )


COSTS: dict[str, Callable[[Answered], float]] = {
    "seconds": lambda each: each.seconds,
    "memory": lambda each: each.memory,
    "waited": lambda each: each.waited,
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="names that hold this")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    started = monotonic()
    with ThreadPoolExecutor(2) as pool:
        seen = list(pool.map(shown, (file for file in sorted(asked.folder.iterdir()) if asked.only in file.name)))
    told = {
        "files": len(seen),
        "workers": sum(each.memory > 0 for each in seen),
        "took": round(monotonic() - started, 1),
        "answers": Counter(each.answer for each in seen),
        "flaws": {each.name: each.flaw for each in seen if each.flaw},
        **{f"most {name}": [max(map(cost, seen)), max(seen, key=cost).name] for name, cost in COSTS.items()},
    }
    if asked.json:
        print(json.dumps(told))
        return 0
    for key, value in told.items():
        print(f"{key}: {value}")
    for name, cost in COSTS.items():
        print(f"-- by {name}")
        for each in sorted(seen, key=cost, reverse=True)[:8]:
            print(
                f"{each.name:32} {each.answer:16} {each.seconds:6.2f} s {each.memory / MIB:6.0f} MB {each.waited:6.2f} s"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
