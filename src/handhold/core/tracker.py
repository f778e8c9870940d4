"""What a session has seen of each file, and whether that is still what is there.

Time stamps are hints; content decides. A touched file is not a changed file, and a file rewritten
under its old time stamp is.
"""

from dataclasses import replace

from handhold.core.errors import PartlyRead, Stale, Unread
from handhold.core.facts import Identity, Page, Whole
from handhold.core.plans import digest
from handhold.core.ports import MOST_EDITABLE, Contents, FileView, Journal, Mark, Marks, Seen
from handhold.core.text.diff import bounded, unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.lines import count, merged

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

    def saw_page(self, page: Page) -> None:
        last = page.first + max(len(page.lines), 1) - 1
        known = self.marks.get(page.path, page.identity)
        if known and not self._unchanged(known, page):
            known = None
        if page.whole and not known and len(page.whole.data) <= KEEP_SEEN:
            self.contents.keep([page.whole.data])
        lines = merged([*(known.lines if known else ()), (page.first, last)])
        reached_end = not page.more or lines[-1][1] == page.total
        whole = bool(known and known.whole) or (len(lines) == 1 and lines[0][0] == 1 and reached_end)
        hash = known.hash if known else self._hash(page)
        pages = () if hash else (*(known.pages if known else ()), Seen(*page.span, page.span_hash))[-MOST_PAGES:]
        self.marks.put(Mark(page.path, page.identity, hash, lines, whole, pages))

    def saw_change(self, path: str, identity: Identity, data: bytes, *, whole: bool) -> None:
        """Remember what the session itself wrote. An edit after a partial read leaves the rest unseen."""
        known = self.marks.get(path, None)
        whole = whole or bool(known and known.whole)
        lines = ((1, count(Text.decode(data).body)),) if whole else ()
        self.marks.put(Mark(path, identity, digest(data), lines, whole))

    def saw_diff(self, whole: Whole) -> None:
        """A complete diff was shown: what the session knew, it knows again."""
        if known := self.marks.get(whole.path, whole.identity):
            self.contents.keep([whole.data])
            self.marks.put(replace(known, identity=whole.identity, hash=whole.hash))

    def _unchanged(self, mark: Mark, page: Page) -> bool:
        if mark.identity == page.identity:
            return True
        if mark.hash:
            return mark.hash == self._hash(page)
        seen = {(known.start, known.end): known.hash for known in mark.pages}
        return seen.get(page.span) == page.span_hash and mark.identity.size == page.identity.size

    def _hash(self, page: Page) -> str | None:
        if page.whole:
            return page.whole.hash
        return self.files.fingerprint(page.path)[1] if page.identity.size <= MOST_EDITABLE else None

    def _difference(self, mark: Mark, whole: Whole) -> tuple[str, bool]:
        """What happened since, as a bounded diff, and whether that is all of it."""
        known = self.contents.get(mark.hash) if mark.hash else None
        if known is None:
            return "", False
        return bounded(unified_diff(whole.path, Text.decode(known).body, Text.decode(whole.data).body))
