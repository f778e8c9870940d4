"""A whole read call through the toolbox, measured the second time: a page at line 1,000,000 of a 1 GB file."""

import tempfile
import time
from pathlib import Path
from statistics import median

from handhold import Toolbox

LINES = 2_000_000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        root.mkdir()
        with (root / "big.txt").open("wb") as out:
            for start in range(0, LINES, 1000):
                out.write(b"".join(b"%09d %s\n" % (n, b"x" * 489) for n in range(start, start + 1000)))
        box = Toolbox.open(root, state=Path(folder) / "state")
        print(f"{'lines':>6} {'first ms':>9} {'then ms':>8}")
        for limit in (1, 20, 100, 2000):
            call = {"path": "big.txt", "offset": LINES // 2, "limit": limit}
            first = timed(box, call)
            print(f"{limit:>6} {first:>9.1f} {median(timed(box, call) for _ in range(20)):>8.2f}")


def timed(box: Toolbox, call: dict[str, object]) -> float:
    started = time.perf_counter()
    reply = box.call("read_file", call)
    assert reply.status != "error", reply.text
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main()
