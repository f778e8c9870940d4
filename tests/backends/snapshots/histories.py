"""Random histories of a recorded workspace: each step is a word and a seed, so that a history can be shortened.

python -m tests.backends.snapshots.histories FIRST_SEED LAST_SEED LENGTH
"""

import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from handhold import Target, Toolbox
from handhold.core.ports.recording import Window
from handhold.core.text.path_escaping import escape_ambiguous
from tests.backends.snapshots.model import Model, OpenedWindow, Tree, Violation, check, is_same

Step = tuple[str, int]

NAMES = (b"a", b"b.txt", b"c", b"sub", b"deep", b"new\nline", b"bad\xff\xfe", b"back\\slash", b"back\\nslash")
MODES = (0o644, 0o600, 0o755, 0o444)
FOLDER_MODES = (0o755, 0o700, 0o750)
WEIGHTS = {
    "change": 30,
    "begin": 12,
    "end": 12,
    "sweep": 6,
    "write": 8,
    "undo": 14,
    "redo": 6,
    "copy": 2,
    "reopen": 2,
    "touch": 2,
}


def make_history(seed: int, length: int) -> list[Step]:
    chance = random.Random(seed)
    words = chance.choices([*WEIGHTS], [*WEIGHTS.values()], k=length)
    return [(word, chance.randrange(10**6)) for word in words]


class History:
    """A workspace with two sessions, what others do in it, and the model that follows."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "work"
        self.state = folder / "state"
        self.root.mkdir()
        self.model = Model(self.root)
        self.calls: list[str] = []
        for path in (b"a", b"b.txt", b"sub/c", b"sub/deep/a", b"bad\xff\xfe"):
            place = self.place(path)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            write(place, b"this is " + path + b"\n")
        os.symlink(b"a", self.place(b"link"))
        self.boxes = {name: self.open(name) for name in "st"}
        self.model.baseline = self.model.observe()
        self.boxes["s"].snapshots.begin(Window("s", "first", "Bash"))
        self.boxes["s"].snapshots.end("s", "first")

    def open(self, session: str) -> Toolbox:
        box = Toolbox.open(self.root, state=self.state, session=session, dialect="claude")
        box.snapshots._start_copier = None  # a step of its own
        return box

    def close(self) -> None:
        for box in self.boxes.values():
            box.close()

    def run(self, steps: Sequence[Step]) -> None:
        for word, seed in steps:
            self.step(word, random.Random(seed))
        self.finish()

    def step(self, word: str, chance: random.Random) -> None:
        box = self.boxes[chance.choice("st")]
        before = self.model.observe()
        act: Callable[[Toolbox, random.Random, Tree], None] = getattr(self, f"do_{word}")
        act(box, chance, before)

    def finish(self) -> None:
        """What must be true at any time is checked at the end."""
        box = self.boxes["s"]
        disk = self.model.observe()
        box.snapshots.sweep()
        self.model.follow(box, disk, self.model.observe())
        self.model.check_scanned(disk)
        self.model.windows.clear()
        known = self.model.last
        box.snapshots.sweep()
        self.model.follow(box, disk, self.model.observe())
        check(self.model.last == known, "a second sweep found something")
        self.check_copies(box, disk)
        check(box.store.verify().problem is None, box.store.verify())
        check(not box.store.incomplete_transactions(), "a transaction is not finished")

    def check_copies(self, box: Toolbox, disk: Tree) -> None:
        """The baseline equals the disk, and no copy is left that nothing refers to."""
        box.snapshots.complete()
        (folder,) = self.state.rglob("*.baseline")
        with closing(sqlite3.connect(next(self.state.rglob("state.db")))) as database:
            rows = database.execute(
                "SELECT path, name, copy, why FROM baseline_entries JOIN baseline_folders ON id = folder"
            ).fetchall()
        known = {os.path.join(path, name): (copy, why) for path, name, copy, why in rows}
        check(known.keys() == disk.keys(), "the baseline has other paths", known.keys() ^ disk.keys())
        for path, node in disk.items():
            copy, why = known[path]
            if node.kind == "file" and copy is not None:
                check((folder / os.fsdecode(copy)).read_bytes() == node.data, "a copy has another content", path)
            elif node.kind == "file":
                check(why == "changed while it was copied", "not copied", path, why)
        copies = {os.fsdecode(copy) for copy, _ in known.values() if copy}
        check(copies == {each.name for each in folder.iterdir()} - {"clock"}, "copies are left over, or missing")

    # --- what others do

    def place(self, path: bytes) -> bytes:
        return os.path.join(os.fsencode(self.root), path)

    def do_change(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        for _ in range(chance.randint(1, 3)):
            change(os.fsencode(self.root), chance, self.model.observe())
            self.model.observe()

    def do_touch(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        for path in chance.sample([*disk], min(3, len(disk))):
            os.utime(self.place(path), follow_symlinks=False)

    # --- what records it

    def do_begin(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        call = f"w{len(self.calls)}"
        self.calls.append(call)
        paths = None
        if chance.random() < 0.35:
            paths = tuple(dict.fromkeys(pick_path(chance, disk) for _ in range(chance.randint(1, 2))))
        self.begin(box, call, paths, disk)

    def begin(self, box: Toolbox, call: str, paths: tuple[bytes, ...] | None, disk: Tree) -> None:
        named = None if paths is None else tuple(map(self.absolute, paths))
        box.snapshots.begin(Window(box.session, call, "Bash", paths=named))
        self.follow(box, disk, paths)
        self.model.windows.append(OpenedWindow(box.session, call, paths))

    def do_end(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        if not self.model.windows:
            return
        window = chance.choice(self.model.windows)
        box.snapshots.end(window.session, window.call_id)
        self.follow(box, disk, window.paths)
        self.model.windows.remove(window)

    def do_sweep(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        session = chance.choice((None, "s", "t"))
        box.snapshots.sweep(session)
        self.follow(box, disk, None)
        self.model.windows = [each for each in self.model.windows if session not in (None, each.session)]

    def do_copy(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        box.snapshots.complete()

    def do_reopen(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        box.close()
        self.boxes[box.session] = self.open(box.session)

    def follow(self, box: Toolbox, disk: Tree, named: Sequence[bytes] | None) -> None:
        self.model.follow(box, disk, self.model.observe())
        self.model.check_scanned(disk, named)

    def absolute(self, path: bytes) -> str:
        return f"{self.root}/{escape_ambiguous(os.fsdecode(path))}"

    # --- our own calls

    def do_write(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        files = [path for path, node in disk.items() if node.kind == "file"]
        if chance.random() < 0.7 and files:
            path = chance.choice(files)
            box.call("Read", {"file_path": self.absolute(path)})
        else:
            path = pick_path(chance, disk)
        call = f"o{len(self.calls)}"
        self.calls.append(call)
        content = f"ours {chance.randrange(1000)}\n"
        box.call("Write", {"file_path": self.absolute(path), "content": content}, call_id=call)
        self.model.follow(box, disk, self.model.observe())

    def do_undo(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        box, target, with_foreign = self.pick_target(box, chance)
        self.undo(box, target, disk, with_foreign=with_foreign)

    def undo(self, box: Toolbox, target: Target | None, disk: Tree, *, with_foreign: bool) -> None:
        chosen = box.store.find_changes(
            box.session,
            undone=False,
            call=target.call_id if target else "",
            last=None if target and target.is_multiple else 1,
            with_foreign=with_foreign,
        )
        later = [*self.model.find_later_changes(chosen, disk)]
        lost = [each.path for each in later if each.is_lost]
        reply = box.undo(target, with_foreign=with_foreign)
        after = self.model.observe()
        if reply.ok:
            self.model.undone += 1
            check(not lost, "an undo lost a later change", lost)
        else:
            self.model.refused += 1
            check(later or not chosen, "an undo was refused without a reason", reply.code)
            self.check_unchanged(disk, after, reply.code)
        self.model.follow(box, disk, after)

    def do_redo(self, box: Toolbox, chance: random.Random, disk: Tree) -> None:
        box, target, _ = self.pick_target(box, chance)
        reply = box.redo(target if chance.random() < 0.5 else None)
        after = self.model.observe()
        if reply.ok:
            self.model.undone += 1
        else:
            self.check_unchanged(disk, after, reply.code)
        self.model.follow(box, disk, after)

    def check_unchanged(self, disk: Tree, after: Tree, code: str | None) -> None:
        # Of several steps, a later one may be refused, for what is inside a folder that an earlier one brings back.
        check(is_same(disk, after) or code == "UNDONE_PARTLY", "a refusal changed something", code)

    def pick_target(self, box: Toolbox, chance: random.Random) -> tuple[Toolbox, Target | None, bool]:
        """Most often one of the last entries; and whether changes of nobody come along."""
        with_foreign = chance.random() < 0.4
        kind = chance.random()
        if kind < 0.1:
            return box, Target.session(), with_foreign
        if kind < 0.2 or not self.model.booked:
            return box, None, with_foreign
        if kind < 0.4 and self.calls:
            return box, Target.call(chance.choice(self.calls[-6:])), with_foreign
        booked = chance.choice([*self.model.booked.values()][-3:])
        if booked.session in self.boxes:
            return self.boxes[booked.session], Target.call(booked.seq), with_foreign
        return box, Target.call(booked.seq), True


# --- changes


def write(place: bytes, data: bytes) -> None:
    with open(place, "wb") as file:
        file.write(data)


def pick_path(chance: random.Random, disk: Tree) -> bytes:
    """An existing path, or one that could be created in a folder that exists, or in a new one."""
    folders = [b"", *(path for path, node in disk.items() if node.kind == "folder")]
    if chance.random() < 0.4 and disk:
        return chance.choice([*disk])
    folder = chance.choice(folders)
    path = os.path.join(folder, chance.choice(NAMES))
    if path.count(b"/") < 3 and chance.random() < 0.2 and path not in disk:
        path = os.path.join(path, chance.choice(NAMES))
    return path


def change(root: bytes, chance: random.Random, disk: Tree) -> None:
    """One change, of any kind, by anybody."""
    files = [path for path, node in disk.items() if node.kind == "file"]
    folders = [path for path, node in disk.items() if node.kind == "folder"]
    kind = chance.choice(KINDS)
    path = pick_path(chance, disk)
    place = os.path.join(root, path)
    data = b"others %d\n" % chance.randrange(1000)
    above = os.path.dirname(place)
    if kind in ("rewrite", "append", "replace", "chmod", "delete", "quietly", "hard link"):
        if not files:
            return
        place = os.path.join(root, chance.choice(files))
    match kind:
        case "write":
            clear(place)
            ensure(above, root)
            write(place, data)
        case "rewrite":
            write(place, data)
        case "append":
            with open(place, "ab") as file:
                file.write(data)
        case "replace":
            write(place + b"~", data)
            os.rename(place + b"~", place)
        case "quietly":
            old = os.stat(place)
            with open(place, "r+b") as file:
                size = len(file.read())
                file.seek(0)
                file.write(bytes(chance.choices(b"xyz", k=size)))
            os.utime(place, ns=(old.st_atime_ns, old.st_mtime_ns))
        case "chmod":
            os.chmod(place, chance.choice(MODES))
        case "delete":
            os.unlink(place)
        case "folder":
            clear(place)
            ensure(place, root)
        case "chmod folder" if folders:
            os.chmod(os.path.join(root, chance.choice(folders)), chance.choice(FOLDER_MODES))
        case "remove folder" if folders:
            shutil.rmtree(os.path.join(root, chance.choice(folders)))
        case "link":
            clear(place)
            ensure(above, root)
            os.symlink(chance.choice((b"a", b"sub", b"nowhere", b"..")), place)
        case "hard link":
            target = os.path.join(root, path)
            if target != place and not os.path.lexists(target):
                ensure(os.path.dirname(target), root)
                if not os.path.lexists(target):
                    os.link(place, target)
        case "rename" if disk:
            source = chance.choice([*disk])
            if path != source and not path.startswith(source + b"/") and not source.startswith(path + b"/"):
                clear(place)
                ensure(above, root)
                if os.path.lexists(os.path.join(root, source)):
                    os.rename(os.path.join(root, source), place)
        case _:
            pass


KINDS = (
    *("write", "write", "rewrite", "append", "replace", "quietly", "chmod", "delete", "folder", "chmod folder"),
    *("remove folder", "link", "hard link", "rename", "rename"),
)


def clear(place: bytes) -> None:
    if os.path.isdir(place) and not os.path.islink(place):
        shutil.rmtree(place)
    elif os.path.lexists(place):
        os.unlink(place)


def ensure(place: bytes, root: bytes) -> None:
    """Make the folders up to this one, instead of whatever else has their names."""
    if place == root or (os.path.isdir(place) and not os.path.islink(place)):
        return
    ensure(os.path.dirname(place), root)
    if os.path.lexists(place):
        os.unlink(place)
    os.mkdir(place)


def shorten(steps: Sequence[Step], fails: Callable[[Sequence[Step]], bool]) -> list[Step]:
    """A shorter history that fails as well."""
    steps = list(steps)
    size = max(1, len(steps) // 2)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if fails(fewer):
                steps = fewer
            else:
                at += size
        size //= 2
    return steps


# --- by hand


def find_violation(steps: Sequence[Step]) -> str:
    """What is wrong after these steps; empty if nothing is."""
    with TemporaryDirectory(prefix="history-") as folder:
        history = History(Path(os.path.realpath(folder)))
        try:
            history.run(steps)
        except Violation as violation:
            return str(violation)
        finally:
            history.close()
    return ""


def main(first: str, last: str, length: str) -> None:
    """Run the histories of these seeds, and shorten those that fail."""
    for seed in range(int(first), int(last) + 1):
        steps = make_history(seed, int(length))
        if violation := find_violation(steps):
            print(f"{seed}: {violation}", shorten(steps, partial(fails_alike, violation)), sep="\n")


def fails_alike(violation: str, steps: Sequence[Step]) -> bool:
    return find_violation(steps).startswith(violation.partition(",")[0])


if __name__ == "__main__":
    main(*sys.argv[1:])
