"""The tools as a toolset for Pydantic AI.

    box = Toolbox.open(root, approver=approve_by_deferral)
    agent = Agent(model, toolsets=[toolset(box)], output_type=[str, DeferredToolRequests])

With `approve_by_deferral` as the approver, a run ends with DeferredToolRequests where a change needs approval, and
their metadata show the change. `agent.run(message_history=…, deferred_tool_results=results)` approves it, with
`results = requests.build_results(approve_all=True, metadata=requests.metadata)`; without the metadata only in the
process that was shown it. An approved command runs once: its changes wait for the answer. In another process, or if a
file it changed was changed meanwhile, it runs again, and a different change needs approval again.

Output of commands arrives as CommandPrinted events of the run, while they run.
"""

import base64
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CUT_OFF_REPLY, AsyncCallSequencer, build_metadata, parse_arguments
from handhold.adapters.paused_approvals import build_payload, check_answer
from handhold.core.ports.approvals import RunPaused
from handhold.core.results import Block, OutputChunk, Reply, ToolSpec

if TYPE_CHECKING:
    from pydantic_ai import AbstractToolset, BinaryContent, CustomEvent, ModelResponse, RunContext, ToolReturn
    from pydantic_ai.exceptions import ToolFailedError

    from handhold.core.ports.approvals import Question
    from handhold.toolbox import Toolbox

TEXT_KEY = "\0text"  # wraps arguments that are a text; no real argument has this name

_current_context: "ContextVar[RunContext[Any] | None]" = ContextVar("calling", default=None)
_shown_changes: dict[tuple[str, str], str] = {}
"""The change that a call has shown, by conversation and call id."""


def approve_by_deferral(question: "Question", /) -> bool:
    """An approver that ends the run to ask. Refuses calls from outside a run."""
    from pydantic_ai import ApprovalRequired

    context = _current_context.get()
    if context is None:
        return False
    call = context.conversation_id or "", context.tool_call_id or ""
    payload = build_payload(question)
    if context.tool_call_approved:
        known: Mapping[str, Any] = context.tool_call_metadata or {}
        if check_answer(known.get("change", True), payload, shown_change=_shown_changes.pop(call, None)):
            return True
    _shown_changes[call] = payload["change"]
    raise RunPaused(ApprovalRequired(metadata=payload))


def toolset(box: "Toolbox", *, id: str | None = None) -> "AbstractToolset[Any]":  # noqa: A002 - the framework's name
    """All tools of the toolbox, for `Agent(toolsets=…)`.

    Calls of one turn run in its order. A failed call is returned with the outcome `failed` and uses up no retry. The
    `metadata` of a return, failed or not, has the error code and what else is known of the call.
    """
    from pydantic_ai import AbstractToolset, RunContext, ToolDefinition
    from pydantic_ai.toolsets import ToolsetTool

    sequencer, name = AsyncCallSequencer(box), id

    def declare(spec: ToolSpec) -> ToolDefinition:
        return ToolDefinition(
            name=spec.name,
            description=spec.description,
            parameters_json_schema=dict(spec.input_schema),
            strict=False,  # strict mode would make every argument required
            sequential=not spec.annotations["readOnlyHint"],
            metadata={"annotations": dict(spec.annotations)},
        )

    class HandholdToolset(AbstractToolset[Any]):
        @property
        def id(self) -> str | None:
            return name

        async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
            return {
                spec.name: ToolsetTool(
                    toolset=self, tool_def=declare(spec), max_retries=1, args_validator=PassthroughValidator()
                )
                for spec in box.specs
            }

        async def call_tool(
            self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
        ) -> "ToolReturn[Any]":
            if is_cut_off(ctx):
                raise to_failure(name, ctx.tool_call_id or "", CUT_OFF_REPLY)
            events = OutputEvents(ctx)
            calling = _current_context.set(ctx)
            try:
                given = tool_args.get(TEXT_KEY, tool_args)
                reply = await sequencer.call(
                    name, given, call_id=ctx.tool_call_id or "", turn=get_turn_id(ctx), watch=events.emit
                )
            finally:
                _current_context.reset(calling)
                await events.flush()
            if reply.status == "error":
                raise to_failure(name, ctx.tool_call_id or "", reply)
            return to_tool_return(reply)

    return HandholdToolset()


class PassthroughValidator:
    """A validator that accepts all arguments; the dialect repairs or refuses them."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:  # noqa: A002
        text = input if isinstance(input, str) else bytes(input).decode()
        return self.validate_python(parse_arguments(text))

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:  # noqa: A002
        return cast("dict[str, Any]", input) if isinstance(input, dict) else {TEXT_KEY: input}


class OutputEvents:
    """Sends the output of a command as events of the run."""

    def __init__(self, context: "RunContext[Any]") -> None:
        self._context = context
        self._pending: list[Any] = []

    def emit(self, call_id: str, piece: OutputChunk) -> None:
        import asyncio

        event = get_command_printed_class()(printed=piece.text, dropped=piece.dropped_chars, tool_call_id=call_id)
        self._pending.append(asyncio.ensure_future(self._context.emit(event)))

    async def flush(self) -> None:
        for each in self._pending:
            await each


@cache
def get_command_printed_class() -> "Callable[..., CustomEvent]":
    """The event class, with the fields `printed`, `dropped` and the framework's `tool_call_id`."""
    from dataclasses import dataclass

    from pydantic_ai import CustomEvent

    @dataclass(kw_only=True)
    class CommandPrinted(CustomEvent):
        printed: str
        dropped: int

    return CommandPrinted


def get_model_response(context: "RunContext[Any]") -> "ModelResponse | None":
    """The model's response that contains the call."""
    from pydantic_ai import ModelResponse

    return next((each for each in reversed(context.messages) if isinstance(each, ModelResponse)), None)


def get_turn_id(context: "RunContext[Any]") -> str:
    """The id of the model's response, or of the run. `Target.turn(id)` undoes all its calls."""
    answer = get_model_response(context)
    return (answer and answer.provider_response_id) or context.run_id or ""


def is_cut_off(context: "RunContext[Any]") -> bool:
    """Whether the response ended before this call was complete."""
    answer = get_model_response(context)
    if answer is None or answer.finish_reason not in ("length", "content_filter") or not answer.parts:
        return False
    return getattr(answer.parts[-1], "tool_call_id", None) == context.tool_call_id


def to_failure(tool: str, call_id: str, reply: Reply) -> "ToolFailedError":
    """What to raise for a failed call. `ToolFailed`, which the framework turns into this, carries no metadata."""
    from pydantic_ai import ToolReturnPart
    from pydantic_ai.exceptions import ToolFailedError

    failed = ToolReturnPart(tool, reply.text, call_id, metadata=build_metadata(reply), outcome="failed")
    return ToolFailedError(failed)


def to_tool_return(reply: Reply) -> "ToolReturn[Any]":
    from pydantic_ai import ToolReturn

    content = [_format_block(block) for block in reply.blocks] if reply.images else reply.text
    return ToolReturn(return_value=content, metadata=build_metadata(reply))


def _format_block(block: Block) -> "str | BinaryContent":
    from pydantic_ai import BinaryContent

    if block.type == "text":
        return block.text
    return BinaryContent(data=base64.b64decode(block.base64), media_type=block.mime)
