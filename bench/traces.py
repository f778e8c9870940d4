"""What traces cost: calls unobserved, in an empty span, and observed, with an SDK that exports into memory.

python -m bench.traces [--calls 3000]

In each call, the processor time outside of what carries it out is what observing costs. An empty span shows what the
SDK alone costs there: more than in a loop of nothing else, as a call in between displaces its code from the caches.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from handhold import Toolbox
from handhold.pipeline.executor import CallExecutor
from handhold.pipeline.traces import find_observer

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

LARGE = "x = 1 + find(2)\n" * 12_000  # 190 KB
Call = Callable[[int], object]


class EmptySpans:
    """Observes calls by spans without attributes, and no metrics."""

    def __init__(self, tracer: "Tracer") -> None:
        self._tracer = tracer

    def observe(self, tool: str, arguments: Any, call_id: str, execute: Callable[[], tuple[Any, Any]]) -> Any:
        with self._tracer.start_as_current_span("empty"):
            return execute()[0]


class TimedMethod:
    """Replaces a method by one that notes the microseconds of processor time of each call."""

    def __init__(self, name: str) -> None:
        self.times: list[float] = []
        method: Callable[..., Any] = getattr(CallExecutor, name)

        def timed(*arguments: Any) -> Any:
            started = process_time()
            try:
                return method(*arguments)
            finally:
                self.times.append((process_time() - started) * 1e6)

        setattr(CallExecutor, name, timed)


def set_up_sdk() -> "tuple[Tracer, Callable[[], object]]":
    """A tracer, and what throws finished spans away."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
    return provider.get_tracer("empty"), exporter.clear


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000)
    count = parser.parse_args().calls
    started = process_time()
    for _ in range(count):
        find_observer()
    print(f"to find that there is no SDK: {(process_time() - started) / count * 1e6:.2f} µs a call")
    tracer, clear = set_up_sdk()
    inner, outer = TimedMethod("_execute"), TimedMethod("execute")
    kinds: dict[str, Callable[[], Any]] = {
        "unobserved": lambda: None,
        "in an empty span": lambda: EmptySpans(tracer),
        "observed": find_observer,
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        root.mkdir()
        (root / "a.py").write_text("x = 1\n" * 200)
        with Toolbox.open(root, state=Path(folder) / "state", settings=False, policy="open") as box:
            calls: dict[str, Call] = {
                "read": lambda _: box.call("read_file", {"path": "a.py"}),
                "write": lambda n: box.call("write_file", {"path": "b.py", "content": f"x = {n}\n"}),
                "write 190 KB": lambda n: box.call("write_file", {"path": "c.txt", "content": f"{n}{LARGE}"}),
                "command": lambda _: box.call("bash", {"command": "true"}),
            }
            for name, call in calls.items():
                call(-1)  # not counted: files and modules are read for the first time
                costs: dict[str, list[float]] = {kind: [] for kind in kinds}
                times: list[float] = []
                for n in range(count):
                    kind = [*kinds][n % len(kinds)]
                    with patch("handhold.pipeline.executor.find_observer", kinds[kind]):
                        call(n)
                    costs[kind].append(outer.times[-1] - inner.times[-1])
                    times.append(inner.times[-1])
                    clear()
                whole, plain = median(times), median(costs["unobserved"])
                shown = (
                    f"{kind} +{(cost := median(costs[kind]) - plain):.0f} µs ({100 * cost / whole:.1f} %)"
                    for kind in ("in an empty span", "observed")
                )
                print(f"{name}: {whole:.0f} µs, {', '.join(shown)}")


if __name__ == "__main__":
    main()
