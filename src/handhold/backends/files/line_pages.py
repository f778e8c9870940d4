"""Pages of lines, from a file in memory or on disk."""

import codecs
import errno
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

from handhold.core.errors import PastEnd
from handhold.core.facts import DeclaredEncoding, FileSnapshot, Page, PageLine
from handhold.core.text.encoding import TextEncoding, detect_encoding, replace_undecodable
from handhold.core.text.lines import split_lines

WHOLE_READ_BYTES = 1024 * 1024  # a file up to this size is read at once
CHUNK_BYTES = 1024 * 1024
PROBE_BYTES = 4096  # a sample that shows how long lines are
SHORT_LINE_BYTES = 16  # for shorter lines, finding each newline costs more than checking each byte
BLOCK_BYTES = 256 * 1024  # processed at once; fits in the processor's cache


class FileTruncated(Exception):
    """The file was truncated while it was read."""


def read_chunks(fd: int) -> Iterator[bytes]:
    """A file in chunks."""
    while chunk := os.read(fd, CHUNK_BYTES):
        yield chunk


# --- line ends


class LineEndFinder:
    """Line ends in the bytes of an encoding; in UTF-16 and UTF-32, aligned to two or four bytes."""

    def __init__(self, coding: TextEncoding) -> None:
        self.newline = coding.newline
        self.unit = len(self.newline)

    def count(self, block: bytes) -> int:
        if self.unit > 1:
            return sum(1 for _ in self._iter_ends(block))
        if block.count(self.newline, 0, PROBE_BYTES) * SHORT_LINE_BYTES > PROBE_BYTES:
            return block.count(self.newline)
        # `replace` jumps between newlines by memchr; `count` checks every byte and is seven to twenty times slower,
        # depending on how Python was compiled, unless lines are very short.
        return len(block) - len(block.replace(self.newline, b""))

    def find_nth(self, block: bytes, n: int) -> int:
        """The start of the line after the n-th newline, which must exist."""
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
        """The start of the second line."""
        return next(self._iter_ends(block), None)

    def find_last(self, block: bytes) -> int | None:
        """The start of the last line, if there is one before it."""
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


# --- sources


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
    """A file on disk, with the size it had when it was opened."""

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


# --- pages


@dataclass
class LineSlice:
    """Lines from a file, and what was found while reading them."""

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
    """The text, and whether bytes were replaced."""
    try:
        return data.decode(coding.name), False
    except UnicodeDecodeError:
        return replace_undecodable(data.decode(coding.name, choose_error_handler(coding))), True


def choose_error_handler(coding: TextEncoding) -> str:
    """Broken bytes become surrogates, which represent nothing else. In UTF-8 there is one per byte, as when a whole
    file is decoded."""
    return "surrogateescape" if coding.name == "utf-8" else "handhold-surrogate"


def _replace_with_surrogate(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("handhold-surrogate", _replace_with_surrogate)


def read_long_line(
    source: MemorySource | DiskSource, start: int, width: int, coding: TextEncoding
) -> tuple[PageLine, int, bool]:
    """A line longer than a block: its beginning, where the next one starts, and whether it is broken.

    The rest is counted but not kept.
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
    """A page of a file in memory."""
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
