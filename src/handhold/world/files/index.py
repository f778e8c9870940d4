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
from handhold.core.facts import Declared, Identity, Line, Page, Whole
from handhold.core.ports import MOST_EDITABLE
from handhold.core.text.encoding import DETECTION_SAMPLE, UTF8, Coding, coding_of, coding_of_sample, shown
from handhold.core.text.lines import split
from handhold.progress import came

SMALL = 1024 * 1024  # a file up to here is read at once
PIECE = 1024 * 1024
PROBE = 4096  # bytes that show how long lines are
LONG = 200  # bytes of a line, above which finding each newline is the fastest of all
SHORT = 16  # bytes of a line, below which finding each newline costs more than looking at each byte
BLOCK = 256 * 1024  # what is looked at in one go: it should stay in the processor's cache
MOST_MARKS = 64 * 1024  # of one index
MOST_INDEXES = 32
MOST_PAGES = 2  # kept as they were shown, for whoever asks again
MOST_CHARS = 4 * 1024 * 1024  # of a page that is kept
TRIED = 8 * 1024 * 1024  # bytes that are counted before anybody thinks of a faster way
WORTH_NUMPY = 256 * 1024 * 1024  # bytes to count that repay its import
SETTLED_NS = 50_000_000  # a file written more recently may change again under the same time stamp

State = tuple[Identity, Declared | None]  # of a file, and what is said about it

K = TypeVar("K")
V = TypeVar("V")


class Torn(Exception):
    """The file ended before it should: somebody cut it while it was read."""


def pieces(fd: int) -> Iterator[bytes]:
    """A file from end to end, never all of it at once."""
    while piece := os.read(fd, PIECE):
        yield piece


# --- where lines end


class Endings:
    """Line ends in the bytes of an encoding. Where characters are two or four bytes wide, so are the steps."""

    def __init__(self, coding: Coding) -> None:
        self.newline = coding.newline
        self.unit = len(self.newline)

    def count(self, block: bytes) -> int:
        if self.unit > 1:
            return sum(1 for _ in self._ends(block))
        if block.count(self.newline, 0, PROBE) * SHORT > PROBE:
            return block.count(self.newline)
        # `replace` goes from newline to newline by memchr, `count` from byte to byte: seven to twenty times slower,
        # by how Python was compiled, unless lines are very short.
        return len(block) - len(block.replace(self.newline, b""))

    def nth(self, block: bytes, n: int) -> int:
        """Where the line after the n-th end starts; the block must hold so many."""
        if self.unit > 1:
            ends = self._ends(block)
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

    def first(self, block: bytes) -> int | None:
        """Where the second line starts."""
        return next(self._ends(block), None)

    def last(self, block: bytes) -> int | None:
        """Where the last line starts, if another is before it."""
        at = block.rfind(self.newline)
        while at % self.unit and at != -1:
            at = block.rfind(self.newline, 0, at + self.unit - 1)
        return None if at == -1 else at + self.unit

    def _ends(self, block: bytes) -> Iterator[int]:
        at = block.find(self.newline)
        while at != -1:
            if at % self.unit == 0:
                yield at + self.unit
            at = block.find(self.newline, at + 1)


# --- where bytes come from


@dataclass(frozen=True)
class Held:
    """A file in memory."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    def at(self, start: int, length: int) -> bytes:
        return self.data[start : start + length]

    def next_data(self, start: int) -> int:
        return start


@dataclass(frozen=True)
class Disk:
    """A file on the disk, as long as it was when it was opened."""

    fd: int
    size: int

    def at(self, start: int, length: int) -> bytes:
        length = min(length, self.size - start)
        block = os.pread(self.fd, length, start)
        while len(block) < length:
            more = os.pread(self.fd, length - len(block), start + len(block))
            if not more:
                raise Torn
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
class Cut:
    """Lines cut out of a file, and what was met on the way."""

    lines: list[Line]
    end: int
    hash: str
    replaced: bool


def cut(source: Held | Disk, start: int, limit: int, width: int, coding: Coding) -> Cut:
    endings = Endings(coding)
    lines: list[Line] = []
    seen = sha256()
    at, broken = start, False
    while len(lines) < limit and at < source.size:
        block = source.at(at, BLOCK)
        end = len(block) if at + len(block) == source.size else endings.last(block)
        if end is None:
            seen.update(block)
            line, at, replaced = long_line(source, at, width, coding)
            lines.append(line)
        else:
            rows = block[:end]
            if endings.count(rows) >= limit - len(lines):
                rows = rows[: endings.nth(rows, limit - len(lines))]
            seen.update(rows)
            text, replaced = decoded(rows, coding)
            lines += narrow(split(text), width)
            at += len(rows)
        broken = broken or replaced
    return Cut(lines[:limit], at, seen.hexdigest(), broken)


def narrow(rows: list[str], width: int) -> Iterable[Line]:
    if max(map(len, rows), default=0) <= width:
        return map(Line, rows)
    return (Line(row[:width], max(0, len(row) - width)) for row in rows)


def decoded(data: bytes, coding: Coding) -> tuple[str, bool]:
    """The text, and whether some of it had to be replaced."""
    try:
        return data.decode(coding.name), False
    except UnicodeDecodeError:
        return shown(data.decode(coding.name, lenient(coding))), True


def lenient(coding: Coding) -> str:
    """Broken bytes become surrogates, which stand for nothing else. In UTF-8 one for each byte, as where a file
    is decoded whole."""
    return "surrogateescape" if coding.name == "utf-8" else "handhold-surrogate"


def _surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("handhold-surrogate", _surrogate)


def long_line(source: Held | Disk, start: int, width: int, coding: Coding) -> tuple[Line, int, bool]:
    """A line that does not fit into a block: its beginning, where the next one starts, whether it is broken.

    The rest is counted and let go.
    """
    endings = Endings(coding)
    decoder = codecs.getincrementaldecoder(coding.name)(lenient(coding))
    head, length, last, at, end = "", 0, "", start, None
    while end is None and at < source.size:
        hole = source.next_data(at) - at
        if hole > 0:
            text = decoder.decode(b"", final=True)
            head += (text + "\0" * min(width, hole // endings.unit))[: max(0, width - len(head))]
            length, last, at = length + len(text) + hole // endings.unit, "\0", at + hole
            decoder.reset()
            continue
        block = source.at(at, BLOCK)
        end = endings.first(block)
        piece = block if end is None else block[: end - endings.unit]
        text = decoder.decode(piece, final=end is not None or at + len(block) == source.size)
        head += text[: max(0, width - len(head))]
        length, last = length + len(text), text[-1:] or last
        at += len(block) if end is None else end
    if end is not None and last == "\r":
        length -= 1
    head = head[:length]
    plain = shown(head)
    return Line(plain, length - len(head)), at, plain != head


def page_of(whole: Whole, path: str, offset: int, limit: int, width: int, declared: Declared | None = None) -> Page:
    """A page of a file that is in memory."""
    coding = coding_of(whole.data, path, declared)
    source, total = Held(whole.data), lines_in(whole.data, coding)
    if offset > max(total, 1):
        raise PastEnd(path, offset, total)
    start = Endings(coding).nth(whole.data, offset - 1) if offset > 1 else len(coding.bom)
    found = cut(source, start, limit, width, coding)
    return Page(
        path=whole.path,
        first=offset,
        lines=tuple(found.lines),
        more=found.end < source.size,
        total=total,
        encoding=coding.name,
        replaced=found.replaced,
        identity=whole.identity,
        span=(start, found.end),
        span_hash=found.hash,
        whole=whole,
        read_by=coding.how,
        unlike=coding.unlike,
    )


def count_of(whole: Whole, path: str, declared: Declared | None = None) -> int:
    return lines_in(whole.data, coding_of(whole.data, path, declared))


def lines_in(data: bytes, coding: Coding) -> int:
    endings = Endings(coding)
    unended = len(data) > len(coding.bom) and endings.last(data) != len(data)
    return endings.count(data) + unended


# --- the index


class Index:
    """How many lines end before each mark, as far as anybody has looked."""

    def __init__(self, size: int, coding: Coding) -> None:
        self.coding = coding
        self.endings = Endings(coding)
        self.size = size
        self.step = BLOCK
        while self.step * MOST_MARKS < size:
            self.step *= 2
        self.marks = array("Q", [0])
        self.total: int | None = None
        self._lock = Lock()

    def start_of(self, source: Disk, line: int) -> int | None:
        """The byte at which a line starts; None if the file has fewer."""
        if line <= 1:
            return len(self.coding.bom)
        ends = line - 1
        with self._lock:
            self._look(source, until=ends)
            if self.marks[-1] < ends:
                return None
            mark = bisect_left(self.marks, ends) - 1
            ends -= self.marks[mark]
        for at, block in self._blocks(source, mark * self.step, self.size):
            here = self.endings.count(block)
            if here >= ends:
                start = at + self.endings.nth(block, ends)
                return start if start < self.size else None
            ends -= here
        raise Torn

    def count(self, source: Disk) -> int:
        with self._lock:
            self._look(source, until=None)
            if self.total is None:
                tail = source.at(max(0, self.size - 4), 4)
                self.total = self.marks[-1] + (self.endings.last(tail) != len(tail))
            return self.total

    def _look(self, source: Disk, until: int | None) -> None:
        """Count on until so many lines have ended, or to the end of the file."""
        at = (len(self.marks) - 1) * self.step
        if at >= self.size:
            return
        count, looked_at = self.endings.count, 0
        while at < self.size and (until is None or self.marks[-1] < until):
            if looked_at >= TRIED:  # not near, and not all holes
                count = counter(self.endings, self.size - at)
            here = 0
            for _, block in self._blocks(source, at, min(at + self.step, self.size)):
                here += count(block)
                looked_at += len(block)
            self.marks.append(self.marks[-1] + here)
            at += self.step
            came("bytes looked at", min(at, self.size), self.size)

    def _blocks(self, source: Disk, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Bytes from `start` on, in blocks, except those that lie in a hole: no line ends there."""
        while (start := max(start, source.next_data(start) // BLOCK * BLOCK)) < end:
            block = source.at(start, min(BLOCK, end - start))
            yield start, block
            start += len(block)


def counter(endings: Endings, ahead: int) -> Callable[[bytes], int]:
    """The fastest way here to count line ends, if so many bytes are to be counted at most."""
    if endings.unit > 1 or not ("numpy" in sys.modules or ahead >= WORTH_NUMPY):
        return endings.count
    try:
        import numpy
    except ImportError:
        return endings.count
    np: Any = numpy
    newline = endings.newline

    def counted(block: bytes) -> int:
        if block.count(newline, 0, PROBE) * LONG < PROBE:
            return endings.count(block)
        return int(np.count_nonzero(np.frombuffer(block, np.uint8) == newline[0]))

    return counted


class Indexes:
    """The indexes of the files read last. An identity names a state of a file, so none goes stale."""

    def __init__(self, most: int = MOST_INDEXES) -> None:
        self._indexes = Latest[State, Index](most)
        self._pages = Latest[tuple[State, int, int, int], Page](MOST_PAGES)

    def page(
        self,
        fd: int,
        place: str,
        identity: Identity,
        path: str,
        offset: int,
        limit: int,
        width: int,
        declared: Declared | None = None,
    ) -> Page:
        source, state = Disk(fd, identity.size), (identity, declared)
        index, asked = self._index(source, state, path), (state, offset, limit, width)
        if known := self._pages.get(asked):
            return replace(known, path=place, total=index.total)
        start = index.start_of(source, offset)
        if start is None:
            raise PastEnd(path, offset, index.count(source))
        found = cut(source, start, limit, width, index.coding)
        if found.replaced and index.coding == UTF8 and identity.size <= MOST_EDITABLE:
            # What was plain so far shows only here what it is; whoever edits it looks at all of it.
            index.coding = coding_of(source.at(0, identity.size), path, declared)
            found = cut(source, start, limit, width, index.coding)
        page = Page(
            path=place,
            first=offset,
            lines=tuple(found.lines),
            more=found.end < source.size,
            total=index.total,
            encoding=index.coding.name,
            replaced=found.replaced,
            identity=identity,
            span=(start, found.end),
            span_hash=found.hash,
            whole=None,
            read_by=index.coding.how,
            unlike=index.coding.unlike,
        )
        if state in self._indexes and sum(len(line.text) for line in page.lines) <= MOST_CHARS:
            self._pages.put(asked, page)
        return page

    def count(self, fd: int, identity: Identity, path: str, declared: Declared | None = None) -> int:
        source = Disk(fd, identity.size)
        return self._index(source, (identity, declared), path).count(source)

    def _index(self, source: Disk, state: State, path: str) -> Index:
        if known := self._indexes.get(state):
            return known
        identity, declared = state
        coding = coding_of_sample(source.at(0, DETECTION_SAMPLE), path, identity.size, declared)
        if coding != UTF8 and coding.by != "mark" and identity.size <= MOST_EDITABLE:
            coding = coding_of(source.at(0, identity.size), path, declared)  # as whoever edits it will
        made = Index(identity.size, coding)
        settled = time_ns() - max(identity.mtime_ns, identity.ctime_ns) >= SETTLED_NS
        return self._indexes.put(state, made) if settled else made


class Latest(Generic[K, V]):
    """A dictionary of the values used last."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: K) -> bool:
        return key in self._kept

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: K, value: V) -> V:
        """The value now kept: another thread may have been first."""
        with self._lock:
            kept = self._kept.setdefault(key, value)
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)
            return kept
