"""The requests that a dialect decodes a model's calls into."""

from dataclasses import dataclass
from typing import Literal

MAX_PDF_PAGES = 20  # pages per call (C-28)


@dataclass(frozen=True)
class PageLimits:
    """How much of a file one page shows."""

    lines: int
    line_chars: int
    chars: int
    count_rest: bool = False  # report how many lines of the range are left; reads the file to its end
    refuse_long: bool = False  # raise an error for a page over `chars` instead of shortening it
    cut_unit: Literal["line", "character", "byte"] = (
        "line"  # where a page may be cut: after a line, or inside one by characters or bytes
    )
    max_full_read_bytes: int | None = None  # a larger file needs an offset or a limit
    has_final_line: bool = False  # what follows the last line break is a line, which may be the only one of a page
    split_long_lines: bool = False  # show a line over `line_chars` in parts, each counted as a line


@dataclass(frozen=True)
class FileRequest:
    """A request about one file."""

    path: str

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True)
class Read(FileRequest):
    limits: PageLimits
    offset: int | None = None  # 1-based line number
    limit: int | None = None
    page_ranges: tuple[tuple[int, int], ...] = ()  # first and last PDF page of each range, sorted and disjoint
    include_images: bool = False  # also show PDF pages as images
    if_changed: bool = False  # omit a page that the session has already seen unchanged


@dataclass(frozen=True)
class ReadMany:
    """Several files in one reply of at most `chars` characters, headings included."""

    reads: tuple[Read, ...]
    chars: int

    @property
    def paths(self) -> tuple[str, ...]:
        """Empty: each file is checked when it is read, so one denied path does not fail the whole request."""
        return ()


@dataclass(frozen=True)
class Write(FileRequest):
    content: str


@dataclass(frozen=True)
class Replacement:
    """Replace one text with another: `every` occurrence, or the only one."""

    old: str
    new: str
    every: bool = False
    expected_count: int | None = None  # how many occurrences there must be


@dataclass(frozen=True)
class Edit(FileRequest):
    edit: Replacement


@dataclass(frozen=True)
class MultiEdit(FileRequest):
    edits: tuple[Replacement, ...]


@dataclass(frozen=True)
class Insert(FileRequest):
    """Insert lines after line number `line`; 0 is the beginning of the file."""

    line: int
    text: str


# --- notebooks


CellKind = Literal["code", "markdown", "raw"]
CellAction = Literal["replace", "insert_before", "insert_after", "append", "delete"]


@dataclass(frozen=True)
class NotebookEdit(FileRequest):
    """A change to one cell. `cell` is the cell to change or to insert next to; empty to append."""

    action: CellAction
    cell: str = ""
    source: str | None = None  # None: keep the source
    kind: CellKind | None = None


# --- patches


LineSign = Literal[" ", "-", "+"]  # context, removed, added


@dataclass(frozen=True)
class PatchHunk:
    """Lines to find, and what happens to each. `scopes` narrow the search, outermost first."""

    patch_line: int  # line number in the patch
    scopes: tuple[str, ...]
    rows: tuple[tuple[LineSign, str], ...]
    is_at_end: bool = False  # the hunk must match at the end of the file
    ends_with_newline: bool | None = None  # whether the file ends with a newline afterwards; None: unchanged

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.rows if sign != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.rows if sign != "-")

    @property
    def is_context(self) -> bool:
        """Whether it changes nothing and only says where the next one comes."""
        return all(sign == " " for sign, _ in self.rows) and self.ends_with_newline is None


@dataclass(frozen=True)
class AddFile:
    path: str
    content: str


@dataclass(frozen=True)
class DeleteFile:
    path: str


@dataclass(frozen=True)
class UpdateFile:
    path: str
    hunks: tuple[PatchHunk, ...]
    move_to: str = ""  # empty: not moved


Operation = AddFile | DeleteFile | UpdateFile


@dataclass(frozen=True)
class Patch:
    """Operations on any number of files, applied in order, all or none."""

    operations: tuple[Operation, ...]
    folder: str = ""  # a folder that must exist: the target of a leading `cd`; the paths are relative to the workspace

    @property
    def paths(self) -> tuple[str, ...]:
        targets = (each.move_to for each in self.operations if isinstance(each, UpdateFile) and each.move_to)
        return tuple(dict.fromkeys([*(each.path for each in self.operations), *targets]))


# --- listing and searching


SortOrder = Literal["modified", "none"]  # newest first, which needs a full scan; or by path, which can stop early
GrepMode = Literal["files_with_matches", "content", "count"]


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """A search below a folder or in one file. A page has at most `limit` items and `chars` characters."""

    path: str = "/"
    hidden: bool = False
    ignored: bool = False  # include ignored files and the default-ignored heavy folders
    flags_decide: bool = False  # only `hidden` and `ignored` include such files and heavy folders; a glob never does
    limit: int
    chars: int
    cursor: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True, kw_only=True)
class ListFiles(SearchRequest):
    depth: int = 1
    ignore: tuple[str, ...] = ()  # additional globs to leave out
    skip: int = 0  # entries to skip, for dialects that page by number instead of by cursor


@dataclass(frozen=True, kw_only=True)
class Glob(SearchRequest):
    pattern: str
    sort: SortOrder = "modified"


@dataclass(frozen=True, kw_only=True)
class Grep(SearchRequest):
    pattern: str
    glob: str = ""
    regex: bool = False
    ignore_case: bool = False
    mode: GrepMode = "files_with_matches"
    before: int = 0
    after: int = 0
    sort: SortOrder = "modified"
    width: int = 500  # characters shown of a line, cut around its match


# --- commands


@dataclass(frozen=True)
class Run:
    """A shell command. A reply shows up to `chars` characters of its output; of a longer one, `lines` from each end."""

    command: str
    timeout_seconds: float
    chars: int
    lines: int = 5
    background: bool = False
    preview: bool = False  # run it and report what it would change, but apply nothing
    direct: bool = False  # on the workspace itself, without an overlay: cannot be undone
    first_bytes: int = 0  # show only this many bytes from the beginning; `chars` is then ignored
    network: bool = False  # with all of it: the user, not a model, chose that
    reads: bool = False  # nobody was asked, since its text only reads: the workspace is read-only for it
    folder: str = ""  # where it starts, resolved; empty: where the shell is
    isolated: bool = False  # neither starts where a persistent shell is nor changes what it passes on
    streams: tuple[int, int, int] | None = None  # descriptors that it gets as its own; its output is then not collected

    @property
    def paths(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class JobRequest:
    """A request about a background command."""

    job: str

    @property
    def paths(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class JobOutput(JobRequest):
    chars: int
    offset: int | None = None  # byte offset in its output; None: where the last reply ended


@dataclass(frozen=True)
class JobInput(JobRequest):
    text: str


@dataclass(frozen=True)
class JobStop(JobRequest):
    pass


@dataclass(frozen=True)
class RestartShell:
    """Reset a persistent shell: its working directory and exported variables."""

    @property
    def paths(self) -> tuple[str, ...]:
        return ()


Request = (
    Read
    | ReadMany
    | Write
    | Edit
    | MultiEdit
    | Insert
    | NotebookEdit
    | Patch
    | ListFiles
    | Glob
    | Grep
    | Run
    | JobOutput
    | JobInput
    | JobStop
    | RestartShell
)
