"""How n processes share one state: edits a second of all of them, and whether each gets its turn."""

import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from handhold import Toolbox

SECONDS = 8.0


def measure(n: int) -> dict[str, float]:
    """Each process edits a file of its own, as fast as it can."""
    with tempfile.TemporaryDirectory() as top:
        root = Path(top).resolve() / "root"
        root.mkdir()
        state = Path(top) / "state"
        with Toolbox.open(root, state=state, policy="open") as box:
            box.call("write_file", {"path": "warm", "content": "up\n"})  # the children share what is imported here
            box.call("edit_file", {"path": "warm", "old": "up", "new": "er"})
        ready, is_ready = os.pipe()
        go, gone = os.pipe()
        children = [_fork_editor(root, state, each, go, gone, is_ready) for each in range(n)]
        os.close(is_ready)
        for _ in children:
            assert os.read(ready, 1) == b"."
        os.close(ready)
        os.close(go)
        os.close(gone)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        assert not any(codes), f"{n - codes.count(0)} processes failed"
        rows = [json.loads((state / f"result{each}").read_text()) for each in range(n)]
    counts = [row["edits"] for row in rows]
    waits = sorted(wait for row in rows for wait in row["ms"])
    return {
        "throughput": sum(counts) / SECONDS,
        "slowest_share": min(counts) / (statistics.median(counts) or 1),
        "cpu_ms": sum(row["cpu_ms"] for row in rows) / max(1, sum(counts)),
        "p99_ms": waits[len(waits) * 99 // 100],
        "worst_ms": waits[-1],
    }


def _fork_editor(root: Path, state: Path, number: int, go: int, gone: int, is_ready: int) -> int:
    if child := os.fork():
        return child
    try:
        os.close(gone)
        with Toolbox.open(root, state=state, policy="open", session=f"s{number}") as box:
            name = f"f{number}"
            assert box.call("write_file", {"path": name, "content": "0\n"}).status == "success"
            assert box.call("edit_file", {"path": name, "old": "0", "new": "00"}).status == "success"
            os.write(is_ready, b".")
            os.close(is_ready)
            os.read(go, 1)  # until the parent closes it
            edits, times, cpu = 0, list[float](), time.process_time()
            until = time.perf_counter() + SECONDS
            while (began := time.perf_counter()) < until:
                reply = box.call("edit_file", {"path": name, "old": f"0{edits}", "new": f"0{edits + 1}"})
                assert reply.status == "success", reply.text
                times.append(round((time.perf_counter() - began) * 1000, 3))
                edits += 1
            found = {"edits": edits, "ms": times, "cpu_ms": (time.process_time() - cpu) * 1000}
        (state / f"result{number}").write_text(json.dumps(found))
        os._exit(0)
    finally:
        os._exit(1)
