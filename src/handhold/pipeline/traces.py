"""A span and metrics for each call, by OpenTelemetry's API and its conventions for generative AI.

Nothing is done, and nothing imported, unless the application has set up an SDK: the API alone has no effect. A span
holds sizes, counts, the decision and the exit status. It holds arguments and replies only if the user asks for that by
the variable that these conventions name.
"""

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast

from handhold.core.results import GrepResult, Reply, RunResult
from handhold.version import VERSION

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter, MeterProvider
    from opentelemetry.trace import Tracer, TracerProvider

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
    from opentelemetry.trace import get_tracer_provider

    return _make_observer(get_tracer_provider(), get_meter_provider())


@lru_cache(maxsize=1)
def _make_observer(tracers: "TracerProvider", meters: "MeterProvider") -> "CallObserver | None":
    from opentelemetry.trace import ProxyTracerProvider

    if isinstance(tracers, ProxyTracerProvider) and type(meters).__module__.startswith("opentelemetry.metrics"):
        return None  # the API's own stand-ins
    return CallObserver(tracers.get_tracer("handhold", VERSION), meters.get_meter("handhold", VERSION))


class CallObserver:
    def __init__(self, tracer: "Tracer", meter: "Meter") -> None:
        self._tracer = tracer
        self._duration = meter.create_histogram(
            "handhold.call.duration", "s", "How many calls there were, and how long they took"
        )
        self._refusals = meter.create_counter("handhold.refusals", "{call}", "Refused calls by code and rule")
        self._tokens_saved = meter.create_counter(
            "handhold.tokens_saved",
            "{token}",
            "Estimated tokens of output and matches that replies left out, at four characters each",
        )
        self._reply_bytes = meter.create_counter("handhold.reply.size", "By", "Text of replies, in UTF-8")

    def observe(
        self, tool: str, arguments: Any, call_id: str, execute: "Callable[[], tuple[Reply, CallContext | None]]"
    ) -> Reply:
        """Carry out a call in a span, which is the current one meanwhile, and a child of what is current now."""
        from opentelemetry.trace import Status, StatusCode

        attributes: Attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.type": "function",
        }
        if call_id:
            attributes["gen_ai.tool.call.id"] = call_id
        started = perf_counter()
        # An exception that stops a run to ask has the question as its text, and so a diff.
        with self._tracer.start_as_current_span(
            f"execute_tool {tool}", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                reply, context = execute()
            except BaseException as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise
            size = len(reply.text.encode("utf-8", "surrogatepass"))
            if span.is_recording():
                span.set_attributes(describe_call(arguments, reply, context, size))
                if reply.code:
                    span.set_status(Status(StatusCode.ERROR, reply.code))
            self._measure(tool, perf_counter() - started, reply, context, size)
            return reply

    def _measure(self, tool: str, seconds: float, reply: Reply, context: "CallContext | None", size: int) -> None:
        self._duration.record(seconds, {"gen_ai.tool.name": tool, "handhold.status": reply.status})
        self._reply_bytes.add(size, {"gen_ai.tool.name": tool})
        if reply.code:
            rule = context.decision.rule if context and context.decision else ""
            self._refusals.add(1, {"error.type": reply.code, "handhold.rule": rule})
        if saved := estimate_saved_tokens(reply):
            self._tokens_saved.add(saved, {"gen_ai.tool.name": tool})


def describe_call(arguments: Any, reply: Reply, context: "CallContext | None", size: int) -> Attributes:
    """What a span tells of a call: no text of its arguments and reply, unless the user asked."""
    found: Attributes = {
        "handhold.arguments.size": _count_chars(arguments),
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
        found |= {"gen_ai.tool.call.arguments": str(arguments), "gen_ai.tool.call.result": reply.text}
    return found


def _count_chars(arguments: Any) -> int:
    """Without writing them out: that takes 2 ms for a file of 200 KB."""
    if isinstance(arguments, str):
        return len(arguments)
    if isinstance(arguments, dict):
        return sum(map(_count_chars, chain.from_iterable(cast(dict[str, Any], arguments).items())))
    if isinstance(arguments, list):
        return sum(map(_count_chars, cast(list[Any], arguments)))
    return len(str(arguments))


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
