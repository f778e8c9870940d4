"""The tools for the OpenAI Agents SDK.

    box = Toolbox.open(root, approver=approve_by_run)
    agent = Agent(name="coder", tools=tools(box))

There are two kinds of approval. With `approve_by_run` as the approver, a run stops before each call that can change
something (`result.interruptions`, `state.approve`), as for any tool of the SDK. This approves the call before its
change is known. With any other approver the run does not stop: the approver is asked during the call and sees the
change.
"""

from collections.abc import Collection
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from handhold.adapters.calls import AsyncCallSequencer, OutputWatcher, build_metadata, parse_arguments, to_data_url
from handhold.core.results import Block, Reply, ToolSpec

if TYPE_CHECKING:
    from agents import CustomTool, FunctionTool, Tool
    from agents.tool import ToolOutputImage, ToolOutputText
    from agents.tool_context import ToolContext

    from handhold.core.ports.approvals import Question
    from handhold.toolbox import Toolbox

_granted: ContextVar[bool] = ContextVar("granted", default=False)


def approve_by_run(question: "Question", /) -> bool:  # noqa: ARG001 - the run was approved before the change was known
    """An approver that allows what the run approved, and refuses calls from outside a run."""
    return _granted.get()


def tools(box: "Toolbox", *, freeform: Collection[str] = (), watch: OutputWatcher | None = None) -> "list[Tool]":
    """All tools of the toolbox, for `Agent(tools=…)`. The calls of one turn run in the order in which they are started.

    `freeform` names tools that take one text instead of an object, such as `apply_patch` of the dialect codex. `watch`
    gets the output of commands while they run, because the run's events cannot carry it.
    """
    sequencer = AsyncCallSequencer(box)
    return [_make_tool(box, sequencer, spec, watch, freeform=spec.name in freeform) for spec in box.specs]


def _make_tool(
    box: "Toolbox", sequencer: AsyncCallSequencer, spec: ToolSpec, watch: OutputWatcher | None, *, freeform: bool
) -> "CustomTool | FunctionTool":
    from agents import CustomTool, FunctionTool

    metadata: dict[str, dict[str, Any]] = {}  # until the SDK creates the item of a call
    needs_approval = box.approver is approve_by_run and not spec.annotations["readOnlyHint"]

    async def invoke(context: "ToolContext[Any]", given: str) -> Any:
        arguments = given if freeform else parse_arguments(given)
        call_id = context.tool_call_id
        granted = _granted.set(needs_approval)
        try:
            reply = await sequencer.call(spec.name, arguments, call_id=call_id, watch=watch)
        finally:
            _granted.reset(granted)
        metadata[call_id] = build_metadata(reply)
        return format_output(reply)

    def pop_metadata(context: Any) -> dict[str, Any] | None:
        return metadata.pop(context.tool_context.tool_call_id, None)

    if freeform:
        return CustomTool(
            spec.name, spec.description, invoke, needs_approval=needs_approval, custom_data_extractor=pop_metadata
        )
    return FunctionTool(
        name=spec.name,
        description=spec.description,
        params_json_schema=dict(spec.input_schema),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # strict mode would make every argument required
        needs_approval=needs_approval,
        custom_data_extractor=pop_metadata,
    )


def format_output(reply: Reply) -> "str | list[ToolOutputText | ToolOutputImage]":
    """The SDK has no error flag; the text says that a call failed."""
    return [_format_block(block) for block in reply.blocks] if reply.images else reply.text


def _format_block(block: Block) -> "ToolOutputText | ToolOutputImage":
    from agents.tool import ToolOutputImage, ToolOutputText

    if block.type == "text":
        return ToolOutputText(text=block.text)
    return ToolOutputImage(image_url=to_data_url(block))
