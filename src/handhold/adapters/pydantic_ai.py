"""The tools as a toolset for Pydantic AI.

    box = Toolbox.open(root, approver=by_deferral)
    agent = Agent(model, toolsets=[toolset(box)], output_type=[str, DeferredToolRequests])

With `by_deferral` as the approver, a run ends with DeferredToolRequests where a change needs approval, and their
metadata show the change. `agent.run(message_history=…, deferred_tool_results=requests.build_results(approve_all=True,
metadata=requests.metadata))` approves it; without the metadata only in the process that was shown it. A command has
then been run twice, the first time without counting.

What commands print comes as CommandPrinted in the events of the run, while they run.
"""

import base64
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CUT_OFF, InOrder, arguments_of, facts_of
from handhold.adapters.pausing import approves, shown
from handhold.core.ports import RunPaused
from handhold.core.results import Block, Printed, Reply, ToolSpec

if TYPE_CHECKING:
    from pydantic_ai import AbstractToolset, BinaryContent, CustomEvent, ModelResponse, RunContext, ToolReturn

    from handhold.core.ports import Question
    from handhold.toolbox import Toolbox

TEXT = "\0text"  # the name under which a text goes that is no object: no argument has it

_calling: "ContextVar[RunContext[Any] | None]" = ContextVar("calling", default=None)
_asked: dict[tuple[str, str], str] = {}
"""The change that a call has shown and waits for, by its conversation and its id."""


def by_deferral(question: "Question", /) -> bool:
    """An approver: ends the run to ask whoever started it. What did not come from a run is not approved."""
    from pydantic_ai import ApprovalRequired

    context = _calling.get()
    if context is None:
        return False
    call = context.conversation_id or "", context.tool_call_id or ""
    now = shown(question)
    if context.tool_call_approved:
        known: Mapping[str, Any] = context.tool_call_metadata or {}
        if approves(known.get("change", True), now, before=_asked.pop(call, None)):
            return True
    _asked[call] = now["change"]
    raise RunPaused(ApprovalRequired(metadata=now))


def toolset(box: "Toolbox", *, id: str | None = None) -> "AbstractToolset[Any]":  # noqa: A002 - the framework's name
    """Every tool of the box, for `Agent(toolsets=…)`.

    Those of one turn are carried out in its order. A failure is told as one (`ToolFailed`), and none counts as a retry;
    what else is known of a call that succeeded is the `metadata` of its return.
    """
    from pydantic_ai import AbstractToolset, RunContext, ToolDefinition, ToolFailed
    from pydantic_ai.toolsets import ToolsetTool

    order, name = InOrder(box), id

    def declared(spec: ToolSpec) -> ToolDefinition:
        return ToolDefinition(
            name=spec.name,
            description=spec.description,
            parameters_json_schema=dict(spec.input_schema),
            strict=False,  # which would want every argument required
            sequential=not spec.annotations["readOnlyHint"],
            metadata={"annotations": dict(spec.annotations)},
        )

    class Tools(AbstractToolset[Any]):
        @property
        def id(self) -> str | None:
            return name

        async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
            return {
                spec.name: ToolsetTool(
                    toolset=self, tool_def=declared(spec), max_retries=1, args_validator=AsTheyCame()
                )
                for spec in box.specs
            }

        async def call_tool(
            self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
        ) -> "ToolReturn[Any]":
            if is_cut(ctx):
                raise ToolFailed(CUT_OFF.text)
            events = Events(ctx)
            calling = _calling.set(ctx)
            try:
                given = tool_args.get(TEXT, tool_args)
                reply = await order.call(
                    name, given, call_id=ctx.tool_call_id or "", turn=turn_of(ctx), watch=events.printed
                )
            finally:
                _calling.reset(calling)
                await events.sent()
            if reply.status == "error":
                raise ToolFailed(reply.text)
            return return_of(reply)

    return Tools()


class AsTheyCame:
    """A validator that leaves arguments to the dialect, which mends or refuses them."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002
        text = input if isinstance(input, str) else bytes(input).decode()
        return self.validate_python(arguments_of(text))

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:  # noqa: A002
        return cast("dict[str, Any]", input) if isinstance(input, dict) else {TEXT: input}


class Events:
    """What a command prints, on its way into the events of a run, which are sent by awaiting."""

    def __init__(self, context: "RunContext[Any]") -> None:
        self._context = context
        self._sending: list[Any] = []

    def printed(self, call_id: str, piece: Printed) -> None:
        import asyncio

        event = command_printed()(printed=piece.text, dropped=piece.dropped, tool_call_id=call_id)
        self._sending.append(asyncio.ensure_future(self._context.emit(event)))

    async def sent(self) -> None:
        for each in self._sending:
            await each


@cache
def command_printed() -> "Callable[..., CustomEvent]":
    """The class of the events, whose fields are `printed`, `dropped` and the framework's `tool_call_id`."""
    from dataclasses import dataclass

    from pydantic_ai import CustomEvent

    @dataclass(kw_only=True)
    class CommandPrinted(CustomEvent):
        printed: str
        dropped: int

    return CommandPrinted


def answer_of(context: "RunContext[Any]") -> "ModelResponse | None":
    """The model's answer that a call stands in."""
    from pydantic_ai import ModelResponse

    return next((each for each in reversed(context.messages) if isinstance(each, ModelResponse)), None)


def turn_of(context: "RunContext[Any]") -> str:
    """The id of the model's answer, if it has one, so that `box.undo(turn=…)` takes back all that it asked for."""
    answer = answer_of(context)
    return (answer and answer.provider_response_id) or context.run_id or ""


def is_cut(context: "RunContext[Any]") -> bool:
    """Whether the answer ended before this call did."""
    answer = answer_of(context)
    if answer is None or answer.finish_reason not in ("length", "content_filter") or not answer.parts:
        return False
    return getattr(answer.parts[-1], "tool_call_id", None) == context.tool_call_id


def return_of(reply: Reply) -> "ToolReturn[Any]":
    from pydantic_ai import ToolReturn

    content = [_part(block) for block in reply.blocks] if reply.images else reply.text
    return ToolReturn(return_value=content, metadata=facts_of(reply))


def _part(block: Block) -> "str | BinaryContent":
    from pydantic_ai import BinaryContent

    if block.type == "text":
        return block.text
    return BinaryContent(data=base64.b64decode(block.base64), media_type=block.mime)
