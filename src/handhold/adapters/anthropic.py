"""The tools for Anthropic's client, for your own agent loop or for the client's tool runner.

    runner = Messages(box)
    message = client.messages.create(model=…, messages=history, tools=runner.tools, …)
    history += [{"role": "assistant", "content": message.content}]
    history += [{"role": "user", "content": runner.run_calls(message)}]

    client.beta.messages.tool_runner(model=…, messages=…, tools=runner.make_runnable_tools(), …)

In the dialect `anthropic` the tools are declared by the vendor's types; in any other dialect, by their schemas. The
calls of one message run in order. In your own loop their turn is the id of the message, so `Target.turn(message.id)`
undoes all of them. Approvals go to the `approver` of the toolbox.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CallRunner, ModelToolCall
from handhold.core.results import Block, Reply, ToolSpec

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, BetaBuiltinFunctionTool
    from anthropic.types import Message, ToolResultBlockParam, ToolUnionParam
    from anthropic.types.beta import BetaMessage

VENDOR_TYPES: Mapping[str, str] = {"str_replace_based_edit_tool": "text_editor_20250728", "bash": "bash_20250124"}
"""The vendor's types for the tools of the dialect `anthropic`."""

COMPLETE_STOP_REASONS = ("end_turn", "tool_use", "stop_sequence")  # otherwise the last call may be incomplete


class Messages(CallRunner):
    """For `client.messages` and `client.beta.messages`."""

    @property
    def tools(self) -> "list[ToolUnionParam]":
        return [self._declare(spec) for spec in self.box.specs]

    def _declare(self, spec: ToolSpec) -> "ToolUnionParam":
        tool: dict[str, Any] = {"name": spec.name}
        if self.box.dialect.name == "anthropic" and spec.name in VENDOR_TYPES:
            tool["type"] = VENDOR_TYPES[spec.name]
        else:
            tool |= {"description": spec.description, "input_schema": dict(spec.input_schema)}
        return cast("ToolUnionParam", tool)

    # --- your own loop

    def run_calls(self, message: "Message | BetaMessage") -> "list[ToolResultBlockParam]":
        """Run the calls in `message`. Returns the results for the next user message; empty if there were no calls."""
        return [
            self.build_tool_result(asked, self.run_call(asked, message.id))
            for asked in self.select_own_calls(self.extract_calls(message))
        ]

    async def arun_calls(self, message: "Message | BetaMessage") -> "list[ToolResultBlockParam]":
        """The async version. If it is cancelled, a running command ends and its changes are discarded."""
        return [
            self.build_tool_result(asked, await self.arun_call(asked, message.id))
            for asked in self.select_own_calls(self.extract_calls(message))
        ]

    def extract_calls(self, message: "Message | BetaMessage") -> Iterator[ModelToolCall]:
        """The calls of a message. A paused message has none yet; the calls of a refused message are not run."""
        reason = message.stop_reason
        for position, block in enumerate(message.content, 1):
            if block.type == "tool_use" and reason != "pause_turn":
                last = position == len(message.content) or reason == "refusal"
                yield ModelToolCall(
                    block.id, block.name, block.input, is_cut_off=last and reason not in COMPLETE_STOP_REASONS
                )

    def build_tool_result(self, call: ModelToolCall, reply: Reply) -> "ToolResultBlockParam":
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": format_content(reply)}
        if reply.status == "error":
            block["is_error"] = True
        return cast("ToolResultBlockParam", block)

    # --- the client's tool runner

    def make_runnable_tools(self) -> "list[BetaBuiltinFunctionTool]":
        """For the `tool_runner` of `Anthropic`. It passes no call ids, so a repeated call is executed again."""
        from anthropic.lib.tools import BetaBuiltinFunctionTool, ToolError

        declare, call_tool = self._declare, self.box.call

        class RunnableTool(BetaBuiltinFunctionTool):
            def __init__(self, spec: ToolSpec) -> None:
                self.spec = spec

            def to_dict(self) -> Any:
                return declare(self.spec)

            def call(self, input: object) -> Any:  # noqa: A002 - the vendor's name
                return unwrap_reply(call_tool(self.spec.name, cast("Mapping[str, Any]", input)), ToolError)

        return [RunnableTool(spec) for spec in self.box.specs]

    def make_async_runnable_tools(self) -> "list[BetaAsyncBuiltinFunctionTool]":
        """For the `tool_runner` of `AsyncAnthropic`."""
        from anthropic.lib.tools import BetaAsyncBuiltinFunctionTool, ToolError

        declare, sequencer, watch = self._declare, self.sequencer, self.watch

        class AsyncRunnableTool(BetaAsyncBuiltinFunctionTool):
            def __init__(self, spec: ToolSpec) -> None:
                self.spec = spec

            def to_dict(self) -> Any:
                return declare(self.spec)

            async def call(self, input: object) -> Any:  # noqa: A002 - the vendor's name
                given = cast("Mapping[str, Any]", input)
                return unwrap_reply(await sequencer.call(self.spec.name, given, watch=watch), ToolError)

        return [AsyncRunnableTool(spec) for spec in self.box.specs]


def unwrap_reply(reply: Reply, error_type: Callable[[str], Exception]) -> str | list[dict[str, Any]]:
    """The content of a reply. An error is raised, so that the tool runner marks it as one."""
    if reply.status == "error":
        raise error_type(reply.text)
    return format_content(reply)


def format_content(reply: Reply) -> str | list[dict[str, Any]]:
    """The content for the API, which rejects empty text blocks."""
    if not reply.images:
        return reply.text
    return [_format_block(block) for block in reply.blocks if block.type == "image" or block.text.strip()]


def _format_block(block: Block) -> dict[str, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "source": {"type": "base64", "media_type": block.mime, "data": block.base64}}
