"""The view that tools plan with: it hides what the policy denies, and tracks what the session has seen.

So no plan or error message can reveal a denied path, and no tool can bypass the read tracker.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from handhold.core.choices import Matching
from handhold.core.errors import ChangedDuringRead, Denied, IsDirectory, IsLink, NotFound, NotRegularFile, ToolError
from handhold.core.facts import FileHead, FileSnapshot, FileStat, Page
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.checks import SyntaxChecker
from handhold.core.ports.dialect import DialectOptions
from handhold.core.ports.files import FileView, HiddenPaths
from handhold.core.ports.policy import Policy, Verb, Verdict
from handhold.core.read_tracker import ReadTracker
from handhold.core.text.encoding import Text, check_encodable
from handhold.core.text.nearest_region import find_lines_of
from handhold.core.text.path_escaping import escape_ambiguous, escape_path

MAX_SEARCHED_FILES, MAX_SEARCHED_BYTES = 50, 200_000  # of those read, for a text that is not where it was quoted from
MIN_FOUND_CHARS = 20  # without blanks
MAX_SUGGESTIONS = 5  # similar names offered for a missing one
UNUSED_NAME = "\u200b"  # a name that no file has: resolving it next to a path yields the path's folder


@dataclass(frozen=True)
class EditableText:
    """A file whose current content the session has seen."""

    snapshot: FileSnapshot
    text: Text


@dataclass(frozen=True)
class GuardedView:
    files: FileView
    policy: Policy
    tracker: ReadTracker
    options: DialectOptions
    hidden_paths: HiddenPaths | None = None  # paths that may not be read; None if no rule denies reading
    find_denied_name: Callable[[str, FileStat], str | None] = lambda _path, _stat: None  # of a file with several names
    load_syntax_checker: Callable[[], SyntaxChecker] | None = None

    @property
    def matching(self) -> Matching:
        return self.options.matching

    def resolve(self, path: str) -> str:
        return self.files.resolve(path)

    def format_path(self, place: str) -> str:
        """A place as replies and calls spell it: relative to the first root, or absolute if the dialect says so."""
        if self.options.absolute_paths:
            return escape_path(place)
        return escape_path(place.removeprefix(self._first_root_prefix)) if place != self.files.roots[0] else "."

    @cached_property
    def is_visible(self) -> Callable[[str], bool]:
        """Whether a place may be shown and read."""
        return make_visibility_check(self.policy)

    def stat(self, path: str) -> FileStat | None:
        return self._stat_allowed(path)

    def stat_existing(self, path: str) -> FileStat:
        """File metadata at `path`; raise NotFound, with visible similar names, if it does not exist."""
        stat = self.stat(path)
        if stat is None:
            suggestions = (
                name if name.startswith("/") else self._first_root_prefix + name
                for name in self.files.suggest_paths(path)
            )
            raise NotFound(
                path,
                tuple(self.format_path(place) for place in suggestions if self.is_visible(place))[:MAX_SUGGESTIONS],
            )
        return stat

    def stat_file(self, path: str) -> FileStat:
        """The metadata of a regular file; raise an error for anything else."""
        stat = self.stat_existing(path)
        if stat.kind == "directory":
            raise IsDirectory(path)
        if stat.kind == "other":
            raise NotRegularFile(path, stat.kind)
        return stat

    def read_head(self, path: str, stat: FileStat, count: int) -> FileHead:
        """The first bytes of a file that was checked before."""
        head = self.files.read_head(path, count)
        if (head.path, head.identity) != (stat.path, stat.identity):  # a link may have been retargeted meanwhile
            self._check_read(path, self._stat_allowed(path), head)
        return head

    def read(self, path: str) -> FileSnapshot:
        """Read a file for display, whether or not the session has seen it before."""
        stat = self._stat_allowed(path)
        snapshot = self.files.read(path)
        self._check_read(path, stat, snapshot)
        return snapshot

    def page(self, path: str, offset: int, limit: int, width: int, whole: FileSnapshot | None = None) -> Page:
        if whole is not None:
            return self.files.read_page(path, offset, limit, width, snapshot=whole)
        stat = self._stat_allowed(path)
        page = self.files.read_page(path, offset, limit, width)
        self._check_read(path, stat, page)
        return page

    def count(self, path: str) -> int:
        self._stat_allowed(path)
        return self.files.count_lines(path)

    def read_editable_text(self, path: str, *, fully: bool = False) -> EditableText:
        """A file that may be edited: an existing text that the session has seen, unchanged since."""
        snapshot = self.read_editable(path, fully=fully)
        return EditableText(snapshot, self.decode(snapshot.data, path))

    def decode(self, data: bytes, path: str) -> Text:
        """Decode bytes with the encoding that applies at `path`."""
        return Text.decode(data, path, self.files.declared_encoding(path))

    def create_text(self, body: str, path: str) -> Text:
        """The text of a new file in its declared encoding; raise Unencodable if that cannot represent it."""
        text = Text.new(body, self.files.declared_encoding(path))
        check_encodable(text.body, text.encoding, path)
        return text

    def read_editable(self, path: str, *, fully: bool = False) -> FileSnapshot:
        """Like `read_editable_text`, but for any file."""
        try:
            stat = self.stat_file(path)
        except NotFound as error:
            error.was_read = self.tracker.read_records.get(self.files.resolve(path), None) is not None
            raise
        snapshot = self.files.read(path)
        self._check_read(path, stat, snapshot)
        if self.options.requires_read:
            self.tracker.require_read(snapshot, path, fully=fully)
        return snapshot

    def has_seen_all(self, snapshot: FileSnapshot) -> bool:
        """Whether the session has seen this file completely."""
        record = self.tracker.read_records.get(snapshot.path, snapshot.identity)
        return record is not None and record.is_complete and record.hash == snapshot.hash

    def find_read_text(self, old: str, except_path: str) -> tuple[str, int] | None:
        """Another file that the session has read and that has this text now, and its line there; None if not just one.

        A short text is in many files for other reasons.
        """
        if len("".join(old.split())) < MIN_FOUND_CHARS:
            return None
        read = self.tracker.read_records.paths_within(self.files.roots)
        found: list[tuple[str, int]] = []
        for place in sorted(set(read) - {self.resolve(except_path)})[:MAX_SEARCHED_FILES]:
            try:
                stat = self.stat(place)
                if stat and stat.kind == "file" and stat.identity.size <= MAX_SEARCHED_BYTES:
                    body = self.decode(self.read(place).data, place).body
                    found += [(self.format_path(place), line) for line in find_lines_of(old, body)[:1]]
            except ToolError:  # it may not be shown, or is no text any more
                continue
        return found[0] if len(found) == 1 else None

    def reject_link(self, path: str) -> None:
        """Raise IsLink if the path names a link instead of a file."""
        place = self.files.resolve(path)
        if place != self._resolve_nofollow(path):
            raise IsLink(path, place)

    def _resolve_nofollow(self, path: str) -> str:
        """Resolve a path without following its last component."""
        above, _, name = path.rpartition("/")
        beside = self.files.resolve(f"{above}/{UNUSED_NAME}" if above or path.startswith("/") else UNUSED_NAME)
        return beside.removesuffix(UNUSED_NAME) + name

    def has_shown(self, page: Page) -> bool:
        """Whether the session has been shown exactly these lines, and they are unchanged."""
        return self.tracker.has_shown(page)

    def has_seen_other_content(self, snapshot: FileSnapshot) -> bool:
        """Whether the session has seen other content of this file."""
        record = self.tracker.read_records.get(snapshot.path, snapshot.identity)
        return record is not None and record.hash != snapshot.hash

    def compare_page(self, page: Page) -> tuple[bool, str]:
        """Whether the file differs from what the session last saw, and the diff."""
        return self.tracker.compare_page(page)

    def compare_snapshot(self, snapshot: FileSnapshot) -> tuple[bool, str]:
        return self.tracker.compare_snapshot(snapshot)

    @property
    def _first_root_prefix(self) -> str:
        return self.files.roots[0].rstrip("/") + "/"

    def _stat_allowed(self, path: str) -> FileStat | None:
        """File metadata at `path`. Raise Denied if any of its names is denied: its place, a link that leads there, or a
        hard link."""
        stat = self.files.stat(path)
        if self.hidden_paths is not None:
            for place in self._iter_names(path, stat):
                self._check_readable(path, place)
        return stat

    def iter_names(self, path: str) -> Iterator[str]:
        """The place of a path, and every other name by which it leads there: as asked, after each link, hard links.

        What else links are known to lead there is for the policy to find.
        """
        return self._iter_names(path, self.files.stat(path))

    def _iter_names(self, path: str, stat: FileStat | None) -> Iterator[str]:
        place = stat.path if stat else self.files.resolve(path)
        if place in self.files.roots:
            yield place
            return
        yield from self._trace(path, place)
        if stat and stat.link_count > 1 and (denied := self.find_denied_name(path, stat)):
            yield escape_ambiguous(denied)

    def reached_names(self, path: str) -> Sequence[str]:
        """The place of a path, and every other name by which it leads there: as asked, and after each link."""
        return self._trace(path, self.files.resolve(path))

    def _trace(self, path: str, place: str) -> Sequence[str]:
        if place in (path, self._first_root_prefix + path) or place in self.files.roots:
            return (place,)
        names = self.files.trace(path)
        if names[0] != place:  # a link was retargeted meanwhile
            raise ChangedDuringRead(path)
        return names

    def _check_read(self, path: str, stat: FileStat | None, read: FileHead | FileSnapshot | Page) -> None:
        """Raise Denied, or ChangedDuringRead, if what was read is not the file that was checked before.

        A link may have been retargeted meanwhile, or a file with several names exchanged.
        """
        self._check_readable(path, read.path)
        if stat is None or (stat.link_count > 1 and stat.identity != read.identity):
            stat = self._stat_allowed(path)
            if stat is None or stat.identity != read.identity:
                raise ChangedDuringRead(path)

    def _check_readable(self, path: str, place: str) -> None:
        decision = self.policy.decide(Verb.READ, place)
        if decision.verdict is Verdict.DENY:
            raise Denied(path, decision.because, decision.rule, remedy=decision.remedy)


def make_visibility_check(policy: Policy) -> Callable[[str], bool]:
    """Whether a place may be shown and read."""
    # A search calls this a hundred thousand times, so built-in policies answer on a fast path.
    if isinstance(policy, ModePolicy):
        return lambda _: True
    if isinstance(policy, RulePolicy):
        return policy.is_visible
    decide = policy.decide
    return lambda place: decide(Verb.READ, escape_ambiguous(place)).verdict is not Verdict.DENY
