"""Patch: add, delete, update and move any number of files, all or none."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.errors import AlreadyExists, BinaryFile, IsDirectory, NotDirectory, NotFound
from handhold.core.plans import Bytes, Changes, FileChange
from handhold.core.policy.guard import GuardedView
from handhold.core.requests import AddFile, DeleteFile, Operation, Patch, UpdateFile
from handhold.core.results import Patched, PatchedFile
from handhold.core.text import hunks
from handhold.core.text.diff import unified_diff
from handhold.core.text.lines import count

MOST_DIFF = 200_000  # characters shown to people


def plan(request: Patch, files: GuardedView) -> Changes:
    if request.folder:
        must_be_folder(request.folder, files)
    desk = Desk(files)
    for operation in request.operations:
        desk.carry_out(operation)
    result = Patched(tuple(desk.told()), desk.diff())
    return Changes(tuple(desk.changes()), result, whole=False, seen=frozenset(desk.seen))


@dataclass
class Draft:
    """One file: what is there, and what the operations so far made of it; None is absent."""

    path: str  # as the model spells it
    before: bytes | None
    after: bytes | None
    mode: int | None = None  # of the file whose content this is
    moved_from: "Draft | None" = None
    added: int = 0
    removed: int = 0
    rungs: tuple[str, ...] = ()


@dataclass
class Desk:
    """The files as they would be. Each operation works on what the ones before left."""

    files: GuardedView
    drafts: dict[str, Draft] = field(default_factory=dict[str, Draft])
    seen: set[str] = field(default_factory=set[str])  # what the session knows from end to end

    def carry_out(self, operation: Operation) -> None:
        match operation:
            case AddFile(path, content):
                self.add(path, content)
            case DeleteFile(path):
                self.delete(path)
            case UpdateFile():
                self.update(operation)

    def add(self, path: str, content: str) -> None:
        place = self.free(path)
        made = self.files.new(content, path)
        self.put(place, Draft(path, None, made.encode(), added=count(content)))
        self.seen.add(place)

    def delete(self, path: str) -> None:
        draft = self.draft(path)
        self.files.no_link(path)
        draft.after = None
        draft.added, draft.removed, draft.rungs = 0, self.lines_of(draft.before, path), ()

    def update(self, operation: UpdateFile) -> None:
        path = operation.path
        draft = self.draft(path)
        if operation.hunks:
            text = self.files.text(draft.after or b"", path)
            applied = hunks.apply(text, operation.hunks, path=path, matching=self.files.matching)
            draft.after = applied.text.encode()
            draft.added += applied.added
            draft.removed += applied.removed
            draft.rungs += applied.rungs
        if operation.move_to and self.files.place(operation.move_to) != self.files.place(path):
            self.move(draft, path, operation.move_to)

    def move(self, draft: Draft, path: str, target: str) -> None:
        self.files.no_link(path)
        place = self.free(target)
        self.put(place, replace(draft, path=target, before=None, moved_from=draft.moved_from or draft))
        draft.after = None
        if self.files.place(path) in self.seen:
            self.seen.add(place)

    # --- what is there

    def draft(self, path: str) -> Draft:
        """A file that is there, and that the session may change."""
        place = self.files.place(path)
        if place not in self.drafts:
            look = self.files.file(path)
            whole = self.files.whole(path)
            self.drafts[place] = Draft(path, whole.data, whole.data, look.mode)
            if self.files.saw_all(whole):
                self.seen.add(place)
        if self.drafts[place].after is None:
            raise NotFound(path)
        return self.drafts[place]

    def free(self, path: str) -> str:
        """The place of a path where nothing is."""
        place = self.files.place(path)
        look = self.files.look(path) if place not in self.drafts else None
        if look and look.kind == "directory":
            raise IsDirectory(path)
        if look or (place in self.drafts and self.drafts[place].after is not None):
            raise AlreadyExists(path)
        return place

    def put(self, place: str, draft: Draft) -> None:
        if place in self.drafts:  # it was there before, and went
            draft.before = self.drafts[place].before
            draft.removed += self.lines_of(draft.before, draft.path)
        self.drafts[place] = draft

    # --- what becomes of it

    def changes(self) -> Iterator[FileChange]:
        for place, draft in self.drafts.items():
            before = Bytes(draft.before) if draft.before is not None else None
            after = Bytes(draft.after) if draft.after is not None else None
            if before or after:
                yield FileChange(place, before, after, draft.mode if before is None else None)

    def told(self) -> Iterator[PatchedFile]:
        for draft in self.remaining():
            source = draft.moved_from.path if draft.moved_from and draft.moved_from.before is not None else ""
            yield PatchedFile(verb_of(draft, source), draft.path, draft.added, draft.removed, draft.rungs, source)

    def diff(self) -> str:
        """For people, bounded; what was left out is said."""
        out: list[str] = []
        room = MOST_DIFF
        shown = self.remaining()
        for n, draft in enumerate(shown):
            piece = self.diff_of(draft)
            room -= len(piece)
            if room < 0 and n:
                return "".join([*out, f"[{len(shown) - n} more files are not shown]\n"])
            out.append(piece[:MOST_DIFF])
        return "".join(out)

    def diff_of(self, draft: Draft) -> str:
        source = draft.moved_from
        moved = f"rename from {source.path}\nrename to {draft.path}\n" if source else ""
        try:
            old, new = self.body(source or draft, "before"), self.body(draft, "after")
        except BinaryFile:
            return moved or f"[{draft.path}: binary content differs]\n"
        return moved + unified_diff(draft.path, old, new)

    def body(self, draft: Draft, when: Literal["before", "after"]) -> str | None:
        data = draft.before if when == "before" else draft.after
        return None if data is None else self.files.text(data, draft.path).body

    def lines_of(self, data: bytes | None, path: str) -> int:
        try:
            return count(self.files.text(data or b"", path).body)
        except BinaryFile:
            return 0

    def remaining(self) -> list[Draft]:
        """One draft for each file that is spoken of: not what came and went, and a moved one only where it is now."""
        moved = {id(draft.moved_from) for draft in self.drafts.values()}
        there = [draft for draft in self.drafts.values() if draft.before is not None or draft.after is not None]
        return [draft for draft in there if draft.after is not None or id(draft) not in moved]


def verb_of(draft: Draft, source: str) -> Literal["added", "deleted", "updated", "moved"]:
    if draft.after is None:
        return "deleted"
    if source:
        return "moved"
    return "added" if draft.before is None else "updated"


def must_be_folder(path: str, files: GuardedView) -> None:
    """A `cd` would fail, and nothing after it would happen."""
    if path.rpartition("/")[2] in (".", ".."):
        return  # the way up is there if the way down is, and that the paths themselves will show
    look = files.look(path)
    if look is None:
        raise NotFound(path)
    if look.kind != "directory":
        raise NotDirectory(path)
