"""The agents that people use, run for real on a scripted model: they offer our tools, and do what the script says.

Each has a throw-away container without a network. What they send is compared by its shape with `shapes/`: a difference
means that a client's protocol changed. `HANDHOLD_WRITE_SHAPES=true just clients-e2e` writes the files anew.
"""

import json
import os
import tempfile
from collections.abc import Iterator
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
PYTHONPATH=/app exec python3 -c 'from handhold.cli import main; main()' "$@"
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


def run_agent(container: Container, client: str, *, install: bool) -> dict[str, Any]:
    """What the driver reports of one run of the script, with the entry of `handhold install` or with the right one."""
    steps = [step["calls"][client] for step in SCRIPT]
    job = {"client": client, "steps": steps, "files": BEFORE, "install": install}
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
def test_an_agent_does_what_the_script_says_with_its_tools_and_ours(container: Container, client: str):
    right = not CLIENTS[client].fault
    report = run_agent(container, client, install=right)
    assert report["agent"]["status"] == 0
    first, *_, last = conversation(report)
    assert our_tools(first)
    assert last["step"] == len(SCRIPT)
    assert {name: report["files"].get(name) for name in AFTER} == AFTER
    ((status, paths),) = [(entry["outcome"]["status"], entry["paths"]) for entry in report["log"]]
    assert (status, [Path(path).name for path in paths]) == ("success", ["ours.txt"])
    check_shape(client, report)


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


@nightly(sampled_by="tests/agents/test_model_server.py::test_the_step_is_the_number_of_turns_with_calls")
def test_after_install_our_tools_are_in_the_first_request(
    container: Container, client: str, request: pytest.FixtureRequest
):
    if fault := CLIENTS[client].fault:
        request.applymarker(pytest.mark.xfail(reason=fault, strict=True, raises=AssertionError))
    report = run_agent(container, client, install=True)
    assert report["install"]["status"] == 0
    assert our_tools(conversation(report)[0])
