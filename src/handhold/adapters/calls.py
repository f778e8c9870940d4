"""What a framework hands us of a call, and how several calls of one turn are carried out.

Frameworks start all calls of a turn at once. A model that edits a file twice and then runs the tests means: in this
order. So calls wait for each other, and the second edit does not find a file that has changed under it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from handhold.core.results import Block, Printed, Reply

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Lock

    from handhold.toolbox import Toolbox

Watch = Callable[[str, Printed], object]
"""Gets the id of a call and what its command printed just now, in the event loop, while it runs."""

CUT_OFF = Reply(
    "error",
    "This call was cut off before its end, so nothing of it was done. Send it again, in smaller parts if it is long.",
    code="CUT_OFF",
    blame="model",
)
"""What a model's answer ended in the midst of. Half of a content must not be taken for the whole."""


def arguments_of(text: str) -> Mapping[str, Any] | str:
    """Arguments that come as JSON; what is none stays as it is, for the dialect to mend or to refuse."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else text


def data_url(image: Block) -> str:
    return f"data:{image.mime};base64,{image.base64}"


def facts_of(reply: Reply) -> dict[str, Any]:
    """What the application is told of a call where a framework has a place for it, and the model not."""
    return {"status": reply.status, "code": reply.code, "data": dict(reply.data), "ui_extra": reply.ui_extra}


@dataclass(frozen=True)
class Asked:
    """A call as a model's answer has it; `cut` if the answer ended before the call did."""

    id: str
    tool: str
    arguments: Mapping[str, Any] | str
    cut: bool = False
    kind: str = ""  # what the vendor calls it


class InOrder:
    """The calls that come from one event loop, one after another, as they came."""

    def __init__(self, box: "Toolbox") -> None:
        self._box = box
        self._turns: WeakKeyDictionary[AbstractEventLoop, Lock] = WeakKeyDictionary()  # a lock belongs to its loop

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str = "",
        turn: str = "",
        watch: Watch | None = None,
    ) -> Reply:
        import asyncio

        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            if watch is None:
                return await self._box.acall(tool, arguments, call_id=call_id, turn=turn)
            async with aclosing(self._box.stream(tool, arguments, call_id=call_id, turn=turn)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Reply):
                        return piece
                    watch(call_id, piece)
            raise AssertionError("a stream ends with its reply")


class Hand:
    """What a loop of one's own needs: the calls of an answer carried out, from an event loop or without one.

    `others` are the names of tools that somebody else answers for: every other name that comes gets an answer from us,
    one that no tool has as well, since vendors refuse a call without one. `watch` sees what commands print while they
    run, where calls are awaited.
    """

    def __init__(self, box: "Toolbox", *, others: Collection[str] = (), watch: Watch | None = None) -> None:
        self.box = box
        self.others = others
        self.watch = watch
        self.order = InOrder(box)

    def ours(self, calls: Iterable[Asked]) -> Iterator[Asked]:
        return (asked for asked in calls if asked.tool not in self.others)

    def carried_out(self, asked: Asked, turn: str) -> Reply:
        return CUT_OFF if asked.cut else self.box.call(asked.tool, asked.arguments, call_id=asked.id, turn=turn)

    async def awaited(self, asked: Asked, turn: str) -> Reply:
        if asked.cut:
            return CUT_OFF
        return await self.order.call(asked.tool, asked.arguments, call_id=asked.id, turn=turn, watch=self.watch)
