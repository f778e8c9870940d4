"""Traces: one span per call and the metrics, compared with the journal; nothing without an SDK."""

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from handhold import Question, Rule, RunPaused, Toolbox
from handhold.pipeline import traces
from tests.suites.machine import has_shadows


class Telemetry:
    """An SDK whose exporters keep everything in memory."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name.startswith("execute_tool")]

    def metric(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        metrics = [m for r in (data.resource_metrics if data else ()) for s in r.scope_metrics for m in s.metrics]
        return [point for metric in metrics if metric.name == name for point in metric.data.data_points]


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    # Set for this test only: the API lets a process set its providers once.
    found = Telemetry()
    monkeypatch.setattr("opentelemetry.trace.get_tracer_provider", lambda: found.tracers)
    monkeypatch.setattr("opentelemetry.metrics.get_meter_provider", lambda: found.meters)
    return found


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    (root := tmp_path / "ws").mkdir()
    (root / "a.py").write_text("secret_word = 1\n")
    rule = Rule(
        "no b",
        "deny",
        ("change", "create"),
        because="b stays",
        paths=("b.py",),
        covers=("b.py",),
        does_not_cover=("a.py",),
    )
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open", rules=[rule]) as opened:
        yield opened


def work(box: Toolbox) -> None:
    box.call("read_file", {"path": "a.py"}, call_id="1", turn="t")
    box.call("edit_file", {"path": "a.py", "old_string": "1", "new_string": "(2"}, call_id="2", turn="t")
    box.call("edit_file", {"path": "a.py", "old_string": "1", "new_string": "(2"}, call_id="2", turn="t")
    box.call("write_file", {"path": "b.py", "content": "x"}, call_id="3")
    box.call("read_file", {"path": "none.py"})
    box.call("no_such_tool", {})
    if has_shadows():
        box.call("bash", {"command": "seq 100000; touch c d; exit 3"}, call_id="4")


def test_there_is_one_span_per_call_and_it_agrees_with_the_journal(box: Toolbox, telemetry: Telemetry):
    work(box)
    spans = telemetry.spans
    entries = list(box.log())
    replayed = [span for span in spans if (span.attributes or {})["handhold.replayed"]]
    assert len(spans) == len(entries) + len(replayed)
    assert len(replayed) == 1
    for span, entry in zip((span for span in spans if span not in replayed), entries, strict=True):
        told = dict(span.attributes or {})
        assert span.name == f"execute_tool {entry.call.tool}"
        assert told["gen_ai.operation.name"] == "execute_tool"
        assert told["gen_ai.tool.name"] == entry.call.tool
        assert told.get("gen_ai.tool.call.id", "") == entry.call.call_id
        assert entry.outcome is not None
        assert told["handhold.status"] == entry.outcome.status
        assert told.get("error.type") == entry.outcome.code
        assert told["handhold.session"] == box.session
        assert told.get("handhold.turn", "") == entry.call.turn
        assert told["handhold.changed_files"] == entry.changed
        assert told.get("handhold.decision", "") == entry.decision
        assert told.get("handhold.rule", "") == entry.rule
        assert (span.status.status_code is StatusCode.ERROR) == (entry.outcome.status == "error")
    assert dict(spans[1].attributes or {})["handhold.problems"] == 1
    if has_shadows():
        told = dict(spans[-1].attributes or {})
        assert (told["process.exit.code"], told["handhold.changed_files"]) == (3, 2)
        assert told["handhold.output.size"] == len("".join(f"{n}\n" for n in range(1, 100001)))


def test_metrics_agree_with_the_journal(box: Toolbox, telemetry: Telemetry):
    work(box)
    spans = telemetry.spans
    calls = Counter[tuple[str, str]]()
    for span in spans:
        told: Any = span.attributes
        calls[told["gen_ai.tool.name"], told["handhold.status"]] += 1

    def key(point: Any) -> tuple[str, str]:
        return point.attributes["gen_ai.tool.name"], point.attributes["handhold.status"]

    assert {key(point): point.count for point in telemetry.metric("handhold.call.duration")} == calls
    refused = {point.attributes["error.type"]: point.value for point in telemetry.metric("handhold.refusals")}
    assert refused == {"DENIED": 1, "NOT_FOUND": 1, "UNKNOWN_TOOL": 1}
    (denied,) = [p for p in telemetry.metric("handhold.refusals") if p.attributes["error.type"] == "DENIED"]
    assert "no b" in denied.attributes["handhold.rule"]
    sizes: Any = [(span.attributes or {})["handhold.reply.size"] for span in spans]
    assert sum(point.value for point in telemetry.metric("handhold.reply.size")) == sum(sizes)
    if has_shadows():
        (saved,) = telemetry.metric("handhold.tokens_saved")
        assert saved.value > 100_000


def test_spans_hold_no_contents_unless_asked(box: Toolbox, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch):
    box.call("read_file", {"path": "a.py"})
    assert "secret_word" not in str([dict(span.attributes or {}) for span in telemetry.spans])
    monkeypatch.setenv(traces.CONTENT_VARIABLE, "true")
    box.call("read_file", {"path": "a.py"})
    told = dict(telemetry.spans[-1].attributes or {})
    assert "secret_word" in str(told["gen_ai.tool.call.result"])
    assert "a.py" in str(told["gen_ai.tool.call.arguments"])


def test_a_call_that_is_interrupted_by_a_question_leaves_no_content_in_its_span(tmp_path: Path, telemetry: Telemetry):
    class Interrupted(Exception):
        pass

    def ask(question: Question) -> Any:
        raise RunPaused(Interrupted({"diff": question.diff}))

    (root := tmp_path / "asked").mkdir()
    options: dict[str, Any] = {"state": tmp_path / "state", "settings": False, "policy": "ask", "approver": ask}
    with Toolbox.open(root, **options) as opened, pytest.raises(Interrupted, match="secret_word"):
        opened.call("write_file", {"path": "a.txt", "content": "secret_word\n"})
    (span,) = telemetry.spans
    assert "secret_word" not in span.to_json()
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert str((span.attributes or {})["error.type"]).endswith("Interrupted")
    assert span.events == ()


def test_a_span_belongs_to_the_one_around_the_call(box: Toolbox, telemetry: Telemetry):
    with telemetry.tracers.get_tracer("client").start_as_current_span("tools/call") as outer:
        box.call("read_file", {"path": "a.py"})
        asyncio.run(box.acall("read_file", {"path": "a.py"}))
    assert [span.parent and span.parent.span_id for span in telemetry.spans] == [outer.get_span_context().span_id] * 2


def test_without_an_sdk_nothing_is_observed():
    """In a process of its own: whatever others set up here stays set up."""
    program = """
import sys
from handhold import Toolbox
from handhold.pipeline.traces import find_observer
box = Toolbox.in_memory({"a.py": "x"})
assert box.call("read_file", {"path": "a.py"}).ok
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
import opentelemetry.trace, opentelemetry.metrics
assert find_observer() is None
assert box.call("read_file", {"path": "a.py"}).ok
"""
    subprocess.run([sys.executable, "-c", program], check=True)
