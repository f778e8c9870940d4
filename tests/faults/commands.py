"""A command's effects without a command: new entries in slots, and the changes that put them in place."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from handhold.backends.files.commit import Committer
from handhold.backends.files.manifest import read_entry_state
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.files.workspace import Workspace
from handhold.core.plans import DirectoryMetadata, FileChange, StagedContent
from handhold.core.ports.files import Transaction
from tests.faults.trees import Kept

Make = Callable[[Path], object]
Snapshot = dict[str, tuple[object, ...]]


def snapshot(root: Path) -> Snapshot:
    """All metadata of everything below and of the root: equal snapshots are the same tree, with inodes and times."""
    seen: Snapshot = {}
    ahead = [root]
    while ahead:
        path = ahead.pop()
        found = os.lstat(path)
        what: object = None
        attributes: object = ()
        if stat.S_ISREG(found.st_mode):
            what = path.read_bytes() if os.access(path, os.R_OK) else found.st_size
        elif stat.S_ISLNK(found.st_mode):
            what = os.readlink(path)
        elif os.access(path, os.R_OK | os.X_OK):
            ahead += [path / name for name in os.listdir(path)] if stat.S_ISDIR(found.st_mode) else []
        if (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)) and os.access(path, os.R_OK):
            attributes = tuple((name, os.getxattr(path, name)) for name in sorted(os.listxattr(path)))
        facts = (found.st_mode, found.st_uid, found.st_gid, found.st_ino, found.st_mtime_ns)
        seen[os.path.relpath(path, root)] = (*facts, what, attributes)
    return seen


class Command:
    """The changes of one command, as they are collected."""

    def __init__(self, shelf: StagingArea, root: Path) -> None:
        self.shelf = shelf
        self.root = root
        self.id = shelf.create_folder()
        self.changes: list[FileChange] = []
        self._last = 0

    def puts(self, name: str, make: Make) -> "Command":
        """Put a new entry at this path, whatever is there now."""
        return self._change(name, make)

    def removes(self, name: str) -> "Command":
        return self._change(name, None)

    def chmods(self, name: str, mode: int) -> "Command":
        """Change the mode of a directory that stays."""
        path = self.root / name if name else self.root
        self.changes.append(
            FileChange(str(path), DirectoryMetadata(stat.S_IMODE(path.stat().st_mode)), DirectoryMetadata(mode))
        )
        return self

    def _change(self, name: str, make: Make | None) -> "Command":
        self._last += 1
        slot = f"{self.id}/{self._last}"
        before = read_entry_state(str(self.root / name))
        after = None
        if make is not None:
            make(Path(self.shelf.path(slot)))
            after = read_entry_state(self.shelf.path(slot))
        self.changes.append(
            FileChange(str(self.root / name), before and before.to_staged(slot), after and after.to_staged(slot))
        )
        return self


class Desk:
    """A workspace with a staging area in its state folder."""

    def __init__(self, home: Path, *, exchange: bool = True, durable: bool = False, state: Path | None = None) -> None:
        self.root = Path(os.path.realpath(home)) / "root"
        self.state = state or Path(os.path.realpath(home)) / "state"
        for folder in (self.root, self.state):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.kept = Kept()
        self.workspace = Workspace([self.root], self.kept, state=self.state)
        self.committer = Committer(self.workspace, self.kept, durable=durable, exchange=exchange)
        shelf = self.workspace.get_staging_area(self.workspace.open_roots[0])
        assert shelf
        self.shelf = shelf

    def command(self) -> Command:
        return Command(self.shelf, self.root)

    @contextmanager
    def open(self, changes: list[FileChange]) -> Iterator[Transaction]:
        with self.committer.transaction(changes) as transaction:
            self.kept.commands |= {each.slot.split("/")[0] for each in things(transaction.files)}
            yield transaction

    def commit(self, command: Command | list[FileChange]) -> list[FileChange]:
        with self.open(command.changes if isinstance(command, Command) else command) as transaction:
            identities = transaction.apply()
            transaction.clean_up()
            for path, identity in identities.items():
                if os.access(os.path.dirname(path), os.X_OK):
                    look = self.workspace.stat(path)
                    assert look
                    assert look.identity == identity
            return list(transaction.files)

    def undo(self, changes: list[FileChange]) -> list[FileChange]:
        return self.commit([change.invert() for change in reversed(changes)])


def things(changes: Iterable[FileChange]) -> list[StagedContent]:
    return [each for change in changes for each in (change.before, change.after) if isinstance(each, StagedContent)]


def file(data: bytes | str, mode: int = 0o644, mtime: int | None = None) -> Make:
    def make(path: Path) -> None:
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        path.chmod(mode)
        if mtime is not None:
            os.utime(path, ns=(mtime, mtime))

    return make


def link(target: str) -> Make:
    return lambda path: path.symlink_to(target)


def folder(inside: dict[str, Make] | None = None, mode: int = 0o755) -> Make:
    def make(path: Path) -> None:
        path.mkdir()
        for name, each in (inside or {}).items():
            each(path / name)
        path.chmod(mode)

    return make


def fifo(path: Path) -> None:
    os.mkfifo(path)


# --- fifty paths


def lay_fifty(root: Path) -> None:
    for name in ("sub", "sub/deep", "shut"):
        (root / name).mkdir()
    for n in range(12):
        file(f"old {n}", 0o640)(root / f"sub/r{n}")
        file(f"old {n}")(root / f"r{n}")
    for n in range(4):
        file(f"gone {n}")(root / f"d{n}")
        file(f"gone {n}", 0o400)(root / f"sub/deep/d{n}")
    for n in range(3):
        folder({"a": file("a"), "b": folder({"c": file("c")}, 0o555)})(root / f"t{n}")
        link(f"r{n}")(root / f"l{n}")
    file("closed")(root / "shut/f")
    (root / "shut").chmod(0o555)
    for path in (root / "shut", root / "sub/deep", root / "sub", root):
        os.utime(path, ns=(1, 1_400_000_000_000_000_000))


def fifty(command: Command) -> Command:
    """Files replaced, created and deleted, with other modes; links; whole trees; changed kinds; modes of folders."""
    for n in range(10):
        command.puts(f"sub/r{n}", file(f"new {n}")).puts(f"r{n}", file(f"new {n}", 0o755))
    command.puts("r10", file("old 10", 0o600)).puts("r11", file("old 11", 0o644, 77))
    for n in range(4):
        command.puts(f"c{n}", file(f"made {n}")).removes(f"d{n}").removes(f"sub/deep/d{n}")
    command.puts("l0", link("elsewhere")).removes("l1").puts("l2", file("no link")).puts("l3", link("l0"))
    command.removes("t0").puts("t1", folder({"x": file("x")})).puts("t2", file("no tree")).puts("sub/r10", folder())
    for n in range(3):
        command.puts(f"n{n}", folder({"a": file("a"), "in": folder({"b": file("b")}, 0o555)}))
    command.puts("shut/f", file("opened")).puts("shut/n", folder({}, 0o555)).puts("sub/r11", fifo).chmods(
        "sub", 0o700
    ).chmods("", 0o750)
    command.changes.sort(key=lambda change: change.path)
    return command
