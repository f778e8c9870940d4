"""What a framework hands us of a call, and how several calls of one turn are carried out.

Frameworks start all calls of a turn at once. A model that edits a file twice and then runs the tests means: in this
order. So calls wait for each other, and the second edit does not find a file that has changed under it.
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
"""Gets the id of a call and what its command printed just now, in the event loop, while it runs."""

CUT_OFF_REPLY = Reply(
    "error",
    "This call was cut off before its end, so nothing of it was done. Send it again, in smaller parts if it is long.",
    code="CUT_OFF",
    error_source="model",
)
"""What a model's answer ended in the midst of. Half of a content must not be taken for the whole."""


def parse_arguments(text: str) -> Mapping[str, Any] | str:
    """Arguments that come as JSON; what is none stays as it is, for the dialect to mend or to refuse."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else text


def to_data_url(image: Block) -> str:
    return f"data:{image.mime};base64,{image.base64}"


def build_metadata(reply: Reply) -> dict[str, Any]:
    """What the application is told of a call where a framework has a place for it, and the model not."""
    return {"status": reply.status, "code": reply.code, "data": dict(reply.data), "ui_extra": reply.ui_extra}


@dataclass(frozen=True)
class ModelToolCall:
    """A call as a model's answer has it; `is_cut_off` if the answer ended before the call did."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | str
    is_cut_off: bool = False
    vendor_type: str = ""  # what the vendor calls it


class AsyncCallSequencer:
    """The calls that come from one event loop, one after another, as they came."""

    def __init__(self, box: "Toolbox") -> None:
        self._box = box
        self._locks: WeakKeyDictionary[AbstractEventLoop, Lock] = WeakKeyDictionary()  # a lock belongs to its loop

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
    """What a loop of one's own needs: the calls of an answer carried out, from an event loop or without one.

    `other_tools` are the names of tools that somebody else answers for: every other name that comes gets an answer
    from us, one that no tool has as well, since vendors refuse a call without one. `watch` sees what commands print
    while they run, where calls are awaited.
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
