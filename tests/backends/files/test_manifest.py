"""The identity of a file tree, as one hash."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.files import manifest as module
from handhold.backends.files.manifest import build_manifest, read_entry_state

names = st.sampled_from(["a", "b", "c", "d", "é", "\udcff"])
ways = st.lists(names, min_size=1, max_size=3).map("/".join)
entries = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=3), st.sampled_from([0o600, 0o644, 0o755])),
    st.tuples(st.just("link"), st.sampled_from(["a", "b"]), st.just(0)),
    st.tuples(st.just("folder"), st.just(""), st.sampled_from([0o700, 0o755])),
    st.tuples(st.just("pipe"), st.just(""), st.just(0o600)),
)
trees = st.dictionaries(ways, entries, max_size=6)


def grow(top: Path, tree: dict[str, tuple[str, Any, int]]) -> frozenset[object]:
    """Create it as far as possible, and return what exists then."""
    top.mkdir()
    made: set[object] = set()
    for way, (kind, what, mode) in tree.items():
        path = top / way
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "file":
                path.open("xb").close()
                path.write_bytes(what)
            elif kind == "link":
                os.symlink(str(what), path)
            elif kind == "pipe":
                os.mkfifo(path)
            else:
                path.mkdir()
            if kind != "link":
                path.chmod(mode)
        except OSError:
            continue
    for folder, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = Path(folder, name)
            found = path.lstat()
            what = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else ""
            made.add((str(path.relative_to(top)), found.st_mode, what))
    return frozenset(made)


@given(trees, trees)
def test_two_trees_have_one_hash_exactly_if_they_hold_the_same(tmp_path_factory: pytest.TempPathFactory, one, other):
    folder = tmp_path_factory.mktemp("trees")
    left, right = grow(folder / "left", one), grow(folder / "right", other)
    found, against = build_manifest(str(folder / "left")), build_manifest(str(folder / "right"))
    assert (found.hash == against.hash) == (left == right)
    assert found.entry_count == len(left) + 1
    shutil.rmtree(folder)


def test_a_thing_stays_the_same_wherever_it_is_moved(tmp_path: Path):
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "large").write_bytes(bytes(module.MAX_HASHED_FILE_BYTES + 1))
    (tmp_path / "file").write_text("1")
    os.symlink("x", tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    here = os.open(tmp_path, os.O_RDONLY)
    for name in ("tree", "file", "link", "pipe"):
        before = read_entry_state(str(tmp_path / name))
        assert before is not None
        os.rename(tmp_path / name, tmp_path / "elsewhere")
        after = read_entry_state("elsewhere", dir_fd=here)
        assert after is not None
        assert after.newest_ctime_ns >= before.newest_ctime_ns
        assert after._replace(newest_ctime_ns=0) == before._replace(newest_ctime_ns=0)
        os.rename(tmp_path / "elsewhere", tmp_path / f"{name} again")
    os.close(here)


def test_nothing_is_no_thing(tmp_path: Path):
    assert read_entry_state(str(tmp_path / "none")) is None


def test_a_large_file_counts_by_its_time_and_not_by_what_it_holds(tmp_path: Path):
    large = tmp_path / "large"
    large.write_bytes(bytes(module.MAX_HASHED_FILE_BYTES + 1))
    first = build_manifest(str(tmp_path)).hash
    when = large.stat().st_mtime_ns
    large.write_bytes(b"1" * (module.MAX_HASHED_FILE_BYTES + 1))
    assert build_manifest(str(tmp_path)).hash != first
    os.utime(large, ns=(when, when))
    assert build_manifest(str(tmp_path)).hash == first


def test_of_a_tree_only_so_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "MAX_HASHED_TREE_BYTES", 10)
    for name in "abc":
        (tmp_path / name).write_bytes(b"12345")
    first = build_manifest(str(tmp_path)).hash
    for name, noticed in (("b", True), ("c", False)):
        when = (tmp_path / name).stat().st_mtime_ns
        (tmp_path / name).write_bytes(b"54321")
        os.utime(tmp_path / name, ns=(when, when))
        assert (build_manifest(str(tmp_path)).hash != first) == noticed
        first = build_manifest(str(tmp_path)).hash


def test_a_file_too_large_to_be_read_is_told_by_its_time_in_words_that_are_no_hash(tmp_path: Path):
    huge = tmp_path / "huge"
    with open(huge, "wb") as file:
        file.truncate(module.MAX_EDITABLE_BYTES + 1)
    first = read_entry_state(str(huge))
    os.utime(huge, ns=(1, 1))
    second = read_entry_state(str(huge))
    assert first is not None
    assert second is not None
    assert first.hash != second.hash
    assert first.hash.startswith("unread ")


def test_the_newest_change_of_anything_below_is_told(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "f").write_text("1")
    first = build_manifest(str(tmp_path)).newest_ctime_ns
    (tmp_path / "a" / "b" / "f").chmod(0o600)
    now = build_manifest(str(tmp_path)).newest_ctime_ns
    assert now > first
    assert now == (tmp_path / "a" / "b" / "f").stat().st_ctime_ns


def test_whoever_is_met_may_be_left_out(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_text("1")
    without = build_manifest(str(tmp_path))
    (tmp_path / "a" / "x").write_text("2")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_text("3")
    met: list[str] = []

    def meet(_directory: int, name: str, way: str, _found: os.stat_result, _fd: int) -> bool:
        met.append(way)
        return name not in ("b", "x")

    found = build_manifest(str(tmp_path), accept=meet)
    assert (found.hash, found.entry_count, found.size) == (without.hash, without.entry_count, without.size)
    assert met == ["a", "b", "a/f", "a/x"]


def test_a_tree_may_be_deeper_than_any_path_is_long_and_than_python_calls(tmp_path: Path):
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("deep", dir_fd=fd)
        below = os.open("deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    try:
        assert build_manifest(str(tmp_path)).entry_count == 2_001
    finally:
        subprocess.run(["rm", "-rf", tmp_path / "deep"], check=True)  # pytest could not delete it


def test_no_descriptor_is_left_open(tmp_path: Path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "f").write_text("1")
    before = os.listdir("/proc/self/fd")
    build_manifest(str(tmp_path))
    read_entry_state("f", dir_fd=(fd := os.open(tmp_path / "a", os.O_RDONLY)))
    os.close(fd)
    assert os.listdir("/proc/self/fd") == before
