"""What is known of files, pages, search hits and commands at one moment: plain values, nothing is done here."""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

FileKind = Literal["file", "directory", "other"]


@dataclass(frozen=True)
class FileIdentity:
    """Which file it was, and in which state, as far as the file system tells."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class FileStat:
    """What stands at a path: its one spelling, links resolved, its identity, permission bits, how many names it has."""

    path: str
    kind: FileKind
    identity: FileIdentity
    mode: int
    link_count: int = 1


@dataclass(frozen=True)
class FileSnapshot:
    """A file, read at one moment."""

    path: str
    data: bytes = field(repr=False)
    hash: str
    identity: FileIdentity


@dataclass(frozen=True)
class FileHead:
    """The first bytes of a file; where it is small enough to be read at once, all of it besides."""

    path: str
    data: bytes = field(repr=False)
    identity: FileIdentity
    snapshot: FileSnapshot | None


DeclarationSource = Literal["settings", ".editorconfig"]


@dataclass(frozen=True)
class DeclaredEncoding:
    """What somebody says about the encoding of a file; a new one gets the mark."""

    name: str
    bom: bytes
    source: DeclarationSource


class PageLine(NamedTuple):  # a page has two thousand of them, and a tuple is made in half the time
    """A line as shown: its text, and how many characters of it were left out."""

    text: str
    omitted_chars: int = 0


@dataclass(frozen=True)
class Page:
    """Some lines of a file, cut to a width, and what was seen of it on the way."""

    path: str
    first: int
    lines: tuple[PageLine, ...]
    has_more: bool  # the file goes on after the last line
    total: int | None  # None: nobody counted to the end
    encoding: str
    has_undecodable_bytes: bool  # some bytes could not be decoded and are shown as U+FFFD
    identity: FileIdentity
    byte_span: tuple[int, int]  # the bytes shown
    span_hash: str
    snapshot: FileSnapshot | None  # the file itself, where it was small enough to be read at once
    encoding_source: str = "content"  # what the encoding rests on
    rejected_encoding: str = ""  # the encoding that was declared, where the bytes say otherwise


# --- what is not text


Medium = Literal["png", "jpeg", "gif", "webp", "pdf"]


@dataclass(frozen=True)
class ShownParts:
    """A file that is shown in parts which are not lines: pages of a PDF, cells of a notebook; an image has one."""

    snapshot: FileSnapshot
    numbers: tuple[int, ...]
    count: int
    is_text: bool = False  # and can be edited, so that it will be asked what changed in it


@dataclass(frozen=True)
class Picture:
    """An image as models take it."""

    mime: str
    data: bytes = field(repr=False)
    width: int
    height: int


@dataclass(frozen=True)
class PdfPage:
    """One page: its text, laid out in lines, and its picture where that was wanted or is all there is.

    `omitted_chars` counts the characters for which there was no room.
    """

    number: int
    text: str = field(repr=False)
    picture: Picture | None = None
    omitted_chars: int = 0
    is_broken: bool = False  # there is such a page, and it cannot be read


ConversionStopReason = Literal["", "room", "time", "memory", "broken"]
"""Why a converter stopped before it was done; empty if it did not."""


@dataclass(frozen=True)
class ConvertedImage:
    picture: Picture
    width: int  # of the image itself, upright
    height: int
    frames: int | None  # None: more than one, and nobody counted to the end
    is_rotated: bool  # the file says that it stands on its side, or mirrored


@dataclass(frozen=True)
class ConvertedPdf:
    """The pages that were wanted and are there, as far as it came."""

    page_count: int  # pages of the file
    pages: tuple[PdfPage, ...]
    stop_reason: ConversionStopReason


# --- what a search brings


class MatchRow(NamedTuple):
    """A line of a file as a search shows it: cut around its match, `start` to `end` in `text`; -1 for context.

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
    """A file or folder that a search found, by its place; with rows or a count where those were asked for."""

    place: str
    kind: Literal["file", "directory", "link"] = "file"
    rows: tuple[MatchRow, ...] = ()
    count: int = 0  # of matching lines


SkipReason = Literal["ignore file", "hidden", "heavy folder", "binary", "too large", "denied", "unreadable", "too deep"]


@dataclass(frozen=True)
class SkippedFiles:
    """Files that were not looked at, and by which rule; an ignore file with its line and the pattern there."""

    rule: SkipReason
    files: int
    source: str = ""  # of an ignore file: its place
    line: int = 0
    pattern: str = ""
    at_least: bool = False  # nobody counted to the end


AbortReason = Literal["", "limit", "deadline", "entries"]  # a full page, the time, or the bound on visited entries


@dataclass(frozen=True)
class SearchOutcome:
    """What a search brought, from where its cursor stood on, and how far it looked."""

    hits: tuple[SearchHit, ...]
    engine: str  # with its version
    fallback_reason: str = ""  # why it was not ripgrep
    order: Literal["modified", "path"] = "path"
    abort_reason: AbortReason = ""  # why it did not look at everything
    has_more: bool = False  # there are, or may be, hits after these
    searched_count: int | None = None  # files looked at; None: nobody counted
    skipped: tuple[SkippedFiles, ...] = ()  # told where nothing was found, and where it costs nothing
    changed_since_cursor: bool = False  # the workspace is not what it was when the cursor was given
    checksum: int = 0  # a checksum of what the cursor stands on: all hits of a whole scan, else those before these
    is_checksum_of_all: bool = False  # whether `checksum` is of all hits
    unstable_count: int = 0  # hits left out because the file changed or went away meanwhile


# --- what a command leaves


@dataclass(frozen=True)
class CommandOutput:
    """What a command printed, both streams in the order they came: whole in `head`, or its two ends.

    Tidied for reading: no colour codes, of a line that was overwritten by carriage returns the last state.
    """

    head: str
    tail: str = ""
    total_bytes: int = 0
    total_lines: int = 0
    omitted_lines: int = 0  # lines between head and tail
    handle: str = ""  # where the whole of it can be read, below /large_tool_results/
    kept_bytes: int = 0  # bytes of it that are there
    has_undecodable_bytes: bool = False  # some bytes were not UTF-8 and are shown as U+FFFD


@dataclass(frozen=True)
class ExitStatus:
    """How a command ended: by its status, by a signal, or at its time limit."""

    code: int | None
    signal: str = ""
    timed_out: bool = False
    cancelled: bool = False
    seconds: float = 0.0


# What a command did to a path that stays as somebody else left it; or that the path is a folder which is closed to us.
ConflictKind = Literal["changed", "deleted", "mode", "closed"]

UndoScope = Literal["all", "file tools only"]  # what can be taken back of what a command did


@dataclass(frozen=True)
class SandboxStatus:
    """What confines a command on this machine, and what does not."""

    by: str  # "bubblewrap 0.11.0", "external", "nothing"
    shadow: bool  # its changes land in a layer of their own
    network: bool  # whether it can reach one
    named_hosts: bool = field(default=False, kw_only=True)  # and that only
    why_not: tuple[str, ...] = ()  # what is missing, in words
    hidden: tuple[str, ...] = ()  # what it could not read because of a rule: the first hundred, from the first root on
    hidden_total: int = 0
