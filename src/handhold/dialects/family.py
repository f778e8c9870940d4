"""What every dialect does in the same way; what it does in its own is four short methods."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports import Frame, Traits
from handhold.core.requests import Replacement, Request
from handhold.core.results import Reply, Result, ToolSpec
from handhold.dialects.arguments import Specs, examples
from handhold.dialects.hints import hinted, notes_about, notes_on
from handhold.dialects.quoting import sendable


class Family(ABC):
    """A dialect: the tools of `specs.json` beside `file`, read into requests and put into words."""

    name: str
    traits: Traits

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

    def word_result(self, request: Request, result: Result, call_id: str) -> str:
        """As `said`, for a family whose messages name the id of the call."""
        return self.said(request, result)

    def object_of(self, tool: str, arguments: Mapping[str, Any] | str) -> Any:
        """Arguments as the schema has them, where the family also sends them in another form."""
        return arguments

    def framed(self, reply: Reply, frame: Frame) -> str:
        """The text of a reply as it leaves, where the family has a form for it."""
        return reply.text

    def tells_more(self, error: ToolError) -> bool:
        """Whether the engine's facts about an error are told even without hints."""
        return False

    # --- the same for all

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    @property
    def instructions(self) -> str:
        """What teaches a model to use these tools together: `instructions.md` beside `specs.json`; empty without one."""
        file = Path(self._specs.file).with_name("instructions.md")
        return file.read_text("utf-8") if file.exists() else ""

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        return self.understood(tool, arguments)[0]

    def understood(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[Request, tuple[str, ...]]:
        try:
            fitted = self._specs.fit(tool, self.object_of(tool, arguments))
            return self.request(tool, fitted.values), fitted.repaired
        except BadArguments as error:  # refused with a call that would not be
            error.example = error.example or self._example(tool, arguments, error.argument)
            raise

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        return sendable(hinted(self.word_result(request, result, call_id), notes_on(result) if hints else ()))

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        notes = notes_about(error) if hints or self.tells_more(error) else ()
        return sendable(hinted(self.refused(tool, error, hints=hints), notes))

    def _example(self, tool: str, arguments: Mapping[str, Any] | str, wrong: str) -> str:
        for call in examples(arguments, wrong, self._specs.schema(tool)):
            try:
                self.request(tool, self._specs.fit(tool, call).values)
            except ToolError:
                continue  # what is shown must be right: the next one asks for less
            return json.dumps(call, ensure_ascii=False)
        return ""


def replacement(a: Mapping[str, Any]) -> Replacement:
    return Replacement(a["old_string"], a["new_string"], every=a["replace_all"])


def unknown(tool: str) -> AssertionError:
    return AssertionError(f"{tool} is in specs.json and not in decode")
