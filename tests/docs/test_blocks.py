"""Every block of code on every page runs as shown; the blocks of a page run one after another, as a reader would."""

import sys
from itertools import groupby
from pathlib import Path

import pytest

from tests.docs.pages import Block, blocks, pages, runnable
from tests.docs.reader import Reader
from tests.scale import sampled

# Run in new environments by test_first_hour.py and, for the page of the package, tests/meta/test_wheel.py; and the hub's
# page by tests/hub/test_page.py.
FRESH = ("docs/start/", "README", "PACKAGE", "docs/hub.md")
BY_PAGE = {page: list(some) for page, some in groupby(runnable(), lambda block: block.page)}
PAGES = [page for page in BY_PAGE if not page.startswith(FRESH)]
MOST_NOT_RUN = 3  # blocks, on all pages except those that have a test of their own
TESTED_ELSEWHERE = (
    "docs/how-to/add-a-dialect.md",
    "docs/how-to/write-an-agent.md",
    "docs/contributing/tutorial.md",
)


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("page", sampled(PAGES, len(PAGES) // 2))
def test_every_block_of_a_page_runs_as_it_stands(page: str, tmp_path: Path):
    reader = Reader(tmp_path, Path(sys.executable).parent)
    for block in BY_PAGE[page]:
        if not block.not_run:
            reader.tries(block)


def test_few_blocks_are_not_run_and_each_says_why():
    left = [block for block in runnable() if block.not_run and block.page not in TESTED_ELSEWHERE]
    assert len(left) <= MOST_NOT_RUN, [str(block) for block in left]
    assert all(len(block.not_run) > 15 for block in left)


def test_a_block_that_fails_would_be_found(tmp_path: Path):
    reader = Reader(tmp_path, Path(sys.executable).parent)
    for kind, text in (
        ("python", "raise SystemExit(1)\n"),
        ("sh", "false\ntrue\n"),
        ("console", "$ echo one\ntwo\n"),
        ("console", "$ false\n"),
    ):
        with pytest.raises(AssertionError):
            reader.tries(Block("x.md", 1, kind, text))
    with pytest.raises(AssertionError):
        reader.tries(Block("x.md", 1, "python", 'print("one")\n# two\n'))
    reader.tries(
        Block(
            "x.md",
            1,
            "console",
            "$ echo one \\\n  two\none two\n$ echo at 2026-01-01 10:00:00\nat 2020-02-02 00:00:00\n",
        )
    )


def test_the_language_of_every_block_is_named():
    bare = [str(block) for page in pages() for block in blocks(page) if not block.kind]
    assert bare == [], "say text, sh, console, python, json, toml …"
