"""Format changes as text: the diff of a change set, and the diff shown for an approval."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from handhold.core.errors import BinaryFile
from handhold.core.facts import DeclaredEncoding
from handhold.core.plans import (
    Content,
    ContentRef,
    Directory,
    DirectoryMetadata,
    FileChange,
    InlineContent,
    StagedContent,
)
from handhold.core.text.diff import unified_diff
from handhold.core.text.encoding import Text
from handhold.core.text.path_escaping import escape_ambiguous, format_path

MAX_DIFF_CHARS = 200_000  # of a diff over many files
MAX_APPROVAL_DIFF_CHARS = 4 * 1024 * 1024  # a longer approval diff is not shown at all, because it must not be cut
MAX_DIFF_FILES = 500
MAX_TREE_ENTRIES = 200  # entries shown of a folder that was added or removed
MAX_DIFFED_FILE_BYTES = 4 * 1024 * 1024  # larger files that a command changed are not shown
NOTABLE_FILE_MODE_BITS = 0o7113  # mode bits of a new file that are shown: special, executable, world-writable
NOTABLE_FOLDER_MODE_BITS = 0o7002


class ContentSource(Protocol):
    """Provides the contents of a change set."""

    def read_content(self, content: Content, path: str) -> bytes | None:
        """The bytes of `content`, or None if they are no longer kept."""
        ...

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        """The entries of a staged tree, with their relative paths."""
        ...

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        """The encoding declared for the file, if any."""
        ...


def shorten_path(path: str, roots: Sequence[str]) -> str:
    """A path as people write it: relative to the first root, or absolute. On a hub, no root is known."""
    return format_path(path.removeprefix(roots[0].rstrip("/") + "/") if roots else path)


def format_diff(files: Sequence[FileChange], source: ContentSource, roots: Sequence[str]) -> str:
    """A unified diff over many files, bounded; it says what was left out."""
    return "".join(text for _, text in _iter_bounded(files, source, roots))


def sum_changes(files: Sequence[FileChange], source: ContentSource) -> list[FileChange]:
    """The net change of several change sets, oldest first: each path once, with its first and its last content.

    A folder that came or went as a whole counts as its entries, unless those are too many to be shown.
    """
    total: dict[str, FileChange] = {}
    made: set[str] = set()  # folders that came whole: what is in them was not there before, listed or not
    for each in files:
        for change in _take_apart(each, source):
            known = total.get(change.path)
            mode = change.mode if change.mode is not None or known is None else known.mode
            before = known.before if known else None if _is_at_or_below(change.path, made) else change.before
            total[change.path] = FileChange(change.path, before, change.after, mode)
        if each.before is None and _get_trees(each):
            made.add(each.path)
    net = (change for change in total.values() if not change.is_noop and (change.before or change.after))
    return sorted(net, key=lambda change: change.path)


def _take_apart(change: FileChange, source: ContentSource) -> list[FileChange]:
    trees = _get_trees(change)
    if not trees or any(tree.entry_count == 1 or tree.entry_count > MAX_TREE_ENTRIES for tree in trees):
        return [change]
    before, after = (None if side in trees else side for side in (change.before, change.after))
    rest = [FileChange(change.path, before, after, change.mode)] if before or after else []
    return [*rest, *_expand_trees(change, source, None)]


def is_omission(line: str) -> bool:
    """Whether a line of a diff says that something was left out."""
    return line.startswith("[") and line.endswith(" not shown]")


def _iter_bounded(
    files: Sequence[FileChange], source: ContentSource, roots: Sequence[str]
) -> Iterator[tuple[FileChange | None, str]]:
    """The diff in pieces, each with its change or its entry of a folder; without one, it says what was left out."""
    room = MAX_DIFF_CHARS
    shown = [change for change in files if not change.is_directory]
    is_first = True
    for n, change in enumerate(shown):
        for part, piece in _format_change(change, source, roots):
            room -= len(piece)
            if (room < 0 and not is_first) or n >= MAX_DIFF_FILES:
                yield None, f"[{len(shown) - n} more files are not shown]\n"
                return
            over = len(piece) - MAX_DIFF_CHARS
            more = (
                f"\n[{over:,} more characters of {shorten_path(part.path, roots)} are not shown]\n" if over > 0 else ""
            )
            is_first = False
            yield part, piece[:MAX_DIFF_CHARS] + more


@dataclass(frozen=True)
class ApprovalDiff:
    """A diff to be approved. The first `uncut` lines show what needs approval."""

    text: str
    uncut: int
    # How many lines each change has, in their order, and each entry of a folder that comes or goes as a whole. At the
    # end, without a number, those that are not in the text.
    lines_by_change: tuple[tuple[FileChange, int | None], ...]


def format_approval_diff(
    files: Sequence[FileChange], places: Collection[str], source: ContentSource, roots: Sequence[str]
) -> ApprovalDiff | None:
    """A diff that starts with everything that happens at `places`.

    The rest is bounded. A place may be inside a folder that is added or removed as a whole.
    None if the changes at `places` alone are too long to show.
    """
    whole: list[str] = []
    counted: list[tuple[FileChange, int | None]] = []
    others: list[FileChange] = []
    above = {folder for place in places for folder in _walk_up(place)}
    room = MAX_APPROVAL_DIFF_CHARS
    for change in files:
        if _is_at_or_below(change.path, places):
            pieces = _format_change(change, source, roots, complete=True)
        else:
            others.append(change)
            inside = _expand_trees(change, source, None) if change.path in above else ()
            pieces = (
                (one, _format_tree_entry(one, source, roots, name_folders=True))
                for one in inside
                if _is_at_or_below(one.path, places)
            )
        for part, piece in pieces:
            whole.append(piece)
            room -= len(piece)
            if room < 0:
                return None
            counted.append((part, piece.count("\n")))
    first, rest = "".join(whole), list(_iter_bounded(others, source, roots))
    counted += [(part, text.count("\n")) for part, text in rest if part]
    known = {part.path for part, _ in counted}
    counted += [(part, None) for change in files for part in _list_parts(change, source) if part.path not in known]
    return ApprovalDiff(first + "".join(text for _, text in rest), first.count("\n"), tuple(counted))


def _is_at_or_below(path: str, places: Collection[str]) -> bool:
    """Whether `path` is one of these places or inside one."""
    return any(each in places for each in _walk_up(path))


def _walk_up(path: str) -> Iterator[str]:
    """The path and its parent folders, upwards."""
    while path:
        yield path
        path = path.rpartition("/")[0]


def _format_change(
    change: FileChange, source: ContentSource, roots: Sequence[str], *, complete: bool = False
) -> Iterator[tuple[FileChange, str]]:
    """A change; for a folder that was added or removed, also each entry in it as a change of its own."""
    entries = _expand_trees(change, source, None if complete else MAX_TREE_ENTRIES)
    left = count_entries(change) - 1 - len(entries)
    more = f"[{left:,} more entries of {shorten_path(change.path, roots)} are not shown]\n" if left > 0 else ""
    yield change, _format_entry_diff(change, source, roots) + more
    yield from ((one, _format_tree_entry(one, source, roots, name_folders=complete)) for one in entries)


def _list_parts(change: FileChange, source: ContentSource) -> list[FileChange]:
    """A change and, for a folder that was added or removed, each entry in it."""
    return [] if change.is_directory else [change, *_expand_trees(change, source, None)]


def count_entries(change: FileChange) -> int:
    """How many paths a change creates or removes, changes or replaces."""
    return 1 + sum(tree.entry_count - 1 for tree in _get_trees(change))


def _format_entry_diff(change: FileChange, source: ContentSource, roots: Sequence[str]) -> str:
    name = shorten_path(change.path, roots)
    is_text = _is_text(change.before) and _is_text(change.after)
    return _format_modes(name, change) + (_format_text_diff if is_text else _format_summary)(name, change, source)


def _format_tree_entry(change: FileChange, source: ContentSource, roots: Sequence[str], *, name_folders: bool) -> str:
    """A change inside a folder. A folder is shown if `name_folders`, or if its mode or owner is unusual."""
    if not _get_trees(change):
        return _format_entry_diff(change, source, roots)
    name = shorten_path(change.path, roots)
    before, after = ("nothing", "a folder") if change.before is None else ("a folder", "nothing")
    return _format_modes(name, change) + (f"[{name}: {before} -> {after}]\n" if name_folders else "")


def _get_trees(change: FileChange) -> list[StagedContent]:
    return [side for side in (change.before, change.after) if isinstance(side, StagedContent) and side.kind == "tree"]


def _expand_trees(change: FileChange, source: ContentSource, limit: int | None) -> list[FileChange]:
    """The entries of added or removed folders, each as its own change; at most `limit` per folder."""
    return [
        FileChange(path, None, content) if tree is change.after else FileChange(path, content, None)
        for tree in _get_trees(change)
        for relative, content in source.list_staged_tree(
            tree, change.path, tree.entry_count if limit is None else limit
        )
        for path in (f"{change.path}/{escape_ambiguous(relative)}",)
    ]


def _format_text_diff(name: str, change: FileChange, source: ContentSource) -> str:
    if change.is_noop:
        return ""
    if any(
        isinstance(side, StagedContent) and side.size > MAX_DIFFED_FILE_BYTES for side in (change.before, change.after)
    ):
        return _format_summary(name, change, source)
    try:
        before, after = (_decode_content(content, change.path, source) for content in (change.before, change.after))
    except LookupError:
        refs = [side for side in (change.before, change.after) if isinstance(side, ContentRef)]
        if all(ref.size > MAX_DIFFED_FILE_BYTES for ref in refs):
            return _format_summary(name, change, source)
        return f"[{name}: its content is no longer kept]\n"
    except BinaryFile:
        return f"[{name}: {_describe_binary(change)}]\n"
    return unified_diff(name, before, after)


def _describe_binary(change: FileChange) -> str:
    if change.before is None:
        return "nothing -> binary content"
    return "binary content -> nothing" if change.after is None else "binary content differs"


def _decode_content(content: Content | None, path: str, source: ContentSource) -> str | None:
    if content is None:
        return None
    data = source.read_content(content, path)
    if data is None:
        raise LookupError(content.hash)
    return Text.decode(data, path, source.declared_encoding(path)).body


def _is_text(content: Content | None) -> bool:
    """Whether the content may be text: not a link, tree or folder."""
    match content:
        case StagedContent(kind=kind):
            return kind == "file"
        case DirectoryMetadata() | Directory():
            return False
        case _:
            return True


def _format_modes(name: str, change: FileChange) -> str:
    """Changed permission bits and owners, and unusual ones on new entries."""
    out = ""
    match change.before, change.after:
        case StagedContent(mode=old), StagedContent(mode=new) if old != new:
            out = f"[{name}: mode {old & 0o7777:o} -> {new & 0o7777:o}]\n"
        case None, StagedContent(kind="file" | "tree" as kind, mode=mode) if _is_notable(kind, mode):
            out = f"[{name}: new {'file' if kind == 'file' else 'folder'}, mode {mode & 0o7777:o}]\n"
        case None, InlineContent() | ContentRef() if change.mode and _is_notable("file", change.mode):
            out = f"[{name}: new file, mode {change.mode & 0o7777:o}]\n"
        case _:
            pass
    match change.before, change.after:
        case StagedContent(owner=old), StagedContent(owner=new) if old != new:
            return f"{out}[{name}: owner {_format_user(old)} -> {_format_user(new)}]\n"
        case None, StagedContent(owner=int(new)):
            return f"{out}[{name}: owner {_format_user(new)}]\n"
        case _:
            return out


def _is_notable(kind: str, mode: int) -> bool:
    return bool(mode & (NOTABLE_FILE_MODE_BITS if kind == "file" else NOTABLE_FOLDER_MODE_BITS))


def _format_user(owner: int | None) -> str:
    return "this user" if owner is None else f"user {owner}"


def _format_summary(name: str, change: FileChange, source: ContentSource) -> str:
    before, after = (_describe_content(side, change.path, source) for side in (change.before, change.after))
    return f"[{name}: {before} -> {after}]\n"


def _describe_content(content: Content | None, path: str, source: ContentSource) -> str:
    """A short description of content that is not text."""
    match content:
        case None:
            return "nothing"
        case StagedContent(kind="tree", entry_count=entries, size=size):
            return f"a folder (mode {content.mode & 0o7777:o}, {entries - 1:,} entries, {size:,} bytes)"
        case StagedContent(kind="link"):
            target = source.read_content(content, path)
            return f"a link to {target.decode('utf-8', 'backslashreplace')}" if target is not None else "a link"
        case StagedContent(kind="other"):
            return "a pipe, socket or device"
        case DirectoryMetadata(mode=mode, owner=owner, xattrs=attributes):
            owned = "" if owner is None else ", owner {}:{}".format(*owner)
            named = "" if attributes is None else f", attributes {', '.join(name for name, _ in attributes) or 'none'}"
            return f"a folder (mode {mode & 0o7777:o}{owned}{named})"
        case Directory():
            return "a folder"
        case _:
            return f"a file ({content.size:,} bytes)"
