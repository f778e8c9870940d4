"""The tools for LangChain agents and LangGraph graphs.

    box = Toolbox.open(root, approver=approve_by_interrupt)
    agent = create_agent(model, tools(box), checkpointer=…)

With `approve_by_interrupt` as the approver, a run stops at each change that needs approval, and its interrupt shows the
change. `Command(resume=True)` approves it. So does the value of its `change`, which also works in another process and
in a graph of your own that makes several calls in one node. An approved command runs once: its changes wait for the
answer. In another process, or if a file it changed was changed meanwhile, it runs again, and a different change needs
approval again.

Output of commands is streamed while they run: `agent.astream(…, stream_mode="custom")`. A sync agent streams no output.
"""

from collections.abc import Collection, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any, cast

from handhold.adapters.calls import CUT_OFF_REPLY, AsyncCallSequencer, OutputWatcher, build_metadata
from handhold.adapters.paused_approvals import build_payload, check_answer
from handhold.adapters.thread_sequencer import ThreadCallSequencer
from handhold.core.ports.approvals import RunPaused
from handhold.core.results import Block, OutputChunk, Reply, ToolSpec

if TYPE_CHECKING:
    from langchain_core.messages import ToolMessage
    from langchain_core.tools import BaseTool
    from langgraph.prebuilt.tool_node import ToolRuntime

    from handhold.core.ports.approvals import Question
    from handhold.toolbox import Toolbox

CUT_OFF_REASONS = frozenset(
    {"length", "max_tokens", "content_filter", "refusal", "model_context_window_exceeded", "incomplete"}
)
"""Vendors' reasons for a message that ended before it was complete."""

_shown_changes: dict[tuple[str, str], dict[int, str]] = {}
"""The changes that a task of a graph has asked about, by the position of the question."""

_is_only_call: ContextVar[bool] = ContextVar("only", default=False)  # whether the model's message has no other call


def approve_by_interrupt(question: "Question", /) -> bool:
    """An approver that interrupts the graph to ask. Refuses calls from outside a graph."""
    from langgraph.config import get_config
    from langgraph.errors import GraphInterrupt
    from langgraph.types import interrupt

    try:
        config: Mapping[str, Any] = get_config()
    except RuntimeError:
        return False
    here, about = config.get("configurable", {}), config.get("metadata", {})
    task = str(here.get("thread_id", "")), str(here.get("checkpoint_ns", ""))
    # An agent runs every call in its own task. A node with several calls gives each call the first answer, even if it
    # was meant for another call. There only an answer that names its change can be trusted.
    certain = _is_only_call.get() or about.get("langgraph_path", ("",))[0] == "__pregel_push"
    payload, changes = build_payload(question), _shown_changes.setdefault(task, {})
    for position in count():
        try:
            answer: object = interrupt(payload)
        except GraphInterrupt as pause:
            changes[position] = payload["change"]
            raise RunPaused(pause) from None
        approved = check_answer(answer, payload, shown_change=changes.get(position) if certain else None)
        if approved is not None:
            _shown_changes.pop(task, None)
            return approved
    raise AssertionError("an interrupt answers or raises")


def tools(box: "Toolbox") -> "list[BaseTool]":
    """All tools of the toolbox, for `create_agent(tools=…)` or a `ToolNode`.

    The calls of one turn run in order. Errors have the status `error`. The `artifact` of a message has further facts
    about the call.
    """
    from langchain_core.tools import StructuredTool

    # Imported at run time, because the graph inspects the argument types to decide what to inject.
    from langgraph.prebuilt.tool_node import ToolRuntime

    sequencer, thread_sequencer = AsyncCallSequencer(box), ThreadCallSequencer()
    own_tools = {spec.name for spec in box.specs}

    class PassthroughTool(StructuredTool):
        """Passes its arguments on unchanged; the dialect repairs or refuses them."""

        def _to_args_and_kwargs(
            self, tool_input: str | dict[str, Any], tool_call_id: str | None
        ) -> tuple[tuple[str, ...], dict[str, Any]]:
            handed = {"call_id": tool_call_id or "", "runtime": None}
            if isinstance(tool_input, dict) and isinstance(tool_input.get("runtime"), ToolRuntime):
                handed["runtime"] = tool_input["runtime"]
                tool_input = {name: value for name, value in tool_input.items() if name != "runtime"}
            return (), {"given": tool_input, **handed}

    def make_tool(spec: ToolSpec) -> "BaseTool":
        def call(given: Any, call_id: str, runtime: ToolRuntime[Any, Any]) -> Any:
            turn = get_turn(runtime)
            _is_only_call.set(len(turn.calls) == 1)
            with thread_sequencer.exclusive(turn.id, call_id, turn.get_earlier_calls(call_id, own_tools)):
                cut = turn.is_call_cut_off(call_id)
                reply = CUT_OFF_REPLY if cut else box.call(spec.name, given, call_id=call_id, turn=turn.id)
            return to_tool_message(spec.name, call_id, reply)

        async def acall(given: Any, call_id: str, runtime: ToolRuntime[Any, Any]) -> Any:
            turn, watch = get_turn(runtime), make_output_watcher(spec.name, runtime)
            _is_only_call.set(len(turn.calls) == 1)
            if turn.is_call_cut_off(call_id):
                return to_tool_message(spec.name, call_id, CUT_OFF_REPLY)
            reply = await sequencer.call(spec.name, given, call_id=call_id, turn=turn.id, watch=watch)
            return to_tool_message(spec.name, call_id, reply)

        return PassthroughTool(
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.input_schema),
            func=call,
            coroutine=acall,
        )

    return [make_tool(spec) for spec in box.specs]


@dataclass(frozen=True)
class Turn:
    """The model's message. Its id is the turn, so `Target.turn(message.id)` undoes all its calls."""

    id: str = ""
    calls: Sequence[Mapping[str, Any]] = ()
    answered_ids: Collection[str] = ()
    is_cut_off: bool = False  # the message ended before its last call did

    def is_call_cut_off(self, call_id: str) -> bool:
        """LangChain completes truncated JSON, so a truncated call can look complete."""
        return self.is_cut_off and bool(self.calls) and self.calls[-1]["id"] == call_id

    def get_earlier_calls(self, call_id: str, own_tools: Collection[str]) -> list[str]:
        earlier = takewhile(lambda call: call["id"] != call_id, self.calls)
        return [call["id"] for call in earlier if call["name"] in own_tools and call["id"] not in self.answered_ids]


def get_turn(runtime: "ToolRuntime[Any, Any] | None") -> Turn:
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
            return Turn(each.id or "", calls, answered, is_cut_off=not ending.isdisjoint(CUT_OFF_REASONS))
    return Turn()


def make_output_watcher(tool: str, runtime: "ToolRuntime[Any, Any] | None") -> OutputWatcher | None:
    if runtime is None:
        return None

    def watch(call_id: str, printed: OutputChunk) -> None:
        runtime.stream_writer(
            {"tool_call_id": call_id, "tool": tool, "printed": printed.text, "dropped": printed.dropped_chars}
        )

    return watch


def to_tool_message(tool: str, call_id: str, reply: Reply) -> "ToolMessage | str | list[str | dict[Any, Any]]":
    """The message for the graph's state. A tool that is invoked without a call id returns only the content."""
    from langchain_core.messages import ToolMessage

    content = format_content(reply)
    if not call_id:
        return content
    status = "error" if reply.status == "error" else "success"
    return ToolMessage(content, tool_call_id=call_id, name=tool, status=status, artifact=build_metadata(reply))


def format_content(reply: Reply) -> str | list[str | dict[Any, Any]]:
    return [_format_block(block) for block in reply.blocks] if reply.images else reply.text


def _format_block(block: Block) -> dict[Any, Any]:
    if block.type == "text":
        return {"type": "text", "text": block.text}
    return {"type": "image", "base64": block.base64, "mime_type": block.mime}
