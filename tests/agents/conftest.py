"""The containers of the agents."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.bed import AGENTS, EVERY, SAMPLE, make_bed_files
from tests.agents.clients import CLIENTS
from tests.containers.engine import Container, Engine


@pytest.fixture(scope="module")
def programs() -> dict[str, bytes | Path]:
    """What commands of the script need and the image does not have; a module may have more."""
    return {}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, programs: dict[str, bytes | Path]) -> dict[str, bytes | Path]:
    """What each container gets, beside its agent."""
    return {**make_bed_files(tmp_path_factory.mktemp("agents")), **programs}


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
