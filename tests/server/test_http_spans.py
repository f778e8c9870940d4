"""Tracing: one span per call, following the conventions for MCP. The user configures the exporter."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from handhold.server.tokens import AccessTokens
from tests.server.web import Client, served, token_for

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def exporter() -> InMemorySpanExporter:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@pytest.fixture
def client(tmp_path: Path, exporter: InMemorySpanExporter) -> Iterator[Client]:
    root = tmp_path / "shop"
    root.mkdir()
    (root / "a.py").write_text("price = 1\n")
    with served(AccessTokens((token_for("anna", root, tmp_path / "state"),))) as web:
        exporter.clear()
        yield Client(web.port, "anna")


def test_each_call_is_a_span_with_the_name_of_its_tool_in_both_revisions(
    client: Client, exporter: InMemorySpanExporter
):
    client.begin()
    client.tool("read_file", {"path": "a.py"}, traceparent=PARENT)
    client.old_tool("read_file", {"path": "gone.py"})
    spans = {span.name: span for span in exporter.get_finished_spans()}
    assert spans.keys() == {"initialize", "tools/call read_file", "execute_tool read_file"}
    around = {
        span.context.span_id if span.context else 0
        for span in exporter.get_finished_spans()
        if span.name == "tools/call read_file"
    }
    ours = [span for span in exporter.get_finished_spans() if span.name == "execute_tool read_file"]
    assert {span.parent and span.parent.span_id for span in ours} == around, "each call is part of its request"
    modern, old = (span for span in exporter.get_finished_spans() if span.name.startswith("tools/call"))
    for span, version in ((modern, "2026-07-28"), (old, "2025-11-25")):
        assert span.kind is SpanKind.SERVER
        told = dict(span.attributes or {})
        assert told["mcp.method.name"] == "tools/call"
        assert told["mcp.protocol.version"] == version
        assert told["gen_ai.tool.name"] == "read_file"
        assert told["gen_ai.operation.name"] == "execute_tool"
    assert modern.parent is not None
    assert f"{modern.parent.trace_id:032x}" == PARENT.split("-")[1], "it belongs to the client's trace"
    assert modern.status.status_code is StatusCode.UNSET
    assert old.status.status_code is StatusCode.ERROR
    assert (old.attributes or {})["error.type"] == "tool_error"


def test_a_span_holds_neither_arguments_nor_contents(client: Client, exporter: InMemorySpanExporter):
    client.tool("write_file", {"path": "s.txt", "content": "sesame"})
    client.tool("read_file", {"path": "s.txt"})
    assert len(exporter.get_finished_spans()) == 4  # each request, and the call in it
    assert "sesame" not in "".join(span.to_json() for span in exporter.get_finished_spans())
