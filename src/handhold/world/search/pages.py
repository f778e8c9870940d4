"""A page of what a search finds: files, or lines of files, from where a cursor stands on."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from errno import ENAMETOOLONG
from operator import itemgetter
from zlib import crc32

from handhold.core.facts import Hit, Row
from handhold.core.requests import Grep
from handhold.core.text.cursor import checksum, passed
from handhold.world.search.checked import Folder, LeftOut, Lines
from handhold.world.search.events import Found

SPARE = 10_000  # files beyond a page that are held before the older ones are forgotten
WORD = 0xFFFFFFFF


def order(name: bytes) -> bytes:
    """What puts names in the order of paths: folder by folder."""
    return name.replace(b"/", b"\0")


class Newest:
    """The newest of many files that may be shown, without holding all of them; and a checksum of all."""

    def __init__(self, folder: Folder, keep: int) -> None:
        self.folder = folder
        self.keep = keep
        self.state = 0
        self.seen = 0
        self._held: list[tuple[int, bytes, int]] = []

    def add(self, found: Iterable[tuple[bytes, int]]) -> None:
        # Every name below a large folder may come by here: what is looked up once is not looked up again.
        fd, shows, held = self.folder.fd, self.folder.shows, self._held
        state, most = self.state, self.folder.most
        for name, count in found:
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                status = self.folder.status(name) if error.errno == ENAMETOOLONG else None
            if not shows(name, status):
                continue
            if status is None:
                self.folder.unsteady += 1
                continue
            if status.st_size > most:
                self.folder.too_large += 1
                continue
            age = -status.st_mtime_ns
            state += crc32(name, (age ^ count) & WORD)  # a sum: the same in whatever order they come
            held.append((age, name, count))
            self.seen += 1
        self.state = state & WORD
        if len(held) > self.keep + SPARE:
            self._forget()

    def first(self) -> list[tuple[bytes, int]]:
        self._forget()
        return [(name, count) for _, name, count in self._held]

    def _forget(self) -> None:
        """All but the newest; of the same age, the first by path."""
        self._held.sort(key=itemgetter(0))
        if len(self._held) > self.keep:
            oldest = self._held[self.keep - 1][0]
            del self._held[bisect_right(self._held, oldest, key=itemgetter(0)) :]
        self._held.sort(key=lambda each: (each[0], order(each[1])))
        del self._held[self.keep :]


@dataclass
class FilePage:
    """Files that are offered one by one, until a page of them is full."""

    folder: Folder
    skip: int
    limit: int
    state: int = 0  # of those that were skipped
    hits: list[Hit] = field(default_factory=list[Hit])
    more: bool = False

    def offer(self, name: bytes, count: int) -> bool:
        """Whether there is room for another."""
        hit = Hit(self.folder.place(name), count=count)
        if not self.folder.shows(name):
            return True
        if self.skip:
            self.skip -= 1
            self.state = passed(self.state, hit)
        elif len(self.hits) == self.limit:
            self.more = True
        elif self.folder.has(name):
            self.hits.append(hit)
        return not self.more


@dataclass
class LinePage:
    """Matching lines of files that are offered one by one, with the lines around them."""

    folder: Folder
    request: Grep
    skip: int
    limit: int
    search_again: Callable[[int, Sequence[Found]], Sequence[Found]]  # lines of a file, by searching the open file
    named: bool = False  # somebody gave the path of the file itself
    state: int = 0
    hits: list[Hit] = field(default_factory=list[Hit])
    more: bool = False

    def offer(self, name: bytes, lines: Sequence[Found]) -> bool:
        if not any(line.start >= 0 for line in lines):
            return not self.more
        try:
            fd = self.folder.open(name)
        except LeftOut:
            return True
        try:
            self._take(self.folder.place(name), self._confirmed(fd, lines))
        finally:
            os.close(fd)
        return not self.more

    def _confirmed(self, fd: int, lines: Sequence[Found]) -> Iterator[Row]:
        """The lines that the open file has. Of a line too long to be compared, the match is: where that takes more than
        comparing, it is looked for again."""
        literal = None if self.request.regex or self.request.ignore_case else self.request.pattern.encode()
        if literal is None and any(line.data is None for line in lines):
            lines = self.search_again(fd, lines)
        file = Lines(fd, named=self.named)
        for line in lines:
            row = file.row(line, self.request.width, literal)
            if row:
                yield row
            else:
                self.folder.unsteady += line.start >= 0

    def _take(self, place: str, confirmed: Iterator[Row]) -> None:
        rows: list[Row] = []
        matches: list[int] = []
        for row in confirmed:
            if self.skip:  # an earlier page showed it
                if row.is_match:
                    self.skip -= 1
                    self.state = checksum(self.state, place, str(row.number))
                continue
            if row.is_match and not self.limit:
                self.more = True
                break
            rows.append(row)
            if row.is_match:
                matches.append(row.number)
                self.limit -= 1
        if matches:
            near = tuple(row for row in rows if self._near(row.number, matches))
            self.hits.append(Hit(place, rows=near))

    def _near(self, number: int, matches: Sequence[int]) -> bool:
        """Whether a line belongs to one of the matches, which are in order."""
        at = bisect_left(matches, number - self.request.after)
        return at < len(matches) and matches[at] - self.request.before <= number
