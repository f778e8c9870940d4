"""Offloaded output is read under one name, wherever the state folder is, and is not part of the workspace."""

import os
from pathlib import Path

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.core.errors import NotFound, OutsideWorkspace, ReadOnly
from handhold.core.plans import FileChange, InlineContent
from tests.backends.files.opening import NoContents


@pytest.fixture(params=["openat2", "walk"])
def files(tmp_path: Path, request: pytest.FixtureRequest):
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/own").write_text("own\n")
    files = Workspace([tmp_path / "ws"], NoContents(), request.param, state=tmp_path / "state")
    (tmp_path / "state/results/out-1").write_text("one\ntwo\n")
    yield files
    files.close()


def test_c5_what_was_offloaded_is_read_under_its_name(files: Workspace, tmp_path: Path):
    place = "/large_tool_results/out-1"
    assert files.resolve(place) == files.resolve("/large_tool_results/./out-1") == place
    assert files.read(place).path == place
    assert files.read(place).data == b"one\ntwo\n"
    assert files.read_page(place, 2, 1, 80).lines[0].text == "two"
    assert files.count_lines(place) == 2
    look = files.stat("/large_tool_results")
    assert look
    assert (look.path, look.kind) == ("/large_tool_results", "directory")
    assert files.suggest_paths("/large_tool_results/out-2") == (place,)
    with pytest.raises(NotFound):
        files.read("/large_tool_results/absent")


def test_it_changes_nothing_about_the_workspace(files: Workspace, tmp_path: Path):
    assert files.roots == (str(tmp_path / "ws"),)
    assert [root.real for root in files.open_roots] == [str(tmp_path / "ws")]
    look = files.stat("/")
    assert look
    assert look.path == str(tmp_path / "ws")
    with pytest.raises(OutsideWorkspace) as refused:
        files.read("/etc/passwd")
    assert refused.value.roots == files.roots
    assert files.read("own").data == b"own\n"


def test_nobody_writes_there(files: Workspace, tmp_path: Path):
    assert not files.is_writable("/large_tool_results/out-1")
    change = FileChange("/large_tool_results/out-1", InlineContent(b"one\ntwo\n"), InlineContent(b""))
    with pytest.raises(ReadOnly), files.transaction([change]):
        pass


@pytest.mark.parametrize("path", ["/large_tool_results/../own", "/large_tool_results/link", "/large_tool_results-2/x"])
def test_c2_there_is_no_way_out_of_it(files: Workspace, tmp_path: Path, path: str):
    os.symlink("/etc/passwd", tmp_path / "state/results/link")
    with pytest.raises(OutsideWorkspace):
        files.read(path)


def test_without_a_state_there_is_no_such_place(tmp_path: Path):
    files = Workspace([tmp_path], NoContents())
    with pytest.raises(OutsideWorkspace):
        files.read("/large_tool_results/out-1")
    files.close()
