"""Matches in one file, compared with ripgrep where ripgrep's buffering is visible."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from handhold.backends.search.line_matcher import (
    WINDOW_BYTES,
    FileMatches,
    LineMatcher,
    build_ignore_case_pattern,
    list_case_variants,
    make_reader,
)
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from handhold.core.requests import Grep

BUFFER = 1 << 16
CASES = {
    "a NUL in the first three bytes": b"x\0\nneedle\n",
    "a NUL behind the first three bytes": b"n\nn\0\nneedle\n",
    "a NUL behind the match, in the same piece": b"a needle\nb\0\n",
    "a NUL in the next piece": b"needle\n" + b"y\n" * BUFFER + b"\0\nneedle\n",
    "a NUL and a line longer than a piece": b"needle\n" + b"y" * 3 * BUFFER + b"\0\nneedle\n",
    "no NUL and a line longer than a piece": b"y" * 3 * BUFFER + b"needle\n" + b"z" * BUFFER + b"\nneedle",
    "a mark of UTF-8 before a NUL": b"\xef\xbb\xbfneedle\n" + b"y\n" * BUFFER + b"\0\n",
    "UTF-16": "\ufeffeins\nneedle\nzwei needle".encode("utf-16-le"),
    "UTF-16 with a NUL far behind": ("\ufeff" + "needle\n" * 20_000 + "\0\nneedle\n").encode("utf-16-be"),
    "UTF-16 that ends in the middle of a character": "\ufeffneedle\n".encode("utf-16-le") + b"x",
    "half of a pair in UTF-16": b"\xff\xfe\x00\xd8" + "needle\n".encode("utf-16-le"),
    "nothing": b"",
    "only a mark": b"\xff\xfe",
    "blank lines": b"\n\n\r\n\nneedle\n\n",
}


def searched(data: bytes, folder: Path, **how: Any) -> FileMatches:
    named, most = how.pop("named", False), how.pop("most", 10**9)
    path = folder / "file"
    path.write_bytes(data)
    needle = LineMatcher(Grep(**{"limit": 1, "chars": 1, "pattern": "needle", "mode": "content", **how}))
    fd = os.open(path, os.O_RDONLY)
    try:
        return needle.search(make_reader(fd, len(data)), explicit=named, max_lines=most)
    finally:
        os.close(fd)


def ripgrep(folder: Path, *how: str) -> bytes:
    program = find_ripgrep()
    assert isinstance(program, RipgrepBinary)
    argv = [program.path, "--no-config", "--no-mmap", "--fixed-strings", "--regexp=needle", *how]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=False).stdout


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("named", [False, True])
def test_binary_and_wide_files_are_read_as_ripgrep_reads_them(tmp_path: Path, case: str, named: bool):
    lines = searched(CASES[case], tmp_path, named=named).lines
    said = [json.loads(line) for line in ripgrep(tmp_path, "--json", "./file" if named else "./").splitlines()]
    nul = next((event["data"]["binary_offset"] for event in said if event["type"] == "end"), None)
    numbers = [
        (event["data"]["line_number"], event["data"]["absolute_offset"])
        for event in said
        if event["type"] == "match" and (named or nul is None or event["data"]["absolute_offset"] < nul)
    ]
    found = [(line.number, line.offset) for line in lines]
    assert found[: len(numbers)] == numbers
    # After its first buffer ripgrep may stop some lines before the NUL; we stop at it.
    assert all(nul is not None and not named and offset < nul for _, offset in found[len(numbers) :])
    one = searched(CASES[case], tmp_path, named=named, mode="files_with_matches", most=1)
    assert bool(one.count) == bool(ripgrep(tmp_path, "--files-with-matches", "./file" if named else "./"))
    count = searched(CASES[case], tmp_path, named=named, mode="count").count
    assert count == int(ripgrep(tmp_path, "--count", "--no-filename", "./file" if named else "./") or 0)


@pytest.mark.parametrize("regex", [False, True])
def test_a_file_in_several_windows_is_searched_as_one(tmp_path: Path, regex: bool):
    row = "ein Wörtchen, das nicht passt\n".encode()
    data = bytearray()
    while len(data) < 2 * WINDOW_BYTES:
        data += row * 9_999 + b"needle\n"
    data += row * 3 + b"needle"
    seen = searched(bytes(data), tmp_path, before=2, after=1, regex=regex)
    matches = [line for line in seen.lines if line.start >= 0]
    assert all(data[line.offset : line.offset + 6] == b"needle" for line in matches)
    assert [line.number for line in matches] == [n for n, line in enumerate(data.split(b"\n"), 1) if line == b"needle"]
    wanted = {number for line in matches for number in range(line.number - 2, line.number + 2)}
    assert {line.number for line in seen.lines} == {n for n in wanted if 0 < n <= data.count(b"\n") + 1}


@pytest.mark.parametrize("before", [0, 1, 3])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_lines_around_matches_cross_windows_and_come_once(
    tmp_path: Path, before: int, after: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("handhold.backends.search.line_matcher.WINDOW_BYTES", 7)
    rows = [b"needle\n" if n in (3, 4, 9, 17) else b"%d\n" % n for n in range(20)]
    seen = searched(b"".join(rows), tmp_path, before=before, after=after)
    near = {n for match in (3, 4, 9, 17) for n in range(match - before, match + after + 1) if 0 <= n < 20}
    assert [line.number - 1 for line in seen.lines] == sorted(near)
    assert [line.data for line in seen.lines] == [rows[n] for n in sorted(near)]


def test_no_more_lines_are_given_than_wanted(tmp_path: Path):
    seen = searched(b"needle\n" * 10, tmp_path, most=3)
    assert [line.number for line in seen.lines if line.start >= 0] == [1, 2, 3]


def test_a_long_line_is_found_and_not_held(tmp_path: Path):
    (line,) = searched(b"x" * 10_000_000 + b"needle" + b"y" * 10_000_000, tmp_path).lines
    assert (line.number, line.offset, line.start, line.end, line.data) == (1, 0, 10_000_000, 10_000_006, None)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("k", "kK\u212a"),
        ("S", "sS\u017f"),
        ("i", "iI"),
        ("ß", "ßẞ"),
        ("σ", "Σσς"),
        ("é", "éÉ"),
        ("1", "1"),
        ("日", "日"),
    ],
)
def test_letters_that_differ_in_case_are_those_of_unicode(text: str, same: str):
    assert set(list_case_variants(text)) == set(same)
    assert build_ignore_case_pattern(text)
