"""A pipe where git expects a file makes no merge wait for ever."""

import os
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.backends.forks import ignored_files
from handhold.core.errors import ForkUnavailable


def test_c95_a_pipe_for_an_ignore_file_ends_a_diff_and_merges_with_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ignored_files, "GIT_SECONDS", 2)
    root = tmp_path / "ws"
    (root / ".git").mkdir(parents=True)
    os.mkfifo(root / ".gitignore")
    for name in ("HEAD", "config"):
        (root / ".git" / name).write_text({"HEAD": "ref: refs/heads/main\n", "config": ""}[name])
    for name in ("objects", "refs"):
        (root / ".git" / name).mkdir()
    with Toolbox.open(root, state=tmp_path / "state", policy="open", settings=False) as box:
        fork = box.fork("one")
        assert fork.run(["/usr/bin/touch", "made"]) == 0
        with pytest.raises(ForkUnavailable, match="is a pipe"):
            fork.merge()
        fork.merge(include_ignored=True)
        assert (root / "made").exists()
