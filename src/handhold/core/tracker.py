"""What a session has seen of each file, and whether that is still what is there.

Time stamps are hints; content decides. A touched file is not a changed file, and a file rewritten
under its old time stamp is.
"""

from dataclasses import replace

from handhold.core.errors import BinaryFile, ChangedDuringRead, PartlyRead, Stale, Unread
from handhold.core.facts import Declared, Identity, Page, Parts, Whole
from handhold.core.plans import digest
from handhold.core.ports import MOST_EDITABLE, Contents, FileView, Journal, Mark, Marks, Seen
from handhold.core.text.diff import bounded, unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.lines import merged

KEEP_SEEN = 1024 * 1024  # a larger file that was read is not kept for telling what changed in it
MOST_PAGES = 64  # of a large file, whose hashes are remembered


class Tracker:
    def __init__(self, marks: Marks, contents: Contents, journal: Journal, files: FileView) -> None:
        self.marks = marks
        self.contents = contents
        self.journal = journal
        self.files = files

    def must_know(self, whole: Whole, path: str, *, all_of_it: bool) -> None:
        """Unread, Stale or PartlyRead unless the session knows this content."""
        mark = self.marks.get(whole.path, whole.identity)
        if mark is None:
            raise Unread(path)
        if mark.hash != whole.hash:
            diff, complete = self._difference(mark, whole)
            raise Stale(path, diff, complete, self.journal.writer(whole.path, whole.hash), whole.hash)
        if all_of_it and not mark.whole:
            raise PartlyRead(path, mark.lines)

    def changed_since(self, page: Page) -> tuple[bool, str]:
        """Whether the file is no longer what the session last saw of it, and how it differs."""
        mark = self.marks.get(page.path, page.identity)
        if mark is None or self._unchanged(mark, page):
            return False, ""
        return True, self._difference(mark, page.whole)[0] if page.whole else ""

    def was_shown(self, page: Page) -> bool:
        """Whether a read showed these very lines, none of them cut, and the file is still the same."""
        mark = self.marks.get(page.path, page.identity)
        if mark is None or not page.lines or not self._unchanged(mark, page):
            return False
        if mark.hash is None and Seen(*page.span, page.span_hash) not in mark.pages:
            return False
        asked = merged(shown_whole(page))
        span = (page.first, page.first + len(page.lines) - 1)
        return asked == (span,) and any(first <= span[0] and span[1] <= last for first, last in mark.lines)

    def whole_changed_since(self, whole: Whole) -> tuple[bool, str]:
        """The same for a file that was read at once."""
        mark = self.marks.get(whole.path, whole.identity)
        if mark is None or mark.hash == whole.hash:
            return False, ""
        return True, self._difference(mark, whole)[0]

    def saw_page(self, page: Page) -> None:
        known = self.marks.get(page.path, page.identity)
        if known and not self._unchanged(known, page):
            known = None
        if page.whole and not known and len(page.whole.data) <= KEEP_SEEN:
            self.contents.keep([page.whole.data])
        lines = merged([*(known.lines if known else ()), *shown_whole(page)])
        end = page.total if page.more else page.first + len(page.lines) - 1
        whole = bool(known and known.whole) or lines == ((1, end),) or end == 0
        hash = known.hash if known else self._hash(page)
        pages = () if hash else (*(known.pages if known else ()), Seen(*page.span, page.span_hash))[-MOST_PAGES:]
        mark = Mark(page.path, page.identity, hash, lines, whole, pages)
        if mark != known:
            self.marks.put(mark)

    def saw_less(self, path: str) -> None:
        """Whoever carried a reply cut it: the session knows the file, and not all of it."""
        if known := self.marks.get(path, None):
            self.marks.put(replace(known, lines=(), whole=False))

    def saw_parts(self, parts: Parts) -> None:
        """Pages of a PDF, cells of a notebook, or an image, were shown: they stand where a text has its lines."""
        whole = parts.whole
        known = self.marks.get(whole.path, whole.identity)
        if known and known.hash != whole.hash:
            known = None
        if parts.is_text and not known and len(whole.data) <= KEEP_SEEN:
            self.contents.keep([whole.data])
        pages = merged([*(known.lines if known else ()), *((n, n) for n in parts.shown)])
        all_of_it = bool(known and known.whole) or pages == ((1, parts.count),) or not parts.count
        self.marks.put(Mark(whole.path, whole.identity, whole.hash, pages, all_of_it))

    def saw_change(self, path: str, identity: Identity, data: bytes, *, whole: bool) -> None:
        """Remember what the session itself wrote. An edit after a partial read leaves the rest unseen.

        It knows the file and was not shown it: lines have other numbers now.
        """
        known = self.marks.get(path, None)
        self.marks.put(Mark(path, identity, digest(data), (), whole or bool(known and known.whole)))

    def saw_diff(self, whole: Whole) -> None:
        """A complete diff was shown: what the session knew, it knows again."""
        if known := self.marks.get(whole.path, whole.identity):
            self.contents.keep([whole.data])
            self.marks.put(replace(known, identity=whole.identity, hash=whole.hash, lines=()))

    def difference(self, path: str, before: bytes | None, after: bytes, name: str) -> tuple[str, bool]:
        """How a content that is about to come differs from what the session last saw, as a bounded diff under a name.

        What it saw is looked for in the store, and in what stands there now.
        """
        mark = self.marks.get(path, None)
        known = self.contents.get(mark.hash) if mark and mark.hash else None
        if known is None and mark and before is not None and digest(before) == mark.hash:
            known = before
        return ("", False) if known is None else difference(name, known, after, self.files.declared(path))

    def moved(self, source: str, whole: Whole) -> None:
        """A file that the session knew has another name now."""
        known = self.marks.get(source, None)
        self.marks.drop(source)
        if known and known.hash == whole.hash:
            self.marks.put(replace(known, path=whole.path, identity=whole.identity))

    def _unchanged(self, mark: Mark, page: Page) -> bool:
        if page.whole and mark.hash:
            return mark.hash == page.whole.hash
        if mark.identity == page.identity:
            return True
        if mark.hash:
            return mark.hash == self._hash(page)
        seen = {(known.start, known.end): known.hash for known in mark.pages}
        return seen.get(page.span) == page.span_hash and mark.identity.size == page.identity.size

    def _hash(self, page: Page) -> str | None:
        """None for a file that is too large, or that does not hold still: then nothing of it may be taken as known."""
        if page.whole:
            return page.whole.hash
        if page.identity.size > MOST_EDITABLE:
            return None
        try:
            identity, hash = self.files.fingerprint(page.path)
        except ChangedDuringRead:
            return None
        return hash if identity == page.identity else None

    def _difference(self, mark: Mark, whole: Whole) -> tuple[str, bool]:
        known = self.contents.get(mark.hash) if mark.hash else None
        if known is None:
            return "", False
        return difference(whole.path, known, whole.data, self.files.declared(whole.path))


def difference(path: str, old: bytes, new: bytes, declared: Declared | None) -> tuple[str, bool]:
    """What happened to a file, as a bounded diff, and whether that is all of it."""
    try:
        before, after = (Text.decode(data, path, declared) for data in (old, new))
    except BinaryFile:
        return "[it holds binary data now, or did before]\n", False
    if before.body == after.body:
        return f"[the same text, now as {after.coding.label} and not as {before.coding.label}]\n", True
    return bounded(unified_diff(path, before.body, after.body))


def shown_whole(page: Page) -> list[tuple[int, int]]:
    """The lines that a page showed to their end: a line that was cut has not been seen."""
    return [(n, n) for n, line in enumerate(page.lines, page.first) if not line.cut]
