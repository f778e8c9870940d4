"""The tools for OpenAI's client, with the Responses API or Chat Completions.

    runner = Responses(box)
    response = client.responses.create(model=…, input=history, tools=runner.tools)
    history += [*response.output, *runner.run_calls(response)]

The calls of one response run in order. Their turn is the response's id, so `Target.turn(response.id)` undoes all of
them. Approvals go to the `approver` of the toolbox.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CallRunner, ModelToolCall, OutputWatcher, parse_arguments, to_data_url
from handhold.core.results import Block, Reply, ToolSpec

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolUnionParam
    from openai.types.responses import Response, ResponseInputItemParam, ToolParam

    from handhold.toolbox import Toolbox


class _OpenAICallRunner(CallRunner):
    """`freeform` names tools that take one text instead of an object, such as `apply_patch` of the dialect codex."""

    def __init__(
        self,
        box: "Toolbox",
        *,
        freeform: Collection[str] = (),
        other_tools: Collection[str] = (),
        watch: OutputWatcher | None = None,
    ) -> None:
        super().__init__(box, other_tools=other_tools, watch=watch)
        self.freeform = freeform


class Responses(_OpenAICallRunner):
    """For `client.responses`."""

    @property
    def tools(self) -> "list[ToolParam]":
        return [self._declare(spec) for spec in self.box.specs]

    def _declare(self, spec: ToolSpec) -> "ToolParam":
        if spec.name in self.freeform:
            return {"type": "custom", "name": spec.name, "description": spec.description}
        return {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": dict(spec.input_schema),
            "strict": False,  # strict mode would make every argument required
        }

    def run_calls(self, response: "Response") -> "list[ResponseInputItemParam]":
        """Run the calls in `response`. Returns the items to send after them; empty if there were no calls."""
        return [
            self.build_output_item(asked, self.run_call(asked, response.id))
            for asked in self.select_own_calls(self.extract_calls(response))
        ]

    async def arun_calls(self, response: "Response") -> "list[ResponseInputItemParam]":
        """The async version. If it is cancelled, a running command ends and its changes are discarded."""
        return [
            self.build_output_item(asked, await self.arun_call(asked, response.id))
            for asked in self.select_own_calls(self.extract_calls(response))
        ]

    def extract_calls(self, response: "Response") -> Iterator[ModelToolCall]:
        for position, item in enumerate(response.output, 1):
            is_cut_off = response.status == "incomplete" and position == len(response.output)
            if item.type == "function_call":
                yield ModelToolCall(item.call_id, item.name, parse_arguments(item.arguments), is_cut_off, item.type)
            elif item.type == "custom_tool_call":
                yield ModelToolCall(item.call_id, item.name, item.input, is_cut_off, item.type)

    def build_output_item(self, call: ModelToolCall, reply: Reply) -> "ResponseInputItemParam":
        """The API has no error flag; the text says that a call failed."""
        output = [self._format_block(block) for block in reply.blocks] if reply.images else reply.text
        item = {"type": f"{call.vendor_type}_output", "call_id": call.id, "output": output}
        return cast("ResponseInputItemParam", item)

    def _format_block(self, block: Block) -> dict[str, str]:
        if block.type == "text":
            return {"type": "input_text", "text": block.text}
        return {"type": "input_image", "detail": "auto", "image_url": to_data_url(block)}


class Chat(_OpenAICallRunner):
    """For `client.chat.completions` and compatible servers."""

    @property
    def tools(self) -> "list[ChatCompletionToolUnionParam]":
        return [self._declare(spec) for spec in self.box.specs]

    def _declare(self, spec: ToolSpec) -> "ChatCompletionToolUnionParam":
        if spec.name in self.freeform:
            return {"type": "custom", "custom": {"name": spec.name, "description": spec.description}}
        return {
            "type": "function",
            "function": {
                "name": spec.name,
                "description": spec.description,
                "parameters": dict(spec.input_schema),
            },
        }

    def run_calls(self, completion: "ChatCompletion") -> "list[ChatCompletionMessageParam]":
        """Run the calls in `completion`. Returns the messages to send after it; empty if there were no calls."""
        return self._build_messages(
            [
                (asked, self.run_call(asked, completion.id))
                for asked in self.select_own_calls(self.extract_calls(completion))
            ]
        )

    async def arun_calls(self, completion: "ChatCompletion") -> "list[ChatCompletionMessageParam]":
        """The async version. If it is cancelled, a running command ends and its changes are discarded."""
        return self._build_messages(
            [
                (asked, await self.arun_call(asked, completion.id))
                for asked in self.select_own_calls(self.extract_calls(completion))
            ]
        )

    def extract_calls(self, completion: "ChatCompletion") -> Iterator[ModelToolCall]:
        choice = completion.choices[0]
        calls = choice.message.tool_calls or []
        for position, call in enumerate(calls, 1):
            is_cut_off = choice.finish_reason in ("length", "content_filter") and position == len(calls)
            if call.type == "custom":
                yield ModelToolCall(call.id, call.custom.name, call.custom.input, is_cut_off)
            else:
                yield ModelToolCall(call.id, call.function.name, parse_arguments(call.function.arguments), is_cut_off)

    def _build_messages(self, results: list[tuple[ModelToolCall, Reply]]) -> "list[ChatCompletionMessageParam]":
        """Tool messages can only contain text, so images follow in a user message."""
        messages: list[ChatCompletionMessageParam] = [
            {"role": "tool", "tool_call_id": asked.id, "content": reply.text} for asked, reply in results
        ]
        if image_parts := [
            part for asked, reply in results if reply.images for part in self._build_image_parts(asked, reply)
        ]:
            messages.append(cast("ChatCompletionMessageParam", {"role": "user", "content": image_parts}))
        return messages

    def _build_image_parts(self, call: ModelToolCall, reply: Reply) -> list[dict[str, Any]]:
        label = {"type": "text", "text": f"The result of {call.tool} ({call.id}):"}
        return [label, *({"type": "image_url", "image_url": {"url": to_data_url(image)}} for image in reply.images)]
