"""Tool names, schemas and wording of one model family."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from handhold.core.choices import Matching
from handhold.core.errors import ToolError
from handhold.core.requests import Request
from handhold.core.results import Reply, Result, ToolSpec


@dataclass(frozen=True)
class DialectOptions:
    """What differs between dialects besides words."""

    matching: Matching
    hints: bool
    requires_read: bool = True
    lists_folders: bool = True  # a folder that is to be read is listed; else refused
    folder_depth: int = 1  # and so many levels of it
    first_cell: int = 1  # the number of a notebook's first cell, where cells have no ids
    records_write_as_read: bool = True  # whether a file that was written whole counts as seen; one that was edited does
    absolute_paths: bool = False  # in what a search shows; else those of the first root are relative to it
    search_seconds: float = 20.0  # the longest that a search may take
    max_visited_entries: int | None = None  # the most that a search for names visits, in the order of paths; None: all
    shell_persists: Literal["nothing", "folder", "exports"] = "nothing"  # what one command hands on to the next


@dataclass(frozen=True)
class ReplyFrame:
    """What stands around a reply, for a dialect whose replies are forms that tell it."""

    tool: str
    arguments: str  # canonical JSON
    folder: str  # that relative paths begin at
    resolve_path: Callable[[], str]  # the path that was asked about, as it really is; empty if there is none


class Dialect(Protocol):
    """Names, schemas, limits and wording of one tool family."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> DialectOptions: ...

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    @property
    def instructions(self) -> str:
        """What teaches a model to use these tools together, for its system prompt."""
        ...

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request: ...

    def decode_and_repair(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[Request, tuple[str, ...]]:
        """The same, and what had to be mended in these arguments."""
        ...

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        """The words for a result. `call_id` is the call's id, fit to be shown; empty if the client gave none."""
        ...

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str: ...

    def frame(self, reply: Reply, frame: ReplyFrame) -> str:
        """The text of a reply as it leaves; for most dialects, as it is."""
        ...
