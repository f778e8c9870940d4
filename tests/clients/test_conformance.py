"""The protocol's own conformance suite, as far as it is about a server that has tools and nothing else.

Most of its scenarios call tools by names of their own (`test_simple_text`) on a server made for it, or ask for prompts,
resources, completion and logging. Those we have not, and say so in the way that the protocol wants.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients.party import CLIENTS, NODE, here, over_http

SUITE = CLIENTS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")  # of one scenario, and when it was
PASSED = {
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "server-sse-polling",  # of the stream of a call; it is told that ours answers without one
}
NOT_SERVED = ("logging-", "tools-call-with-logging", "completion-", "resources-", "prompts-")
NO_SUCH_TOOL = ("tools-call-", "elicitation-", "json-schema-")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_what_applies_passes_and_the_rest_is_refused_as_it_should_be(tmp_path: Path):
    here()
    root = tmp_path / "root"
    root.mkdir()
    with over_http(root, tmp_path / "state", "--no-token") as where:
        subprocess.run(
            [NODE, SUITE, "server", "--url", where["url"], "--suite", "all", "--output-dir", str(tmp_path / "out")],
            capture_output=True,
            check=False,  # what does not apply counts as failed
        )
    results = dict(map(scenario, sorted((tmp_path / "out").iterdir())))
    assert len(results) == 32
    failed = {name: said for name, checks in results.items() if (said := complaints(checks))}
    assert results.keys() - failed.keys() == PASSED
    for name, said in failed.items():
        if name.startswith(NOT_SERVED):
            assert all("-32601: Method not found" in each for each in said), said
        else:
            assert name.startswith(NO_SUCH_TOOL)
            assert all("Unknown tool: test_" in each or "not found. Available tools: " in each for each in said), said


def scenario(folder: Path) -> tuple[str, Any]:
    return FOLDER.sub(r"\1", folder.name), json.loads((folder / "checks.json").read_text(encoding="utf-8"))


def complaints(checks: list[Mapping[str, Any]]) -> list[str]:
    return [check.get("errorMessage", "") for check in checks if check["status"] == "FAILURE"]
