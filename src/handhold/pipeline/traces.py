"""A span and metrics for each call, by OpenTelemetry's API and its conventions for generative AI.

Nothing is done, and nothing imported, unless the application has set up an SDK: the API alone has no effect. A span
holds sizes, counts, the decision and the exit status. It holds arguments and replies only if the user asks for that by
the variable that these conventions name.
"""

import os
import sys
from collections.abc import Mapping
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

from handhold.core.results import GrepResult, Reply, RunResult
from handhold.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter
    from opentelemetry.trace import Tracer

    from handhold.pipeline.context import CallContext

SDK_MODULES = ("opentelemetry.sdk", "ddtrace.opentelemetry")  # one of them is imported if there is an SDK
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CHARS_PER_TOKEN = 4
Attributes = dict[str, str | int | float | bool]


def find_observer() -> "CallObserver | None":
    """What observes the next call; None if nobody would receive it. Costs two lookups where there is no SDK."""
    if not any(name in sys.modules for name in SDK_MODULES):
        return None
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    provider, meters = get_tracer_provider(), get_meter_provider()
    if isinstance(provider, ProxyTracerProvider) and type(meters).__module__.startswith("opentelemetry.metrics"):
        return None  # the API's own stand-ins
    key = id(provider), id(meters)
    if key not in _observers:
        _observers.clear()
        _observers[key] = CallObserver(provider.get_tracer("handhold", VERSION), meters.get_meter("handhold", VERSION))
    return _observers[key]


class CallObserver:
    def __init__(self, tracer: "Tracer", meter: "Meter") -> None:
        self.tracer = tracer
        self._meter = meter

    def begin(self, tool: str, arguments: Mapping[str, Any] | str, call_id: str) -> "ObservedCall":
        return ObservedCall(self, tool, arguments, call_id)

    # --- metrics

    @cached_property
    def duration(self) -> "Histogram":
        return self._meter.create_histogram(
            "handhold.call.duration", "s", "How many calls there were, and how long they took"
        )

    @cached_property
    def refusals(self) -> "Counter":
        return self._meter.create_counter("handhold.refusals", "{call}", "Refused calls by code and rule")

    @cached_property
    def reply_bytes(self) -> "Counter":
        return self._meter.create_counter("handhold.reply.size", "By", "Text of replies, in UTF-8")

    @cached_property
    def tokens_saved(self) -> "Counter":
        description = "Estimated tokens of output and matches that replies left out, at four characters each"
        return self._meter.create_counter("handhold.tokens_saved", "{token}", description)

    def measure(self, tool: str, seconds: float, reply: Reply, context: "CallContext | None", size: int) -> None:
        by_tool: Attributes = {"gen_ai.tool.name": tool, "handhold.status": reply.status}
        self.duration.record(seconds, by_tool)
        self.reply_bytes.add(size, {"gen_ai.tool.name": tool})
        if reply.code:
            rule = context.decision.rule if context and context.decision else ""
            self.refusals.add(1, {"error.type": reply.code, "handhold.rule": rule})
        if saved := estimate_saved_tokens(reply):
            self.tokens_saved.add(saved, {"gen_ai.tool.name": tool})


_observers: dict[tuple[int, int], CallObserver] = {}


class ObservedCall:
    """One call: its span is the current one while it is carried out, and a child of what was current before."""

    def __init__(self, observer: CallObserver, tool: str, arguments: Mapping[str, Any] | str, call_id: str) -> None:
        self._observer = observer
        self._tool = str(tool)
        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self._tool,
            "gen_ai.tool.type": "function",
            "handhold.arguments.size": len(str(arguments)),
        }
        if call_id:
            attributes["gen_ai.tool.call.id"] = call_id
        if captures_content():
            attributes["gen_ai.tool.call.arguments"] = str(arguments)
        self._scope = observer.tracer.start_as_current_span(f"execute_tool {self._tool}", attributes=attributes)
        self._started = perf_counter()

    def __enter__(self) -> "ObservedCall":
        self._span = self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)

    def finish(self, reply: Reply, context: "CallContext | None") -> Reply:
        size = len(reply.text.encode("utf-8", "surrogatepass"))
        if self._span.is_recording():
            self._span.set_attributes(describe_outcome(reply, context, size))
            if reply.code:
                from opentelemetry.trace import Status, StatusCode

                self._span.set_status(Status(StatusCode.ERROR, reply.code))
        self._observer.measure(self._tool, perf_counter() - self._started, reply, context, size)
        return reply


def describe_outcome(reply: Reply, context: "CallContext | None", size: int) -> Attributes:
    """What a span tells of a reply: no text of it, unless the user asked."""
    found: Attributes = {
        "handhold.status": reply.status,
        "handhold.reply.size": size,
        "handhold.replayed": reply.replayed,
    }
    if reply.code:
        found |= {"error.type": reply.code, "handhold.error_source": reply.error_source or ""}
    if context:
        found |= {"handhold.session": context.call.session, "handhold.changed_files": context.changed_count}
        if context.call.turn:
            found["handhold.turn"] = context.call.turn
        if context.decision:
            found |= {"handhold.decision": context.decision.verdict, "handhold.rule": context.decision.rule}
        if context.problems.total:
            found["handhold.problems"] = context.problems.total
    if isinstance(reply.result, RunResult):
        ended = reply.result.exit_status
        found |= {"handhold.output.size": reply.result.output.total_bytes, "handhold.timed_out": ended.timed_out}
        if ended.code is not None:
            found["process.exit.code"] = ended.code
    if captures_content():
        found["gen_ai.tool.call.result"] = reply.text
    return found


def estimate_saved_tokens(reply: Reply) -> int:
    match reply.result:
        case RunResult(output=output):
            return max(0, output.total_bytes - len(output.head) - len(output.tail)) // CHARS_PER_TOKEN
        case GrepResult(files=files):
            return sum(sum(row.omitted_chars) for _, hit in files for row in hit.rows) // CHARS_PER_TOKEN
        case _:
            return 0


def captures_content() -> bool:
    return os.environ.get(CONTENT_VARIABLE, "").lower() in ("true", "1")
