"""Without ripgrep the built-in search gives the same answers, except for where a binary file counts as binary."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handhold.core.errors import BadRegex
from handhold.core.facts import SearchOutcome
from tests.backends.search.looking import Looking, children, descriptors, looking, planted

TREE: dict[str, str | bytes] = {
    "a.py": "import os\nneedle = 1\n\n# Needle\n",
    "src/b.py": "x\n" * 50 + "a needle\nx\nanother needle\n" + "y\n" * 20,
    "src/c.txt": "needle\r\nline\r\n",
    "src/deep/er/d.md": "ein Nadelöhr, NEEDLE und näädle\n",
    "src-2/e": "needle",
    "src.txt": "needle",
    "wide.txt": "x\nneedle ä\n".encode("utf-16"),
    "bom.txt": "\ufeffneedle\n",
    "latin.txt": b"caf\xe9 needle\n",
    "binary": b"needle\0needle\n",
    "late": b"needle\n" + b"x\n" * 50_000 + b"\0\nneedle\n",
    "empty": "",
    "quoted": "a\\Eb .* (needle)\n",
    "kelvin": "\u212aelvin\n",
    ".gitignore": "*.log\n/build/\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tneedle = true\n",
    ".git/info/exclude": "excluded\n",
    ".hidden/f": "needle\n",
    "excluded": "needle\n",
    "x.log": "needle\n",
    "build/g": "needle\n",
    "sub/build/g": "needle\n",
    "sub/.ignore": "!keep.log\nsecret*\n",
    "sub/keep.log": "needle\n",
    "sub/secret.txt": "needle\n",
    "nested/.git/HEAD": "ref: refs/heads/main\n",
    "nested/h": "needle\n",
    "nested/i.log": "needle\n",
    ".gitattributes": "*.py -diff\n*.txt binary\nsrc-2/e filter=lfs diff=lfs\n",
    "-rf": "needle\n",
    "two\nlines": "needle\n",
    os.fsdecode(b"\xff\xfe.txt"): "needle\n",
    ":(top)x": "needle\n",
    "*": "needle\n",
}

ASKED: list[tuple[str, dict[str, Any]]] = [
    ("needle", {}),
    ("needle", {"hidden": True}),
    ("needle", {"ignored": True}),
    ("needle", {"ignore_case": True}),
    ("needle", {"glob": "*.py"}),
    ("needle", {"glob": "!src"}),
    ("needle", {"glob": "src/**"}),
    ("needle", {"glob": "*.log"}),
    ("needle", {"below": "src"}),
    ("needle", {"below": "sub"}),
    ("needle", {"below": "build"}),
    ("kelvin", {"ignore_case": True}),
    ("NADELÖHR", {"ignore_case": True}),
    ("a\\Eb .* (", {}),
    ("^needle$", {"regex": True}),
    (r"\bn\w+le\b", {"regex": True}),
    (r"n..dle", {"regex": True}),
    (r"[^a-z ]needle|é", {"regex": True}),
    (r"(?i)NEEDLE\s", {"regex": True}),
    (r"e++d", {"regex": True}),
    (r"\p{Lu}", {"regex": True}),
    ("nowhere", {}),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(tmp_path_factory.mktemp("tree"), TREE)


@pytest.fixture
def both(tree: Path) -> Iterator[tuple[Looking, Looking]]:
    with looking(tree, "ripgrep") as ripgrep, looking(tree, "walk") as walk:
        yield ripgrep, walk


@pytest.mark.parametrize(("pattern", "how"), ASKED)
@pytest.mark.parametrize("mode", ["files_with_matches", "count", "content"])
@pytest.mark.parametrize("sort", ["modified", "none"])
def test_c73_the_walk_finds_what_ripgrep_finds(
    both: tuple[Looking, Looking], pattern: str, how: dict[str, Any], mode: str, sort: str
):
    context = {"before": 1, "after": 2} if mode == "content" else {}
    by_ripgrep, by_walk = (look.grep(pattern, mode=mode, sort=sort, **context, **how) for look in both)
    assert by_walk.hits == by_ripgrep.hits
    assert by_walk.order == by_ripgrep.order
    assert by_walk.fallback_reason


def test_pages_put_together_are_the_whole(both: tuple[Looking, Looking]):
    for sort in ("modified", "none"):
        whole = both[1].lines(both[1].grep("needle", mode="content", sort=sort))
        pages: list[object] = []
        while True:
            page = both[1].grep("needle", mode="content", sort=sort, limit=4, start=len(pages))
            pages += both[1].lines(page)
            if not page.has_more:
                break
        assert pages == whole


def test_a_regex_that_is_none_is_told_even_where_nothing_could_match(tmp_path: Path):
    with looking(tmp_path, "walk") as walk, pytest.raises(BadRegex):
        walk.grep("a(", regex=True)


def test_no_process_and_no_descriptor_is_left(both: tuple[Looking, Looking]):
    walk = both[1]
    walk.grep("needle")
    processes, opened = children(), descriptors()
    scans: list[SearchOutcome] = [walk.grep("needle", timeout_seconds=seconds) for seconds in (0.0, 0.005, 0.02)]
    assert scans[0].abort_reason == "deadline"
    walk.grep("needle", mode="content", sort="none", limit=1)
    assert children() <= processes  # an earlier test may have left some that end
    assert descriptors() <= opened
