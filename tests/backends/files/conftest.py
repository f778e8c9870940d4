from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends.files.workspace import Workspace
from tests.backends.files.opening import Opener
from tests.backends.shell.forked import place, who  # noqa: F401 — fixtures


@pytest.fixture(params=["openat2", "walk"])
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    opener = Opener(request.param)
    yield opener
    for workspace in opener.opened:
        workspace.close()


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    """A root with two siblings, one of which has the root's name as its prefix."""
    root = tmp_path / "ws"
    (root / "src").mkdir(parents=True)
    (root / "a.txt").write_text("one\ntwo\n")
    (root / "src" / "b.py").write_text("b = 1\n")
    for neighbour in ("outside", "ws-secrets"):
        (tmp_path / neighbour).mkdir()
        (tmp_path / neighbour / "secret.txt").write_text("secret\n")
    return root


@pytest.fixture
def files(opener: Opener, ws: Path) -> Workspace:
    return opener(ws)
