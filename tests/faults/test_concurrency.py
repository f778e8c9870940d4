"""Several writers of one file: no change is lost, and nobody is told about a change that did not happen."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Thread

import pytest

from handhold import Toolbox
from handhold.core.ports.store import Store
from tests.scale import scaled

EDITS, REWRITES = scaled(20, 100), scaled(300, 10_000)
WRITER = """
import sys
from handhold import Toolbox
root, state, me = sys.argv[1:4]
box = Toolbox.open(root, state=state, session=me)
refused = 0
box.call("read_file", {"path": "shared.txt"})
for n in range(int(sys.argv[4])):
    for attempt in range(1000):
        reply = box.call("edit_file", {"path": "shared.txt", "old_string": f"{me} {n}: old", "new_string": f"{me} {n}: new"})
        if reply.status == "success":
            break
        assert reply.code in ("STALE", "BUSY"), reply.text
        refused += 1
        box.call("read_file", {"path": "shared.txt"})
    else:
        raise SystemExit("never got through")
print(refused)
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_u13_two_processes_with_100_disjoint_edits_each_keep_all_200(tmp_path: Path):
    root = tmp_path / "ws"
    root.mkdir()
    shared = root / "shared.txt"
    shared.write_text("".join(f"{who} {n}: old\n" for n in range(EDITS) for who in ("left", "right")))
    command = [sys.executable, "-c", WRITER, str(root), str(tmp_path / "state")]
    writers = [
        subprocess.Popen([*command, who, str(EDITS)], stdout=subprocess.PIPE, text=True) for who in ("left", "right")
    ]
    refused = [int(writer.communicate(timeout=100)[0]) for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert shared.read_text() == "".join(f"{who} {n}: new\n" for n in range(EDITS) for who in ("left", "right"))
    assert [file.name for file in root.iterdir()] == ["shared.txt"]
    print(f"refused as stale and tried again: {refused}")


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_c12_an_outside_rewrite_of_the_same_size_and_time_is_never_lost(tmp_path: Path):
    """Each time between a read and an edit."""
    (tmp_path / "ws").mkdir()
    file = tmp_path / "ws" / "a.txt"
    file.write_bytes(b"count 00000\nedit me\n")
    box = Toolbox.open(tmp_path / "ws", state=tmp_path / "state", session="s", hints=False)
    lost = 0
    for n in range(1, REWRITES + 1):
        box.call("read_file", {"path": "a.txt"})
        times = file.stat()
        with file.open("r+b") as handle:
            handle.write(b"count %05d" % n)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
        reply = box.call("edit_file", {"path": "a.txt", "old_string": "edit me", "new_string": "edited"})
        lost += reply.code != "STALE"
    assert lost == 0
    assert file.read_bytes() == b"count %05d\nedit me\n" % REWRITES


def test_u3_touch_and_other_spellings_never_block_an_edit(tmp_path: Path):
    root = tmp_path / "ws"
    (root / "d").mkdir(parents=True)
    file = root / "d" / "a.txt"
    file.write_text("one\n")
    (root / "link").symlink_to("d/a.txt")
    (root / "hard.txt").hardlink_to(file)
    box = Toolbox.open(root, state=tmp_path / "state", session="s")
    box.call("read_file", {"path": "d/a.txt"})
    words = ["one", "two", "three", "four", "five"]
    for n, path in enumerate(["d/../d/a.txt", "link", str(file), "hard.txt"]):
        file.touch()
        reply = box.call("edit_file", {"path": path, "old_string": words[n], "new_string": words[n + 1]})
        assert reply.status == "success", (path, reply.text)
    assert file.read_text() == "five\n"
    assert (root / "link").is_symlink()
    assert file.stat().st_nlink == 2


KILLED = """
import os, sys
from handhold import Toolbox
from handhold.backends.files.commit.write_transaction import WriteTransaction
rename, done = WriteTransaction._rename, []
def rename_once(transaction, step):
    if done:
        os._exit(9)
    done.append(rename(transaction, step))
WriteTransaction._rename = rename_once
box = Toolbox.open(sys.argv[1], state=sys.argv[2])
for name in ("a.txt", "b.txt"):
    box.call("read_file", {"path": name})
files = "".join(f"*** Update File: {name}.txt\\n@@\\n-old\\n+new\\n" for name in "ab")
box.call("apply_patch", {"patch": f"*** Begin Patch\\n{files}*** End Patch"})
"""


def test_c62_half_a_change_set_is_rolled_back_before_a_commit_although_the_lock_was_taken(tmp_path: Path):
    """A process was killed after the first of two files; the next call begins while another one holds the lock."""
    root, state = tmp_path / "ws", tmp_path / "state"
    root.mkdir()
    for name in "ab":
        (root / f"{name}.txt").write_text("old\n")
    is_held, is_planned = Event(), Event()

    def hold(store: Store) -> None:
        with store.exclusive():
            is_held.set()
            is_planned.wait(30)

    def approve(_: object) -> bool:
        is_planned.set()
        return True

    with Toolbox.open(root, state=state, session="s", policy="ask", approver=approve) as box:
        assert subprocess.run([sys.executable, "-c", KILLED, root, state], check=False).returncode == 9
        assert [(root / f"{name}.txt").read_text() for name in "ab"] == ["new\n", "old\n"]
        Thread(target=hold, args=(box.store,), daemon=True).start()
        assert is_held.wait(30)
        assert "new" in box.call("read_file", {"path": "a.txt"}).text
        reply = box.call("edit_file", {"path": "a.txt", "old_string": "new", "new_string": "newer"})
        assert reply.code == "STALE", reply.text
        assert [(root / f"{name}.txt").read_text() for name in "ab"] == ["old\n", "old\n"]
