"""A small workspace, twenty changes to it, and how to see all of it at once."""

import os
import stat
import traceback
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from handhold.core.plans import Directory, FileChange, InlineContent, digest

NOBODY = 65534
Tree = dict[str, tuple[object, ...]]


class Kept:
    """Contents in a dict."""

    def __init__(self) -> None:
        self.datas: dict[str, bytes] = {}
        self.commands: set[str] = set()
        self._gone: set[str] = set()

    def keep(self, contents: Iterable[bytes]) -> None:
        self.datas.update((digest(data), data) for data in contents)

    def get(self, hash: str) -> bytes | None:
        return self.datas.get(hash)

    def has(self, hash: str) -> bool:
        return hash in self.datas

    def needed_slots(self, commands: Collection[str]) -> set[str]:
        return self.commands & {*commands}

    def dropped_slots(self, limit: int) -> list[str]:
        return sorted(self._gone)[:limit]

    def forget_dropped_slots(self, commands: Collection[str]) -> None:
        self._gone -= {*commands}

    def can_removal_wait(self) -> bool:
        return True

    def drop_slots(self) -> None:
        self._gone |= self.commands
        self.commands = set()

    def keep_all(self, changes: Iterable[FileChange]) -> None:
        for change in changes:
            self.keep(each.data for each in (change.before, change.after) if isinstance(each, InlineContent))


def tree(root: Path) -> Tree:
    """Everything below: kind, mode, content or target, number of names. Equal trees look the same to any reader."""
    seen: Tree = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            kind, mode = stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)
            what: object = ""
            if stat.S_ISREG(found.st_mode):
                with open(path, "rb") as file:
                    what = file.read()
            elif stat.S_ISLNK(found.st_mode):
                what = os.readlink(path)
            names = found.st_nlink if stat.S_ISREG(found.st_mode) else 0
            seen[os.path.relpath(path, root)] = (kind, mode, what, names)
    return seen


def as_nobody(act: Callable[[], object]) -> None:
    """In a fork, as a user with no special rights."""
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


REPLACED = [*(f"r{n}" for n in range(4)), *(f"sub/r{n}" for n in range(4))]
CREATED = ["c0", "sub/c1", "new/c2", "new/c3", "new/deep/er/c4", "new/deep/er/c5"]
DELETED = ["d0", "d1", "sub/d2", "gone/d3", "gone/d4"]
LINKED = "linked"
OTHER_NAME = "other name"


def old(name: str) -> bytes:
    return "".join(f"old {name} {n}\n" for n in range(3 if name != LINKED else 2000)).encode()


def new(name: str) -> bytes:
    return "".join(f"this is new {name} {n}\n" for n in range(5 if name != LINKED else 1500)).encode()


def lay(root: Path) -> None:
    for name in ("sub", "gone"):
        (root / name).mkdir()
    for name in (*REPLACED, *DELETED, LINKED):
        fd = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o640)
        os.write(fd, old(name))
        os.close(fd)
    os.chmod(root / REPLACED[0], 0o755)
    os.link(root / LINKED, root / OTHER_NAME)


def patch() -> str:
    """The same as a patch, with only the beginning of the long file; a patch cannot remove a directory."""
    lines = ["*** Begin Patch"]
    for name in (*REPLACED, LINKED):
        gone, come = (content(name).decode().splitlines()[:20] for content in (old, new))
        lines += [f"*** Update File: {name}", "@@", *(f"-{line}" for line in gone), *(f"+{line}" for line in come)]
    for name in CREATED:
        lines += [f"*** Add File: {name}", *(f"+{line}" for line in new(name).decode().splitlines())]
    lines += [f"*** Delete File: {name}" for name in DELETED]
    return "\n".join([*lines, "*** End Patch"])


def twenty(root: Path) -> list[FileChange]:
    """Files replaced, created (some in new directories) and deleted, one with two names, and a directory removed."""
    return [
        *(FileChange(str(root / name), InlineContent(old(name)), InlineContent(new(name))) for name in REPLACED),
        *(FileChange(str(root / name), None, InlineContent(new(name))) for name in CREATED),
        FileChange(str(root / LINKED), InlineContent(old(LINKED)), InlineContent(new(LINKED))),
        *(FileChange(str(root / name), InlineContent(old(name)), None) for name in DELETED),
        FileChange(str(root / "gone"), Directory(), None),
    ]
