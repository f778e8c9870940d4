"""Describes what a change set does to each path, as facts that a page can show by risk."""

import posixpath
from collections.abc import Sequence
from typing import Protocol

from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
)
from handhold.core.ports.approvals import Effect, EffectKind

MAX_EFFECTS = 1_000
STAGED_KINDS: dict[str, EffectKind] = {"file": "file", "link": "link", "tree": "folder", "other": "other"}


class ContentReader(Protocol):
    def read_content(self, content: Content, path: str) -> bytes | None:
        """The bytes; None if they are not kept, or it is neither a file nor a link."""
        ...


def describe_effects(
    lines_by_change: Sequence[tuple[FileChange, int | None]], contents: ContentReader, roots: Sequence[str]
) -> tuple[Effect, ...]:
    """The effects of a question. Of those that its diff does not show, the ones to look at come first."""
    shown = [pair for pair in lines_by_change if pair[1] is not None]
    others = [pair for pair in lines_by_change if pair[1] is None]
    notable = [pair for pair in others if _is_notable(pair[0].after)][: MAX_EFFECTS // 2]
    plain = [pair for pair in others if not _is_notable(pair[0].after)]
    return tuple(
        describe_effect(change, contents, roots, diff_lines=lines)
        for change, lines in [*notable, *shown, *plain][:MAX_EFFECTS]
    )


def _is_notable(content: Content | None) -> bool:
    """Whether it is a link, a special file, executable, or runs as its owner."""
    return (
        isinstance(content, StagedContent)
        and content.kind != "tree"
        and (content.kind != "file" or bool(content.mode & 0o6111))
    )


def describe_effect(
    change: FileChange, contents: ContentReader, roots: Sequence[str], *, diff_lines: int | None = 0
) -> Effect:
    """`diff_lines` is None if the question's diff does not show it."""
    left = change.before if change.after is None else change.after
    target = _read_target(change.after, change.path, contents)
    return Effect(
        path=change.path.removeprefix(roots[0].rstrip("/") + "/") if roots else change.path,
        verb="new" if change.before is None else "deleted" if change.after is None else "changed",
        kind=_find_kind(left),
        mode=_find_mode(change.after, change.mode if change.before is None else None),
        old_mode=_find_mode(change.before, None),
        target=target,
        leads_out=bool(target) and leads_out(change.path, target, roots),
        size=left.size if left else 0,
        entry_count=left.entry_count if isinstance(left, StagedContent) else 1,
        diff_lines=diff_lines or 0,
        is_shown=diff_lines is not None,
    )


def leads_out(path: str, target: str, roots: Sequence[str]) -> bool:
    """Whether a link at `path` points out of the workspace, by its text."""
    place = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return not any(place == root or place.startswith(root.rstrip("/") + "/") for root in roots)


def _find_kind(content: Content | None) -> EffectKind:
    match content:
        case StagedContent(kind=kind):
            return STAGED_KINDS[kind]
        case Directory():
            return "folder"
        case DirectoryMetadata():
            return "folder metadata"
        case InlineContent() | ContentRef() | None:
            return "file"


def _find_mode(content: Content | None, new_mode: int | None) -> int | None:
    match content:
        case StagedContent(mode=mode) | DirectoryMetadata(mode=mode):
            return mode & 0o7777
        case None:
            return None
        case _:
            return new_mode


def _read_target(content: Content | None, path: str, contents: ContentReader) -> str:
    if not isinstance(content, StagedContent) or content.kind != "link":
        return ""
    data = contents.read_content(content, path)
    return "" if data is None else data.decode("utf-8", "surrogateescape")
