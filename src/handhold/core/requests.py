"""What a model can ask for, once a dialect has read the call."""

from dataclasses import dataclass
from typing import Literal

MAX_PDF_PAGES = 20  # of a PDF, in one call (C-28)


@dataclass(frozen=True)
class PageLimits:
    """How much of a file one page shows."""

    lines: int
    line_chars: int
    chars: int
    count_rest: bool = False  # say how many lines of the range are left, though the file must be read to its end for it
    refuse_long: bool = False  # a page over `chars` is an error; else it ends earlier
    cut_unit: Literal["line", "character", "byte"] = (
        "line"  # where: behind a whole line, in one, or in one by bare bytes
    )
    max_full_read_bytes: int | None = None  # a larger file must be asked for by offset or limit
    split_long_lines: bool = False  # a line over `line_chars` goes on in parts, each of which counts as a line


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
    offset: int | None = None  # lines count from 1
    limit: int | None = None
    page_ranges: tuple[tuple[int, int], ...] = ()  # of a PDF: first and last of each run, in order and apart
    include_images: bool = False  # show the pages of a PDF as pictures, too
    if_changed: bool = False  # a page that the session was shown, and that is still the same, is not shown again


@dataclass(frozen=True)
class ReadMany:
    """Several files in one reply, which has room for `chars` characters, headings and all."""

    reads: tuple[Read, ...]
    chars: int

    @property
    def paths(self) -> tuple[str, ...]:
        """None that all of it depends on: each is judged where it is read, and refused by itself."""
        return ()


@dataclass(frozen=True)
class Write(FileRequest):
    content: str


@dataclass(frozen=True)
class Replacement:
    """One text for another; `every` place where it stands, or the only one."""

    old: str
    new: str
    every: bool = False
    expected_count: int | None = None  # in how many places it must stand


@dataclass(frozen=True)
class Edit(FileRequest):
    edit: Replacement


@dataclass(frozen=True)
class MultiEdit(FileRequest):
    edits: tuple[Replacement, ...]


@dataclass(frozen=True)
class Insert(FileRequest):
    """New lines behind line number `line`; 0 is the beginning of the file."""

    line: int
    text: str


# --- notebooks


CellKind = Literal["code", "markdown", "raw"]
CellAction = Literal["replace", "insert_before", "insert_after", "append", "delete"]


@dataclass(frozen=True)
class NotebookEdit(FileRequest):
    """A change of one cell. `cell` is the one to change, or beside which a new one goes; empty to append."""

    action: CellAction
    cell: str = ""
    source: str | None = None  # None: as it is
    kind: CellKind | None = None


# --- patches


LineSign = Literal[" ", "-", "+"]  # a line that stays, goes, comes


@dataclass(frozen=True)
class PatchHunk:
    """Lines to find, and what becomes of each. `scopes` narrow down where, the outermost first."""

    patch_line: int  # of the patch
    scopes: tuple[str, ...]
    rows: tuple[tuple[LineSign, str], ...]
    is_at_end: bool = False  # its last old line is the file's last
    ends_with_newline: bool | None = None  # whether the file then ends with one; None: as it does now

    @property
    def old(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.rows if sign != "+")

    @property
    def new(self) -> tuple[str, ...]:
        return tuple(text for sign, text in self.rows if sign != "-")


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
    move_to: str = ""  # empty: it stays where it is


Operation = AddFile | DeleteFile | UpdateFile


@dataclass(frozen=True)
class Patch:
    """Operations on any number of files, each on what the ones before left; all or none."""

    operations: tuple[Operation, ...]
    folder: str = ""  # one that must be there: a `cd` led to it, and the paths are spelled from the workspace

    @property
    def paths(self) -> tuple[str, ...]:
        targets = (each.move_to for each in self.operations if isinstance(each, UpdateFile) and each.move_to)
        return tuple(dict.fromkeys([*(each.path for each in self.operations), *targets]))


# --- looking around


SortOrder = Literal["modified", "none"]  # newest first, which needs a whole scan; or by path, which may stop early
GrepMode = Literal["files_with_matches", "content", "count"]


@dataclass(frozen=True, kw_only=True)
class SearchRequest:
    """A request about what is below a folder, or in one file. A page of it has `limit` items and `chars` characters."""

    path: str = "/"
    hidden: bool = False
    ignored: bool = False  # also what ignore files, and the list of heavy folders, leave out
    limit: int
    chars: int
    cursor: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,)


@dataclass(frozen=True, kw_only=True)
class ListFiles(SearchRequest):
    depth: int = 1
    ignore: tuple[str, ...] = ()  # globs of what to leave out besides
    skip: int = 0  # entries of `limit` that are not shown, where a family pages by a number and not by a cursor


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
    width: int = 500  # characters of a line, cut around its match


# --- commands


@dataclass(frozen=True)
class Run:
    """A shell command. `chars` is how much of its output the reply may show; over that it shows `lines` of each end."""

    command: str
    timeout_seconds: float
    chars: int
    lines: int = 5
    background: bool = False
    preview: bool = False  # run it, say what it would change, and change nothing
    direct: bool = False  # on the workspace itself, without a shadow: it cannot be taken back
    first_bytes: int = 0  # where a family shows the beginning and no end: so much of it, and `chars` does not count

    @property
    def paths(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class JobRequest:
    """A request about a command that runs in the background."""

    job: str

    @property
    def paths(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class JobOutput(JobRequest):
    chars: int
    offset: int | None = None  # bytes of its output; None: from where the last reply ended


@dataclass(frozen=True)
class JobInput(JobRequest):
    text: str


@dataclass(frozen=True)
class JobStop(JobRequest):
    pass


@dataclass(frozen=True)
class RestartShell:
    """Let a lasting shell forget where it stands and what was exported."""

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
