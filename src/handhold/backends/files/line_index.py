"""Lines of a file of any size, by number, with little memory.

A file is one string of bytes, so a line can only be found by counting the ends of those before it. The
index keeps the count at every so many bytes, as far as anybody has read: from there it is a short way.
"""

import codecs
import errno
import os
import sys
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from threading import Lock
from time import time_ns
from typing import Any, Generic, TypeVar

from handhold.core.errors import PastEnd
from handhold.core.facts import DeclaredEncoding, FileIdentity, FileSnapshot, Page, PageLine
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.core.text.encoding import (
    DETECTION_SAMPLE_BYTES,
    UTF8,
    TextEncoding,
    detect_encoding,
    detect_sample_encoding,
    replace_undecodable,
)
from handhold.core.text.lines import split_lines
from handhold.progress import report

WHOLE_READ_BYTES = 1024 * 1024  # a file up to here is read at once
CHUNK_BYTES = 1024 * 1024
PROBE_BYTES = 4096  # bytes that show how long lines are
LONG_LINE_BYTES = 200  # bytes of a line, above which finding each newline is the fastest of all
SHORT_LINE_BYTES = 16  # bytes of a line, below which finding each newline costs more than looking at each byte
BLOCK_BYTES = 256 * 1024  # what is looked at in one go: it should stay in the processor's cache
MAX_CHECKPOINTS = 64 * 1024  # of one index
MAX_INDEXES = 32
MAX_CACHED_PAGES = 2  # kept as they were shown, for whoever asks again
MAX_CACHED_PAGE_CHARS = 4 * 1024 * 1024  # of a page that is kept
SIMPLE_COUNT_BYTES = 8 * 1024 * 1024  # bytes that are counted before anybody thinks of a faster way
MIN_NUMPY_BYTES = 256 * 1024 * 1024  # bytes to count that repay its import
STABLE_AFTER_NS = 50_000_000  # a file written more recently may change again under the same time stamp

IndexKey = tuple[FileIdentity, DeclaredEncoding | None]  # of a file, and what is said about it

K = TypeVar("K")
V = TypeVar("V")


class FileTruncated(Exception):
    """The file ended before it should: somebody cut it while it was read."""


def read_chunks(fd: int) -> Iterator[bytes]:
    """A file from end to end, never all of it at once."""
    while chunk := os.read(fd, CHUNK_BYTES):
        yield chunk


# --- where lines end


class LineEndFinder:
    """Line ends in the bytes of an encoding. Where characters are two or four bytes wide, so are the steps."""

    def __init__(self, coding: TextEncoding) -> None:
        self.newline = coding.newline
        self.unit = len(self.newline)

    def count(self, block: bytes) -> int:
        if self.unit > 1:
            return sum(1 for _ in self._iter_ends(block))
        if block.count(self.newline, 0, PROBE_BYTES) * SHORT_LINE_BYTES > PROBE_BYTES:
            return block.count(self.newline)
        # `replace` goes from newline to newline by memchr, `count` from byte to byte: seven to twenty times slower,
        # by how Python was compiled, unless lines are very short.
        return len(block) - len(block.replace(self.newline, b""))

    def find_nth(self, block: bytes, n: int) -> int:
        """Where the line after the n-th end starts; the block must hold so many."""
        if self.unit > 1:
            ends = self._iter_ends(block)
            return next(end for number, end in enumerate(ends, 1) if number == n)
        low, high = 0, len(block)
        while high - low > 1024:
            middle = (low + high) // 2
            here = block.count(self.newline, low, middle)
            if here >= n:
                high = middle
            else:
                low, n = middle, n - here
        for _ in range(n):
            low = block.index(self.newline, low) + 1
        return low

    def find_first(self, block: bytes) -> int | None:
        """Where the second line starts."""
        return next(self._iter_ends(block), None)

    def find_last(self, block: bytes) -> int | None:
        """Where the last line starts, if another is before it."""
        at = block.rfind(self.newline)
        while at % self.unit and at != -1:
            at = block.rfind(self.newline, 0, at + self.unit - 1)
        return None if at == -1 else at + self.unit

    def _iter_ends(self, block: bytes) -> Iterator[int]:
        at = block.find(self.newline)
        while at != -1:
            if at % self.unit == 0:
                yield at + self.unit
            at = block.find(self.newline, at + 1)


# --- where bytes come from


@dataclass(frozen=True)
class MemorySource:
    """A file in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def read_at(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]

    def next_data(self, start: int) -> int:
        return start


@dataclass(frozen=True)
class DiskSource:
    """A file on the disk, as long as it was when it was opened."""

    fd: int
    size: int

    def read_at(self, start: int, length: int) -> bytes:
        length = min(length, self.size - start)
        block = os.pread(self.fd, length, start)
        while len(block) < length:
            more = os.pread(self.fd, length - len(block), start + len(block))
            if not more:
                raise FileTruncated
            block += more
        return block

    def next_data(self, start: int) -> int:
        """The end of the hole that starts here: a sparse file may be larger than the disk."""
        try:
            return min(os.lseek(self.fd, start, os.SEEK_DATA), self.size)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else start


# --- a page


@dataclass
class LineSlice:
    """Lines cut out of a file, and what was met on the way."""

    lines: list[PageLine]
    end: int
    hash: str
    replaced: bool


def read_lines(
    source: MemorySource | DiskSource, start: int, limit: int, width: int, coding: TextEncoding
) -> LineSlice:
    endings = LineEndFinder(coding)
    lines: list[PageLine] = []
    hasher = sha256()
    at, any_replaced = start, False
    while len(lines) < limit and at < source.size:
        block = source.read_at(at, BLOCK_BYTES)
        end = len(block) if at + len(block) == source.size else endings.find_last(block)
        if end is None:
            hasher.update(block)
            line, at, replaced = read_long_line(source, at, width, coding)
            lines.append(line)
        else:
            rows = block[:end]
            if endings.count(rows) >= limit - len(lines):
                rows = rows[: endings.find_nth(rows, limit - len(lines))]
            hasher.update(rows)
            text, replaced = decode_lossy(rows, coding)
            lines += truncate_lines(split_lines(text), width)
            at += len(rows)
        any_replaced = any_replaced or replaced
    return LineSlice(lines[:limit], at, hasher.hexdigest(), any_replaced)


def truncate_lines(rows: list[str], width: int) -> Iterable[PageLine]:
    if max(map(len, rows), default=0) <= width:
        return map(PageLine, rows)
    return (PageLine(row[:width], max(0, len(row) - width)) for row in rows)


def decode_lossy(data: bytes, coding: TextEncoding) -> tuple[str, bool]:
    """The text, and whether some of it had to be replaced."""
    try:
        return data.decode(coding.name), False
    except UnicodeDecodeError:
        return replace_undecodable(data.decode(coding.name, choose_error_handler(coding))), True


def choose_error_handler(coding: TextEncoding) -> str:
    """Broken bytes become surrogates, which stand for nothing else. In UTF-8 one for each byte, as where a file
    is decoded whole."""
    return "surrogateescape" if coding.name == "utf-8" else "handhold-surrogate"


def _replace_with_surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("handhold-surrogate", _replace_with_surrogate)


def read_long_line(
    source: MemorySource | DiskSource, start: int, width: int, coding: TextEncoding
) -> tuple[PageLine, int, bool]:
    """A line that does not fit into a block: its beginning, where the next one starts, whether it is broken.

    The rest is counted and let go.
    """
    endings = LineEndFinder(coding)
    decoder = codecs.getincrementaldecoder(coding.name)(choose_error_handler(coding))
    head, length, last, at, end = "", 0, "", start, None
    while end is None and at < source.size:
        hole = source.next_data(at) - at
        if hole > 0:
            text = decoder.decode(b"", final=True)
            head += (text + "\0" * min(width, hole // endings.unit))[: max(0, width - len(head))]
            length, last, at = length + len(text) + hole // endings.unit, "\0", at + hole
            decoder.reset()
            continue
        block = source.read_at(at, BLOCK_BYTES)
        end = endings.find_first(block)
        chunk = block if end is None else block[: end - endings.unit]
        text = decoder.decode(chunk, final=end is not None or at + len(block) == source.size)
        head += text[: max(0, width - len(head))]
        length, last = length + len(text), text[-1:] or last
        at += len(block) if end is None else end
    if end is not None and last == "\r":
        length -= 1
    head = head[:length]
    plain = replace_undecodable(head)
    return PageLine(plain, length - len(head)), at, plain != head


def build_page(
    whole: FileSnapshot, path: str, offset: int, limit: int, width: int, declared: DeclaredEncoding | None = None
) -> Page:
    """A page of a file that is in memory."""
    coding = detect_encoding(whole.data, path, declared)
    source, total = MemorySource(whole.data), count_lines_in(whole.data, coding)
    if offset > max(total, 1):
        raise PastEnd(path, offset, total)
    start = LineEndFinder(coding).find_nth(whole.data, offset - 1) if offset > 1 else len(coding.bom)
    line_slice = read_lines(source, start, limit, width, coding)
    return Page(
        path=whole.path,
        first=offset,
        lines=tuple(line_slice.lines),
        has_more=line_slice.end < source.size,
        total=total,
        encoding=coding.name,
        has_undecodable_bytes=line_slice.replaced,
        identity=whole.identity,
        byte_span=(start, line_slice.end),
        span_hash=line_slice.hash,
        snapshot=whole,
        encoding_source=coding.basis,
        rejected_encoding=coding.conflicting_declaration,
    )


def count_lines(whole: FileSnapshot, path: str, declared: DeclaredEncoding | None = None) -> int:
    return count_lines_in(whole.data, detect_encoding(whole.data, path, declared))


def count_lines_in(data: bytes, coding: TextEncoding) -> int:
    endings = LineEndFinder(coding)
    unended = len(data) > len(coding.bom) and endings.find_last(data) != len(data)
    return endings.count(data) + unended


# --- the index


class LineIndex:
    """How many lines end before each mark, as far as anybody has looked."""

    def __init__(self, size: int, coding: TextEncoding) -> None:
        self.coding = coding
        self.endings = LineEndFinder(coding)
        self.size = size
        self.step = BLOCK_BYTES
        while self.step * MAX_CHECKPOINTS < size:
            self.step *= 2
        self.checkpoints = array("Q", [0])
        self.total: int | None = None
        self._lock = Lock()

    def find_line_start(self, source: DiskSource, line: int) -> int | None:
        """The byte at which a line starts; None if the file has fewer."""
        if line <= 1:
            return len(self.coding.bom)
        ends = line - 1
        with self._lock:
            self._scan(source, until=ends)
            if self.checkpoints[-1] < ends:
                return None
            checkpoint = bisect_left(self.checkpoints, ends) - 1
            ends -= self.checkpoints[checkpoint]
        for at, block in self._read_blocks(source, checkpoint * self.step, self.size):
            here = self.endings.count(block)
            if here >= ends:
                start = at + self.endings.find_nth(block, ends)
                return start if start < self.size else None
            ends -= here
        raise FileTruncated

    def count_lines(self, source: DiskSource) -> int:
        with self._lock:
            self._scan(source, until=None)
            if self.total is None:
                tail = source.read_at(max(0, self.size - 4), 4)
                self.total = self.checkpoints[-1] + (self.endings.find_last(tail) != len(tail))
            return self.total

    def _scan(self, source: DiskSource, until: int | None) -> None:
        """Count on until so many lines have ended, or to the end of the file."""
        at = (len(self.checkpoints) - 1) * self.step
        if at >= self.size:
            return
        count, scanned = self.endings.count, 0
        while at < self.size and (until is None or self.checkpoints[-1] < until):
            if scanned >= SIMPLE_COUNT_BYTES:  # not near, and not all holes
                count = choose_count_function(self.endings, self.size - at)
            here = 0
            for _, block in self._read_blocks(source, at, min(at + self.step, self.size)):
                here += count(block)
                scanned += len(block)
            self.checkpoints.append(self.checkpoints[-1] + here)
            at += self.step
            report("bytes looked at", min(at, self.size), self.size)

    def _read_blocks(self, source: DiskSource, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Bytes from `start` on, in blocks, except those that lie in a hole: no line ends there."""
        while (start := max(start, source.next_data(start) // BLOCK_BYTES * BLOCK_BYTES)) < end:
            block = source.read_at(start, min(BLOCK_BYTES, end - start))
            yield start, block
            start += len(block)


def choose_count_function(endings: LineEndFinder, remaining: int) -> Callable[[bytes], int]:
    """The fastest way here to count line ends, if so many bytes are to be counted at most."""
    if endings.unit > 1 or not ("numpy" in sys.modules or remaining >= MIN_NUMPY_BYTES):
        return endings.count
    try:
        import numpy
    except ImportError:
        return endings.count
    np: Any = numpy
    newline = endings.newline

    def count_with_numpy(block: bytes) -> int:
        if block.count(newline, 0, PROBE_BYTES) * LONG_LINE_BYTES < PROBE_BYTES:
            return endings.count(block)
        return int(np.count_nonzero(np.frombuffer(block, np.uint8) == newline[0]))

    return count_with_numpy


class LineIndexCache:
    """The indexes of the files read last. An identity names a state of a file, so none goes stale."""

    def __init__(self, max_size: int = MAX_INDEXES) -> None:
        self._indexes = LRUCache[IndexKey, LineIndex](max_size)
        self._pages = LRUCache[tuple[IndexKey, int, int, int], Page](MAX_CACHED_PAGES)

    def read_page(
        self,
        fd: int,
        place: str,
        identity: FileIdentity,
        path: str,
        offset: int,
        limit: int,
        width: int,
        declared: DeclaredEncoding | None = None,
    ) -> Page:
        source, state = DiskSource(fd, identity.size), (identity, declared)
        index, key = self._get_index(source, state, path), (state, offset, limit, width)
        if cached := self._pages.get(key):
            return replace(cached, path=place, total=index.total)
        start = index.find_line_start(source, offset)
        if start is None:
            raise PastEnd(path, offset, index.count_lines(source))
        line_slice = read_lines(source, start, limit, width, index.coding)
        if line_slice.replaced and index.coding == UTF8 and identity.size <= MAX_EDITABLE_BYTES:
            # What was plain so far shows only here what it is; whoever edits it looks at all of it.
            index.coding = detect_encoding(source.read_at(0, identity.size), path, declared)
            line_slice = read_lines(source, start, limit, width, index.coding)
        page = Page(
            path=place,
            first=offset,
            lines=tuple(line_slice.lines),
            has_more=line_slice.end < source.size,
            total=index.total,
            encoding=index.coding.name,
            has_undecodable_bytes=line_slice.replaced,
            identity=identity,
            byte_span=(start, line_slice.end),
            span_hash=line_slice.hash,
            snapshot=None,
            encoding_source=index.coding.basis,
            rejected_encoding=index.coding.conflicting_declaration,
        )
        if state in self._indexes and sum(len(line.text) for line in page.lines) <= MAX_CACHED_PAGE_CHARS:
            self._pages.put(key, page)
        return page

    def count_lines(self, fd: int, identity: FileIdentity, path: str, declared: DeclaredEncoding | None = None) -> int:
        source = DiskSource(fd, identity.size)
        return self._get_index(source, (identity, declared), path).count_lines(source)

    def _get_index(self, source: DiskSource, state: IndexKey, path: str) -> LineIndex:
        if cached := self._indexes.get(state):
            return cached
        identity, declared = state
        coding = detect_sample_encoding(source.read_at(0, DETECTION_SAMPLE_BYTES), path, identity.size, declared)
        if coding != UTF8 and coding.detected_by != "mark" and identity.size <= MAX_EDITABLE_BYTES:
            coding = detect_encoding(source.read_at(0, identity.size), path, declared)  # as whoever edits it will
        index = LineIndex(identity.size, coding)
        is_stable = time_ns() - max(identity.mtime_ns, identity.ctime_ns) >= STABLE_AFTER_NS
        return self._indexes.put(state, index) if is_stable else index


class LRUCache(Generic[K, V]):
    """A dictionary of the values used last."""

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
            return self._values.get(key)

    def put(self, key: K, value: V) -> V:
        """The value now kept: another thread may have been first."""
        with self._lock:
            kept = self._values.setdefault(key, value)
            while len(self._values) > self.max_size:
                self._values.popitem(last=False)
            return kept
