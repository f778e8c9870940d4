"""Lines of a file of any size, by number, with little memory.

A line can only be found by counting the newlines before it. The index stores the count at regular intervals, as far as
the file has been read, so that only a short distance is left to count.
"""

import sys
from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Lock
from time import time_ns
from typing import Any, Generic, TypeVar

from handhold.backends.files.line_pages import (
    BLOCK_BYTES,
    PROBE_BYTES,
    DiskSource,
    FileTruncated,
    LineEndFinder,
    read_lines,
)
from handhold.core.errors import PastEnd
from handhold.core.facts import DeclaredEncoding, FileIdentity, Page
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.core.text.encoding import (
    DETECTION_SAMPLE_BYTES,
    UTF8,
    TextEncoding,
    detect_encoding,
    detect_sample_encoding,
)
from handhold.progress import report

LONG_LINE_BYTES = 200  # for longer lines, finding each newline is fastest
MAX_CHECKPOINTS = 64 * 1024  # per index
MAX_INDEXES = 32
MAX_CACHED_PAGES = 2  # kept as shown, for repeated requests
MAX_CACHED_PAGE_CHARS = 4 * 1024 * 1024  # larger pages are not kept
SIMPLE_COUNT_BYTES = 8 * 1024 * 1024  # counted before a faster method is considered
MIN_NUMPY_BYTES = 256 * 1024 * 1024  # with more to count, importing numpy pays off
STABLE_AFTER_NS = 50_000_000  # a file written more recently may change again under the same time stamp

IndexKey = tuple[FileIdentity, DeclaredEncoding | None]  # a file, and its declared encoding

K = TypeVar("K")
V = TypeVar("V")


class LineIndex:
    """The number of newlines before each checkpoint, as far as the file was scanned."""

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
        """The byte offset of a line; None if the file has fewer."""
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
        """Continue counting until `until` lines have ended, or to the end of the file."""
        at = (len(self.checkpoints) - 1) * self.step
        if at >= self.size:
            return
        count, scanned = self.endings.count, 0
        while at < self.size and (until is None or self.checkpoints[-1] < until):
            if scanned >= SIMPLE_COUNT_BYTES:  # far away, and not just holes
                count = choose_count_function(self.endings, self.size - at)
            here = 0
            for _, block in self._read_blocks(source, at, min(at + self.step, self.size)):
                here += count(block)
                scanned += len(block)
            self.checkpoints.append(self.checkpoints[-1] + here)
            at += self.step
            report("bytes scanned", min(at, self.size), self.size)

    def _read_blocks(self, source: DiskSource, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Bytes from `start` on, in blocks, skipping holes, which contain no newlines."""
        while (start := max(start, source.next_data(start) // BLOCK_BYTES * BLOCK_BYTES)) < end:
            block = source.read_at(start, min(BLOCK_BYTES, end - start))
            yield start, block
            start += len(block)


def choose_count_function(endings: LineEndFinder, remaining: int) -> Callable[[bytes], int]:
    """The fastest function for counting newlines in at most `remaining` bytes."""
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
    """The indexes of recently read files. An identity names a state of a file, so none becomes stale."""

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
            # The sample was valid UTF-8, but this page is not: detect by the whole file, as an edit will.
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
            coding = detect_encoding(source.read_at(0, identity.size), path, declared)  # as an edit will detect it
        index = LineIndex(identity.size, coding)
        is_stable = time_ns() - max(identity.mtime_ns, identity.ctime_ns) >= STABLE_AFTER_NS
        return self._indexes.put(state, index) if is_stable else index


class LRUCache(Generic[K, V]):
    """A dictionary of the most recently used values."""

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
        """The value that is now stored: another thread may have been first."""
        with self._lock:
            kept = self._values.setdefault(key, value)
            while len(self._values) > self.max_size:
                self._values.popitem(last=False)
            return kept
