"""Finds the errors that a change set made, before it is committed: for file tools and commands alike."""

from collections.abc import Callable, Iterator, Sequence
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
MAX_LINE_CHARS = 160


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
        for number, (path, before, after) in enumerate(self._iter_files(files)):
            if number >= MAX_CHECKED_FILES or monotonic() - started > MAX_SECONDS:
                notes.append(f"Only {number} of the changed files were checked for syntax errors")
                break
            if max(after.size, before.size if before else 0) > (limit := self._syntax.get_max_bytes(path)):
                notes += self._note_large(path, format_path(path), after.size, limit)
            elif errors := self._check(path, before, after):
                redact = self._session.redaction.make_redactor(started)
                found.append([_describe(format_path(path), each, redact) for each in errors])
        return select(found, notes)

    def _check(self, path: str, before: Content | None, after: Content) -> Sequence[TextError]:
        new = self._contents.read_content(after, path)
        old = None if before is None else self._contents.read_content(before, path)
        if new is None or (before is not None and old is None):  # no longer kept, so nothing to compare with
            return ()
        return self._syntax.find_new_errors(path, old, new)

    def _note_large(self, path: str, shown: str, size: int, limit: int) -> Iterator[str]:
        if path not in self._known_unchecked:
            self._known_unchecked.add(path)
            yield f"{shown} was not checked for syntax errors: {size:,} bytes, more than {limit:,}"

    def _iter_files(self, files: Sequence[FileChange]) -> Iterator[tuple[str, Content | None, Content]]:
        """The changed files in a language that can be checked, also those in new folders."""
        moved = {change.before.hash: change.before for change in files if change.before and not change.after}
        for change in files:
            if change.after is None or change.is_noop:
                continue
            for path, after in self._list_files(change.path, change.after):
                if self._can_check(path):
                    yield path, change.before or moved.get(after.hash), after

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
