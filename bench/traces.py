"""What traces cost: the same calls unobserved, in an empty span, and observed, with an SDK that exports into memory.

python -m bench.traces [--calls 3000]

Batches take turns in one process, so that whatever else the machine does hits all three. An empty span shows what the
SDK alone costs there: more than in a loop of nothing else, as a call in between displaces its code from the caches.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time
from typing import TYPE_CHECKING
from unittest.mock import patch

from handhold import Toolbox
from handhold.pipeline.traces import find_observer

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer

BATCH = 10
LARGE = "x = 1 + find(2)\n" * 12_000  # 190 KB
Call = Callable[[int], object]


def measure(call: Call, count: int = BATCH) -> float:
    """Microseconds of processor time for a call."""
    started = process_time()
    for n in range(count):
        call(n)
    return (process_time() - started) / count * 1e6


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


def measure_kinds(call: Call, tracer: "Tracer", clear: Callable[[], object]) -> tuple[float, float, float]:
    """Unobserved, in an empty span, and observed."""

    def call_in_span(n: int) -> None:
        with tracer.start_as_current_span("empty"):
            call(n)

    with patch("handhold.pipeline.executor.find_observer", lambda: None):
        plain, empty = measure(call), measure(call_in_span)
    observed = measure(call)
    clear()
    return plain, empty, observed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000)
    count = parser.parse_args().calls
    print(f"to find that there is no SDK: {measure(lambda _: find_observer(), count):.2f} µs a call")
    tracer, clear = set_up_sdk()
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
                measure(call)  # not counted: files and modules are read for the first time
                times = [measure_kinds(call, tracer, clear) for _ in range(count // BATCH)]
                plain = median(each[0] for each in times)
                more = [median(each[kind] - each[0] for each in times) for kind in (1, 2)]
                shown = [f"{each:+.0f} µs ({100 * each / plain:+.1f} %)" for each in more]
                print(f"{name}: {plain:.0f} µs, in an empty span {shown[0]}, observed {shown[1]}")


if __name__ == "__main__":
    main()
