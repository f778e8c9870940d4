"""Patch: add, delete, update and move any number of files, all or none."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.errors import AlreadyExists, BinaryFile, IsDirectory, NotDirectory, NotFound
from handhold.core.plans import Changes, FileChange, InlineContent
from handhold.core.policy.guarded_view import GuardedView
from handhold.core.requests import AddFile, DeleteFile, Operation, Patch, UpdateFile
from handhold.core.results import PatchedFile, PatchResult
from handhold.core.text import hunks
from handhold.core.text.diff import unified_diff
from handhold.core.text.lines import count_lines

MAX_DIFF_CHARS = 200_000  # of a diff shown to people


def plan(request: Patch, files: GuardedView) -> Changes:
    if request.folder:
        require_folder(request.folder, files)
    planner = PatchPlanner(files)
    for operation in request.operations:
        planner.apply(operation)
    result = PatchResult(tuple(planner.build_results()), planner.format_diff())
    return Changes(
        tuple(planner.build_changes()), result, is_full_write=False, fully_seen_paths=frozenset(planner.seen)
    )


@dataclass
class FileDraft:
    """One file before the patch and after the operations so far; None means absent."""

    path: str  # as the model spells it
    before: bytes | None
    after: bytes | None
    mode: int | None = None  # of the file that the content comes from
    moved_from: "FileDraft | None" = None
    added: int = 0
    removed: int = 0
    matched_by: tuple[str, ...] = ()


@dataclass
class PatchPlanner:
    """The files as they would be. Each operation works on the result of the previous ones."""

    files: GuardedView
    drafts: dict[str, FileDraft] = field(default_factory=dict[str, FileDraft])
    seen: set[str] = field(default_factory=set[str])  # places that the session has seen completely

    def apply(self, operation: Operation) -> None:
        match operation:
            case AddFile(path, content):
                self.add(path, content)
            case DeleteFile(path):
                self.delete(path)
            case UpdateFile():
                self.update(operation)

    def add(self, path: str, content: str) -> None:
        place = self.resolve_unused(path)
        made = self.files.create_text(content, path)
        self.put(place, FileDraft(path, None, made.encode(), added=count_lines(content)))
        self.seen.add(place)

    def delete(self, path: str) -> None:
        draft = self.get_draft(path)
        self.files.reject_link(path)
        draft.after = None
        draft.added, draft.removed, draft.matched_by = 0, self.count_lines(draft.before, path), ()

    def update(self, operation: UpdateFile) -> None:
        path = operation.path
        draft = self.get_draft(path)
        if operation.hunks:
            text = self.files.decode(draft.after or b"", path)
            applied = hunks.apply_hunks(text, operation.hunks, path=path, matching=self.files.matching)
            draft.after = applied.text.encode()
            draft.added += applied.added
            draft.removed += applied.removed
            draft.matched_by += applied.matched_by
        if operation.move_to and self.files.resolve(operation.move_to) != self.files.resolve(path):
            self.move(draft, path, operation.move_to)

    def move(self, draft: FileDraft, path: str, target: str) -> None:
        self.files.reject_link(path)
        place = self.resolve_unused(target)
        self.put(place, replace(draft, path=target, before=None, moved_from=draft.moved_from or draft))
        draft.after = None
        if self.files.resolve(path) in self.seen:
            self.seen.add(place)

    # --- files before the patch

    def get_draft(self, path: str) -> FileDraft:
        """An existing file that the session may change."""
        place = self.files.resolve(path)
        if place not in self.drafts:
            stat = self.files.stat_file(path)
            snapshot = self.files.read_editable(path)
            self.drafts[place] = FileDraft(path, snapshot.data, snapshot.data, stat.mode)
            if self.files.has_seen_all(snapshot):
                self.seen.add(place)
        if self.drafts[place].after is None:
            raise NotFound(path)
        return self.drafts[place]

    def resolve_unused(self, path: str) -> str:
        """Resolve a path at which nothing exists."""
        place = self.files.resolve(path)
        stat = self.files.stat(path) if place not in self.drafts else None
        if stat and stat.kind == "directory":
            raise IsDirectory(path)
        if stat or (place in self.drafts and self.drafts[place].after is not None):
            raise AlreadyExists(path)
        return place

    def put(self, place: str, draft: FileDraft) -> None:
        if place in self.drafts:  # it existed before and was removed
            draft.before = self.drafts[place].before
            draft.removed += self.count_lines(draft.before, draft.path)
        self.drafts[place] = draft

    # --- result

    def build_changes(self) -> Iterator[FileChange]:
        for place, draft in self.drafts.items():
            before = InlineContent(draft.before) if draft.before is not None else None
            after = InlineContent(draft.after) if draft.after is not None else None
            if before or after:
                yield FileChange(place, before, after, draft.mode if before is None else None)

    def build_results(self) -> Iterator[PatchedFile]:
        for draft in self.list_reported_drafts():
            source = draft.moved_from.path if draft.moved_from and draft.moved_from.before is not None else ""
            yield PatchedFile(
                classify_draft(draft, source), draft.path, draft.added, draft.removed, draft.matched_by, source
            )

    def format_diff(self) -> str:
        """A bounded diff for people; it says what was left out."""
        out: list[str] = []
        room = MAX_DIFF_CHARS
        shown = self.list_reported_drafts()
        for n, draft in enumerate(shown):
            piece = self.format_draft_diff(draft)
            room -= len(piece)
            if room < 0 and n:
                return "".join([*out, f"[{len(shown) - n} more files are not shown]\n"])
            out.append(piece[:MAX_DIFF_CHARS])
        return "".join(out)

    def format_draft_diff(self, draft: FileDraft) -> str:
        source = draft.moved_from
        moved = f"rename from {source.path}\nrename to {draft.path}\n" if source else ""
        try:
            old, new = self.decode_body(source or draft, "before"), self.decode_body(draft, "after")
        except BinaryFile:
            return moved or f"[{draft.path}: binary content differs]\n"
        return moved + unified_diff(draft.path, old, new)

    def decode_body(self, draft: FileDraft, when: Literal["before", "after"]) -> str | None:
        data = draft.before if when == "before" else draft.after
        return None if data is None else self.files.decode(data, draft.path).body

    def count_lines(self, data: bytes | None, path: str) -> int:
        try:
            return count_lines(self.files.decode(data or b"", path).body)
        except BinaryFile:
            return 0

    def list_reported_drafts(self) -> list[FileDraft]:
        """One draft per reported file: not those added and removed again, and a moved file only at its new path."""
        moved = {id(draft.moved_from) for draft in self.drafts.values()}
        there = [draft for draft in self.drafts.values() if draft.before is not None or draft.after is not None]
        return [draft for draft in there if draft.after is not None or id(draft) not in moved]


def classify_draft(draft: FileDraft, source: str) -> Literal["added", "deleted", "updated", "moved"]:
    if draft.after is None:
        return "deleted"
    if source:
        return "moved"
    return "added" if draft.before is None else "updated"


def require_folder(path: str, files: GuardedView) -> None:
    """Raise the error that makes a `cd` to `path` fail; nothing after it would run."""
    if path.rpartition("/")[2] in (".", ".."):
        return  # a parent exists if the folder does, which the paths themselves will show
    stat = files.stat(path)
    if stat is None:
        raise NotFound(path)
    if stat.kind != "directory":
        raise NotDirectory(path)
