"""A folder to work in, with its own state."""

from pathlib import Path

import pytest

from tests.backends.shell.forked import place, who

__all__ = ["folder", "place", "who"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("one\n")
    (folder / "sub/b.txt").write_text("two\n")
    return folder
