"""U-11: a search without results reports what it searched, what it skipped, and why."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from handhold.backends.search import exclusions
from handhold.core.facts import SkippedFiles
from tests.backends.search.looking import Looking, looking, planted


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Looking]:
    with looking(tmp_path, "ripgrep") as look:
        yield look


def test_u11_a_miss_tells_how_many_files_were_searched_and_by_which_rule_the_others_were_not(
    disk: Looking, tmp_path: Path
):
    planted(
        tmp_path,
        {
            "a": "x\n",
            "b/c": "x\n",
            "binary": b"x\0",
            ".hidden": "x\n",
            ".dir/x": "x\n",
            ".git/HEAD": "ref: refs/heads/main\n",
            ".gitignore": "# logs\n*.log\n/build/\n",
            "one.log": "x\n",
            "b/two.log": "x\n",
            "build/three/x": "x\n",
            "b/.ignore": "c.tmp\n",
            "b/c.tmp": "x\n",
        },
    )
    scan = disk.grep("nowhere")
    assert scan.searched_count == 2
    assert sorted(scan.skipped, key=lambda each: (each.rule, each.source, each.line)) == [
        SkippedFiles("binary", 1),
        SkippedFiles("hidden", 4),
        SkippedFiles("ignore file", 2, f"{tmp_path}/.gitignore", 2, "*.log"),
        SkippedFiles("ignore file", 1, f"{tmp_path}/.gitignore", 3, "/build/"),
        SkippedFiles("ignore file", 1, f"{tmp_path}/b/.ignore", 1, "c.tmp"),
    ]


def test_u11_what_was_asked_for_is_not_told_as_left_out(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n", ".hidden": "x\n", ".ignore": "ignored\n", "ignored": "x\n"})
    assert {each.rule for each in disk.grep("nowhere", hidden=True).skipped} == {"ignore file"}
    assert {each.rule for each in disk.grep("nowhere", ignored=True).skipped} == {"hidden"}
    everything = disk.grep("nowhere", hidden=True, ignored=True)
    assert (everything.searched_count, everything.skipped) == (4, ())


def test_u11_only_files_that_the_glob_filter_wants_are_counted(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a.py": "x\n", "b.txt": "x\n", ".ignore": "out/\n", "out/c.py": "x\n", "out/d.txt": "x\n"})
    scan = disk.grep("nowhere", glob="*.py")
    assert scan.searched_count == 1
    assert scan.skipped == (SkippedFiles("ignore file", 1, f"{tmp_path}/.ignore", 1, "out/"),)


def test_u11_a_glob_that_matches_only_what_is_ignored_says_so(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a.txt": "", ".ignore": "out/\n", "out/b.rs": "", "out/c.txt": ""})
    scan = disk.glob("**/*.rs")
    assert scan.searched_count == 1
    assert scan.skipped == (SkippedFiles("ignore file", 1, f"{tmp_path}/.ignore", 1, "out/"),)


def test_u11_if_everything_is_ignored_nothing_was_searched(disk: Looking, tmp_path: Path):
    planted(tmp_path, {".ignore": "*\n", "a": "x\n", "b/c": "x\n"})
    scan = disk.grep("x")
    assert (scan.hits, scan.searched_count) == ((), 0)
    assert scan.skipped == (SkippedFiles("ignore file", 3, f"{tmp_path}/.ignore", 1, "*"),)


def test_u11_what_the_policy_hides_is_counted_and_nothing_else_is_told_of_it(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n", "secret": "needle\n", ".secret": "needle\n"})
    scan = disk.grep("needle", visible=lambda place: "secret" not in place)
    assert (scan.hits, scan.searched_count, scan.skipped) == ((), 1, (SkippedFiles("denied", 1),))


def test_a_file_that_was_named_is_what_was_searched(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n", "b": "x\n"})
    scan = disk.grep("nowhere", below="a")
    assert (scan.searched_count, scan.skipped) == (1, ())


def test_nothing_is_counted_where_something_was_found(disk: Looking, tmp_path: Path):
    planted(tmp_path, {"a": "x\n", ".hidden": "x\n"})
    scan = disk.grep("x")
    assert (scan.searched_count, scan.skipped) == (None, ())


@pytest.mark.parametrize("engine", ["ripgrep", "walk"])
def test_u11_without_time_to_count_a_miss_does_not_claim_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
):
    planted(tmp_path, {"a": "x\n", ".hidden": "x\n", "closed/key.pem": "x\n"})
    monkeypatch.setattr(exclusions, "COVERAGE_TIMEOUT_SECONDS", 0.0)
    monkeypatch.setattr(exclusions, "monotonic", lambda: monotonic() - 1)  # however short the search was
    with looking(tmp_path, engine) as look:
        there, nowhere = (
            look.glob(each, visible=lambda place: "closed" not in place) for each in ("**/*.pem", "*.gem")
        )
    assert (there.hits, there.searched_count, there.skipped) == ((), None, ())
    assert (nowhere.searched_count, nowhere.skipped) == (None, ())
