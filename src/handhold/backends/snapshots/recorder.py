"""Records what others change in a root: a baseline, scans around a call, and entries in the same journal.

It confines nobody and previews nothing. A window says what changed while a call ran, not who changed it.
"""

import json
import os
import time
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import RemovalBudget, StagingArea
from handhold.backends.quiet_open import open_quietly
from handhold.backends.snapshots.capture import Captured, SlotCapture
from handhold.backends.snapshots.copies import Copies
from handhold.backends.snapshots.listing import FOLDER_FLAGS
from handhold.backends.snapshots.scan import Difference, ScanResult, TreeScan
from handhold.backends.state.baseline import BaselineUpdate
from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.state.windows import OpenWindow
from handhold.core.choices import FOREIGN
from handhold.core.history import format_call_id
from handhold.core.plans import StagedContent
from handhold.core.ports.journal import Call, JournalEntry, Outcome
from handhold.core.ports.recording import Window
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous

T = TypeVar("T")

DIALECT = "adopted"
WAIT_SECONDS = 1.5  # for the baseline, before a command runs; with the scan that follows, two seconds
INLINE_FILES, INLINE_SECONDS = 500, 0.2  # copied at once after a call; the rest in the background
INGEST_SECONDS = 0.05  # for which others wait while folders are listed for the first time
MAX_LISTED = 100  # paths that an entry names as not kept
UNLIMITED = 2**62  # entries to remove


@dataclass(frozen=True)
class Recorded:
    """What a scan recorded."""

    paths: tuple[str, ...] = ()  # changed while a call ran
    foreign: tuple[str, ...] = ()  # changed by nobody's call
    not_kept: dict[str, str] = field(default_factory=dict[str, str])  # cannot be undone, and why
    given_up: tuple[str, ...] = ()  # earlier calls whose undo is dropped to make room

    def __add__(self, other: "Recorded") -> "Recorded":
        not_kept = {**self.not_kept, **other.not_kept}
        return Recorded(
            self.paths + other.paths, self.foreign + other.foreign, not_kept, self.given_up + other.given_up
        )


@dataclass(frozen=True)
class Part:
    """Differences that become one entry."""

    differences: Sequence[Difference]
    call: Call
    together: int | None  # the group of its windows


class Recorder:
    """Records the changes of one root. Safe for several processes: each scan holds the journal's lock."""

    def __init__(
        self, root: Root, area: StagingArea, store: SqliteStore, copies: Copies, recover: Callable[[], None]
    ) -> None:
        """`recover` is called with the journal held exclusively: half of a change set of ours is nobody's change."""
        self._root = root
        self._recover = recover
        self._area = area
        self._store = store
        self._copies = copies
        self.baseline = store.baseline(root.real)
        self._windows = store.windows(root.real)

    @property
    def root(self) -> str:
        return self._root.real

    def close(self) -> None:
        self._copies.close()

    # --- windows

    def begin(self, window: Window) -> Recorded:
        """Call it before somebody else's call. What changed since the last scan belongs to nobody's call, or to those
        that are under way."""
        with self._store.exclusive():
            named = None if window.paths is None else self._relative(window.paths)
            if named is not None and not self.baseline.is_scanned:
                self._recover()
                self.baseline.create()
                with self._open_root() as fd:
                    TreeScan(fd, self._root.device, self.baseline, self._copies).list_named(named)
            recorded = self._record_changes(named)
            if named is not None:
                self.baseline.prefer(named)
            window = replace(window, turn=window.turn or self._windows.read_turn(window.session))
            self._windows.open(window, is_partial=named is None and not self.baseline.is_scanned)
        self.copy_some()
        return recorded

    def end(self, session: str, call_id: str, *, copies: bool = True) -> Recorded:
        """Call it after the call. Without its beginning, what changed belongs to nobody's call. Without `copies`, call
        `copy_some` soon."""
        if any(each.is_partial for each in self._windows.list_open()):
            self.ingest(float("inf"))
        with self._store.exclusive():
            ended = [
                each
                for each in self._windows.list_open()
                if (each.window.session, each.window.call_id) == (session, call_id)
            ]
            named = [each.window.paths for each in ended]
            recorded = self._record_changes(
                self._relative(path for paths in named if paths for path in paths) if all(named) and named else None
            )
            self._windows.close([each.id for each in ended])
        if copies:
            self.copy_some()
        return recorded

    def list_open(self, session: str) -> list[str]:
        return [each.window.call_id for each in self._windows.list_open() if each.window.session == session]

    def list_open_clients(self) -> dict[str, str]:
        """The sessions of clients that have calls under way, each with its process."""
        sessions = {each.window.session for each in self._windows.list_open()}
        return {session: self._store.client_sessions.read_process(session) for session in sessions}

    def sweep(
        self,
        session: str | None = None,
        *,
        agent: str | None = None,
        next_turn: bool = False,
        ended: Collection[str] = (),
    ) -> Recorded:
        """Record what changed since the last scan, and close windows that never ended: those of a session and of others
        that have `ended`, those whose process is dead; without a session, all. With `agent`, of the session only those
        of this sub-agent; "" is the agent itself."""
        with self._store.exclusive():
            closed = [
                each
                for each in self._windows.list_open()
                if session is None
                or (each.window.session == session and agent in (None, each.window.agent))
                or each.window.session in ended
                or _is_dead(each.window.process)
            ]
            recorded = self._record_changes(never_ended=closed)
            self._windows.close([each.id for each in closed])
            if session is not None and next_turn:
                self._windows.begin_turn(session)
        self.copy_some()
        return recorded

    def note_client(self, session: str, process: str, prompt: str, *, is_active: bool | None) -> bool:
        return self._store.client_sessions.note(session, process, prompt, is_active=is_active)

    def adopt(self, paths: Sequence[str], call: Call) -> Recorded:
        """Record the changes of these paths as one call, whoever made them."""
        with self._store.exclusive():
            self._recover()
            found = self._scan(self._relative(paths))
            (captured,) = self._commit([Part(found.differences, call, None)], found.update)
            return Recorded(tuple(change.path for change in captured.changes), (), captured.not_kept)

    def forget(self, path: str = "") -> None:
        """Remove what is kept of the root, or of a path in it: copies, and contents for undo."""
        with self._store.exclusive():
            self._copies.remove(self.baseline.forget(self._relative([path])[0] if path else b""))
            self._store.forget(path)
            while commands := self._store.dropped_slots(MAX_LISTED):
                for command in commands:
                    self._area.remove(command, RemovalBudget(UNLIMITED))
                self._store.forget_dropped_slots(commands)

    # --- our own commits

    def settle(self, paths: Iterable[str]) -> None:
        """Before our own commit, under the journal's lock: record what others changed at these paths."""
        if self.baseline.exists:
            self._record_changes(self._relative(paths))

    def follow(self, paths: Iterable[str]) -> Callable[[], Callable[[], None]]:
        """After our own changes are in place: the function makes the baseline equal to them, in one transaction with
        the outcome. Only once that is committed may the copies go that it replaced: call what it returns."""
        update = self._scan(self._relative(paths)).update if self.baseline.exists else BaselineUpdate()

        def apply() -> Callable[[], None]:
            return partial(self._copies.remove, self.baseline.update(update))

        return apply

    # --- the baseline

    def ingest(self, until: float) -> bool:
        """List folders for the first time, until this time; returns whether all are listed."""
        self.baseline.create()
        if self.baseline.is_scanned:
            return True
        with self._open_root() as fd:
            folders = TreeScan(fd, self._root.device, self.baseline, self._copies).ingest()
            while time.monotonic() < until:
                # No commit happens between the listing of a folder and its record.
                with self._store.exclusive():
                    self._recover()
                    listed, is_finished = _take(folders, INGEST_SECONDS)
                    with self._store.one_transaction():
                        for folder in listed:
                            self.baseline.add_listed(*folder)
                        if is_finished:
                            self.baseline.mark_scanned()
                            return True
        return False

    def copy_some(self) -> bool:
        """Copy a few files; returns whether all are copied."""
        return self.copy(time.monotonic() + INLINE_SECONDS, INLINE_FILES)

    def copy(self, until: float, max_files: int | None = None) -> bool:
        with self._open_root() as fd:
            return self._copies.copy_due(fd, until=until, max_files=max_files)

    def remove_unknown_copies(self) -> None:
        """Remove the copies that a killed process left."""
        self._copies.remove_unknown()

    # --- recording

    def _record_changes(
        self, paths: Collection[bytes] | None = None, never_ended: Sequence[OpenWindow] = ()
    ) -> Recorded:
        """Scan, and record what changed: for the open windows that could have done it, or for nobody."""
        self._recover()
        if not self.baseline.is_scanned and paths is None:
            return Recorded()
        found = self._scan(paths)
        windows = self._windows.list_open()
        mine, foreign = self._split(found.differences, windows)
        parts: list[Part] = []
        if mine or any(each.is_partial for each in windows):  # then something may have changed unseen
            parts.append(Part(mine, _describe_windows(windows, never_ended), windows[0].together))
        if foreign:
            parts.append(Part(foreign, Call(FOREIGN, "", "", FOREIGN, "{}", DIALECT), None))
        done = self._commit(parts, found.update)
        recorded = Recorded()
        for part, captured in zip(parts, done, strict=True):
            changed = tuple(change.path for change in captured.changes)
            is_foreign = part.together is None
            recorded += Recorded(() if is_foreign else changed, changed if is_foreign else (), captured.not_kept)
        return replace(recorded, given_up=tuple(dict.fromkeys(each for part in done for each in part.given_up)))

    def _split(
        self, differences: Sequence[Difference], windows: Sequence[OpenWindow]
    ) -> tuple[list[Difference], list[Difference]]:
        """What an open window could have changed, and what none could: an edit changes only the paths that it names."""
        if any(each.window.paths is None for each in windows):
            return list(differences), []
        named = {path for each in windows for path in self._relative(each.window.paths or ())}
        mine = [each for each in differences if _is_named(each.path, named)]
        return mine, [each for each in differences if not _is_named(each.path, named)]

    def _commit(self, parts: Sequence[Part], update: BaselineUpdate) -> list[Captured]:
        """Contents first, then the entries and the baseline in one transaction."""
        if not parts and not update:
            return []
        done: list[Captured] = []
        commands: list[str] = []
        try:
            for part in parts:
                commands.append(self._area.create_folder())
                done.append(self._capture(part.differences, commands[-1]))
            with self._store.one_transaction(durable=bool(parts)):
                for part, captured in zip(parts, done, strict=True):
                    self._append(part, captured)
                unused = self.baseline.update(update) if update else []
        except BaseException:
            for command in commands:
                self._area.drop(command)
            raise
        for command, captured in zip(commands, done, strict=True):
            if any(isinstance(each.before or each.after, StagedContent) for each in captured.changes):
                self._area.release(command)
            else:
                self._area.drop(command)
        self._copies.remove(unused)
        return done

    def _capture(self, differences: Sequence[Difference], command: str) -> Captured:
        slots = self._area.open_folder(command)
        with self._open_root() as root:
            capture = SlotCapture(root, slots, command, self.baseline, self._copies, self._absolute)
            try:
                capture.add_all(differences)
                os.fsync(slots)
            finally:
                capture.close()
                os.close(slots)
        return capture.captured

    def _append(self, part: Part, captured: Captured) -> None:
        arguments = json.loads(part.call.arguments)
        if captured.not_kept:
            arguments["not_kept"] = dict(list(captured.not_kept.items())[:MAX_LISTED])
            arguments["not_kept_count"] = len(captured.not_kept)
        call = replace(part.call, arguments=json.dumps(arguments, sort_keys=True))
        status = "partial" if captured.not_kept else "success"

        def conclude(dropped: Sequence[JournalEntry]) -> Outcome:
            captured.given_up = [format_call_id(entry) for entry in dropped]
            reply = json.dumps({"undo_given_up": captured.given_up}) if dropped else None
            return Outcome(status, None, 0.0, reply)

        self._store.record_adopted(
            call, captured.changes, conclude, together=part.together, texts=captured.texts.contents
        )

    def _scan(self, paths: Collection[bytes] | None = None) -> ScanResult:
        with self._open_root() as fd:
            scan = TreeScan(fd, self._root.device, self.baseline, self._copies)
            return scan.run() if paths is None else scan.run_paths(paths)

    @contextmanager
    def _open_root(self) -> Generator[int]:
        with self._root.folder as fd:
            top = open_quietly(b".", FOLDER_FLAGS, fd)
        try:
            yield top
        finally:
            os.close(top)

    # --- paths

    def _absolute(self, path: bytes) -> str:
        return self._root.prefix + escape_ambiguous(os.fsdecode(path))

    def _relative(self, paths: Iterable[str]) -> list[bytes]:
        """Those of these paths that are below the root."""
        plain = (unescape_ambiguous(path) for path in paths)
        prefix = self._root.prefix
        return [os.fsencode(path.removeprefix(prefix)) for path in plain if path.startswith(prefix)]


def _take(folders: Iterable[T], seconds: float) -> tuple[list[T], bool]:
    """What comes within this time, and whether that was all."""
    until, taken = time.monotonic() + seconds, list[T]()
    for each in folders:
        taken.append(each)
        if time.monotonic() > until:
            return taken, False
    return taken, True


def _describe_windows(windows: Sequence[OpenWindow], never_ended: Sequence[OpenWindow]) -> Call:
    """The call of the oldest window, and the names of all that were under way."""
    first = windows[0].window
    arguments: dict[str, object] = {"while": [each.window.call_id or each.window.tool for each in windows]}
    if never_ended:
        arguments["never_ended"] = [each.window.call_id or each.window.tool for each in never_ended]
    if first.input:
        arguments["input"] = json.loads(first.input)
    if any(each.is_partial for each in windows):
        arguments["first_scan"] = "not done when it began"
    return Call(first.session, first.turn, first.call_id, first.tool, json.dumps(arguments), DIALECT)


def _is_named(path: bytes, named: Collection[bytes]) -> bool:
    """Whether a path is named, or is a folder that was created or removed around a named one."""
    return path in named or any(each.startswith(path + b"/") for each in named)


def _is_dead(process: int) -> bool:
    if not process:
        return False
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
