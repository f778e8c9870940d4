"""Runs inside a container in which nothing can be mounted: a fork is a copy, is merged and undone.

`python3 fork_driver.py WORKSPACE` prints one JSON object.
"""

import json
import os
import sys
from pathlib import Path

from handhold.toolbox import Toolbox


def read_tree(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
        found[str(path.relative_to(root))] = status.st_mode, status.st_uid, content
    return found


def main() -> None:
    root = Path(sys.argv[1])
    (root / "src").mkdir(parents=True)
    (root / "src/a.txt").write_text("one\n")
    (root / "b.txt").write_text("b\n")
    before = read_tree(root)
    with Toolbox.open(root, state=root.with_name("state")) as box:
        with box.fork("try") as fork:
            status = fork.run(["sh", "-c", "echo two >>src/a.txt; rm b.txt; mkdir -p c/d; echo 1 >c/d/e; exit 3"])
            replied = fork.call("bash", {"command": "echo by a tool >tool.txt; cat src/a.txt"})
            shown, untouched = fork.roots[0], read_tree(root) == before
            diff = fork.diff()
            report = fork.merge()
        merged = read_tree(root)
        undone = box.undo()
        restored = read_tree(root) == before
        facts = {"status": status, "shown": shown, "untouched": untouched, "diff": diff, "dropped": report.dropped}
        facts |= {"reply": replied.text, "merged": sorted(merged), "a": merged["src/a.txt"][2]}
        print(json.dumps(facts | {"undone": undone.ok, "restored": restored, "user": os.geteuid()}))


if __name__ == "__main__":
    main()
