"""Hits, checked at the boundary: a search program walks by names, and a name can be moved under it.

So what it says is believed only as far as the file bears it out that stands at that place, opened without following
any link: it must be a regular file that is hidden under no name, and a search of the open file must find the match.
"""

import os
import stat
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from errno import ENAMETOOLONG
from functools import cached_property
from math import inf
from time import monotonic

from handhold.core.errors import NotFound, PathError, PermissionRefused, ToolError
from handhold.core.facts import Row
from handhold.core.ports import Hiding
from handhold.core.text.clip import clip
from handhold.core.text.names import unmistakable
from handhold.world.files.kinds import virtual
from handhold.world.files.openat2 import BENEATH, NO_MAGICLINKS, NO_SYMLINKS, how, openat2
from handhold.world.files.tree import DiskTree
from handhold.world.files.trouble import named
from handhold.world.files.walk import ALWAYS, STEP
from handhold.world.files.workspace import Workspace
from handhold.world.search.events import BOM, MOST_WIDE, WIDE, Found

NO_LINKS = BENEATH | NO_MAGICLINKS | NO_SYMLINKS
READ, LOOK = os.O_RDONLY, os.O_PATH  # a file may be named that may not be read
KERNEL = {READ: how(READ, NO_LINKS), LOOK: how(LOOK, NO_LINKS)}
WALKED = {READ: READ | ALWAYS | os.O_NOFOLLOW, LOOK: STEP}
ENCODING = sys.getfilesystemencoding()
HIDDEN_SECONDS = 0.5  # to find what is hidden; where that takes longer, a program is not started at all
ANY = "x"  # a name in a folder, whether it is there or not
PIECE = 1 << 18
INSIDE = bytes(range(0x80, 0xC0))  # bytes that begin no character of UTF-8


class LeftOut(Exception):
    """A hit that is not shown. The folder has counted it."""


class Folder:
    """Where a program is started, and from where on it names files, in bytes."""

    def __init__(
        self,
        workspace: Workspace,
        fd: int,
        place: str,
        visible: Callable[[str], bool],
        hiding: Hiding | None = None,
    ) -> None:
        self.workspace = workspace
        self.fd = fd
        self.visible = visible
        self.hiding = hiding
        self.most: float = inf  # bytes of a file
        self.too_large = 0
        self.unsteady = 0
        self._prefix = place.rstrip("/") + "/"
        self._root = workspace.root_of(unmistakable(place))
        self._way = os.fsencode(self._prefix.removeprefix(self._root.prefix))
        self._kernel = workspace.resolver == "openat2"

    def place(self, name: bytes) -> str:
        return self._prefix + name.decode(ENCODING, "surrogateescape")

    def is_inside(self, place: str) -> bool:
        """Whether a place is below the root that this folder is in."""
        return place.startswith(self._root.prefix)

    def shows(self, name: bytes, status: os.stat_result | None = None) -> bool:
        """Whether a file may be shown, and be told from: neither its place is hidden, nor another name that it has."""
        return self.shows_place(self.place(name), status or (self.status(name) if self.hiding else None))

    def shows_place(self, place: str, status: os.stat_result | None) -> bool:
        if not self.visible(place):
            return False
        if self.hiding is None or status is None or status.st_nlink == 1:
            return True
        return (status.st_dev, status.st_ino) not in self._twins

    def tree(self) -> DiskTree:
        """What is below it; no ignore file counts that may not be read."""
        return DiskTree(self.fd, self.shows)

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """Places in this workspace that may not be read, as of now. TimeoutError if they are not found quickly."""
        return tuple(self.hiding.places(monotonic() + HIDDEN_SECONDS)) if self.hiding else ()

    @property
    def hides_anything(self) -> bool:
        try:
            return bool(self.hidden)
        except TimeoutError:
            return True

    @cached_property
    def _twins(self) -> Mapping[tuple[int, int], str]:
        """Looked up once for a search, and only if it meets a file that has several names."""
        return self.hiding.twins() if self.hiding else {}

    def open(self, name: bytes, flags: int = READ) -> int:
        """The regular file of this name. LeftOut if there is none, if a link leads there, or if it may not be shown."""
        try:
            fd = self._opened(name, flags)
        except (OSError, ToolError):
            self.unsteady += 1
            raise LeftOut from None
        try:
            self._must_fit(name, fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _must_fit(self, name: bytes, fd: int) -> None:
        """LeftOut if what was opened is no regular file, is hidden under any name, or is too large."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (status.st_dev != self._root.device and virtual(fd)):
            self.unsteady += 1
            raise LeftOut
        if not self.shows(name, status):
            raise LeftOut
        if status.st_size > self.most:
            self.too_large += 1
            raise LeftOut

    def is_unreadable(self, name: bytes) -> bool:
        """Whether we may not open it either, file or folder."""
        try:
            os.close(self._opened(name, READ))
        except PermissionError:
            return True
        except (OSError, ToolError) as error:
            return isinstance(error, PermissionRefused)
        return False

    def must_be_readable(self, name: bytes) -> None:
        """PermissionRefused: a file that was asked for by its name is not left out, it is searched or told."""
        with named(self.place(name)):
            os.close(self._opened(name, READ))

    def has(self, name: bytes) -> bool:
        """Whether `open` would find it, be it readable or not."""
        try:
            os.close(self.open(name, LOOK))
        except LeftOut:
            return False
        return True

    def status(self, name: bytes) -> os.stat_result | None:
        """By its descriptor, which also finds one whose name is longer than the system takes at once."""
        try:
            fd = self._opened(name, LOOK)
        except (OSError, ToolError):
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def _opened(self, name: bytes, flags: int) -> int:
        if self._kernel:
            try:
                return openat2(self._root.fd, self._way + name, KERNEL[flags])
            except OSError as error:
                if error.errno != ENAMETOOLONG:
                    raise
        with self.workspace.directory(unmistakable(self.place(name))) as (folder, last):
            return os.open(last, WALKED[flags], dir_fd=folder)


@contextmanager
def opened(
    workspace: Workspace, place: str, visible: Callable[[str], bool], hiding: Hiding | None = None
) -> Generator[tuple[Folder, bytes]]:
    """The folder of a search, and the name of the one file in it that is to be searched; empty for all of it."""
    look = workspace.look(unmistakable(place))
    if look is None:
        raise NotFound(place)
    within = place if look.kind == "directory" else place.rpartition("/")[0] or "/"
    with ExitStack() as stack:
        try:
            fd, _ = stack.enter_context(workspace.directory(unmistakable(f"{within.rstrip('/')}/{ANY}")))
        except PathError as error:
            error.path = within  # not that of the name which we made up
            raise
        folder = Folder(workspace, fd, within, visible, hiding)
        name = os.fsencode(place.removeprefix(folder.place(b""))) if within != place else b""
        if name:
            folder.must_be_readable(name)
        yield folder, name


class Lines:
    """The lines of one open file, as the program counts its bytes."""

    def __init__(self, fd: int, *, named: bool = False) -> None:
        self._ends = b"\n\0" if named else b"\n"  # in a file that was named, a NUL ends a line
        self._number, self._offset = 1, 0  # up to where they were counted
        head = os.pread(fd, len(BOM), 0)
        self._read: Callable[[int, int], bytes] = lambda size, at: os.pread(fd, size, at)
        self._wide = head.startswith(WIDE)
        if head == BOM:
            self._read = lambda size, at: os.pread(fd, size, at + len(BOM))
        elif self._wide:
            whole = os.pread(fd, MOST_WIDE, 0).decode("utf-16", "replace").encode()
            self._read = lambda size, at: whole[at : at + size]

    def row(self, found: Found, width: int, literal: bytes | None = None) -> Row | None:
        """The line as it stands in the file, cut; None if the file has another one there, or by that number.

        `literal` is what a match must be.
        """
        if not self._is_numbered(found):
            return None
        if found.data is None:
            if (
                literal is not None
                and found.start >= 0
                and self._read(len(literal), found.offset + found.start) != literal
            ):
                return None
            return self._long(found, width)
        data = self._read(len(found.data), found.offset)
        # In a file that was named, ripgrep says that a NUL was the end of a line.
        if data != found.data and data.replace(b"\0", b"\n") != found.data:
            return None
        data = found.data.removesuffix(b"\n").removesuffix(b"\r")
        return row(found, data, found.start, found.end, width)

    def _is_numbered(self, found: Found) -> bool:
        """Whether the line has the number that was said: else that tells how many lines another file has."""
        while self._offset < found.offset:
            piece = self._read(min(PIECE, found.offset - self._offset), self._offset)
            if not piece:
                return False
            self._number += sum(map(piece.count, self._ends))
            self._offset += len(piece)
        return self._number == found.number

    def _long(self, found: Found, width: int) -> Row | None:
        """A line that nobody wants to hold: the bytes around its match, and how many characters stand on each side."""
        around = 4 * width  # a character has four bytes at most
        start = max(found.start, 0)
        first = max(0, start - around)
        past = min(found.end, start + around) + around if found.end >= 0 else around
        data = self._read(past - first, found.offset + first)
        if len(data) < start - first:
            return None
        data, newline, _ = data.partition(b"\n")
        skipped = len(data) - len(data.lstrip(INSIDE)) if first else 0
        first, data = first + skipped, data[skipped:]
        if not newline:
            data = data[: whole_characters(data)]
        before = self._characters(found.offset, found.offset + first)
        after = 0 if newline else self._characters(found.offset + first + len(data), None)
        shown = row(found, data, found.start - first, found.end - first, width)
        return shown._replace(cut=(shown.cut[0] + before, shown.cut[1] + after))

    def _characters(self, at: int, past: int | None) -> int:
        """How many characters stand from one byte to another, or to the end of the line."""
        count = 0
        while past is None or at < past:
            piece = self._read(PIECE if past is None else min(PIECE, past - at), at)
            if not piece:
                break
            at += len(piece)
            if past is None and (end := piece.find(b"\n")) >= 0:
                return count + len(piece[:end].removesuffix(b"\r").translate(None, INSIDE))
            count += len(piece.translate(None, INSIDE))
        return count


def row(found: Found, data: bytes, start: int, end: int, width: int) -> Row:
    text = data.decode("utf-8", "replace")
    if found.start < 0:
        text, _, _, cut = clip(text, 0, 0, width)
        return Row(found.number, text, cut=cut)
    if len(text) != len(data):
        start, end = (len(data[:each].decode("utf-8", "replace")) for each in (start, end))
    text, start, end, cut = clip(text, min(start, len(text)), min(end, len(text)), width)
    return Row(found.number, text, start, end, cut)


def whole_characters(data: bytes) -> int:
    """How many of these bytes are left if the character that is cut off at the end is left out."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < size else len(data)
        if byte < 0x80:
            break
    return len(data)
