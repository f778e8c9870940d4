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
    """How a dialect behaves, apart from its wording."""

    matching: Matching
    hints: bool
    requires_read: bool = True
    empty_old_creates: bool = True  # whether an edit with an empty old text creates the file; else it is refused
    lists_folders: bool = True  # reading a folder lists it; else it is refused
    folder_depth: int = 1  # how many levels of it
    first_cell: int = 1  # the number of a notebook's first cell, where cells have no ids
    records_write_as_read: bool = True  # whether a file that was written whole counts as read; an edited one does
    absolute_paths: bool = False  # in search results; else paths in the first root are relative to it
    search_seconds: float = 20.0  # when a search stops
    max_visited_entries: int | None = None  # how many entries a search for names visits, in path order; None: all
    shell_persists: Literal["nothing", "folder", "exports"] = "nothing"  # what one command passes on to the next


@dataclass(frozen=True)
class ReplyFrame:
    """The context of a reply, for a dialect whose replies include it."""

    tool: str
    arguments: str  # canonical JSON
    folder: str  # that relative paths start from
    resolve_path: Callable[[], str]  # the requested path, resolved; empty if there is none


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
        """Instructions for the system prompt: how to use these tools together."""
        ...

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request: ...

    def decode_and_repair(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[Request, tuple[str, ...]]:
        """The request, and what was repaired in the arguments."""
        ...

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        """The text for a result. `call_id` is safe to show; empty if the client gave none."""
        ...

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str: ...

    def frame(self, reply: Reply, frame: ReplyFrame) -> str:
        """The final text of a reply; most dialects do not change it."""
        ...
