"""What it costs to commit, undo and redo a large set of small files.

python -m bench.commit [--files 50000] [--replaced]
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench._memory import peak_kib
from handhold import Toolbox
from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.pipeline import transactions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=50_000)
    parser.add_argument("--replaced", action="store_true", help="replace existing files instead of creating new ones")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as top:
        root = Path(top).resolve() / "root"
        root.mkdir()
        changes = made(root, chosen.files, replaced=chosen.replaced)
        print(f"{chosen.files:,} files, {peak_kib() // 1024} MB before")
        with Toolbox.open(root, state=Path(top) / "state") as box:
            for what, work in (("commit", lambda: commit(box, changes)), ("undo", box.undo), ("redo", box.redo)):
                began = time.perf_counter()
                reply = work()
                took = time.perf_counter() - began
                assert reply is None or reply.status == "success", reply.text
                each = took / chosen.files * 1e6
                print(f"{what:<7} {took:>6.2f} s {each:>6.1f} µs a file, peak {peak_kib() // 1024} MB")


def commit(box: Toolbox, changes: Sequence[FileChange]) -> None:
    """Commit through the ordinary transaction, journal included, as a command's changes are."""
    seq = box.store.begin(Call(box.session, "", "", "bench", "{}", "handhold"))
    outcome = Outcome("success", None, 0.0, None)
    transactions.commit(box.files, box.store, seq, changes, lambda _: outcome, decision=CallDecision("allowed"))


def made(root: Path, files: int, *, replaced: bool) -> list[FileChange]:
    """A hundred files per directory."""
    changes: list[FileChange] = []
    for n in range(files):
        path = root / f"d{n // 10_000}" / f"e{n // 100 % 100}" / f"file{n}.txt"
        before = None
        if replaced:
            path.parent.mkdir(parents=True, exist_ok=True)
            before = InlineContent(f"old {n}\n".encode() * 20)
            path.write_bytes(before.data)
        changes.append(FileChange(str(path), before, InlineContent(f"new {n}\n".encode() * 20)))
    return changes


if __name__ == "__main__":
    main()
