"""An index that git only refreshed, told from one that lists something else; by git's own indexes."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.tools.git_refresh import INDEX_PATH, has_same_files, parse_index

Indexed = Callable[[str], bytes]


@pytest.fixture
def indexed(tmp_path: Path) -> Indexed:
    """What a script leaves in the index of one repository."""

    def run(script: str) -> bytes:
        subprocess.run(["bash", "-ec", script], cwd=tmp_path, check=True, capture_output=True)
        return (tmp_path / ".git/index").read_bytes()

    run("git init -q .; mkdir d; for n in $(seq 30); do echo $n >d/$(printf %0${n}d $n); done; echo 1 >a; git add .")
    return run


def test_the_files_of_an_index_are_read(indexed: Indexed):
    paths = [each.path for each in parse_index(indexed("true"))]
    assert paths == sorted([b"a", *(b"d/%0*d" % (n, n) for n in range(1, 31))])


def test_a_refreshed_index_lists_the_same(indexed: Indexed):
    before, after = indexed("true"), indexed("touch -d 2020-01-01 a d/1; git update-index --refresh")
    assert before != after
    assert has_same_files(before, after)


@pytest.mark.parametrize(
    "script",
    [
        "echo 2 >a; git add a",
        "git rm -q --cached a",
        "git update-index --chmod=+x a",
        "git update-index --assume-unchanged a",
        "git update-index --skip-worktree a",
        "echo n >new; git add new",
        "echo n >new; git add -N new",
    ],
)
def test_a_changed_index_does_not(indexed: Indexed, script: str):
    before = indexed("true")
    assert not has_same_files(before, indexed(script))


def test_an_index_of_another_version_counts_as_changed(indexed: Indexed):
    fourth = indexed("git update-index --index-version 4")
    assert not has_same_files(fourth, fourth)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_what_is_no_index_counts_as_changed(head: bytes, rest: bytes):
    for data in (head, b"DIRC" + rest, b"DIRC\0\0\0\2\0\0\0\1" + rest[:60]):
        try:
            list(parse_index(data))
        except (ValueError, IndexError):
            assert not has_same_files(data, data)


@pytest.mark.parametrize("path", ["/ws/.git/index", "/ws/.git/worktrees/w/index", "/ws/.git/modules/a/b/index"])
def test_the_places_of_an_index_are_known(path: str):
    assert INDEX_PATH.fullmatch(path)
    assert not INDEX_PATH.fullmatch("/ws/src/index")
