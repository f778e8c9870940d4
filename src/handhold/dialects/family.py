"""What every dialect does in the same way; what it does in its own is four short methods."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from handhold.core.errors import ToolError
from handhold.core.ports import Traits
from handhold.core.requests import Replacement, Request
from handhold.core.results import Result, ToolSpec
from handhold.dialects.arguments import Fitted, Specs
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.quoting import sendable


class Family(ABC):
    """A dialect: the tools of `specs.json` beside `file`, read into requests and put into words."""

    name: ClassVar[str]
    traits: ClassVar[Traits]

    def __init__(self, file: str) -> None:
        self._specs = Specs(file)

    # --- its own way

    @abstractmethod
    def request(self, tool: str, a: Mapping[str, Any]) -> Request:
        """What a call asks for; its arguments fit the schema."""

    @abstractmethod
    def said(self, request: Request, result: Result) -> str: ...

    @abstractmethod
    def refused(self, tool: str, error: ToolError, *, hints: bool) -> str: ...

    def object_of(self, tool: str, arguments: Mapping[str, Any] | str) -> Any:
        """Arguments as the schema has them, where the family also sends them in another form."""
        return arguments

    def tells_more(self, error: ToolError) -> bool:
        """Whether the engine's facts about an error are told even without hints."""
        return False

    # --- the same for all

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        return self.request(tool, self._fitted(tool, arguments).values)

    def repaired(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[str, ...]:
        return self._fitted(tool, arguments).repaired

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool) -> str:
        return sendable(hinted(self.said(request, result), notes_on(result) if hints else ()))

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        notes = notes_about(error) if hints or self.tells_more(error) else ()
        return sendable(hinted(self.refused(tool, error, hints=hints), notes))

    def _fitted(self, tool: str, arguments: Mapping[str, Any] | str) -> Fitted:
        return self._specs.fit(tool, self.object_of(tool, arguments))


def replacement(a: Mapping[str, Any]) -> Replacement:
    return Replacement(a["old_string"], a["new_string"], every=a["replace_all"])


def unknown(tool: str) -> AssertionError:
    return AssertionError(f"{tool} is in specs.json and not in decode")
