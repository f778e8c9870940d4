"""A folder as data: everything that must be the same after two runs of the same commands, and the differences."""

import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NOW = "now"
TICK_NS = 10**9  # some programs set times in whole seconds, so the initial files are older than that
GIT_WRITES_ANEW = (".git/index", ".git/config")
INDEX_ENTRY_BYTES = 62


@dataclass(frozen=True)
class Node:
    """One entry. Nodes of two runs are equal if they are indistinguishable."""

    kind: str
    mode: str
    owner: tuple[int, int]
    content: str
    names: tuple[str, ...]  # all names of the file in the tree, if there are several
    xattrs: tuple[tuple[str, str], ...]
    time: str  # NOW if set while the commands ran, else exact


Tree = dict[str, Node]


def take_tree(root: Path, started_ns: int = 2**63) -> Tree:
    """Everything below `root`, including `root`; times since `started_ns` are NOW."""
    found = {os.path.relpath(path, root): os.lstat(path) for path in _walk(root)}
    by_inode: dict[tuple[int, int], list[str]] = {}
    for name, facts in found.items():
        if not stat.S_ISDIR(facts.st_mode):
            by_inode.setdefault((facts.st_dev, facts.st_ino), []).append(name)
    tree: Tree = {}
    for name, facts in found.items():
        path = root / name
        names = sorted(by_inode.get((facts.st_dev, facts.st_ino), []))
        tree[name] = Node(
            kind=_kind(facts.st_mode),
            mode=f"{stat.S_IMODE(facts.st_mode):04o}",
            owner=(facts.st_uid, facts.st_gid),
            content=_content(path, facts),
            names=tuple(names) if len(names) > 1 else (),
            xattrs=tuple(
                (each, os.getxattr(path, each, follow_symlinks=False).hex())
                for each in sorted(os.listxattr(path, follow_symlinks=False))
            ),
            time=NOW if facts.st_mtime_ns >= started_ns - TICK_NS else str(facts.st_mtime_ns),
        )
    return tree


def compare(expected: Tree, found: Tree, *, retimed: frozenset[str] = frozenset()) -> Iterator[tuple[str, str]]:
    """Each difference, as an aspect and a sentence. Files in `retimed` may have the current time."""
    for name in sorted(expected.keys() | found.keys()):
        here, there = expected.get(name), found.get(name)
        if here is None or there is None:
            yield "tree", f"{name!a}: {'made' if here is None else 'missing'}"
            continue
        for field in ("kind", "mode", "owner", "content", "names", "xattrs"):
            one, other = getattr(here, field), getattr(there, field)
            if one != other:
                yield "tree", f"{name!a}: {field} {one!a:.80} became {other!a:.80}"
        if here.time != there.time and not (name in retimed and there.time == NOW):
            yield _time_aspect(name, here), f"{name!a}: time {here.time} became {there.time}"


def _time_aspect(name: str, node: Node) -> str:
    if node.kind == "folder":
        return "folder times"
    return "git times" if name.endswith(GIT_WRITES_ANEW) or "/objects/" in name else "times"


def changed_files(before: Tree, after: Tree) -> frozenset[str]:
    """Files that are in both trees with different contents: undo sets their time to now (E-16)."""
    both = before.keys() & after.keys()
    return frozenset(
        name for name in both if (before[name].kind, before[name].content) != (after[name].kind, after[name].content)
    )


def _walk(root: Path) -> Iterator[str]:
    yield str(root)
    for parent, folders, files in os.walk(root):
        for name in (*folders, *files):
            yield os.path.join(parent, name)


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFREG: "file",
        stat.S_IFDIR: "folder",
        stat.S_IFLNK: "link",
        stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket",
    }
    return kinds.get(stat.S_IFMT(mode), "device")


def _content(path: Path, facts: os.stat_result) -> str:
    if stat.S_ISLNK(facts.st_mode):
        return os.readlink(path)
    if stat.S_ISREG(facts.st_mode):
        return hashlib.sha256(without_stat_data(path.name, path.read_bytes())).hexdigest()
    return str(facts.st_rdev)


def without_stat_data(name: str, data: bytes) -> bytes:
    """Content without inodes and times, which are expected to differ: in a git index, in a *.pyc."""
    if name.endswith(".pyc"):
        return data[:8] + data[16:]
    if not data.startswith(b"DIRC"):
        return data
    version, count = struct.unpack_from(">II", data, 4)
    if version == 4:
        return data
    kept, position = [data[:12]], 12
    for _ in range(count):
        (flags,) = struct.unpack_from(">H", data, position + 60)
        begin = position + INDEX_ENTRY_BYTES + (2 if flags & 0x4000 else 0)
        end = data.index(b"\0", begin)
        kept += [data[position + 24 : position + 28], data[position + 40 : end], b"\0"]
        position += (end - position + 8) // 8 * 8
    return b"".join(kept)
