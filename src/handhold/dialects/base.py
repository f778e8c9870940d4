"""What all dialects share; what differs is in a few short methods."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from handhold.core.errors import BadArguments, ToolError
from handhold.core.ports.dialect import DialectOptions, ReplyFrame
from handhold.core.problems import Problems
from handhold.core.requests import Replacement, Request
from handhold.core.results import Reply, Result, ToolSpec
from handhold.dialects.argument_examples import build_examples
from handhold.dialects.arguments import Specs
from handhold.dialects.formatting import replace_surrogates
from handhold.dialects.hints import OFFSET_CONTINUATION, append_notes, format_error_notes, format_result_notes
from handhold.dialects.problems import format_problems


class BaseDialect(ABC):
    """A dialect: decodes calls of the tools in `specs.json`, next to `file`, into requests and words their results."""

    name: str
    options: DialectOptions
    continuation: str = OFFSET_CONTINUATION  # how to read the lines after a page
    number_separator: str = "→"  # between the number of a line and its text

    def __init__(self, file: str) -> None:
        self._specs = Specs(file)

    # --- what each dialect defines

    @abstractmethod
    def build_request(self, tool: str, a: Mapping[str, Any]) -> Request:
        """The request of a call whose arguments fit the schema."""

    @abstractmethod
    def format_result(self, request: Request, result: Result) -> str: ...

    @abstractmethod
    def format_error(self, tool: str, error: ToolError, *, hints: bool) -> str: ...

    def format_result_for_call(self, request: Request, result: Result, call_id: str) -> str:
        """Like `format_result`, for a family whose messages name the id of the call."""
        return self.format_result(request, result)

    def normalize_arguments(self, tool: str, arguments: Mapping[str, Any] | str) -> Any:
        """Arguments in the form of the schema, where the family also sends another form."""
        return arguments

    def frame(self, reply: Reply, frame: ReplyFrame) -> str:
        """The final text of a reply, where the family wraps it in a form."""
        return reply.text

    def needs_hints(self, error: ToolError) -> bool:
        """Whether the notes on an error are added even without hints."""
        return False

    def format_problems(self, problems: Problems) -> Iterable[str]:
        """What a change broke, below the text of its reply."""
        return format_problems(problems)

    # --- what all dialects share

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs.tools

    @property
    def instructions(self) -> str:
        """How to use these tools together, for a system prompt: `instructions.md` next to `specs.json`; empty without one."""
        file = Path(self._specs.file).with_name("instructions.md")
        return file.read_text("utf-8") if file.exists() else ""

    def decode(self, tool: str, arguments: Mapping[str, Any] | str) -> Request:
        return self.decode_and_repair(tool, arguments)[0]

    def decode_and_repair(self, tool: str, arguments: Mapping[str, Any] | str) -> tuple[Request, tuple[str, ...]]:
        try:
            fitted = self._specs.fit(tool, self.normalize_arguments(tool, arguments))
            return self.build_request(tool, fitted.values), fitted.repairs
        except BadArguments as error:  # refused with an example of a valid call
            error.example = error.example or self._build_example(tool, arguments, error.argument)
            raise

    def encode(self, tool: str, request: Request, result: Result, *, hints: bool, call_id: str = "") -> str:
        return replace_surrogates(
            append_notes(
                self.format_result_for_call(request, result, call_id),
                format_result_notes(result, self.continuation) if hints else (),
            )
        )

    def refuse(self, tool: str, error: ToolError, *, hints: bool) -> str:
        notes = format_error_notes(error, self.number_separator) if hints or self.needs_hints(error) else ()
        return replace_surrogates(append_notes(self.format_error(tool, error, hints=hints), notes))

    def _build_example(self, tool: str, arguments: Mapping[str, Any] | str, bad_argument: str) -> str:
        for call in build_examples(arguments, bad_argument, self._specs.get_schema(tool)):
            try:
                self.build_request(tool, self._specs.fit(tool, call).values)
            except ToolError:
                continue  # an example must be valid: the next one has fewer arguments
            return json.dumps(call, ensure_ascii=False)
        return ""


def build_replacement(a: Mapping[str, Any]) -> Replacement:
    return Replacement(a["old_string"], a["new_string"], every=a["replace_all"])


def unhandled_tool_error(tool: str) -> AssertionError:
    return AssertionError(f"{tool} is in specs.json and not in decode")
