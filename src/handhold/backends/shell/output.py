"""Command output, in bounded memory whatever its size.

It is read into a ring that always holds the last mebibyte. The beginning is kept separately, and everything goes to a
file once it exceeds a small size. What is shown is built at the end from the beginning and the ring.
"""

import codecs
import os
import time
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import NoReturn

from handhold.backends.shell.output_ends import (
    RedactText,
    decode,
    drop_partial_end,
    drop_partial_start,
    take_head,
    take_head_and_tail,
)
from handhold.backends.shell.result_store import ResultStore, SpillFile
from handhold.core.errors import ToolError
from handhold.core.facts import CommandOutput
from handhold.core.text.redaction import Redaction, Redactor, can_contain_secret
from handhold.core.text.terminal import render_terminal_text
from handhold.core.text.token_rules import MAX_KEY_CHARS

RING_BYTES = 1024**2  # a quarter is read at once; a larger ring is not faster, and costs time at every start
SMALL_RING_BYTES = RING_BYTES // 4  # for outputs of which there may be many
HEAD_BYTES = 256 * 1024  # kept of an output that is longer than the ring
SPILL_THRESHOLD_BYTES = 256 * 1024  # held without a file
MAX_TIDIED_BYTES = 1024**2  # an output of this size may still be short once it is cleaned up
MAX_LINE_CHARS = 1_000  # of a line, if both ends of the output are shown
MAX_WATCH_BYTES = 64 * 1024  # the most that a watcher gets at once
WATCH_INTERVAL_SECONDS = 0.05  # between two notifications
MAX_UNSCREENED_BYTES = 4096  # held until secrets are looked for, though spaces and NULs may be all there is

FindRedaction = Callable[[], Redaction | None]

MIN_PERIODIC_BYTES = 64 * 1024  # a piece of this size is checked for repetition
MAX_PERIOD_BYTES = 64 * 1024  # the longest repetition that is detected
SAMPLE_BYTES = 64
MAX_FAILED_CHECKS = 8

_ring_pool: list[bytearray] = []  # one is reused: allocating it takes longer than everything else here


class OutputSink:
    """Collects output as it arrives. The file gets all of it up to `results.max_bytes`, beyond that its two ends.

    Known secrets are never in the ring or in the file. `find_redaction` may have to look at many files, so it is
    called once there is output that could contain one: many commands print less. `redact_tokens` is slower than output
    comes: it gets what is shown, before lines are cut.
    """

    def __init__(
        self,
        results: ResultStore,
        *,
        redaction: Redaction | None = None,
        find_redaction: FindRedaction | None = None,
        redact_tokens: RedactText = str,
        watch: Callable[[str], None] | None = None,
        spill_threshold: int = SPILL_THRESHOLD_BYTES,
        ring_bytes: int = RING_BYTES,
    ) -> None:
        self.total = 0
        self._ring_bytes = ring_bytes
        self._chunk_bytes = ring_bytes // 4
        self._ring = _ring_pool.pop() if ring_bytes == RING_BYTES and _ring_pool else bytearray(ring_bytes)
        self._view = memoryview(self._ring)
        self._head = b""
        self._newlines = _NewlineCount(self._ring, self._view)
        self._results = results
        self._spill_threshold = spill_threshold
        self._spill: SpillFile | None = None
        self._spilled_bytes = 0
        self._max_spill_bytes = max(results.max_bytes - ring_bytes, ring_bytes)
        self._find_redaction = find_redaction  # None once it was called
        self._redactor = Redactor(redaction) if redaction else None
        self._redact_tokens = redact_tokens
        self._unscreened = b""  # output so far, until then
        self.lookup_seconds = 0.0  # how long the command may have waited for it
        self._watcher = _OutputWatcher(watch) if watch else None
        self._finished = False
        self._lock = Lock()  # another thread may page through a running job's output

    # --- while running

    def read_from(self, fd: int) -> int:
        """Read once; return 0 at the end. Raise BlockingIOError if there is nothing yet."""
        if self._find_redaction or self._redactor:
            data = os.read(fd, self._chunk_bytes)
            self._append(self._redact(data))
            return len(data)
        start = self._get_write_offset()
        size = os.readv(fd, [self._view[start : start + self._chunk_bytes]])
        self._advance(start, size)
        return size

    def flush(self) -> None:
        """End of output: what was held back as a possible beginning of a secret is output."""
        self._append(self._unscreened)  # too short to contain a secret
        self._unscreened = b""
        if self._redactor:
            self._append(self._redactor.flush())

    def _redact(self, data: bytes) -> bytes:
        if self._find_redaction:
            self._unscreened += data
            is_short = len(self._unscreened) <= MAX_UNSCREENED_BYTES and not can_contain_secret(self._unscreened)
            if not self._unscreened or (is_short and not self._watcher):
                return b""
            self._load_redaction(self._find_redaction)
            data, self._unscreened = self._unscreened, b""
        return self._redactor.feed(data) if self._redactor else data

    def _load_redaction(self, find_redaction: FindRedaction) -> None:
        started = time.monotonic()
        try:
            redaction = find_redaction()
        except ToolError as error:
            self._find_redaction = partial(_raise, error)  # what comes later cannot be shown either
            raise
        finally:
            self.lookup_seconds += time.monotonic() - started
        self._find_redaction, self._redactor = None, Redactor(redaction) if redaction else None

    def _append(self, data: bytes) -> None:
        while data:
            start = self._get_write_offset()
            size = min(len(data), self._chunk_bytes, self._ring_bytes - start)
            self._view[start : start + size] = data[:size]
            self._advance(start, size)
            data = data[size:]

    def _get_write_offset(self) -> int:
        """Where in the ring the next piece goes."""
        if self.total == self._ring_bytes and not self._head:
            self._head = bytes(self._view[:HEAD_BYTES])
        return self.total % self._ring_bytes

    def _advance(self, start: int, size: int) -> None:
        if not size:
            return
        self._newlines.add(start, start + size)
        with self._lock:
            self.total += size
            if self.total > self._spill_threshold and self._spilled_bytes < self._max_spill_bytes:
                self._write_spill()

    def notify_watcher(self, *, last: bool = False) -> float | None:
        """Notify the watcher if it is due; return the seconds until then if there is something new."""
        if not self._watcher or self._watcher.sent_bytes == self.total:
            return None
        wait = self._watcher.due - time.monotonic()
        if wait > 0 and not last:
            return wait
        self._watcher.notify(
            self._read_tail(min(self.total - self._watcher.sent_bytes, MAX_WATCH_BYTES)), self.total, last=last
        )
        return None

    def _write_spill(self) -> None:
        if self._spill is None:
            self._spill = self._results.create()
            if self._spill is None:
                self._max_spill_bytes = 0  # do not try again
                return
        until = min(self.total, self._max_spill_bytes)
        while self._spilled_bytes < until:
            start = self._spilled_bytes % self._ring_bytes
            piece = self._view[start : start + until - self._spilled_bytes]
            self._spill.write(piece)
            self._spilled_bytes += len(piece)

    def _read_tail(self, size: int) -> bytes:
        """The last bytes, as far as the ring reaches."""
        size = min(size, self.total, self._ring_bytes)
        end = (self.total - 1) % self._ring_bytes + 1 if self.total else 0
        if size <= end:
            return bytes(self._view[end - size : end])
        return bytes(self._view[end - size :]) + bytes(self._view[:end])

    # --- after the end

    @property
    def lines(self) -> int:
        """Includes an unterminated last line."""
        return self._newlines.total + (self.total > 0 and self._read_tail(1) != b"\n")

    def build_output(self, chars: int, lines: int, *, first_bytes: int = 0) -> CommandOutput:
        """All of it if it has at most `chars` characters, otherwise `lines` from each end and the file. Call once.

        With `first_bytes`, all of it if it has at most that many bytes, otherwise only those.
        """
        whole = self._build_whole(first_bytes or chars)
        if whole and (not first_bytes or len(whole.head.encode()) <= first_bytes):
            if self._spill:
                self._results.drop(self._spill)
            return whole
        beginning = self._head or bytes(self._view[: min(self.total, HEAD_BYTES)])
        if first_bytes:
            ends = take_head(beginning, lines=self.lines, max_bytes=first_bytes, redact=self._redact_tokens)
        else:
            width = max(1, min(MAX_LINE_CHARS, chars // (2 * lines)))
            ending = self._read_tail(HEAD_BYTES)
            ends = take_head_and_tail(
                beginning,
                ending,
                total=self.total,
                lines=self.lines,
                max_lines=lines,
                width=width,
                redact=self._redact_tokens,
            )
        handle, kept = self._finish_spill()
        return CommandOutput(
            head="\n".join(ends.head),
            tail="\n".join(ends.tail),
            total_bytes=self.total,
            total_lines=self.lines,
            omitted_lines=ends.left_out,
            handle=handle,
            kept_bytes=kept,
            has_undecodable_bytes=ends.replaced,
        )

    def read_page(self, offset: int, size: int, *, ended: bool) -> tuple[int, bytes]:
        """At most `size` bytes from an offset, and where they really begin: bytes that were not kept are skipped.

        If more follows, they end at a line if possible. At the end of the output so far an incomplete line is included,
        since a prompt ends no line; an incomplete character is included only if nothing more can come.
        """
        with self._lock:
            total = self.total
            data = self._read_kept(offset, size)
            if not data:
                offset = min(max(offset, self._first_in_ring), total)
                data = self._read_tail(total - offset)[:size]
        if offset + len(data) == total:
            return offset, data if ended else drop_partial_end(data)
        return offset, data[: data.rfind(b"\n") + 1] or drop_partial_end(data)

    def redact_page(self, offset: int, text: str) -> str:
        """A page from this offset, as text, without tokens: also those that begin before it."""
        if not text:
            return text
        with self._lock:
            start = max(0, offset - MAX_KEY_CHARS)
            before = decode(drop_partial_start(self._read_kept(start, offset - start)))[0]
        lines = before.count("\n")
        shown_before = self._redact_tokens(before).split("\n")[lines]
        line = self._redact_tokens(before + text).split("\n", lines)[lines]
        return line.removeprefix(shown_before)

    def _read_kept(self, offset: int, size: int) -> bytes:
        if offset >= self._first_in_ring:
            return self._read_tail(max(0, self.total - offset))[:size]
        return self._spill.read(offset, max(0, min(size, self._spilled_bytes - offset))) if self._spill else b""

    @property
    def _first_in_ring(self) -> int:
        return max(0, self.total - self._ring_bytes + self._chunk_bytes)  # the next piece overwrites the oldest data

    @property
    def handle(self) -> str:
        return self._spill.handle if self._spill else ""

    @property
    def kept_bytes(self) -> int:
        return self._spill.kept_bytes if self._spill else 0

    def decode_tail(self) -> str:
        return decode(self._read_tail(MAX_LINE_CHARS))[0].strip()

    def close(self) -> None:
        """Finish the file and keep what can be paged through. Nothing more is accepted."""
        if self._spill and not self._finished:
            self._finish_spill()
        with self._lock:
            if self.total < self._ring_bytes:  # it may be read much later, so do not keep an empty ring until then
                self._ring = self._newlines.ring = self._ring[: self.total]
                self._view = self._newlines.view = memoryview(self._ring)

    def drop(self) -> None:
        """Discard it when it is no longer needed. Call once, when nothing writes to it."""
        if self._spill and not self._finished:
            self._results.drop(self._spill)
        if self._ring_bytes == RING_BYTES and not _ring_pool:
            _ring_pool.append(self._ring)

    def _build_whole(self, chars: int) -> CommandOutput | None:
        if self.total > min(self._ring_bytes, max(4 * chars, MAX_TIDIED_BYTES)):
            return None
        text, replaced = decode(bytes(self._view[: self.total]))
        shown = render_terminal_text(text)
        if len(shown) > chars:
            return None
        shown = self._redact_tokens(shown)
        return CommandOutput(shown, total_bytes=self.total, total_lines=self.lines, has_undecodable_bytes=replaced)

    def _finish_spill(self) -> tuple[str, int]:
        """Write the rest to the file; return its path and how much of the output it contains."""
        if self._spilled_bytes < self._max_spill_bytes:
            self._write_spill()
        self._finished = True
        if self._spill is None:
            return "", 0
        if left := self.total - self._spilled_bytes:
            gap = max(0, left - self._ring_bytes)
            if gap:
                self._spill.write(f"\n[{gap:,} bytes left out]\n".encode(), is_note=True)
            self._spill.write(self._read_tail(left))
        self._results.finish(self._spill)
        return self._spill.handle, self._spill.kept_bytes


def _raise(error: Exception) -> NoReturn:
    raise error


class _NewlineCount:
    """Counts newlines in the ring.

    A flood should be read at 1 GB/s, but counting the newlines of `yes` runs at 0.6 GB/s on its own core. Floods are
    mostly repetitive: comparing a piece with itself, shifted by the length of the repetition, verifies that at 25 GB/s.
    Other output (`find`, `seq`) is counted, at 1.2 GB/s.
    """

    def __init__(self, ring: bytearray, view: memoryview) -> None:
        self.total = 0
        self.ring = ring
        self.view = view
        self._period = 0
        self._failed_checks = 0

    def add(self, start: int, end: int) -> None:
        ring, period, size = self.ring, self._period, end - start
        if period and size > period and ring.startswith(self.view[start : end - period], start + period):
            times, rest = divmod(size, period)
            self.total += times * ring.count(b"\n", start, start + period) + ring.count(b"\n", start, start + rest)
            return
        self.total += ring.count(b"\n", start, end)
        if size >= MIN_PERIODIC_BYTES and self._failed_checks < MAX_FAILED_CHECKS:
            self._failed_checks += bool(period)
            self._period = self._find_period(start, end)
            self._failed_checks += not self._period

    def _find_period(self, start: int, end: int) -> int:
        """The distance to the previous occurrence of the last bytes; 0 if there is none."""
        sample = self.view[end - SAMPLE_BYTES : end]
        found = self.ring.rfind(sample, max(start, end - MAX_PERIOD_BYTES), end - 1)
        return end - SAMPLE_BYTES - found if found >= 0 else 0


class _OutputWatcher:
    """Passes new output to a callback. Of a flood, it passes the last part of each interval."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self.sent_bytes = 0
        self.due = 0.0
        self._callback = call
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def notify(self, data: bytes, total: int, *, last: bool) -> None:
        missed = total - self.sent_bytes - len(data)
        if missed:
            self._decoder.reset()
            data = drop_partial_start(data)
        text = self._decoder.decode(data, final=last)
        self.sent_bytes = total
        self.due = time.monotonic() + WATCH_INTERVAL_SECONDS
        if missed:
            text = f"\n[{missed:,} bytes]\n{text}"
        if text:
            self._callback(text)
