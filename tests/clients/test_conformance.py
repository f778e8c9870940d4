"""The protocol's conformance suite, as far as it applies to a server that only has tools.

Most scenarios call special tools (`test_simple_text`) of a server written for the suite, or use prompts, resources,
completion and logging. This server does not have them, and reports that as the protocol requires.
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
FOLDER = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")  # the scenario and its time
PASSED = {
    "server-initialize",
    "ping",
    "tools-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
    "server-sse-polling",  # about the stream of a call; this server responds without one
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
            check=False,  # scenarios that do not apply count as failed
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
