"""Finds the errors that a change set made, before it is committed: for file tools and commands alike."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from os.path import splitext
from time import monotonic

from handhold.core.change_diff import shorten_path
from handhold.core.plans import Content, FileChange, StagedContent
from handhold.core.ports.checks import SyntaxChecker, TextError
from handhold.core.problems import Problem, Problems, select
from handhold.core.text.default_ignores import DEFAULT_IGNORED_FOLDERS
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.session import Session

MAX_CHECKED_FILES = 200  # of one change set
MAX_SECONDS = 2.0  # for one change set
MAX_COMPARED_FILES = 20  # removed ones, with each new one
MAX_LINE_CHARS = 160


@dataclass(frozen=True)
class _OldFile:
    path: str
    content: Content


class ProblemFinder:
    """Finds syntax errors. Says once in a session that a file is too large to be checked."""

    def __init__(self, session: Session, contents: ChangeContents, syntax: SyntaxChecker) -> None:
        self._session = session
        self._contents = contents
        self._syntax = syntax
        self._known_unchecked: set[str] = set()

    def find(self, files: Sequence[FileChange], format_path: Callable[[str], str]) -> Problems:
        """New errors in the files that tools may show. What was broken before is not an error of this change."""
        started, found, notes = monotonic(), list[list[Problem]](), list[str]()
        for number, (path, old, after) in enumerate(self._iter_files(files)):
            if number >= MAX_CHECKED_FILES or monotonic() - started > MAX_SECONDS:
                notes.append(f"Only {number} of the changed files were checked for syntax errors")
                break
            size, limit = max(after.size, old.content.size if old else 0), self._syntax.get_max_bytes(path)
            if size > limit:
                notes += self._note_large(path, format_path(path), size, limit)
            elif errors := self._check(path, old, after):
                redact = self._session.redaction.make_redactor(started)
                found.append([_describe(format_path(path), each, redact) for each in errors])
        return select(found, notes)

    def _check(self, path: str, old: "_OldFile | None", after: Content) -> Sequence[TextError]:
        new = self._contents.read_content(after, path)
        before = self._contents.read_content(old.content, old.path) if old else None
        if new is None or (old and before is None):  # no longer kept, so nothing to compare with
            return ()
        return self._syntax.find_new_errors(path, before, new)

    def _note_large(self, path: str, shown: str, size: int, limit: int) -> Iterator[str]:
        if path not in self._known_unchecked:
            self._known_unchecked.add(path)
            yield f"{shown} was not checked for syntax errors: {size:,} bytes, more than {limit:,}"

    def _iter_files(self, files: Sequence[FileChange]) -> Iterator[tuple[str, "_OldFile | None", Content]]:
        """The changed files in a language that can be checked, also those in new folders, and what each was before."""
        creates = any(change.after and not change.before for change in files)
        removed = [
            _OldFile(path, content)
            for change in files
            if creates and change.before and not change.after
            for path, content in self._list_files(change.path, change.before)
        ]
        for change in files:
            if change.after is None or change.is_noop:
                continue
            for path, after in self._list_files(change.path, change.after):
                if self._can_check(path):
                    old = _OldFile(path, change.before) if change.before else self._find_moved(path, after, removed)
                    yield path, old, after

    def _find_moved(self, path: str, after: Content, removed: Sequence["_OldFile"]) -> "_OldFile | None":
        """The removed file that a new one was, as it is or edited: half of their lines are the same."""
        if same := next((each for each in removed if each.content.hash == after.hash), None):
            return same
        suffix, limit = splitext(path)[1], self._syntax.get_max_bytes(path)
        similar = [each for each in removed if splitext(each.path)[1] == suffix and each.content.size <= limit]
        if not similar or after.size > limit:
            return None
        lines = set((self._contents.read_content(after, path) or b"").splitlines())

        def measure_likeness(old: _OldFile) -> float:
            before = set((self._contents.read_content(old.content, old.path) or b"").splitlines())
            return len(lines & before) / max(len(lines), len(before), 1)

        best = max(similar[:MAX_COMPARED_FILES], key=measure_likeness)
        return best if measure_likeness(best) >= 0.5 else None

    def _list_files(self, path: str, content: Content) -> Iterator[tuple[str, Content]]:
        if not isinstance(content, StagedContent) or content.kind == "file":
            yield path, content
        elif content.kind == "tree" and not self._is_generated(path):
            for way, entry in self._contents.list_staged_tree(content, path, MAX_CHECKED_FILES):
                if entry.kind == "file":
                    yield f"{path}/{escape_ambiguous(way)}", entry

    def _can_check(self, path: str) -> bool:
        return (
            bool(self._syntax.get_max_bytes(path)) and not self._is_generated(path) and self._session.is_visible(path)
        )

    def _is_generated(self, path: str) -> bool:
        return not DEFAULT_IGNORED_FOLDERS.isdisjoint(shorten_path(path, self._session.files.roots).split("/"))


def _describe(path: str, error: TextError, redact: Callable[[str], str]) -> Problem:
    text = redact(error.text.strip())
    shown = text if len(text) <= MAX_LINE_CHARS else f"{text[:MAX_LINE_CHARS]}…"
    return Problem(path, error.line, error.column, redact(error.message), shown, cell=error.cell)
