"""What a command prints, in bounded memory whatever its size.

It is read into a ring, so the last mebibyte is always at hand; its beginning is kept beside the ring, and
everything goes to a file once it is more than a little. What is shown is made in the end, from these two pieces.
"""

import codecs
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from handhold.core.facts import Output
from handhold.core.text.redaction import Redaction, Redactor
from handhold.core.text.terminal import tidy
from handhold.world.shell.offload import Results, Spill

RING = 1024**2  # a quarter of it is read at once; a larger one would not be faster, and costs at every start
SMALL_RING = RING // 4  # for those of which there may be many
BEGINNING = 256 * 1024  # kept of an output that is longer than the ring
LITTLE = 256 * 1024  # held without a file
TIDIED = 1024**2  # an output of this size may yet be short, once it is tidied
WIDTH = 1_000  # of a line, where both ends are shown
WATCHED = 64 * 1024  # bytes that a watcher gets at once at most
TICK = 0.05  # seconds between two of its turns

FLOOD = 64 * 1024  # a piece of this size is worth a look whether it repeats itself
REPEATED = 64 * 1024  # the longest repetition that is looked for
SAMPLE = 64
GIVEN_UP = 8

_rings: list[bytearray] = []  # one that is used again: a new one takes longer than everything else here


class Sink:
    """Takes an output as it comes. The file gets it whole up to `results.most`, beyond that its two ends.

    What is redacted is never in the ring, nor in the file.
    """

    def __init__(
        self,
        results: Results,
        *,
        redaction: Redaction | None = None,
        watch: Callable[[str], None] | None = None,
        little: int = LITTLE,
        ring: int = RING,
    ) -> None:
        self.total = 0
        self._size = ring
        self._piece = ring // 4
        self._ring = _rings.pop() if ring == RING and _rings else bytearray(ring)
        self._view = memoryview(self._ring)
        self._beginning = b""
        self._breaks = _Breaks(self._ring, self._view)
        self._results = results
        self._little = little
        self._spill: Spill | None = None
        self._spilled = 0
        self._most = max(results.most - ring, ring)
        self._redactor = Redactor(redaction) if redaction else None
        self._watch = _Watch(watch) if watch else None
        self._finished = False
        self._lock = Lock()  # who pages through a running job's output is another thread

    # --- while it runs

    def take(self, fd: int) -> int:
        """Read once; 0 at its end. BlockingIOError if there is nothing yet."""
        if self._redactor:
            data = os.read(fd, self._piece)
            self._put(self._redactor.feed(data))
            return len(data)
        start = self._next()
        size = os.readv(fd, [self._view[start : start + self._piece]])
        self._took(start, size)
        return size

    def finish(self) -> None:
        """Nothing more will come: what was held back, as it might have been the beginning of a secret, was none."""
        if self._redactor:
            self._put(self._redactor.flush())

    def _put(self, data: bytes) -> None:
        while data:
            start = self._next()
            size = min(len(data), self._piece, self._size - start)
            self._view[start : start + size] = data[:size]
            self._took(start, size)
            data = data[size:]

    def _next(self) -> int:
        """Where in the ring the next piece goes."""
        if self.total == self._size and not self._beginning:
            self._beginning = bytes(self._view[:BEGINNING])
        return self.total % self._size

    def _took(self, start: int, size: int) -> None:
        if not size:
            return
        self._breaks.count(start, start + size)
        with self._lock:
            self.total += size
            if self.total > self._little and self._spilled < self._most:
                self._keep()

    def tell(self, *, last: bool = False) -> float | None:
        """Let the watcher see what is new, if it is time; the seconds until it will be, if there is something."""
        if not self._watch or self._watch.seen == self.total:
            return None
        wait = self._watch.due - time.monotonic()
        if wait > 0 and not last:
            return wait
        self._watch.tell(self._end(min(self.total - self._watch.seen, WATCHED)), self.total, last=last)
        return None

    def _keep(self) -> None:
        if self._spill is None:
            self._spill = self._results.new()
            if self._spill is None:
                self._most = 0  # it is not asked for again
                return
        until = min(self.total, self._most)
        while self._spilled < until:
            start = self._spilled % self._size
            piece = self._view[start : start + until - self._spilled]
            self._spill.write(piece)
            self._spilled += len(piece)

    def _end(self, size: int) -> bytes:
        """The last bytes, as far as the ring goes back."""
        size = min(size, self.total, self._size)
        end = (self.total - 1) % self._size + 1 if self.total else 0
        if size <= end:
            return bytes(self._view[end - size : end])
        return bytes(self._view[end - size :]) + bytes(self._view[:end])

    # --- in the end

    @property
    def lines(self) -> int:
        """A last line that is not ended is one."""
        return self._breaks.counted + (self.total > 0 and self._end(1) != b"\n")

    def output(self, chars: int, lines: int, *, first_bytes: int = 0) -> Output:
        """Whole if it has at most so many characters, else so many lines of each end and the file. Ask once.

        With `first_bytes` it is whole if it has at most those, else they are all that is shown.
        """
        whole = self._whole(first_bytes or chars)
        if whole and (not first_bytes or len(whole.head.encode()) <= first_bytes):
            if self._spill:
                self._results.drop(self._spill)
            return whole
        beginning = self._beginning or bytes(self._view[: min(self.total, BEGINNING)])
        if first_bytes:
            ends = one_end(beginning, lines=self.lines, most=first_bytes)
        else:
            width = max(1, min(WIDTH, chars // (2 * lines)))
            ending = self._end(BEGINNING)
            ends = both_ends(beginning, ending, total=self.total, lines=self.lines, most=lines, width=width)
        handle, kept = self._finish()
        return Output(
            head="\n".join(ends.head),
            tail="\n".join(ends.tail),
            bytes=self.total,
            lines=self.lines,
            left_out=ends.left_out,
            handle=handle,
            kept=kept,
            replaced=ends.replaced,
        )

    def page(self, offset: int, size: int, *, ended: bool) -> tuple[int, bytes]:
        """At most so many bytes from an offset on, and where they really begin: what was not kept is passed over.

        Where more is left they end with a line if they can. Up to now they are whole, since a prompt ends no line; half
        a letter is shown once nothing more can come.
        """
        with self._lock:
            total = self.total
            in_ring = max(0, total - self._size + self._piece)  # the next piece is written over what is older
            if offset >= in_ring:
                data = self._end(max(0, total - offset))[:size]
            else:
                data = self._spill.read(offset, max(0, min(size, self._spilled - offset))) if self._spill else b""
            if not data:
                offset = min(max(offset, in_ring), total)
                data = self._end(total - offset)[:size]
        if offset + len(data) == total:
            return offset, data if ended else to_letter(data)
        return offset, data[: data.rfind(b"\n") + 1] or to_letter(data)

    @property
    def handle(self) -> str:
        return self._spill.handle if self._spill else ""

    @property
    def kept(self) -> int:
        return self._spill.kept if self._spill else 0

    def last_words(self) -> str:
        return decoded(self._end(WIDTH))[0].strip()

    def close(self) -> None:
        """Its file stays, as far as it goes, and so does what can be paged through. Nothing is taken any more."""
        if self._spill and not self._finished:
            self._finish()
        with self._lock:
            if self.total < self._size:  # who asks may come much later: an empty ring must not wait for that
                self._ring = self._breaks.ring = self._ring[: self.total]
                self._view = self._breaks.view = memoryview(self._ring)

    def drop(self) -> None:
        """Nobody will ask for it any more. Call it once, when nothing writes into it."""
        if self._spill and not self._finished:
            self._results.drop(self._spill)
        if self._size == RING and not _rings:
            _rings.append(self._ring)

    def _whole(self, chars: int) -> Output | None:
        if self.total > min(self._size, max(4 * chars, TIDIED)):
            return None
        text, replaced = decoded(bytes(self._view[: self.total]))
        shown = tidy(text)
        if len(shown) > chars:
            return None
        return Output(shown, bytes=self.total, lines=self.lines, replaced=replaced)

    def _finish(self) -> tuple[str, int]:
        """The rest goes to the file: where it is, and how much of the output it holds."""
        if self._spilled < self._most:
            self._keep()
        self._finished = True
        if self._spill is None:
            return "", 0
        if left := self.total - self._spilled:
            gap = max(0, left - self._size)
            if gap:
                self._spill.write(f"\n[{gap:,} bytes are left out here]\n".encode(), note=True)
            self._spill.write(self._end(left))
        self._results.finish(self._spill)
        return self._spill.handle, self._spill.kept


def decoded(data: bytes) -> tuple[str, bool]:
    """As text, and whether some bytes were none."""
    try:
        return data.decode(), False
    except UnicodeDecodeError:
        return data.decode(errors="replace"), True


def from_letter(data: bytes) -> bytes:
    """A piece without the end of a letter that was cut off at its start."""
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:  # one that goes on
        start += 1
    return data[start:]


def to_letter(data: bytes) -> bytes:
    """A piece without the start of a letter that was cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        lead = data[-back]
        if lead & 0xC0 != 0x80:  # not one that goes on
            length = 4 if lead >= 0xF0 else 3 if lead >= 0xE0 else 2 if lead >= 0xC0 else 1
            return data[:-back] if length > back else data
    return data


@dataclass(frozen=True)
class Ends:
    """The first and the last lines of an output, each cut to a width, and how many are between them."""

    head: list[str]
    tail: list[str]
    left_out: int
    replaced: bool


def one_end(beginning: bytes, *, lines: int, most: int) -> Ends:
    """The first bytes alone, in whole letters."""
    text, odd = decoded(to_letter(beginning))
    head = to_letter(tidy(text).encode()[:most]).decode()
    return Ends([head], [], lines - head.count("\n"), odd)


def both_ends(beginning: bytes, ending: bytes, *, total: int, lines: int, most: int, width: int) -> Ends:
    """At most so many lines of each end. No line is shown twice, except that a long one shows both of its own."""
    cut_after, cut_before = len(beginning) < total, len(ending) < total
    first, odd = decoded(to_letter(beginning) if cut_after else beginning)
    last, also_odd = decoded(from_letter(ending) if cut_before else ending)
    head = tidy(first.removesuffix("\n")).split("\n")
    in_part = cut_after and len(head) <= most and not first.endswith("\n")
    head = head[:most]
    tail = tidy(last.removesuffix("\n")).split("\n")
    from_within = cut_before and len(tail) <= most
    tail = tail[-most:]
    before_tail = lines - len(tail)
    goes_on = in_part or len(head[-1]) > width
    twice = max(0, len(head) - goes_on - before_tail)
    tail = tail[twice:]
    shared = goes_on and before_tail + twice == len(head) - 1
    return Ends(
        [_cut(line, width) for line in head[:-1]] + [_cut(head[-1], width, goes_on=goes_on)],
        [_end_of(line, width) for line in tail[:1] if shared or (from_within and not twice)]
        + [_cut(line, width) for line in tail[1 if shared or (from_within and not twice) else 0 :]],
        lines - len(head) - len(tail) + shared,
        odd or also_odd,
    )


def _cut(line: str, width: int, *, goes_on: bool = False) -> str:
    return line[:width] + "…" if goes_on or len(line) > width else line


def _end_of(line: str, width: int) -> str:
    return "…" + line[-width:]


class _Breaks:
    """Counts line ends in the ring.

    A flood is to be taken at 1 GB/s, and counting the line ends of `yes` goes at 0.6 GB/s on a core of its own. But a
    flood mostly says the same again and again: one comparison of a piece with itself, moved by the length of what is
    repeated, shows that at 25 GB/s. Other output (`find`, `seq`) is counted, at 1.2 GB/s.
    """

    def __init__(self, ring: bytearray, view: memoryview) -> None:
        self.counted = 0
        self.ring = ring
        self.view = view
        self._period = 0
        self._failed = 0

    def count(self, start: int, end: int) -> None:
        ring, period, size = self.ring, self._period, end - start
        if period and size > period and ring.startswith(self.view[start : end - period], start + period):
            times, rest = divmod(size, period)
            self.counted += times * ring.count(b"\n", start, start + period) + ring.count(b"\n", start, start + rest)
            return
        self.counted += ring.count(b"\n", start, end)
        if size >= FLOOD and self._failed < GIVEN_UP:
            self._failed += bool(period)
            self._period = self._repetition(start, end)
            self._failed += not self._period

    def _repetition(self, start: int, end: int) -> int:
        """How far back the last bytes were seen before; 0 if they were not."""
        sample = self.view[end - SAMPLE : end]
        found = self.ring.rfind(sample, max(start, end - REPEATED), end - 1)
        return end - SAMPLE - found if found >= 0 else 0


class _Watch:
    """Somebody who looks on. Of a flood he sees the last of each moment."""

    def __init__(self, call: Callable[[str], None]) -> None:
        self.seen = 0
        self.due = 0.0
        self._call = call
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def tell(self, data: bytes, total: int, *, last: bool) -> None:
        missed = total - self.seen - len(data)
        if missed:
            self._decoder.reset()
            data = from_letter(data)
        text = self._decoder.decode(data, final=last)
        self.seen = total
        self.due = time.monotonic() + TICK
        if missed:
            text = f"\n[{missed:,} bytes]\n{text}"
        if text:
            self._call(text)
