"""Which ripgrep is used: the system's if it is new enough, otherwise the one installed with this Python."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold.backends.search import ripgrep_binary
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    find_ripgrep.cache_clear()
    yield
    find_ripgrep.cache_clear()


def fake(folder: Path, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\n{says}\n")
    path.chmod(0o755)
    return path


def test_the_systems_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = fake(tmp_path, "echo 'ripgrep 13.0.0 (rev 1)'; echo 'PCRE2 10.45'")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_ripgrep() == RipgrepBinary(str(path), "13.0.0")


@pytest.mark.parametrize("says", ["echo ripgrep 12.1.1", "exit 1", "echo nothing of the kind", "kill -9 $$"])
def test_one_that_is_too_old_or_broken_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str):
    fake(tmp_path / "first", says)
    path = fake(tmp_path / "second", "echo ripgrep 14.1.0")
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second")
    assert find_ripgrep() == RipgrepBinary(str(path), "14.1.0")


def test_one_in_the_working_directory_is_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake(tmp_path, f"touch {tmp_path}/ran; echo ripgrep 99.0.0")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:")
    find_ripgrep()
    assert not (tmp_path / "ran").exists()


def test_the_wheel_is_found_without_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    ripgrep = find_ripgrep()
    assert isinstance(ripgrep, RipgrepBinary)
    assert os.path.dirname(ripgrep.path) == os.path.dirname(os.path.abspath(sys.executable))


@pytest.mark.parametrize(
    ("says", "because"),
    [
        (None, "ripgrep is not installed"),
        ("echo ripgrep 11.0.2", "ripgrep 11.0.2 is too old"),
        ("exit 1", "ripgrep does not start"),
    ],
)
def test_why_there_is_none_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str | None, because: str):
    if says:
        fake(tmp_path, says)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(ripgrep_binary, "list_wheel_scripts", lambda: iter(()))
    assert find_ripgrep() == because
