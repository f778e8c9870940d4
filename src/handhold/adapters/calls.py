"""Tool calls as frameworks pass them, and the order of the calls in a turn.

Frameworks start all calls of a turn at once. A model that edits a file twice and then runs the tests expects this
order, so the calls run one after another.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from handhold.core.results import Block, OutputChunk, Reply

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Lock

    from handhold.toolbox import Toolbox

OutputWatcher = Callable[[str, OutputChunk], object]
"""Called in the event loop with the call id and new output, while a command runs."""

CUT_OFF_REPLY = Reply(
    "error",
    "This call was cut off, so it was not executed. Send it again, in smaller parts if it is long.",
    code="CUT_OFF",
    error_source="model",
)
"""The reply to a call that the model's output limit cut off. Half of a file must not be written as the whole."""


def parse_arguments(text: str) -> Mapping[str, Any] | str:
    """Parse JSON arguments. Anything but a JSON object is returned unchanged, for the dialect to repair or refuse."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else text


def to_data_url(image: Block) -> str:
    return f"data:{image.mime};base64,{image.base64}"


def build_metadata(reply: Reply) -> dict[str, Any]:
    """Facts about a call for the application, for frameworks that can keep them out of the model's context."""
    return {"status": reply.status, "code": reply.code, "data": dict(reply.data), "ui_extra": reply.ui_extra}


@dataclass(frozen=True)
class ModelToolCall:
    """A call in a model's response. `is_cut_off`: the response ended before the call was complete."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | str
    is_cut_off: bool = False
    vendor_type: str = ""  # the vendor's type of the item


class AsyncCallSequencer:
    """Runs the calls of one event loop one after another, in the order in which they arrive."""

    def __init__(self, box: "Toolbox") -> None:
        self._box = box
        self._locks: WeakKeyDictionary[AbstractEventLoop, Lock] = (
            WeakKeyDictionary()
        )  # a lock belongs to one event loop

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str = "",
        turn: str = "",
        watch: OutputWatcher | None = None,
    ) -> Reply:
        import asyncio

        async with self._locks.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if watch is None:
                return await self._box.acall(tool, arguments, call_id=call_id, turn=turn)
            async with self._box.stream(tool, arguments, call_id=call_id, turn=turn) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        return piece
                    watch(call_id, piece)
            raise AssertionError("a stream ends with its reply")


class CallRunner:
    """Runs the calls of a model's response, for your own agent loop, sync or async.

    `other_tools` are the names of tools that the application handles itself. Every other call gets a result, also one
    of an unknown tool, because vendors reject a call without a result. `watch` gets the output of commands while they
    run, in async calls only.
    """

    def __init__(
        self, box: "Toolbox", *, other_tools: Collection[str] = (), watch: OutputWatcher | None = None
    ) -> None:
        self.box = box
        self.other_tools = other_tools
        self.watch = watch
        self.sequencer = AsyncCallSequencer(box)

    def select_own_calls(self, calls: Iterable[ModelToolCall]) -> Iterator[ModelToolCall]:
        return (asked for asked in calls if asked.tool not in self.other_tools)

    def run_call(self, call: ModelToolCall, turn: str) -> Reply:
        return (
            CUT_OFF_REPLY if call.is_cut_off else self.box.call(call.tool, call.arguments, call_id=call.id, turn=turn)
        )

    async def arun_call(self, call: ModelToolCall, turn: str) -> Reply:
        if call.is_cut_off:
            return CUT_OFF_REPLY
        return await self.sequencer.call(call.tool, call.arguments, call_id=call.id, turn=turn, watch=self.watch)
