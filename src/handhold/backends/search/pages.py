"""A page of search results: files, or lines of files, starting at a cursor."""

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from errno import ENAMETOOLONG
from operator import itemgetter
from zlib import crc32

from handhold.backends.search.events import FoundLine
from handhold.backends.search.search_folder import HitSkipped, LineVerifier, SearchFolder
from handhold.core.facts import MatchRow, SearchHit
from handhold.core.requests import Grep
from handhold.core.text.cursor import checksum, checksum_hit

MAX_EXTRA_FILES = 10_000  # files held beyond a page before the older ones are dropped
UINT32_MASK = 0xFFFFFFFF


def path_sort_key(name: bytes) -> bytes:
    """A key that sorts names by path: folder by folder."""
    return name.replace(b"/", b"\0")


class NewestFiles:
    """The newest of many visible files, without holding all of them; and a checksum of all."""

    def __init__(self, folder: SearchFolder, max_files: int) -> None:
        self.folder = folder
        self.max_files = max_files
        self.checksum = 0
        self._files: list[tuple[int, bytes, int]] = []

    def add(self, files: Iterable[tuple[bytes, int]]) -> None:
        # Called for every name below a large folder, so attributes are looked up only once.
        fd, can_show, held = self.folder.fd, self.folder.can_show, self._files
        crc_sum, max_bytes = self.checksum, self.folder.max_file_bytes
        for name, count in files:
            try:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError as error:
                status = self.folder.stat(name) if error.errno == ENAMETOOLONG else None
            if not can_show(name, status):
                continue
            if status is None:
                self.folder.unstable_count += 1
                continue
            if status.st_size > max_bytes:
                self.folder.too_large += 1
                continue
            age = -status.st_mtime_ns
            crc_sum += crc32(name, (age ^ count) & UINT32_MASK)  # a sum does not depend on the order
            held.append((age, name, count))
        self.checksum = crc_sum & UINT32_MASK
        if len(held) > self.max_files + MAX_EXTRA_FILES:
            self._trim()

    def list_newest(self) -> list[tuple[bytes, int]]:
        self._trim()
        return [(name, count) for _, name, count in self._files]

    def _trim(self) -> None:
        """Keep only the newest; among those of the same age, the first by path."""
        self._files.sort(key=itemgetter(0))
        if len(self._files) > self.max_files:
            oldest = self._files[self.max_files - 1][0]
            del self._files[bisect_right(self._files, oldest, key=itemgetter(0)) :]
        self._files.sort(key=lambda each: (each[0], path_sort_key(each[1])))
        del self._files[self.max_files :]


@dataclass
class FilePage:
    """Collects files one by one until the page is full."""

    folder: SearchFolder
    skip: int
    limit: int
    checksum: int = 0  # of those that were skipped
    hits: list[SearchHit] = field(default_factory=list[SearchHit])
    has_more: bool = False

    def offer(self, name: bytes, count: int) -> bool:
        """Return whether there is room for another."""
        hit = SearchHit(self.folder.to_place(name), count=count)
        if not self.folder.can_show(name):
            return True
        if self.skip:
            self.skip -= 1
            self.checksum = checksum_hit(self.checksum, hit)
        elif len(self.hits) == self.limit:
            self.has_more = True
        elif self.folder.has_file(name):
            self.hits.append(hit)
        return not self.has_more


@dataclass
class LinePage:
    """Collects matching lines with their context, file by file."""

    folder: SearchFolder
    request: Grep
    skip: int
    limit: int
    # Searches the open file again.
    search_again: Callable[[int, Sequence[FoundLine]], Sequence[FoundLine]]
    explicit: bool = False  # the file itself was given as the path
    checksum: int = 0
    hits: list[SearchHit] = field(default_factory=list[SearchHit])
    has_more: bool = False

    def offer(self, name: bytes, lines: Sequence[FoundLine]) -> bool:
        if not any(line.start >= 0 for line in lines):
            return not self.has_more
        try:
            fd = self.folder.open(name)
        except HitSkipped:
            return True
        try:
            self._add_rows(self.folder.to_place(name), self._confirm_lines(fd, lines))
        finally:
            os.close(fd)
        return not self.has_more

    def _confirm_lines(self, fd: int, lines: Sequence[FoundLine]) -> Iterator[MatchRow]:
        """The lines that the open file really has. Of a line too long to compare, the match is compared; if that is not
        a plain comparison, the file is searched again."""
        literal = None if self.request.regex or self.request.ignore_case else self.request.pattern.encode()
        if literal is None and any(line.data is None for line in lines):
            lines = self.search_again(fd, lines)
        file = LineVerifier(fd, explicit=self.explicit)
        for line in lines:
            row = file.verify(line, self.request.width, literal)
            if row:
                yield row
            else:
                self.folder.unstable_count += line.start >= 0

    def _add_rows(self, place: str, confirmed_rows: Iterator[MatchRow]) -> None:
        rows: list[MatchRow] = []
        matches: list[int] = []
        for row in confirmed_rows:
            if self.skip:  # an earlier page showed it
                if row.is_match:
                    self.skip -= 1
                    self.checksum = checksum(self.checksum, place, str(row.number))
                continue
            if row.is_match and not self.limit:
                self.has_more = True
                break
            rows.append(row)
            if row.is_match:
                matches.append(row.number)
                self.limit -= 1
        if matches:
            near = tuple(row for row in rows if self._is_near_match(row.number, matches))
            self.hits.append(SearchHit(place, rows=near))

    def _is_near_match(self, number: int, matches: Sequence[int]) -> bool:
        """Whether a line is context of one of the matches, which are sorted."""
        at = bisect_left(matches, number - self.request.after)
        return at < len(matches) and matches[at] - self.request.before <= number
