"""What a session has seen of each file, and whether that is still what is there.

Time stamps are hints; content decides. A touched file is not a changed file, and a file rewritten
under its old time stamp is.
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

MAX_KEPT_BYTES = 1024 * 1024  # a larger file that was read is not kept for telling what changed in it
MAX_PAGE_HASHES = 64  # of a large file, whose hashes are remembered


class ReadTracker:
    def __init__(self, read_records: ReadRecords, contents: ContentStore, journal: Journal, files: FileView) -> None:
        self.read_records = read_records
        self.contents = contents
        self.journal = journal
        self.files = files

    def require_read(self, snapshot: FileSnapshot, path: str, *, fully: bool) -> None:
        """Unread, Stale or PartlyRead unless the session knows this content."""
        record = self.read_records.get(snapshot.path, snapshot.identity)
        if record is None:
            raise Unread(path)
        if record.hash != snapshot.hash:
            diff, complete = self._diff_since(record, snapshot)
            raise Stale(path, diff, complete, self.journal.last_writer(snapshot.path, snapshot.hash), snapshot.hash)
        if fully and not record.is_complete:
            raise PartlyRead(path, record.lines)

    def compare_page(self, page: Page) -> tuple[bool, str]:
        """Whether the file is no longer what the session last saw of it, and how it differs."""
        record = self.read_records.get(page.path, page.identity)
        if record is None or self._is_unchanged(record, page):
            return False, ""
        return True, self._diff_since(record, page.snapshot)[0] if page.snapshot else ""

    def has_shown(self, page: Page) -> bool:
        """Whether a read showed these very lines, none of them cut, and the file is still the same."""
        record = self.read_records.get(page.path, page.identity)
        if record is None or not page.lines or not self._is_unchanged(record, page):
            return False
        if record.hash is None and SeenPage(*page.byte_span, page.span_hash) not in record.pages:
            return False
        asked = merge_ranges(list_complete_lines(page))
        span = (page.first, page.first + len(page.lines) - 1)
        return asked == (span,) and any(first <= span[0] and span[1] <= last for first, last in record.lines)

    def compare_snapshot(self, snapshot: FileSnapshot) -> tuple[bool, str]:
        """The same for a file that was read at once."""
        record = self.read_records.get(snapshot.path, snapshot.identity)
        if record is None or record.hash == snapshot.hash:
            return False, ""
        return True, self._diff_since(record, snapshot)[0]

    def record_page(self, page: Page) -> None:
        known = self.read_records.get(page.path, page.identity)
        if known and not self._is_unchanged(known, page):
            known = None
        if page.snapshot and not known and len(page.snapshot.data) <= MAX_KEPT_BYTES:
            self.contents.keep([page.snapshot.data])
        lines = merge_ranges([*(known.lines if known else ()), *list_complete_lines(page)])
        end = page.total if page.has_more else page.first + len(page.lines) - 1
        whole = bool(known and known.is_complete) or lines == ((1, end),) or end == 0
        hash = known.hash if known else self._hash_file(page)
        pages = (
            ()
            if hash
            else (*(known.pages if known else ()), SeenPage(*page.byte_span, page.span_hash))[-MAX_PAGE_HASHES:]
        )
        record = ReadRecord(page.path, page.identity, hash, lines, whole, pages)
        if record != known:
            self.read_records.put(record)

    def record_truncation(self, path: str) -> None:
        """Whoever carried a reply cut it: the session knows the file, and not all of it."""
        if known := self.read_records.get(path, None):
            self.read_records.put(replace(known, lines=(), is_complete=False))

    def record_parts(self, parts: ShownParts) -> None:
        """Pages of a PDF, cells of a notebook, or an image, were shown: they stand where a text has its lines."""
        snapshot = parts.snapshot
        known = self.read_records.get(snapshot.path, snapshot.identity)
        if known and known.hash != snapshot.hash:
            known = None
        if parts.is_text and not known and len(snapshot.data) <= MAX_KEPT_BYTES:
            self.contents.keep([snapshot.data])
        pages = merge_ranges([*(known.lines if known else ()), *((n, n) for n in parts.numbers)])
        all_of_it = bool(known and known.is_complete) or pages == ((1, parts.count),) or not parts.count
        self.read_records.put(ReadRecord(snapshot.path, snapshot.identity, snapshot.hash, pages, all_of_it))

    def record_write(self, path: str, identity: FileIdentity, data: bytes, *, fully: bool) -> None:
        """Remember what the session itself wrote. An edit after a partial read leaves the rest unseen.

        It knows the file and was not shown it: lines have other numbers now.
        """
        known = self.read_records.get(path, None)
        self.read_records.put(ReadRecord(path, identity, digest(data), (), fully or bool(known and known.is_complete)))

    def record_diff(self, snapshot: FileSnapshot) -> None:
        """A complete diff was shown: what the session knew, it knows again."""
        if known := self.read_records.get(snapshot.path, snapshot.identity):
            self.contents.keep([snapshot.data])
            self.read_records.put(replace(known, identity=snapshot.identity, hash=snapshot.hash, lines=()))

    def diff_against_seen(self, path: str, before: bytes | None, after: bytes, name: str) -> tuple[str, bool]:
        """How a content that is about to come differs from what the session last saw, as a bounded diff under a name.

        What it saw is looked for in the store, and in what stands there now.
        """
        record = self.read_records.get(path, None)
        known = self.contents.get(record.hash) if record and record.hash else None
        if known is None and record and before is not None and digest(before) == record.hash:
            known = before
        return ("", False) if known is None else diff_contents(name, known, after, self.files.declared_encoding(path))

    def record_move(self, source: str, snapshot: FileSnapshot) -> None:
        """A file that the session knew has another name now."""
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
        """None for a file that is too large, or that does not hold still: then nothing of it may be taken as known."""
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
        return diff_contents(snapshot.path, known, snapshot.data, self.files.declared_encoding(snapshot.path))


def diff_contents(path: str, old: bytes, new: bytes, declared: DeclaredEncoding | None) -> tuple[str, bool]:
    """What happened to a file, as a bounded diff, and whether that is all of it."""
    try:
        before, after = (Text.decode(data, path, declared) for data in (old, new))
    except BinaryFile:
        return "[it holds binary data now, or did before]\n", False
    if before.body == after.body:
        return f"[the same text, now as {after.encoding.label} and not as {before.encoding.label}]\n", True
    return truncate_diff(unified_diff(path, before.body, after.body))


def list_complete_lines(page: Page) -> list[tuple[int, int]]:
    """The lines that a page showed to their end: a line that was cut has not been seen."""
    return [(n, n) for n, line in enumerate(page.lines, page.first) if not line.omitted_chars]
