"""What the pages show of a workspace: its records, and the changes of its calls. On this machine, or on a hub."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from handhold.core.errors import BinaryFile, ToolError
from handhold.core.plans import Content, FileChange
from handhold.core.ports.journal import JournalEntry
from handhold.core.ports.records import Records
from handhold.core.text.diff import DiffHunk, compute_hunks
from handhold.pipeline.change_history import RecordedChange, Side

MAX_COUNTED_FILES = 40  # of a call in a list; with more, lines are not counted
MAX_COUNTED_BYTES = 512 * 1024
MAX_CACHED_COUNTS = 20_000
MAX_CACHED_DIFFS = 8

LineCounts = tuple[int, int] | None


class ChangeReader(Protocol):
    """The changes of recorded calls, file by file."""

    def list_changes(self, entry: JournalEntry, *, limit: int | None = None) -> list[RecordedChange]: ...

    def count_changes(self, entry: JournalEntry) -> int: ...

    def find_change(self, entry: JournalEntry, number: int) -> RecordedChange | None: ...

    def read_side(self, change: FileChange, side: Side) -> bytes | None:
        """The content of a path before or after a call; None if there was none, or it is not to be had."""
        ...

    def read_now(self, path: str) -> bytes | None: ...

    def decode(self, data: bytes, path: str) -> str:
        """The text of a file. BinaryFile if it has none."""
        ...


class RecordedWorkspace:
    """A workspace to be looked at. Thread-safe."""

    can_act = False  # whether people can answer questions and take changes back here

    def __init__(self, name: str, roots: Sequence[str], records: Records, history: ChangeReader) -> None:
        """`roots` are empty if they are not known: paths are absolute then."""
        self.name = name
        self.roots = roots
        self.records = records
        self.history = history
        self._lock = Lock()
        self._counts: dict[int, LineCounts] = {}
        self._diffs: OrderedDict[tuple[int, int], list[DiffHunk]] = OrderedDict()

    def shorten(self, path: str) -> str:
        return path.removeprefix(self.roots[0].rstrip("/") + "/") if self.roots else path

    def resolve(self, path: str) -> str:
        return path if path.startswith("/") or not self.roots else f"{self.roots[0]}/{path}"

    def count_ahead(self, entries: Sequence[JournalEntry]) -> None:
        """Called before the lines of these calls are counted one by one."""

    def compute_diff(self, entry: JournalEntry, change: RecordedChange) -> list[DiffHunk]:
        """The hunks of one file. LookupError if its content is not kept, BinaryFile if it is no text."""
        key = (entry.seq, change.number)
        with self._lock:
            if known := self._diffs.get(key):
                self._diffs.move_to_end(key)
                return known
        before, after = self._read_texts(change)
        hunks = list(compute_hunks(before, after))
        with self._lock:
            self._diffs[key] = hunks
            if len(self._diffs) > MAX_CACHED_DIFFS:
                self._diffs.popitem(last=False)
        return hunks

    def _read_texts(self, change: RecordedChange) -> tuple[str, str]:
        texts: list[str] = []
        sides: tuple[tuple[Side, Content | None], ...] = (
            ("before", change.change.before),
            ("after", change.change.after),
        )
        for side, content in sides:
            if content is None:
                texts.append("")
                continue
            data = self.history.read_side(change.change, side)
            if data is None:
                raise LookupError(change.change.path)
            texts.append(self.history.decode(data, change.change.path))
        return texts[0], texts[1]

    def count_lines(self, entry: JournalEntry) -> LineCounts:
        """Lines that a call added and removed; None if they cannot be counted quickly, or it has not ended."""
        if entry.outcome is None:
            return None
        if entry.seq not in self._counts:
            if len(self._counts) >= MAX_CACHED_COUNTS:
                self._counts.clear()
            self._counts[entry.seq] = self._count_lines(entry)
        return self._counts[entry.seq]

    def _count_lines(self, entry: JournalEntry) -> LineCounts:
        if not entry.changed or not entry.succeeded or entry.changed > MAX_COUNTED_FILES or not entry.kept:
            return None
        added = removed = 0
        try:
            for change in self.history.list_changes(entry):
                if change.effect.kind != "file" or change.effect.size > MAX_COUNTED_BYTES:
                    continue
                for hunk in compute_hunks(*self._read_texts(change)):
                    added += sum(line.sign == "+" for line in hunk.lines)
                    removed += sum(line.sign == "-" for line in hunk.lines)
        except (LookupError, BinaryFile):
            return (added, removed) if added or removed else None
        except ToolError:  # for example, its root is not open here
            return None
        return added, removed
