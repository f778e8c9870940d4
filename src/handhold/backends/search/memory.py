"""Search files in memory: the same traversal, rules and order as on disk without ripgrep."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import monotonic

from handhold.backends.files.directory_tree import RULE_MARKERS, EntryKind, TreeEntry
from handhold.backends.memory import MemoryFiles
from handhold.backends.search.batch_reader import BatchResult, FileBatch, SearchTask, read_batches
from handhold.backends.search.events import FoundLine
from handhold.backends.search.exclusions import FileCounts, count_files, iter_skipped, limit_coverage
from handhold.backends.search.ignore_rules import load_folder_rules
from handhold.backends.search.listing import ListingRun
from handhold.backends.search.search_folder import make_row
from handhold.backends.search.search_process import Deadline, DeadlineExceeded, EntryLimitReached
from handhold.backends.search.tree_walk import build_walk
from handhold.core.errors import NotDirectory, NotFound
from handhold.core.facts import AbortReason, MatchRow, SearchHit, SearchOutcome, SkippedFiles
from handhold.core.plans import Search
from handhold.core.ports.files import HiddenPaths
from handhold.core.requests import Glob, Grep, ListFiles
from handhold.core.text.cursor import checksum, checksum_hit
from handhold.core.text.ignore import IgnoreRules
from handhold.core.text.path_escaping import escape_ambiguous, unescape_ambiguous
from handhold.version import VERSION

ALL_LINES = 1 << 60
ENGINE = f"the built-in search of handhold {VERSION}, in memory"


class MemoryTree:
    """What a dictionary of files contains below a folder."""

    def __init__(self, files: MemoryFiles, place: str) -> None:
        self._files = files
        self._top = files.name_of_place(escape_ambiguous(place))
        self._folders: dict[bytes, dict[bytes, EntryKind]] = {b"": {}}
        prefix = f"{self._top}/" if self._top else ""
        kinds: list[tuple[set[str], EntryKind]] = [({*files.directories}, "directory"), ({*files.files}, "file")]
        for names, kind in kinds:
            for name in names:
                if name.startswith(prefix) and name != self._top:
                    self._add(os.fsencode(name.removeprefix(prefix)), kind)

    def _add(self, path: bytes, kind: EntryKind) -> None:
        parent, slash, name = path.rpartition(b"/")
        self._folders.setdefault(parent + slash, {})[name] = kind
        if kind == "directory":
            self._folders.setdefault(path + b"/", {})
        if parent:
            self._add(parent, "directory")

    def iter_entries(self, rel_path: bytes) -> Iterator[tuple[str, EntryKind]]:
        return ((os.fsdecode(name), kind) for name, kind in self._folders[rel_path].items())

    def list_entries(self, rel_path: bytes) -> list[TreeEntry]:
        return [TreeEntry(name, kind) for name, kind in self._folders[rel_path].items()]

    def read_stamp(self, rel_path: bytes) -> str:
        return repr(sorted(self._folders[rel_path].items()))

    def get_kind(self, rel_path: bytes, name: bytes) -> EntryKind | None:
        return self._folders.get(rel_path, {}).get(name)

    def list_markers(self, rel_path: bytes) -> list[TreeEntry]:
        return [entry for entry in self.list_entries(rel_path) if entry.name in RULE_MARKERS]

    def has_link_target(self, rel_path: bytes, name: bytes) -> bool:
        return False

    def read_file(self, rel_path: bytes, name: str, max_bytes: int) -> bytes | None:
        return self._files.files.get(self.to_file_name(rel_path + os.fsencode(name)))

    def to_file_name(self, path: bytes) -> str:
        return os.fsdecode(path) if not self._top else f"{self._top}/{os.fsdecode(path)}"


class MemorySearch:
    """Implements the port Searcher."""

    def __init__(self, files: MemoryFiles) -> None:
        self._files = files

    def search(
        self, search: Search, *, visible: Callable[[str], bool], hidden: HiddenPaths | None = None
    ) -> SearchOutcome:
        deadline = Deadline(monotonic() + search.timeout_seconds)
        look = self._files.stat(search.place)
        if look is None:
            raise NotFound(search.place, self._files.suggest_paths(search.place))
        search = replace(search, place=unescape_ambiguous(search.place))
        match search.request:
            case ListFiles():
                if look.kind != "directory":
                    raise NotDirectory(search.place)
                tree = MemoryTree(self._files, search.place)
                return ListingRun(tree, search, visible, lambda _: "link", deadline).run()
            case Glob() | Grep() as request:
                return MemorySearchRun(
                    self._files, search, request, visible, deadline, explicit=look.kind == "file"
                ).run()


@dataclass
class MemorySearchRun:
    """One search: runs completely, then cuts out the requested page."""

    files: MemoryFiles
    search: Search
    request: Glob | Grep
    visible: Callable[[str], bool]
    deadline: Deadline
    explicit: bool
    abort_reason: AbortReason = ""
    totals: BatchResult = field(default_factory=BatchResult)

    def __post_init__(self) -> None:
        place = self.search.place
        self._folder = place.rpartition("/")[0] if self.explicit else place
        self._prefix = self._folder.rstrip("/") + "/"
        self._tree = MemoryTree(self.files, self._folder or "/")
        self._rules = IgnoreRules() if self.request.ignored or self.explicit else self._load_rules_above()

    def run(self) -> SearchOutcome:
        request = self.request
        found: list[SearchHit] = []
        try:
            with closing(self._find_hits()) as hits:
                found += hits
        except DeadlineExceeded:
            self.abort_reason = "deadline"
        except EntryLimitReached:
            self.abort_reason = "entries"
        newest_first = request.sort == "modified"
        if newest_first:
            found.sort(key=lambda hit: -self._read_mtime_ns(hit.place))  # stable: equal ages stay in path order
        items = [item for hit in found for item in split_by_line(hit)]
        start, past = self.search.start, self.search.start + request.limit
        state = 0
        for item in items if newest_first else items[:start]:
            state = checksum_hit(checksum(state, str(self._read_mtime_ns(item.place))) if newest_first else state, item)
        counts = self._count_files() if not items and not self.explicit else None
        return SearchOutcome(
            hits=select_page(found, start, past, request),
            engine=ENGINE,
            order="modified" if newest_first else "path",
            abort_reason=self.abort_reason,
            has_more=len(items) > past or bool(self.abort_reason),
            searched_count=self.totals.searched if isinstance(request, Grep) else counts and counts.visible,
            skipped=tuple(self._iter_skipped(counts)) if not items else (),
            changed_since_cursor=self.search.checksum not in (None, state),
            checksum=state,
            is_checksum_of_all=newest_first,
        )

    def _find_hits(self) -> Generator[SearchHit]:
        request = self.request
        if isinstance(request, Glob):
            for batch in self._make_batches():
                yield from (SearchHit(self._to_place(way + name)) for way, name in batch.files)
            return
        counts = request.mode == "count"
        task = SearchTask(request, self.explicit, 1 if request.mode == "files_with_matches" else ALL_LINES)
        with closing(read_batches(None, task, self._make_batches(), self.deadline)) as answers:
            for answer in answers:
                self.totals.add_counts(answer)
                for name, count, lines in answer.matches:
                    rows = tuple(build_row(line, self._read_file(name), request.width) for line in lines)
                    yield SearchHit(self._to_place(name), rows=rows, count=count if counts else 0)

    def _make_batches(self) -> Iterator[FileBatch]:
        if self.explicit:
            name = os.fsencode(self.search.place.removeprefix(self._prefix))
            yield FileBatch([(b"", name)], [self._read_file(name)])
            return
        walk = build_walk(self._tree, self._folder, self._rules, self.request, self.deadline)
        walk.max_entries = self.search.max_entries
        for rel_path, names in walk.iter_files():
            seen = [name for name in names if self.visible(self._to_place(rel_path + name))]
            yield FileBatch([(rel_path, name) for name in seen], [self._read_file(rel_path + name) for name in seen])

    def _load_rules_above(self) -> IgnoreRules:
        root, rules = self.files.roots[0], IgnoreRules()
        names = self.files.name_of_place(escape_ambiguous(self._folder or "/")).split("/")
        tree = MemoryTree(self.files, "/")
        for depth in range(len(names) if names != [""] else 0):
            rel_path = "".join(f"{name}/" for name in names[:depth])
            folder = f"{root}/{rel_path}".rstrip("/")
            rules = load_folder_rules(
                tree, folder, os.fsencode(rel_path), tree.list_markers(os.fsencode(rel_path)), rules
            )
        return rules

    def _count_files(self) -> FileCounts | None:
        return count_files(self._tree, self._folder, self._rules, self.request, self.visible, limit_coverage())

    def _iter_skipped(self, counts: FileCounts | None) -> Iterator[SkippedFiles]:
        if counts and counts.denied:
            yield SkippedFiles("denied", counts.denied)
        if self.totals.binary:
            yield SkippedFiles("binary", self.totals.binary)
        if not self.explicit:
            yield from iter_skipped(
                self._tree,
                self._folder,
                self._rules,
                self.request,
                self.visible,
                limit_coverage(),
            )

    def _to_place(self, name: bytes) -> str:
        return self._prefix + os.fsdecode(name)

    def _read_file(self, name: bytes) -> bytes:
        return self.files.files[self._tree.to_file_name(name)]

    def _read_mtime_ns(self, place: str) -> int:
        look = self.files.stat(escape_ambiguous(place))
        return look.identity.mtime_ns if look else 0


def build_row(line: FoundLine, data: bytes, width: int) -> MatchRow:
    """A line as a page shows it; one that was too long to keep is read from the file again."""
    if line.data is not None:
        data = line.data
    else:
        data = data[line.offset : data.find(b"\n", line.offset) + 1 or None]
    return make_row(line, data.removesuffix(b"\n").removesuffix(b"\r"), line.start, line.end, width)


def split_by_line(hit: SearchHit) -> list[SearchHit]:
    """The items that a limit counts: matching lines if there are any, otherwise the file."""
    return [replace(hit, rows=(row,)) for row in hit.rows if row.is_match] or [hit]


def select_page(all_hits: Sequence[SearchHit], start: int, past: int, request: Glob | Grep) -> tuple[SearchHit, ...]:
    if not isinstance(request, Grep) or request.mode != "content":
        return tuple(all_hits[start:past])
    hits: list[SearchHit] = []
    seen = 0
    for hit in all_hits:
        matches = [row.number for row in hit.rows if row.is_match]
        kept = matches[max(0, start - seen) : max(0, past - seen)]
        seen += len(matches)
        around = {line for match in kept for line in range(match - request.before, match + request.after + 1)}
        rows = tuple(row for row in hit.rows if (row.number in kept if row.is_match else row.number in around))
        if rows:
            hits.append(replace(hit, rows=rows))
    return tuple(hits)
