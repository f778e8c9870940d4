"""Plain values: what is known about files, pages, search hits and commands at one moment."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

FileKind = Literal["file", "directory", "other"]


@dataclass(frozen=True)
class FileIdentity:
    """Which file it was, and in which state, according to the file system."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class FileStat:
    """What exists at a path: its canonical path with links resolved, identity, permission bits and link count."""

    path: str
    kind: FileKind
    identity: FileIdentity
    mode: int
    link_count: int = 1


class FolderEntry(NamedTuple):
    """A name in a folder. If it is a link, the link itself is meant."""

    name: str
    is_folder: bool
    mtime_ns: int


@dataclass(frozen=True)
class FileSnapshot:
    """A file's content at one moment."""

    path: str
    data: bytes = field(repr=False)
    hash: str
    identity: FileIdentity


@dataclass(frozen=True)
class FileHead:
    """The first bytes of a file, and all of it if it is small enough to read at once."""

    path: str
    data: bytes = field(repr=False)
    identity: FileIdentity
    snapshot: FileSnapshot | None


DeclarationSource = Literal["settings", ".editorconfig"]


@dataclass(frozen=True)
class DeclaredEncoding:
    """The encoding that the settings or .editorconfig declare for a file; new files get its BOM."""

    name: str
    bom: bytes
    source: DeclarationSource


class PageLine(NamedTuple):  # a page has up to two thousand, and a tuple is created in half the time
    """A line as shown, and how many of its characters were left out."""

    text: str
    omitted_chars: int = 0


@dataclass(frozen=True)
class Page:
    """Some lines of a file, cut to a width, and what was learned about the file while reading them."""

    path: str
    first: int
    lines: tuple[PageLine, ...]
    has_more: bool  # the file continues after the last line
    total: int | None  # None: not counted to the end
    encoding: str
    has_undecodable_bytes: bool  # some bytes could not be decoded and are shown as U+FFFD
    identity: FileIdentity
    byte_span: tuple[int, int]  # the byte range shown
    span_hash: str
    snapshot: FileSnapshot | None  # the whole file, if it was small enough to read at once
    encoding_source: str = "content"  # where the encoding was found
    rejected_encoding: str = ""  # the declared encoding, if the bytes contradict it


# --- files that are not text


Medium = Literal["png", "jpeg", "gif", "webp", "pdf"]


@dataclass(frozen=True)
class ShownParts:
    """A file shown in parts that are not lines: pages of a PDF or cells of a notebook; an image is one part."""

    snapshot: FileSnapshot
    numbers: tuple[int, ...]
    count: int
    is_text: bool = False  # can be edited, so a diff may be needed later


@dataclass(frozen=True)
class Picture:
    """An image in a form that models accept."""

    mime: str
    data: bytes = field(repr=False)
    width: int
    height: int


@dataclass(frozen=True)
class PdfPage:
    """One page: its text laid out in lines, and its image if requested or if it has no text.

    `omitted_chars` counts the characters that did not fit.
    """

    number: int
    text: str = field(repr=False)
    picture: Picture | None = None
    omitted_chars: int = 0
    is_broken: bool = False  # the page exists but cannot be read


ConversionStopReason = Literal["", "room", "time", "memory", "broken"]
"""Why a converter stopped early; empty if it did not."""


@dataclass(frozen=True)
class ConvertedImage:
    picture: Picture
    width: int  # of the original image, upright
    height: int
    frames: int | None  # None: more than one, not counted to the end
    is_rotated: bool  # the file declares itself rotated or mirrored


@dataclass(frozen=True)
class ConvertedPdf:
    """The requested pages that exist, as far as the conversion got."""

    page_count: int  # pages in the file
    pages: tuple[PdfPage, ...]
    stop_reason: ConversionStopReason


# --- search results


class MatchRow(NamedTuple):
    """A line as a search shows it, cut around its match at `start` to `end` in `text`; -1 for context lines.

    `omitted_chars` counts the characters left out before and after.
    """

    number: int
    text: str
    start: int = -1
    end: int = -1
    omitted_chars: tuple[int, int] = (0, 0)

    @property
    def is_match(self) -> bool:
        return self.start >= 0


@dataclass(frozen=True)
class SearchHit:
    """A file or folder that a search found; with rows or a count if requested."""

    place: str
    kind: Literal["file", "directory", "link"] = "file"
    rows: tuple[MatchRow, ...] = ()
    count: int = 0  # of matching lines


SkipReason = Literal["ignore file", "hidden", "heavy folder", "binary", "too large", "denied", "unreadable", "too deep"]


@dataclass(frozen=True)
class SkippedFiles:
    """Files that were not searched, and the rule that excluded them: for an ignore file, its line and pattern."""

    rule: SkipReason
    files: int
    source: str = ""  # the path of an ignore file
    line: int = 0
    pattern: str = ""
    at_least: bool = False  # not counted to the end


AbortReason = Literal["", "limit", "deadline", "entries"]  # full page, time limit, or limit on visited entries


@dataclass(frozen=True)
class SearchOutcome:
    """What a search found from its cursor on, and how far it looked."""

    hits: tuple[SearchHit, ...]
    engine: str  # name and version
    fallback_reason: str = ""  # why it was not ripgrep
    order: Literal["modified", "path"] = "path"
    abort_reason: AbortReason = ""  # why it did not search everything
    has_more: bool = False  # more hits may follow
    searched_count: int | None = None  # files searched; None: not counted
    skipped: tuple[SkippedFiles, ...] = ()  # reported if nothing was found, or if it costs nothing
    changed_since_cursor: bool = False  # the workspace changed since the cursor was issued
    checksum: int = 0  # what a cursor depends on: all hits of a full scan, otherwise the hits before these
    is_checksum_of_all: bool = False  # whether `checksum` covers all hits
    unstable_count: int = 0  # hits left out because the file changed or disappeared during the search


# --- commands


@dataclass(frozen=True)
class CommandOutput:
    """What a command printed, both streams in order: all of it in `head`, or its two ends.

    Cleaned up for reading: without color codes, and with the last state of lines that carriage returns overwrote.
    """

    head: str
    tail: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    omitted_lines: int = 0  # lines between head and tail
    handle: str = ""  # where the full output can be read, below /large_tool_results/
    kept_bytes: int = 0  # how many bytes of it are kept
    has_undecodable_bytes: bool = False  # some bytes were not UTF-8 and are shown as U+FFFD


@dataclass(frozen=True)
class ExitStatus:
    """How a command ended: with an exit status, by a signal, or at its time limit."""

    code: int | None
    signal: str = ""
    timed_out: bool = False
    cancelled: bool = False
    seconds: float = 0.0


# What a command did to a path that somebody else changed, or why its change could not be taken over: "closed": the path
# is a folder that we cannot access; "owner": it belongs to another user, whom a copy could not belong to.
ConflictKind = Literal["changed", "deleted", "mode", "closed", "owner"]

UndoScope = Literal["all", "file tools only"]  # which of a command's changes can be undone


@dataclass(frozen=True)
class SandboxStatus:
    """What confines a command on this machine, and what does not."""

    by: str  # "bubblewrap 0.11.0", "broker", "external", "nothing"
    shadow: bool  # its changes go to a layer of their own
    network: bool  # whether it can reach all of the network
    named_hosts: bool = field(default=False, kw_only=True)  # whether it can reach the hosts that were named
    why_not: tuple[str, ...] = ()  # what is missing, as text
    hidden: tuple[str, ...] = ()  # paths that a rule hid from it: the first hundred, starting with the first root
    hidden_total: int = 0

    @property
    def is_broker(self) -> bool:
        return self.by == "broker"

    def explain_no_undo(self, *, background: bool = False) -> str:
        """Why the changes of a command cannot be undone; empty if they can."""
        if not self.shadow:
            reasons = [why for why in self.why_not if "overlay" in why] or self.why_not
            return "; ".join(reasons) or "there is no overlay of the workspace"
        return "a background command changes the files themselves" if background and not self.is_broker else ""

    @property
    def has_own_loopback(self) -> bool:
        """Whether commands cannot reach servers on this machine."""
        return self.by.startswith("bubblewrap") and not self.network
