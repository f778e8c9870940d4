"""The tools for OpenAI's own client, by the Responses API or by Chat Completions.

    hand = Responses(box)
    response = client.responses.create(model=…, input=history, tools=hand.tools)
    history += [*response.output, *hand.answers(response)]

The calls of one answer are carried out in its order, under its id: `box.undo(turn=response.id)` takes them all back.
Whether a change may be made is asked of the `approver` that the toolbox was opened with.
"""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import Asked, Hand, Watch, arguments_of, data_url
from handhold.core.results import Block, Reply, ToolSpec

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam, ChatCompletionToolUnionParam
    from openai.types.responses import Response, ResponseInputItemParam, ToolParam

    from handhold.toolbox import Toolbox


class _Hand(Hand):
    """`freeform` names tools that get one text instead of an object: `apply_patch` of the dialect codex."""

    def __init__(
        self,
        box: "Toolbox",
        *,
        freeform: Collection[str] = (),
        others: Collection[str] = (),
        watch: Watch | None = None,
    ) -> None:
        super().__init__(box, others=others, watch=watch)
        self.freeform = freeform


class Responses(_Hand):
    """For `client.responses`."""

    @property
    def tools(self) -> "list[ToolParam]":
        return [self._declared(spec) for spec in self.box.specs]

    def _declared(self, spec: ToolSpec) -> "ToolParam":
        if spec.name in self.freeform:
            return {"type": "custom", "name": spec.name, "description": spec.description}
        return {
            "type": "function",
            "name": spec.name,
            "description": spec.description,
            "parameters": dict(spec.input_schema),
            "strict": False,  # which would want every argument required
        }

    def answers(self, response: "Response") -> "list[ResponseInputItemParam]":
        """What came of the calls in `response`, to be sent behind them; empty if there were none."""
        return [self.answer(asked, self.carried_out(asked, response.id)) for asked in self.ours(self.calls(response))]

    async def aanswers(self, response: "Response") -> "list[ResponseInputItemParam]":
        """The same from an event loop. Cancelled, a command ends, and nothing of it counts."""
        return [self.answer(asked, await self.awaited(asked, response.id)) for asked in self.ours(self.calls(response))]

    def calls(self, response: "Response") -> Iterator[Asked]:
        for place, item in enumerate(response.output, 1):
            cut = response.status == "incomplete" and place == len(response.output)
            if item.type == "function_call":
                yield Asked(item.call_id, item.name, arguments_of(item.arguments), cut, item.type)
            elif item.type == "custom_tool_call":
                yield Asked(item.call_id, item.name, item.input, cut, item.type)

    def answer(self, asked: Asked, reply: Reply) -> "ResponseInputItemParam":
        """There is no mark for a failure: the words tell it."""
        output = [self._content(block) for block in reply.blocks] if reply.images else reply.text
        item = {"type": f"{asked.kind}_output", "call_id": asked.id, "output": output}
        return cast("ResponseInputItemParam", item)

    def _content(self, block: Block) -> dict[str, str]:
        if block.type == "text":
            return {"type": "input_text", "text": block.text}
        return {"type": "input_image", "detail": "auto", "image_url": data_url(block)}


class Chat(_Hand):
    """For `client.chat.completions`, and for the many servers that speak it."""

    @property
    def tools(self) -> "list[ChatCompletionToolUnionParam]":
        return [self._declared(spec) for spec in self.box.specs]

    def _declared(self, spec: ToolSpec) -> "ChatCompletionToolUnionParam":
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

    def answers(self, completion: "ChatCompletion") -> "list[ChatCompletionMessageParam]":
        """What came of the calls in `completion`, to be sent behind its message; empty if there were none."""
        return self._messages(
            [(asked, self.carried_out(asked, completion.id)) for asked in self.ours(self.calls(completion))]
        )

    async def aanswers(self, completion: "ChatCompletion") -> "list[ChatCompletionMessageParam]":
        """The same from an event loop. Cancelled, a command ends, and nothing of it counts."""
        return self._messages(
            [(asked, await self.awaited(asked, completion.id)) for asked in self.ours(self.calls(completion))]
        )

    def calls(self, completion: "ChatCompletion") -> Iterator[Asked]:
        choice = completion.choices[0]
        calls = choice.message.tool_calls or []
        for place, call in enumerate(calls, 1):
            cut = choice.finish_reason in ("length", "content_filter") and place == len(calls)
            if call.type == "custom":
                yield Asked(call.id, call.custom.name, call.custom.input, cut)
            else:
                yield Asked(call.id, call.function.name, arguments_of(call.function.arguments), cut)

    def _messages(self, done: list[tuple[Asked, Reply]]) -> "list[ChatCompletionMessageParam]":
        """A tool's message holds text alone, so images follow behind the last of them, in a message of the user."""
        messages: list[ChatCompletionMessageParam] = [
            {"role": "tool", "tool_call_id": asked.id, "content": reply.text} for asked, reply in done
        ]
        if shown := [part for asked, reply in done if reply.images for part in self._shown(asked, reply)]:
            messages.append(cast("ChatCompletionMessageParam", {"role": "user", "content": shown}))
        return messages

    def _shown(self, asked: Asked, reply: Reply) -> list[dict[str, Any]]:
        whose = {"type": "text", "text": f"The result of {asked.tool} ({asked.id}):"}
        return [whose, *({"type": "image_url", "image_url": {"url": data_url(image)}} for image in reply.images)]
