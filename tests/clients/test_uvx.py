"""Start the server with `uvx` from the published package, as most clients do."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.clients.line import connected


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_built_wheel_answers_when_uv_starts_it_in_an_environment_of_its_own(wheel: Path, tmp_path: Path):
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    root = tmp_path / "root"
    root.mkdir()
    (root / "a.txt").write_text("text\n")
    started = (
        uv,
        "tool",
        "run",
        "--quiet",
        "--isolated",
        "--python",
        sys.executable,
        "--from",
        f"{wheel}[mcp]",
        "handhold",
    )
    with connected(root, tmp_path / "state", command=started, env=env) as wire:
        wire.greet(120)
        tools = wire.ask("list", "tools/list")["result"]["tools"]
        read = wire.ask("read", "tools/call", name="read_file", arguments={"path": "a.txt"})["result"]
        ended, said = wire.gone()
    assert len(tools) == 14
    assert "text" in read["content"][0]["text"]
    assert ended == 0, said
