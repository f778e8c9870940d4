"""What the tests of agents share: the containers, and one run of an agent in one."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import CLIENTS
from tests.containers.engine import Container, install_handhold, missing_programs
from tests.scale import NIGHTLY

HERE = Path(__file__).parent
AGENTS = HERE.parents[1] / ".ci/agents"
SCRIPT = json.loads((HERE / "script.json").read_text(encoding="utf-8"))
BEFORE = {"edited.txt": "one\ntwo\nthree\n"}
AFTER = {
    "ours.txt": "by our tool\n",
    "shell.txt": "by its shell\n",
    "edited.txt": "one\nby its edit tool\nthree\n",
}
# Each client starts this by its name. Some pass little of their environment on.
HANDHOLD = b"""\
#!/bin/sh
export PYTHONPATH=/app
start() { exec python3 -c 'from handhold.cli import main; main()' "$@"; }
[ -e /tmp/events/wanted ] || start "$@"
case $1 in
hook) { tee -a /tmp/events/hooks; echo >>/tmp/events/hooks; } | start "$@" ;;
mcp) env >/tmp/events/environment; tee -a /tmp/events/mcp | start "$@" ;;
*) start "$@" ;;
esac
"""
BED_MODULES = ("driver", "clients", "model_server", "conversation")
DRIVER_SECONDS = 240
SAMPLE = ("claude-code", "codex")  # the quickest, and the only ones that `just agents` installs without --all
EVERY = [name for name in CLIENTS if NIGHTLY or name == SAMPLE[0]]  # one with every change, all at night

SETTINGS = (".claude", ".mcp.json", ".codex", ".gemini", ".qwen", "opencode.json", ".opencode", ".handhold")
MARKS = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def make_bed_files(folder: Path) -> dict[str, bytes | Path]:
    """Handhold, its plugin, and what runs the agents, for a container; `folder` is where Handhold is installed first."""
    app, program = folder / "app", folder / "handhold"
    install_handhold(app, "shell,search,mcp")
    program.write_bytes(HANDHOLD)
    program.chmod(0o755)
    modules = {f"bed/tests/agents/{name}.py": HERE / f"{name}.py" for name in BED_MODULES}
    return {"app": app, "usr/local/bin/handhold": program, "plugins": HERE.parents[1] / "plugins", **modules}


def run_agent(container: Container, client: str, steps: list[Any] | None = None, **job: Any) -> dict[str, Any]:
    """What the driver reports of one run of the script, after `handhold install`."""
    steps = steps if steps is not None else [step["calls"][client] for step in SCRIPT]
    job = {"client": client, "steps": steps, "files": BEFORE, "install": [], **job}
    argv = ["env", "PYTHONPATH=/bed", "python3", "-m", "tests.agents.driver"]
    report = json.loads(container.run(argv, stdin=json.dumps(job).encode(), seconds=DRIVER_SECONDS))
    for program in ("install", "agent"):  # shown if a test fails
        print(program, json.dumps(report.get(program), indent=1)[-6000:])
    return report


def read_files(tree: dict[str, str], names: Iterable[str]) -> dict[str, str | None]:
    return {name: tree[name].partition(" ")[2] if name in tree else None for name in names}


def without_settings(tree: dict[str, str]) -> dict[str, str]:
    """Some clients write into their own settings."""
    return {name: text for name, text in tree.items() if not name.startswith(SETTINGS)}
