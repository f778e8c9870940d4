"""The workspace that the page shows: its journal, and toolboxes to look into calls and to take them back."""

import os
from collections import OrderedDict
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.state_folder import ensure_state_folder
from handhold.core.errors import BinaryFile, ToolError
from handhold.core.plans import Content
from handhold.core.ports.approvals import Approver
from handhold.core.ports.journal import JournalEntry
from handhold.core.text.diff import DiffHunk, compute_hunks
from handhold.logs import log_swallowed
from handhold.pipeline.change_history import RecordedChange, Side
from handhold.toolbox import Toolbox

MAX_COUNTED_FILES = 40  # of a call in a list; with more, lines are not counted
MAX_COUNTED_BYTES = 512 * 1024
MAX_CACHED_COUNTS = 20_000
MAX_CACHED_DIFFS = 8

LineCounts = tuple[int, int] | None


class ReviewedWorkspace:
    """Opens a workspace for people. `close` it."""

    def __init__(self, roots: Sequence[str], state: Path | None = None) -> None:
        self.roots = [os.path.realpath(root) for root in roots]
        self.name = os.path.basename(self.roots[0]) or self.roots[0]
        self._state = state
        self.folder = ensure_state_folder(state, self.roots)
        self.store = SqliteStore(self.folder)
        self.records = self.store.records
        self._box = Toolbox.open(self.roots, state=state, session="review")
        self.history = self._box.history
        self._lock = Lock()
        self._counts: dict[int, LineCounts] = {}
        self._diffs: OrderedDict[tuple[int, int], list[DiffHunk]] = OrderedDict()

    def close(self) -> None:
        self._box.close()
        self.store.close()

    @property
    def forks(self) -> Toolbox:
        return self._box

    @contextmanager
    def open_session(self, session: str, approver: Approver | None = None) -> Generator[Toolbox]:
        """A toolbox that acts for a session."""
        with Toolbox.open(self.roots, state=self._state, session=session, approver=approver) as box:
            yield box

    def shorten(self, path: str) -> str:
        return path.removeprefix(self.roots[0].rstrip("/") + "/")

    def commands_reach_page(self) -> bool:
        """Whether something that an agent started may run outside of a sandbox here: in a fork, or recorded."""
        if self.store.has_baseline():
            return True
        try:
            return any(fork.is_running for fork in self._box.forks)
        except ToolError:
            log_swallowed()
            return False

    # --- changes

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
        """Lines that a call added and removed; None if they cannot be counted quickly."""
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
