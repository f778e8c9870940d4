"""A tree of folders and files, as a walk needs it: on the disk by descriptors, or in memory.

On the disk no name is looked up but in a folder that is held open, and no link is followed. A few folders are held at
a time, so a tree may be five thousand folders deep: who comes back to one that was let go walks down to it again.
"""

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from handhold.core.text.ignore import EXCLUDE, GIT, NAMES, Rules
from handhold.core.text.names import unmistakable
from handhold.world.files.kinds import virtual
from handhold.world.files.walk import ALWAYS

if TYPE_CHECKING:  # a process that only reads has no use for one
    from handhold.world.files.workspace import Workspace

HELD = 64  # folders
MOST_RULES = 1 << 20  # bytes of an ignore file; what stands behind them is not read
JUJUTSU = ".jj"  # another mark of a repository
MARKS = {name.encode() for name in (*NAMES[:3], GIT, JUJUTSU)}

EntryKind = Literal["file", "directory", "link", "other"]


class Entry(NamedTuple):
    name: bytes
    kind: EntryKind


class Tree(Protocol):
    """Folders by their way from the top: b"" for that itself, else names that end with a slash each."""

    def stream(self, way: bytes) -> Iterator[tuple[str, EntryKind]]:
        """What is in a folder, one by one, for who need not hold all of it; OSError."""
        ...

    def entries(self, way: bytes) -> list[Entry]:
        """The same at once."""
        ...

    def stamp(self, way: bytes) -> str:
        """Another one whenever something came into a folder or left it; OSError."""
        ...

    def content(self, way: bytes, name: str, most: int) -> bytes | None:
        """The first bytes of a file in a folder; None if none stands there that can be read."""
        ...

    def marks(self, way: bytes) -> list[Entry]:
        """Those entries of a folder that rules depend on; OSError."""
        ...

    def kind(self, way: bytes, name: bytes) -> EntryKind | None:
        """What stands in a folder under a name; None if nothing does."""
        ...

    def leads(self, way: bytes, name: bytes) -> bool:
        """Whether a link leads to anything."""
        ...


class DiskTree:
    """What is below a folder that is open. Use it in one thread at a time."""

    def __init__(self, fd: int, shows: Callable[[bytes, os.stat_result], bool] | None = None) -> None:
        """`shows` tells of a file by its way and name, and by its status, whether it may be read as an ignore file."""
        self.top = fd
        self._shows = shows
        self._held: OrderedDict[bytes, int] = OrderedDict()
        self._real = set[int]()  # devices that are no door into the kernel

    def __enter__(self) -> "DiskTree":
        return self

    def __exit__(self, *_: object) -> None:
        while self._held:
            os.close(self._held.popitem()[1])

    def stream(self, way: bytes) -> Iterator[tuple[str, EntryKind]]:
        with os.scandir(self.folder(way)) as entries:
            for entry in entries:
                yield entry.name, _kind(entry)

    def entries(self, way: bytes) -> list[Entry]:
        with os.scandir(self.folder(way)) as entries:
            return [Entry(os.fsencode(entry.name), _kind(entry)) for entry in entries]

    def stamp(self, way: bytes) -> str:
        status = os.fstat(self.folder(way))
        return f"{status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}"

    def content(self, way: bytes, name: str, most: int) -> bytes | None:
        path = way + os.fsencode(name)
        above, slash, last = path.rpartition(b"/")
        try:
            fd, status = self.open(above + slash, last)
        except OSError:
            return None
        try:
            return b"".join(_pieces(fd, most)) if self._shows is None or self._shows(path, status) else None
        except OSError:
            return None
        finally:
            os.close(fd)

    def kind(self, way: bytes, name: bytes) -> EntryKind | None:
        try:
            mode = os.stat(name, dir_fd=self.folder(way), follow_symlinks=False).st_mode
        except OSError:
            return None
        if stat.S_ISREG(mode):
            return "file"
        return "directory" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"

    def marks(self, way: bytes) -> list[Entry]:
        self.folder(way)  # which may be large: it is not listed
        return [Entry(name, kind) for name in MARKS if (kind := self.kind(way, name))]

    def leads(self, way: bytes, name: bytes) -> bool:
        try:
            os.stat(name, dir_fd=self.folder(way))
        except OSError:
            return False
        return True

    def open(self, way: bytes, name: bytes) -> tuple[int, os.stat_result]:
        """A regular file, to be read and closed by the caller; OSError, also if it is none."""
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | ALWAYS, dir_fd=self.folder(way))
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "not a regular file")
        except BaseException:
            os.close(fd)
            raise
        return fd, status

    def folder(self, way: bytes) -> int:
        """A folder, open until others take its place."""
        if not way:
            return self.top
        if way in self._held:
            self._held.move_to_end(way)
            return self._held[way]
        known = way
        while known and known not in self._held:
            known = above(known)
        fd = self._held[known] if known else self.top
        for end in _ends(way, len(known)):
            name = way[way.rfind(b"/", 0, end) + 1 : end]
            fd = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | ALWAYS, dir_fd=fd)
            self._hold(way[: end + 1], fd)
        return fd

    def _hold(self, way: bytes, fd: int) -> None:
        self._held[way] = fd
        if len(self._held) > HELD:
            os.close(self._held.popitem(last=False)[1])
        device = os.fstat(fd).st_dev
        if device not in self._real:
            if virtual(fd):
                del self._held[way]
                os.close(fd)
                raise OSError(errno.EACCES, "a door into the kernel")
            self._real.add(device)


def above(way: bytes) -> bytes:
    """The way to the folder that a folder is in."""
    return way[: way.rfind(b"/", 0, -1) + 1]


def _ends(way: bytes, start: int) -> Iterator[int]:
    """Where each name of a way ends, from some place on."""
    while (start := way.find(b"/", start) + 1) > 0:
        yield start - 1


def _kind(entry: "os.DirEntry[str]") -> EntryKind:
    try:
        if entry.is_file(follow_symlinks=False):
            return "file"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        return "link" if entry.is_symlink() else "other"
    except OSError:
        return "other"


def _pieces(fd: int, most: int) -> Generator[bytes]:
    while most > 0 and (piece := os.read(fd, min(most, 1 << 18))):
        yield piece
        most -= len(piece)


# --- the rules that hold in a folder


def rules_in(tree: Tree, place: str, way: bytes, entries: Iterable[Entry], rules: Rules) -> Rules:
    """Those of a folder with these entries, which is called `place`; `rules` are those of the folder above."""
    marks = {entry.name: entry.kind for entry in entries if entry.name in MARKS}
    if not marks:
        return rules
    git = marks.get(GIT.encode())
    is_top = git in ("file", "directory") or marks.get(JUJUTSU.encode()) == "directory"
    is_top = is_top or (git == "link" and tree.leads(way, GIT.encode()))
    names = [name for name in NAMES if name.encode() in marks]
    found = {name: data for name in names if (data := tree.content(way, name, MOST_RULES))}
    if git == "directory" and (data := tree.content(way, EXCLUDE, MOST_RULES)):
        found[EXCLUDE] = data
    return rules.below(place, found, is_top=is_top)


def rules_above(workspace: "Workspace", place: str, shows: Callable[[str, os.stat_result], bool]) -> Rules:
    """Those of the folders above a place, up to the top of the file system: what is above the root decides too.

    `shows` tells whether a file in the workspace may be read.
    """
    rules = Rules()
    root = workspace.root_of(unmistakable(place))
    for folder in _above(root.real):
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            with DiskTree(fd) as tree:
                rules = rules_in(tree, folder, b"", tree.marks(b""), rules)
        finally:
            os.close(fd)

    def shows_below(name: bytes, status: os.stat_result) -> bool:
        return shows(root.prefix + os.fsdecode(name), status)

    with workspace.directory(root.prefix + "x") as (fd, _), DiskTree(fd, shows_below) as tree:
        for folder in _above(place)[len(_above(root.real)) :]:
            way = os.fsencode(folder.removeprefix(root.prefix) + "/") if folder != root.real else b""
            try:
                rules = rules_in(tree, folder, way, tree.marks(way), rules)
            except OSError:
                continue
    return rules


def _above(place: str) -> list[str]:
    names = place.strip("/").split("/") if place != "/" else []
    return ["/" + "/".join(names[:depth]) for depth in range(len(names))]
