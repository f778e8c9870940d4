"""Track what a session has seen of each file, and whether the file is still the same.

Content decides; time stamps are only hints. A touched file is unchanged, and a file rewritten under its old
time stamp is changed.
"""

from dataclasses import replace

from handhold.core.errors import BinaryFile, ChangedDuringRead, PartlyRead, Stale, Unread
from handhold.core.facts import DeclaredEncoding, FileIdentity, FileSnapshot, Page, ShownParts
from handhold.core.plans import digest
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.files import MAX_EDITABLE_BYTES, FileView
from handhold.core.ports.journal import Journal
from handhold.core.ports.read_records import ReadRecord, ReadRecords, SeenPage
from handhold.core.text.diff import truncate_diff, unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.lines import merge_ranges

MAX_KEPT_BYTES = 1024 * 1024  # the content of a larger file is not kept for diffs
MAX_PAGE_HASHES = 64  # remembered pages of a file that is too large to hash


class ReadTracker:
    def __init__(self, read_records: ReadRecords, contents: ContentStore, journal: Journal, files: FileView) -> None:
        self.read_records = read_records
        self.contents = contents
        self.journal = journal
        self.files = files

    def require_read(self, snapshot: FileSnapshot, path: str, *, fully: bool) -> None:
        """Raise Unread, Stale or PartlyRead unless the session has seen this content."""
        record = self.read_records.get(snapshot.path, snapshot.identity)
        if record is None:
            raise Unread(path)
        if record.hash != snapshot.hash:
            diff, complete = self._diff_since(record, snapshot)
            raise Stale(path, diff, complete, self.journal.last_writer(snapshot.path, snapshot.hash), snapshot.hash)
        if fully and not record.is_complete:
            raise PartlyRead(path, record.lines)

    def compare_page(self, page: Page) -> tuple[bool, str]:
        """Whether the file differs from what the session last saw, and the diff."""
        record = self.read_records.get(page.path, page.identity)
        if record is None or self._is_unchanged(record, page):
            return False, ""
        return True, self._diff_since(record, page.snapshot)[0] if page.snapshot else ""

    def has_shown(self, page: Page) -> bool:
        """Whether a read has shown exactly these lines uncut, and the file is unchanged since."""
        record = self.read_records.get(page.path, page.identity)
        if record is None or not page.lines or not self._is_unchanged(record, page):
            return False
        if record.hash is None and SeenPage(*page.byte_span, page.span_hash) not in record.pages:
            return False
        asked = merge_ranges(list_complete_lines(page))
        span = (page.first, page.first + len(page.lines) - 1)
        return asked == (span,) and any(first <= span[0] and span[1] <= last for first, last in record.lines)

    def compare_snapshot(self, snapshot: FileSnapshot) -> tuple[bool, str]:
        """Like `compare_page`, for a whole file."""
        record = self.read_records.get(snapshot.path, snapshot.identity)
        if record is None or record.hash == snapshot.hash:
            return False, ""
        return True, self._diff_since(record, snapshot)[0]

    def hash_page_file(self, page: Page) -> str | None:
        """The hash of a page's file. None for one that is too large or keeps changing."""
        known = None if page.snapshot else self.read_records.get(page.path, page.identity)
        return known.hash if known and known.identity == page.identity else self._hash_file(page)

    def record_page(self, page: Page, hash: str | None) -> None:
        """Record a page of a file with this hash, which `hash_page_file` returned: nothing is read here."""
        known = self.read_records.get(page.path, page.identity)
        if known and not (known.hash == hash if known.hash else self._is_unchanged(known, page)):
            known = None
        if page.snapshot and not known and len(page.snapshot.data) <= MAX_KEPT_BYTES:
            self.contents.keep([page.snapshot.data])
        lines = merge_ranges([*(known.lines if known else ()), *list_complete_lines(page)])
        end = page.total if page.has_more else page.first + len(page.lines) - 1
        whole = bool(known and known.is_complete) or lines == ((1, end),) or end == 0
        hash = known.hash if known else hash
        pages = (
            ()
            if hash
            else (*(known.pages if known else ()), SeenPage(*page.byte_span, page.span_hash))[-MAX_PAGE_HASHES:]
        )
        record = ReadRecord(page.path, page.identity, hash, lines, whole, pages)
        if record != known:
            self.read_records.put(record)

    def record_truncation(self, path: str) -> None:
        """Record that a reply was truncated on its way: the session has seen the file only in part."""
        if known := self.read_records.get(path, None):
            self.read_records.put(replace(known, lines=(), is_complete=False))

    def record_parts(self, parts: ShownParts) -> None:
        """Record shown PDF pages, notebook cells or an image. They are stored in place of line ranges."""
        snapshot = parts.snapshot
        known = self.read_records.get(snapshot.path, snapshot.identity)
        if known and known.hash != snapshot.hash:
            known = None
        if parts.is_text and not known and len(snapshot.data) <= MAX_KEPT_BYTES:
            self.contents.keep([snapshot.data])
        pages = merge_ranges([*(known.lines if known else ()), *((n, n) for n in parts.numbers)])
        all_of_it = bool(known and known.is_complete) or pages == ((1, parts.count),) or not parts.count
        self.read_records.put(ReadRecord(snapshot.path, snapshot.identity, snapshot.hash, pages, all_of_it))

    def record_write(self, path: str, identity: FileIdentity, hash: str, *, fully: bool) -> None:
        """Record what the session itself wrote. An edit after a partial read leaves the rest unseen.

        The line ranges are dropped: the numbers have changed, and the new lines were not shown.
        """
        known = self.read_records.get(path, None)
        self.read_records.put(ReadRecord(path, identity, hash, (), fully or bool(known and known.is_complete)))

    def record_diff(self, snapshot: FileSnapshot) -> None:
        """Record that a complete diff was shown: the session knows the file again as well as before."""
        if known := self.read_records.get(snapshot.path, snapshot.identity):
            self.contents.keep([snapshot.data])
            self.read_records.put(replace(known, identity=snapshot.identity, hash=snapshot.hash, lines=()))

    def diff_against_seen(self, path: str, before: bytes | None, after: bytes, name: str) -> tuple[str, bool]:
        """Diff the new content against what the session last saw, bounded, under the given name.

        The content last seen is taken from the store, or from `before` if that is the same.
        """
        record = self.read_records.get(path, None)
        known = self.contents.get(record.hash) if record and record.hash else None
        if known is None and record and before is not None and digest(before) == record.hash:
            known = before
        return (
            ("", False)
            if known is None
            else diff_contents(self._shorten(name), known, after, self.files.declared_encoding(path))
        )

    def record_move(self, source: str, snapshot: FileSnapshot) -> None:
        """Carry the read record over to a file's new path."""
        known = self.read_records.get(source, None)
        self.read_records.drop(source)
        if known and known.hash == snapshot.hash:
            self.read_records.put(replace(known, path=snapshot.path, identity=snapshot.identity))

    def _is_unchanged(self, record: ReadRecord, page: Page) -> bool:
        if page.snapshot and record.hash:
            return record.hash == page.snapshot.hash
        if record.identity == page.identity:
            return True
        if record.hash:
            return record.hash == self._hash_file(page)
        seen = {(known.start, known.end): known.hash for known in record.pages}
        return seen.get(page.byte_span) == page.span_hash and record.identity.size == page.identity.size

    def _hash_file(self, page: Page) -> str | None:
        """None for a file that is too large or keeps changing: then none of it may be treated as seen."""
        if page.snapshot:
            return page.snapshot.hash
        if page.identity.size > MAX_EDITABLE_BYTES:
            return None
        try:
            identity, hash = self.files.fingerprint(page.path)
        except ChangedDuringRead:
            return None
        return hash if identity == page.identity else None

    def _diff_since(self, record: ReadRecord, snapshot: FileSnapshot) -> tuple[str, bool]:
        known = self.contents.get(record.hash) if record.hash else None
        if known is None:
            return "", False
        name = self._shorten(snapshot.path)
        return diff_contents(name, known, snapshot.data, self.files.declared_encoding(snapshot.path))

    def _shorten(self, path: str) -> str:
        """The path as the headers of a diff have it: relative to the first root."""
        return path.removeprefix(self.files.roots[0].rstrip("/") + "/")


def diff_contents(name: str, old: bytes, new: bytes, declared: DeclaredEncoding | None) -> tuple[str, bool]:
    """A bounded diff of two contents, and whether it is complete."""
    try:
        before, after = (Text.decode(data, name, declared) for data in (old, new))
    except BinaryFile:
        return "[it holds binary data now, or did before]\n", False
    if before.body == after.body:
        return f"[the same text, now as {after.encoding.label} and not as {before.encoding.label}]\n", True
    return truncate_diff(unified_diff(name, before.body, after.body))


def list_complete_lines(page: Page) -> list[tuple[int, int]]:
    """The lines that a page showed to their end. A truncated line does not count as seen."""
    return [(n, n) for n, line in enumerate(page.lines, page.first) if not line.omitted_chars]
