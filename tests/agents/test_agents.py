"""The agents that people use, run for real on a scripted model: they offer our tools, and do what the script says.

Each has a throw-away container without a network. What they send is compared by its shape with `shapes/`: a difference
means that a client's protocol changed. `HANDHOLD_WRITE_SHAPES=true just clients-e2e` writes the files anew.
"""

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.clients import CLIENTS
from tests.containers.engine import Container, Engine, install_handhold, missing_programs, running_engine
from tests.scale import NIGHTLY, nightly

HERE = Path(__file__).parent
AGENTS = HERE.parents[1] / ".ci/agents"
SHAPES = HERE / "shapes"
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
DRIVER_SECONDS = 240
SAMPLE = ("claude-code", "codex")  # the quickest, and the only ones that `just agents` installs without --all
EVERY = [name for name in CLIENTS if NIGHTLY or name in SAMPLE]

pytestmark = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    # Not tmp_path: the engine's sockets need a short path.
    folder = tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True)
    with folder as name, running_engine(Path(name), in_memory=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    return engine.load_image()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    """What each container gets, beside its agent."""
    folder = tmp_path_factory.mktemp("agents")
    app, program = folder / "app", folder / "handhold"
    install_handhold(app, "shell,search,mcp")
    program.write_bytes(HANDHOLD)
    program.chmod(0o755)
    ours = {f"bed/tests/agents/{name}.py": HERE / f"{name}.py" for name in ("driver", "clients", "model_server")}
    return {"app": app, "usr/local/bin/handhold": program, **ours}


@pytest.fixture(scope="module", params=EVERY)
def client(request: pytest.FixtureRequest) -> str:
    kinds = ("all",) if request.param not in SAMPLE else ("all", "sample")
    if not any((AGENTS / f"made-{kind}").exists() for kind in kinds):
        pytest.skip("the agent is not installed: run `just agents --all`")
    return request.param


@pytest.fixture(scope="module")
def container(engine: Engine, image: str, files: dict[str, bytes | Path], client: str) -> Iterator[Container]:
    packages = {f"agents/{name}": AGENTS / "node_modules" / name for name in CLIENTS[client].packages}
    tmpfs = ("/ws", "/home/user", "/tmp")
    with engine.running_container(image, {**files, **packages}, tmpfs=tmpfs) as container:
        yield container


def run_agent(container: Container, client: str, steps: list[Any] | None = None, **job: Any) -> dict[str, Any]:
    """What the driver reports of one run of the script, after `handhold install`."""
    steps = steps if steps is not None else [step["calls"][client] for step in SCRIPT]
    job = {"client": client, "steps": steps, "files": BEFORE, "install": [], **job}
    argv = ["env", "PYTHONPATH=/bed", "python3", "-m", "tests.agents.driver"]
    report = json.loads(container.run(argv, stdin=json.dumps(job).encode(), seconds=DRIVER_SECONDS))
    for program in ("install", "agent"):  # shown if a test fails
        print(program, json.dumps(report.get(program), indent=1)[-6000:])
    return report


def conversation(report: dict[str, Any]) -> list[dict[str, Any]]:
    """The requests of the conversation, in order. Others have no tools: they want a title, or a summary."""
    return [request for request in report["requests"] if request["tools"]]


def our_tools(request: dict[str, Any]) -> list[str]:
    return list(request["shape"]["our tools"])


# Not with every change yet: the agents are 785 MB, and take long on a busy machine.
@nightly(sampled_by="tests/agents/test_model_server.py::test_the_step_is_the_number_of_turns_with_calls")
def test_an_agent_does_what_the_script_says_and_all_of_it_is_recorded_and_undone(container: Container, client: str):
    undo_all = ["handhold", "undo", "--session", "{session}", "--all"]
    report = run_agent(container, client, after=[undo_all])
    assert report["install"]["status"] == 0
    assert report["agent"]["status"] == 0
    first, *_, last = conversation(report)
    assert our_tools(first)
    assert last["step"] == len(SCRIPT)
    assert read_files(report["tree"], AFTER) == AFTER
    calls = [entry["call"] for entry in report["log"] if entry["call"]["tool"] != "foreign"]
    assert [call["tool"] for call in calls] == [step["recorded"][client] for step in SCRIPT if "recorded" in step]
    assert {(call["session"], call["turn"]) for call in calls} == {(calls[0]["session"], calls[-1]["turn"])}
    assert calls[0]["session"].startswith(f"{client}:")
    assert all(call["turn"] for call in calls)
    assert report["after"][0]["status"] == 0
    assert without_settings(report["after"][0]["tree"]) == without_settings(report["installed"])
    check_shape(client, report)


def read_files(tree: dict[str, str], names: Iterable[str]) -> dict[str, str | None]:
    return {name: tree[name].partition(" ")[2] if name in tree else None for name in names}


def without_settings(tree: dict[str, str]) -> dict[str, str]:
    """Some clients write into their own settings."""
    return {name: text for name, text in tree.items() if not name.startswith(".") and name != "opencode.json"}


def check_shape(client: str, report: dict[str, Any]) -> None:
    first, *_, last = conversation(report)
    beside = {json.dumps(each["shape"], sort_keys=True) for each in report["requests"] if not each["tools"]}
    shape = {
        "first request": first["shape"],
        "last request": last["shape"],
        "requests without tools": [json.loads(each) for each in sorted(beside)],
    }
    file = SHAPES / f"{client}.json"
    if os.environ.get("HANDHOLD_WRITE_SHAPES"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(shape, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    assert shape == json.loads(file.read_text(encoding="utf-8"))
