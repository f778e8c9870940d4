"""Runs the user's checkers: once per turn, on what its calls changed, and tells only what was not there before.

A call does not know whether it is the last of its turn. So the errors of a turn come with the first reply of the next
one, or when the application asks. Calls without the name of a turn are each a turn of their own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from shlex import quote
from threading import Lock

from handhold.core.change_diff import shorten_path
from handhold.core.checkers import FILES_PLACEHOLDER, Checker, Report, parse_reports
from handhold.core.errors import ToolError
from handhold.core.plans import FileChange
from handhold.core.problems import NO_PROBLEMS, Problem, Problems, select
from handhold.logs import log_swallowed
from handhold.pipeline.session import Session

RunChecker = Callable[[str, float], str | None]  # a command and its time limit; its output, or None
MAX_FILES = 200  # given to one run of a checker
MAX_LINE_CHARS = 160
WHOLE_PROJECT = ""  # the key of a run that was not given files


class CheckerRunner:
    """The checkers of a session. Thread-safe."""

    def __init__(self, session: Session, checkers: Sequence[Checker], run: RunChecker) -> None:
        self._session = session
        self._checkers = checkers
        self._run = run
        self._known: dict[str, dict[str, Counter[str]]] = {each.name: {} for each in checkers}  # messages by file
        self._failed: set[str] = set()  # checkers whose failure was told
        self._hashes: dict[str, str] = {}  # of the contents that calls found or left; "" for no file
        self._changed: dict[str, None] = {}  # since the last run
        self._turn = ""
        self._lock = Lock()

    def prepare(self, changes: Iterable[FileChange]) -> None:
        """Before files change: remember what the checkers say about them, if that is not known or somebody else has
        changed them since."""
        with self._lock:
            before = {self._shorten(each.path): each.before.hash if each.before else "" for each in changes}
            before = {path: hash for path, hash in before.items() if path not in self._changed}
            changed = [path for path, hash in before.items() if self._hashes.get(path, hash) != hash]
            self._hashes |= before
            for checker in self._checkers:
                self._forget(checker, changed)
                self._prepare(checker, before)

    def prepare_all(self) -> None:
        """The same, where it is not known which files will change."""
        with self._lock:
            for checker in self._checkers:
                if FILES_PLACEHOLDER not in checker.command:
                    self._remember(checker, ())

    def add_changed(self, changes: Iterable[FileChange], turn: str) -> None:
        with self._lock:
            after = {self._shorten(each.path): each.after.hash if each.after else "" for each in changes}
            self._hashes |= after
            self._changed |= dict.fromkeys(after)
            self._turn = turn

    def report(self, turn: str | None) -> Problems:
        """New errors in what earlier turns changed; none while their turn goes on. None: now, whatever the turn."""
        with self._lock:
            if not self._changed or (turn and turn == self._turn):
                return NO_PROBLEMS
            changed, self._changed = list(self._changed), {}
            found, notes = list[list[Problem]](), list[str]()
            for checker in self._checkers:
                files = [path for path in changed if checker.matches(path)]
                existing = [path for path in files if self._exists(path)][:MAX_FILES]
                if existing:
                    self._check(checker, existing, found, notes)
                for path in set(files).difference(existing):
                    self._known[checker.name].pop(path, None)
            return select(found, notes)

    def _forget(self, checker: Checker, paths: Sequence[str]) -> None:
        known = self._known[checker.name]
        if FILES_PLACEHOLDER not in checker.command and any(map(checker.matches, paths)):
            paths = [path for path in known if path not in self._changed]
        for path in paths:
            known.pop(path, None)

    def _prepare(self, checker: Checker, hashes: Mapping[str, str]) -> None:
        known = self._known[checker.name]
        files = [path for path in hashes if checker.matches(path)][:MAX_FILES]
        if FILES_PLACEHOLDER in checker.command:
            self._remember(checker, [path for path in files if path not in known and hashes[path]])
            known |= {path: Counter() for path in files if path not in known and not hashes[path]}
        elif files:
            self._remember(checker, ())

    def _remember(self, checker: Checker, files: Sequence[str]) -> None:
        known = self._known[checker.name]
        if WHOLE_PROJECT in known or (not files and FILES_PLACEHOLDER in checker.command):
            return
        reports = self._collect(checker, files)
        if reports is not None:
            known.update({path: Counter() for path in files or (WHOLE_PROJECT,)})
            known.update({path: count for path, count in _count(reports).items() if path not in self._changed})

    def _check(self, checker: Checker, files: Sequence[str], found: list[list[Problem]], notes: list[str]) -> None:
        known = self._known[checker.name]
        comparable = files if WHOLE_PROJECT in known else [path for path in files if path in known]
        reports = self._collect(checker, comparable) if comparable else None
        if reports is None or len(comparable) < len(files):
            self._note_failure(checker, notes)
        if reports is None:
            return
        counts = _count(reports)
        for path in comparable:
            before = Counter(known.get(path, Counter()))
            new: list[Report] = []
            for report in (each for each in reports if each.path == path):
                if before[report.message] > 0:
                    before[report.message] -= 1
                else:
                    new.append(report)
            if new and self._session.is_visible(self._resolve(path)):
                found.append([self._describe(checker, each) for each in new])
        known.update({path: Counter() for path in comparable})
        known.update(counts)

    def _note_failure(self, checker: Checker, notes: list[str]) -> None:
        if checker.name not in self._failed:
            self._failed.add(checker.name)
            limit = f"it takes longer than {checker.timeout_seconds:g} s, or cannot run in the sandbox"
            notes.append(f"The checker {checker.name} gave no report: {limit}")

    def _collect(self, checker: Checker, files: Sequence[str]) -> list[Report] | None:
        command = checker.command.replace(FILES_PLACEHOLDER, " ".join(map(quote, files)))
        output = self._run(command, checker.timeout_seconds)
        return None if output is None else parse_reports(output, self._session.files.roots[0])

    def _describe(self, checker: Checker, report: Report) -> Problem:
        redact = self._session.redaction.make_redactor()
        text = redact(self._read_line(report))
        shown = text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
        path = self._session.format_path(self._resolve(report.path))
        return Problem(path, report.line, report.column, redact(report.message), shown, checker.name)

    def _read_line(self, report: Report) -> str:
        try:
            lines = self._session.files.read(self._resolve(report.path)).data.split(b"\n")
        except ToolError:
            log_swallowed()
            return ""
        return lines[report.line - 1].decode("utf-8", "replace").strip() if 0 < report.line <= len(lines) else ""

    def _shorten(self, path: str) -> str:
        return shorten_path(path, self._session.files.roots)

    def _resolve(self, path: str) -> str:
        return self._session.files.resolve(path)

    def _exists(self, path: str) -> bool:
        return self._session.files.stat(path) is not None


def _count(reports: Iterable[Report]) -> Mapping[str, Counter[str]]:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for each in reports:
        counts[each.path][each.message] += 1
    return counts
