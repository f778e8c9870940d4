"""The tools for LangChain's agents and for graphs of LangGraph.

    box = Toolbox.open(root, approver=by_interrupt)
    agent = create_agent(model, tools(box), checkpointer=…)

With `by_interrupt` as the approver, a run stops at each change that needs approval, and its interrupt shows the change.
`Command(resume=True)` approves it; so does the text that stands there under `change`, also in another process, and in
a graph of one's own that makes several calls in one node. A command has then been run twice, the first time without
counting.

What commands print is streamed while they run: `agent.astream(…, stream_mode="custom")`. An agent that is not awaited
streams nothing of it.
"""

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CUT_OFF, InOrder, Watch, facts_of
from handhold.adapters.pausing import approves, shown
from handhold.adapters.threads import InThreads
from handhold.core.ports import RunPaused
from handhold.core.results import Block, Printed, Reply, ToolSpec

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolRuntime

    from handhold.core.ports import Question
    from handhold.toolbox import Toolbox

CUT = frozenset({"length", "max_tokens", "content_filter", "refusal", "model_context_window_exceeded", "incomplete"})
"""How vendors say that a message ended in the midst of something."""

_asked: dict[tuple[str, str], dict[int, str]] = {}
"""The changes that a task of a graph has asked about, by their places in the order of its questions."""

_only: ContextVar[bool] = ContextVar("only", default=False)  # whether the model's message has no other call


def by_interrupt(question: "Question", /) -> bool:
    """An approver: asks whoever runs the graph. What did not come from a graph is not approved."""
    from langgraph.config import get_config
    from langgraph.errors import GraphInterrupt
    from langgraph.types import interrupt

    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return False
    here, about = config.get("configurable", {}), config.get("metadata", {})
    task = str(here.get("thread_id", "")), str(here.get("checkpoint_ns", ""))
    # An agent gives every call a task of its own. A node that makes several hands each the first answer that it has,
    # also one that was meant for another: there only an answer that names its change is to be trusted.
    certain = _only.get() or about.get("langgraph_path", ("",))[0] == "__pregel_push"
    now, asked = shown(question), _asked.setdefault(task, {})
    for place in count():
        try:
            answer: object = interrupt(now)
        except GraphInterrupt as pause:
            asked[place] = now["change"]
            raise RunPaused(pause) from None
        approved = approves(answer, now, before=asked.get(place) if certain else None)
        if approved is not None:
            _asked.pop(task, None)
            return approved
    raise AssertionError("an interrupt answers or raises")


def tools(box: "Toolbox") -> "list[BaseTool]":
    """Every tool of the box, for `create_agent(tools=…)` or a `ToolNode`.

    Those of one turn are carried out one after another, as they stand in it. A failure is marked as one; what else is
    known of a call is the `artifact` of its message.
    """
    from langchain_core.tools import StructuredTool

    # The graph looks at the types of a function's arguments for what it should hand in.
    from langgraph.prebuilt.tool_node import ToolRuntime

    order, threads = InOrder(box), InThreads()
    ours = {spec.name for spec in box.specs}

    class Tool(StructuredTool):
        """Takes its arguments as they came: the dialect mends or refuses them."""

        def _to_args_and_kwargs(
            self, tool_input: str | dict[str, Any], tool_call_id: str | None
        ) -> tuple[tuple[str, ...], dict[str, Any]]:
            handed = {"call_id": tool_call_id or "", "runtime": None}
            if isinstance(tool_input, dict) and isinstance(tool_input.get("runtime"), ToolRuntime):
                handed["runtime"] = tool_input["runtime"]
                tool_input = {name: value for name, value in tool_input.items() if name != "runtime"}
            return (), {"given": tool_input, **handed}

    def made(spec: ToolSpec) -> "BaseTool":
        def call(given: Any, call_id: str, runtime: ToolRuntime[Any, Any]) -> Any:
            turn = turn_of(runtime)
            _only.set(len(turn.calls) == 1)
            with threads.alone(turn.id, call_id, turn.before(call_id, ours)):
                cut = turn.cuts(call_id)
                reply = CUT_OFF if cut else box.call(spec.name, given, call_id=call_id, turn=turn.id)
            return message(spec.name, call_id, reply)

        async def acall(given: Any, call_id: str, runtime: ToolRuntime[Any, Any]) -> Any:
            turn, watch = turn_of(runtime), writer(spec.name, runtime)
            _only.set(len(turn.calls) == 1)
            if turn.cuts(call_id):
                return message(spec.name, call_id, CUT_OFF)
            reply = await order.call(spec.name, given, call_id=call_id, turn=turn.id, watch=watch)
            return message(spec.name, call_id, reply)

        return Tool(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.input_schema),
            func=call,
            coroutine=acall,
        )

    return [made(spec) for spec in box.specs]


@dataclass(frozen=True)
class Turn:
    """The model's message, by its id, so that `box.undo(turn=message.id)` takes back all that it asked for."""

    id: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    answered: Collection[str] = ()
    cut: bool = False  # the message ended before its last call did

    def cuts(self, call_id: str) -> bool:
        """LangChain closes what a stream left open, so half of a content looks whole."""
        return self.cut and bool(self.calls) and self.calls[-1]["id"] == call_id

    def before(self, call_id: str, ours: Collection[str]) -> list[str]:
        earlier = takewhile(lambda call: call["id"] != call_id, self.calls)
        return [call["id"] for call in earlier if call["name"] in ours and call["id"] not in self.answered]


def turn_of(runtime: "ToolRuntime[Any, Any] | None") -> Turn:
    from langchain_core.messages import AIMessage, ToolMessage

    state: Any = runtime.state if runtime else None
    known = cast("dict[str, Any]", state) if isinstance(state, dict) else {}
    answered: set[str] = set()
    for each in reversed(known.get("messages", ())):
        if isinstance(each, ToolMessage):
            answered.add(each.tool_call_id)
        if isinstance(each, AIMessage):
            calls = cast("list[Mapping[str, Any]]", each.tool_calls)
            about = cast("dict[str, Any]", each.response_metadata)
            ending = {str(about.get(name)).lower() for name in ("finish_reason", "stop_reason", "status")}
            return Turn(each.id or "", calls, answered, cut=not ending.isdisjoint(CUT))
    return Turn()


def writer(tool: str, runtime: "ToolRuntime[Any, Any] | None") -> Watch | None:
    if runtime is None:
        return None

    def watch(call_id: str, printed: Printed) -> None:
        runtime.stream_writer(
            {"tool_call_id": call_id, "tool": tool, "printed": printed.text, "dropped": printed.dropped}
        )

    return watch


def message(tool: str, call_id: str, reply: Reply) -> "ToolMessage | str | list[str | dict[Any, Any]]":
    """What a graph puts into its state; a tool that is called by hand gives the content alone."""
    from langchain_core.messages import ToolMessage

    content = content_of(reply)
    if not call_id:
        return content
    status = "error" if reply.status == "error" else "success"
    return ToolMessage(content, tool_call_id=call_id, name=tool, status=status, artifact=facts_of(reply))


def content_of(reply: Reply) -> str | list[str | dict[Any, Any]]:
    return [_block(block) for block in reply.blocks] if reply.images else reply.text


def _block(block: Block) -> dict[Any, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "base64": block.base64, "mime_type": block.mime}
