"""Verify hits: a search program works with names, and a name can be replaced while it runs.

So a hit is trusted only if the file at that place, opened without following links, confirms it: it must be a regular
file that is not hidden under any name, and searching the open file must find the match.
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

from handhold.backends.files.directory_tree import DiskTree
from handhold.backends.files.file_kinds import is_virtual
from handhold.backends.files.openat2 import (
    RESOLVE_BENEATH,
    RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS,
    openat2,
    pack_open_how,
)
from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.walk_resolver import BASE_OPEN_FLAGS, PATH_FLAGS
from handhold.backends.files.workspace import Workspace
from handhold.backends.search.events import BOM, MAX_UTF16_BYTES, UTF16_BOMS, FoundLine
from handhold.core.errors import NotFound, PathError, PermissionDenied, ToolError
from handhold.core.facts import MatchRow
from handhold.core.ports.files import HiddenPaths
from handhold.core.text.clip import clip
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed

NO_LINKS = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS
READ_FLAGS, STAT_FLAGS = os.O_RDONLY, os.O_PATH  # a file may be listed without being readable
OPENAT2_HOW = {READ_FLAGS: pack_open_how(READ_FLAGS, NO_LINKS), STAT_FLAGS: pack_open_how(STAT_FLAGS, NO_LINKS)}
WALK_FLAGS = {READ_FLAGS: READ_FLAGS | BASE_OPEN_FLAGS | os.O_NOFOLLOW, STAT_FLAGS: PATH_FLAGS}
FS_ENCODING = sys.getfilesystemencoding()
HIDDEN_PATHS_TIMEOUT_SECONDS = 0.5  # to find hidden paths; if it takes longer, the program is not started
PLACEHOLDER_NAME = "x"  # any name in a folder, existing or not
READ_CHUNK_BYTES = 1 << 18
UTF8_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))  # continuation bytes, which start no character


class HitSkipped(Exception):
    """A hit that is not shown. The folder has counted it."""


class SearchFolder:
    """The folder in which a program runs; it names files relative to it, in bytes."""

    def __init__(
        self,
        workspace: Workspace,
        fd: int,
        place: str,
        visible: Callable[[str], bool],
        hidden_paths: HiddenPaths | None = None,
    ) -> None:
        self.workspace = workspace
        self.fd = fd
        self.visible = visible
        self.hidden_paths = hidden_paths
        self.max_file_bytes: float = inf  # larger files are skipped
        self.too_large = 0
        self.unstable_count = 0
        self._prefix = place.rstrip("/") + "/"
        self._root = workspace.find_root(escape_ambiguous(place))
        self._path_in_root = os.fsencode(self._prefix.removeprefix(self._root.prefix))
        self._uses_openat2 = workspace.resolver_name == "openat2"

    def to_place(self, name: bytes) -> str:
        return self._prefix + name.decode(FS_ENCODING, "surrogateescape")

    def is_inside(self, place: str) -> bool:
        """Whether a place is below the root that contains this folder."""
        return place.startswith(self._root.prefix)

    def can_show(self, name: bytes, status: os.stat_result | None = None) -> bool:
        """Whether a file may be shown: neither its place nor another name of it is hidden."""
        return self.can_show_place(self.to_place(name), status or (self.stat(name) if self.hidden_paths else None))

    def can_show_place(self, place: str, status: os.stat_result | None) -> bool:
        if not self.visible(place):
            return False
        if self.hidden_paths is None or status is None or status.st_nlink == 1:
            return True
        return (status.st_dev, status.st_ino) not in self._hidden_hard_links

    def open_tree(self) -> DiskTree:
        """What is below it; ignore files that may not be read do not apply."""
        return DiskTree(self.fd, self.can_show)

    @cached_property
    def denied_places(self) -> tuple[str, ...]:
        """Places in this workspace that may currently not be read. Raise TimeoutError if they are not found quickly."""
        return tuple(self.hidden_paths.paths(monotonic() + HIDDEN_PATHS_TIMEOUT_SECONDS)) if self.hidden_paths else ()

    @property
    def has_denied_places(self) -> bool:
        try:
            return bool(self.denied_places)
        except TimeoutError:
            return True

    @cached_property
    def _hidden_hard_links(self) -> Mapping[tuple[int, int], str]:
        """Looked up once per search, and only if it finds a file with several names."""
        return self.hidden_paths.hard_links() if self.hidden_paths else {}

    def open(self, name: bytes, flags: int = READ_FLAGS) -> int:
        """Open a regular file. Raise HitSkipped if there is none, a link leads there, or it is hidden."""
        try:
            fd = self._open_beneath(name, flags)
        except (OSError, ToolError):
            self.unstable_count += 1
            raise HitSkipped from None
        try:
            self._check_file(name, fd)
        except BaseException:
            os.close(fd)
            raise
        return fd

    def _check_file(self, name: bytes, fd: int) -> None:
        """Raise HitSkipped if it is not a regular file, is hidden under any name, or is too large."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or (status.st_dev != self._root.device and is_virtual(fd)):
            self.unstable_count += 1
            raise HitSkipped
        if not self.can_show(name, status):
            raise HitSkipped
        if status.st_size > self.max_file_bytes:
            self.too_large += 1
            raise HitSkipped

    def is_unreadable(self, name: bytes) -> bool:
        """Whether we may not open it either, file or folder."""
        try:
            os.close(self._open_beneath(name, READ_FLAGS))
        except PermissionError:
            return True
        except (OSError, ToolError) as error:
            return isinstance(error, PermissionDenied)
        return False

    def check_readable(self, name: bytes) -> None:
        """Raise PermissionDenied: a file that was requested by name is searched or reported, never left out."""
        with translate_os_errors(self.to_place(name)):
            os.close(self._open_beneath(name, READ_FLAGS))

    def has_file(self, name: bytes) -> bool:
        """Whether `open` would find it, readable or not."""
        try:
            os.close(self.open(name, STAT_FLAGS))
        except HitSkipped:
            return False
        return True

    def stat(self, name: bytes) -> os.stat_result | None:
        """By descriptor, which also works for names longer than the system's limit."""
        try:
            fd = self._open_beneath(name, STAT_FLAGS)
        except (OSError, ToolError):
            log_swallowed()
            return None
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def _open_beneath(self, name: bytes, flags: int) -> int:
        if self._uses_openat2:
            try:
                with self._root.folder as folder:
                    return openat2(folder, self._path_in_root + name, OPENAT2_HOW[flags])
            except OSError as error:
                if error.errno != ENAMETOOLONG:
                    raise
        with self.workspace.open_parent(escape_ambiguous(self.to_place(name))) as (folder, last):
            return os.open(last, WALK_FLAGS[flags], dir_fd=folder)


@contextmanager
def open_search_folder(
    workspace: Workspace, place: str, visible: Callable[[str], bool], hidden_paths: HiddenPaths | None = None
) -> Generator[tuple[SearchFolder, bytes]]:
    """The folder of a search, and the name of the single file to search in it; empty for the whole folder."""
    look = workspace.stat(escape_ambiguous(place))
    if look is None:
        raise NotFound(place)
    within = place if look.kind == "directory" else place.rpartition("/")[0] or "/"
    with ExitStack() as stack:
        try:
            fd, _ = stack.enter_context(
                workspace.open_parent(escape_ambiguous(f"{within.rstrip('/')}/{PLACEHOLDER_NAME}"))
            )
        except PathError as error:
            error.path = within  # not that of the placeholder name
            raise
        folder = SearchFolder(workspace, fd, within, visible, hidden_paths)
        name = os.fsencode(place.removeprefix(folder.to_place(b""))) if within != place else b""
        if name:
            folder.check_readable(name)
        yield folder, name


class LineVerifier:
    """The lines of one open file, with offsets as ripgrep counts them."""

    def __init__(self, fd: int, *, explicit: bool = False) -> None:
        self._line_ends = b"\n\0" if explicit else b"\n"  # in an explicit file, a NUL ends a line
        self._number, self._offset = 1, 0  # how far lines were counted
        head = os.pread(fd, len(BOM), 0)
        self._read: Callable[[int, int], bytes] = lambda size, at: os.pread(fd, size, at)
        self._is_utf16 = head.startswith(UTF16_BOMS)
        if head == BOM:
            self._read = lambda size, at: os.pread(fd, size, at + len(BOM))
        elif self._is_utf16:
            whole = os.pread(fd, MAX_UTF16_BYTES, 0).decode("utf-16", "replace").encode()
            self._read = lambda size, at: whole[at : at + size]

    def verify(self, line: FoundLine, width: int, literal: bytes | None = None) -> MatchRow | None:
        """The line as the file has it, cut; None if the file has a different one there, or at another number.

        `literal` is what the match must be.
        """
        if not self._has_number(line):
            return None
        if line.data is None:
            if (
                literal is not None
                and line.start >= 0
                and self._read(len(literal), line.offset + line.start) != literal
            ):
                return None
            return self._clip_long_line(line, width)
        data = self._read(len(line.data), line.offset)
        # In an explicit file, ripgrep reports a NUL as the end of a line.
        if data != line.data and data.replace(b"\0", b"\n") != line.data:
            return None
        data = line.data.removesuffix(b"\n").removesuffix(b"\r")
        return make_row(line, data, line.start, line.end, width)

    def _has_number(self, line: FoundLine) -> bool:
        """Whether the line number is right: a wrong one would reveal how many lines another file has."""
        while self._offset < line.offset:
            piece = self._read(min(READ_CHUNK_BYTES, line.offset - self._offset), self._offset)
            if not piece:
                return False
            self._number += sum(map(piece.count, self._line_ends))
            self._offset += len(piece)
        return self._number == line.number

    def _clip_long_line(self, line: FoundLine, width: int) -> MatchRow | None:
        """A line too long to hold: the bytes around its match, and the number of characters on each side."""
        around = 4 * width  # a character has at most four bytes
        start = max(line.start, 0)
        first = max(0, start - around)
        past = min(line.end, start + around) + around if line.end >= 0 else around
        data = self._read(past - first, line.offset + first)
        if len(data) < start - first:
            return None
        data, newline, _ = data.partition(b"\n")
        skipped = len(data) - len(data.lstrip(UTF8_CONTINUATION_BYTES)) if first else 0
        first, data = first + skipped, data[skipped:]
        if not newline:
            data = data[: find_utf8_boundary(data)]
        before = self._count_characters(line.offset, line.offset + first)
        after = 0 if newline else self._count_characters(line.offset + first + len(data), None)
        shown = make_row(line, data, line.start - first, line.end - first, width)
        return shown._replace(omitted_chars=(shown.omitted_chars[0] + before, shown.omitted_chars[1] + after))

    def _count_characters(self, at: int, past: int | None) -> int:
        """The number of characters between two offsets, or up to the end of the line."""
        count = 0
        while past is None or at < past:
            piece = self._read(READ_CHUNK_BYTES if past is None else min(READ_CHUNK_BYTES, past - at), at)
            if not piece:
                break
            at += len(piece)
            if past is None and (end := piece.find(b"\n")) >= 0:
                return count + len(piece[:end].removesuffix(b"\r").translate(None, UTF8_CONTINUATION_BYTES))
            count += len(piece.translate(None, UTF8_CONTINUATION_BYTES))
        return count


def make_row(line: FoundLine, data: bytes, start: int, end: int, width: int) -> MatchRow:
    text = data.decode("utf-8", "replace")
    if line.start < 0:
        text, _, _, cut = clip(text, 0, 0, width)
        return MatchRow(line.number, text, omitted_chars=cut)
    if len(text) != len(data):
        start, end = (len(data[:each].decode("utf-8", "replace")) for each in (start, end))
    text, start, end, cut = clip(text, min(start, len(text)), min(end, len(text)), width)
    return MatchRow(line.number, text, start, end, cut)


def find_utf8_boundary(data: bytes) -> int:
    """The length of the data without a character that is cut off at the end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if back < size else len(data)
        if byte < 0x80:
            break
    return len(data)
