"""The tools for Anthropic's own client: for a loop of one's own, or for the client's.

    hand = Messages(box)
    message = client.messages.create(model=…, messages=history, tools=hand.tools, …)
    history += [{"role": "assistant", "content": message.content}, {"role": "user", "content": hand.answers(message)}]

    runner = client.beta.messages.tool_runner(model=…, messages=…, tools=hand.runnable(), …)

In the dialect `anthropic` the tools are declared by the vendor's types; in any other, by their schemas. The calls of
one message are carried out in its order; in a loop of one's own also under its id: `box.undo(turn=message.id)` takes
them all back. Whether a change may be made is asked of the `approver` that the toolbox was opened with.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import Asked, Hand
from handhold.core.results import Block, Reply, ToolSpec

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool
    from anthropic.types import Message, ToolResultBlockParam, ToolUnionParam
    from anthropic.types.beta import BetaMessage

TYPES: Mapping[str, str] = {"str_replace_based_edit_tool": "text_editor_20250728", "bash": "bash_20250124"}
"""The vendor's types of the tools that the dialect `anthropic` has."""

ENDED = ("end_turn", "tool_use", "stop_sequence")  # anything else stopped in the midst of something


class Messages(Hand):
    """For `client.messages` and `client.beta.messages`."""

    @property
    def tools(self) -> "list[ToolUnionParam]":
        return [self._declared(spec) for spec in self.box.specs]

    def _declared(self, spec: ToolSpec) -> "ToolUnionParam":
        tool: dict[str, Any] = {"name": spec.name}
        if self.box.dialect.name == "anthropic" and spec.name in TYPES:
            tool["type"] = TYPES[spec.name]
        else:
            tool |= {"description": spec.description, "input_schema": dict(spec.input_schema)}
        return cast("ToolUnionParam", tool)

    # --- a loop of one's own

    def answers(self, message: "Message | BetaMessage") -> "list[ToolResultBlockParam]":
        """What came of the calls in `message`, for the next message of the user; empty if there were none."""
        return [self.answer(asked, self.carried_out(asked, message.id)) for asked in self.ours(self.calls(message))]

    async def aanswers(self, message: "Message | BetaMessage") -> "list[ToolResultBlockParam]":
        """The same from an event loop. Cancelled, a command ends, and nothing of it counts."""
        return [self.answer(asked, await self.awaited(asked, message.id)) for asked in self.ours(self.calls(message))]

    def calls(self, message: "Message | BetaMessage") -> Iterator[Asked]:
        """A message that only pauses is sent back as it is, and has none yet; of one that was refused, none is done."""
        reason = message.stop_reason
        for place, block in enumerate(message.content, 1):
            if block.type == "tool_use" and reason != "pause_turn":
                last = place == len(message.content) or reason == "refusal"
                yield Asked(block.id, block.name, block.input, cut=last and reason not in ENDED)

    def answer(self, asked: Asked, reply: Reply) -> "ToolResultBlockParam":
        answer: dict[str, Any] = {"type": "tool_result", "tool_use_id": asked.id, "content": content(reply)}
        if reply.status == "error":
            answer["is_error"] = True
        return cast("ToolResultBlockParam", answer)

    # --- the client's loop

    def runnable(self) -> "list[BetaBuiltinFunctionTool]":
        """For the `tool_runner` of `Anthropic`. It tells us no ids: a call that is sent twice is done twice."""
        from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

        declared, called = self._declared, self.box.call

        class Tool(BetaBuiltinFunctionTool):
            def __init__(self, spec: ToolSpec) -> None:
                self.spec = spec

            def to_dict(self) -> Any:
                return declared(self.spec)

            def call(self, input: object) -> Any:  # noqa: A002 - the vendor's name
                return told(called(self.spec.name, cast("Mapping[str, Any]", input)), ToolError)

        return [Tool(spec) for spec in self.box.specs]

    def arunnable(self) -> "list[BetaAsyncBuiltinFunctionTool]":
        """For the `tool_runner` of `AsyncAnthropic`."""
        from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, ToolError

        declared, order, watch = self._declared, self.order, self.watch

        class Tool(BetaAsyncBuiltinFunctionTool):
            def __init__(self, spec: ToolSpec) -> None:
                self.spec = spec

            def to_dict(self) -> Any:
                return declared(self.spec)

            async def call(self, input: object) -> Any:  # noqa: A002 - the vendor's name
                given = cast("Mapping[str, Any]", input)
                return told(await order.call(self.spec.name, given, watch=watch), ToolError)

        return [Tool(spec) for spec in self.box.specs]


def told(reply: Reply, error: Callable[[str], Exception]) -> str | list[dict[str, Any]]:
    """A failure is raised, for the client's loop to mark it as one."""
    if reply.status == "error":
        raise error(reply.text)
    return content(reply)


def content(reply: Reply) -> str | list[dict[str, Any]]:
    """The vendor refuses blocks of text without any."""
    if not reply.images:
        return reply.text
    return [_block(block) for block in reply.blocks if block.type == "image" or block.text.strip()]


def _block(block: Block) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime, "data": block.base64}}
