"""What traces cost: the same calls without an SDK, and with one whose exporter keeps spans in memory.

python -m bench.traces [--calls 3000]
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import process_time

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from handhold import Toolbox
from handhold.pipeline.traces import find_observer

BATCH = 50


def measure(call: Callable[[int], object], count: int) -> list[float]:
    """Microseconds of processor time for a call, by batches."""
    times: list[float] = []
    for first in range(0, count, BATCH):
        started = process_time()
        for n in range(first, first + BATCH):
            call(n)
        times.append((process_time() - started) / BATCH * 1e6)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000)
    count = parser.parse_args().calls
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        root.mkdir()
        (root / "a.py").write_text("x = 1\n" * 200)
        with Toolbox.open(root, state=Path(folder) / "state", settings=False, policy="open") as box:
            box.call("read_file", {"path": "a.py"})

            def read(_: int) -> None:
                box.call("read_file", {"path": "a.py"})

            def write(n: int) -> None:
                box.call("write_file", {"path": "b.py", "content": f"x = {n}\n"})

            for kind in (write, read):
                measure(kind, BATCH)
            print(f"to find that there is no SDK: {median(measure(lambda _: find_observer(), count)):.2f} µs a call")
            plain = {kind.__name__: measure(kind, count) for kind in (read, write)}
            provider = TracerProvider()
            provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
            trace.set_tracer_provider(provider)
            metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()]))
            for kind in (read, write):
                with_sdk, without = median(measure(kind, count)), median(plain[kind.__name__])
                more = 100 * (with_sdk - without) / without
                print(f"{kind.__name__}: {without:.0f} µs, with an SDK {with_sdk:.0f} µs ({more:+.1f} %)")


if __name__ == "__main__":
    main()
