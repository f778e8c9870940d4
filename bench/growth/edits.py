"""Edits of large files: n megabytes, one line at the beginning, in the middle, and at both ends."""

import shutil
import tempfile
from pathlib import Path
from time import process_time

from bench._memory import peak_kib
from handhold import Toolbox

LINE = "line {:08d} of a large file, with some words in it\n"


def measure(n: int) -> dict[str, float]:
    """Processor time of one edit, the dearest of three, and peak memory as a multiple of the file."""
    count = n * 1_000_000 // len(LINE.format(0))
    folder = Path(tempfile.mkdtemp(prefix="growth-"))
    try:
        path = folder / "work/large.txt"
        path.parent.mkdir()
        with path.open("w") as file:
            file.writelines(LINE.format(at) for at in range(count))
        size = path.stat().st_size
        small = folder / "work/small.txt"
        small.write_text("before\n")
        with Toolbox.open(path.parent, state=folder / "state", dialect="claude") as toolbox:
            edit(toolbox, small, "before", "after")  # imports
            idle = peak_kib()
            seconds = [edit(toolbox, path, LINE.format(at), f"changed {LINE.format(at)}") for at in (0, count // 2)]
            seconds.append(edit(toolbox, path, LINE.format(1), "first\n", LINE.format(count - 1), "last\n"))
        return {
            "cpu_ms": max(seconds) * 1000,
            "cpu_ms_per_mb": max(seconds) * 1000 / n,
            "memory_per_byte": (peak_kib() - idle) * 1024 / size,
        }
    finally:
        shutil.rmtree(folder)


def edit(toolbox: Toolbox, path: Path, *texts: str) -> float:
    """The processor time of an edit with these old and new texts, in turn."""
    toolbox.call("Read", {"file_path": str(path), "limit": 5})
    edits = [{"old_string": old, "new_string": new} for old, new in zip(texts[::2], texts[1::2], strict=True)]
    name, arguments = ("Edit", edits[0]) if len(edits) == 1 else ("MultiEdit", {"edits": edits})
    start = process_time()
    reply = toolbox.call(name, {"file_path": str(path), **arguments})
    if not reply.ok:
        raise SystemExit(reply.text)
    return process_time() - start
