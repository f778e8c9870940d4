"""The README says what can be checked, and its Chinese twin says the same."""

import json
import re
from pathlib import Path

from handhold.core.choices import DIALECTS
from tests.docs.pages import PROJECT, blocks, links, prose

ENGLISH, CHINESE = PROJECT / "README.md", PROJECT / "README.zh-CN.md"


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def levels(page: Path) -> list[str]:
    return re.findall(r"^(#+) ", prose(text(page)), re.MULTILINE)


def numbers(page: Path) -> list[str]:
    """Every figure, year and version in order; a year and a month are written the other way round in Chinese."""
    said = prose(text(page)).replace("November 2026", "2026 11").replace("2026 年 11 月", "2026 11")
    said = said.replace("Nine dialects", "9 dialects").replace("九种方言", "9 ")
    return re.findall(r"\d[\d,.]*\d|\d", re.sub(r"\]\([^)]*\)|zh-CN", "", said))


def rows(page: Path) -> list[int]:
    """Of each table row, how many cells it has."""
    return [line.count("|") for line in text(page).splitlines() if line.startswith("|")]


def test_both_have_the_same_headings():
    assert levels(ENGLISH) == levels(CHINESE)


def test_both_have_the_same_blocks_of_code():
    assert [(b.kind, b.text) for b in blocks(ENGLISH)] == [(b.kind, b.text) for b in blocks(CHINESE)]


def test_both_have_the_same_figures():
    assert sorted(numbers(ENGLISH)) == sorted(numbers(CHINESE))


def test_both_have_the_same_tables_and_links():
    assert rows(ENGLISH) == rows(CHINESE)
    others = {"README.md", "README.zh-CN.md"}
    assert [each for each in links(ENGLISH) if each not in others] == [
        each for each in links(CHINESE) if each not in others
    ]


def test_every_claim_carries_a_link_to_what_holds_it():
    table = re.search(r"\| claim \| held by \|\n\|.*\n((?:\|.*\n)+)", text(ENGLISH))
    assert table
    claims = table[1].splitlines()
    assert len(claims) >= 8
    for claim in claims:
        held = claim.strip("| ").split(" | ")[-1]
        assert re.findall(r"\]\((tests/|docs/)[^)]*\)", held), claim


def test_what_it_says_of_edits_is_what_was_measured():
    totals = json.loads((PROJECT / "bench/edits/results.json").read_text())["dev"]["all"]["safe"]["totals"]
    assert f"{totals['exact']:.1f} % of {totals['cases'] - totals['negatives']:,} misquoted edits" in text(ENGLISH)
    assert f"{totals['negatives']:,} that must be refused" in text(ENGLISH)
    assert totals["wrong_on_negatives"] == totals["wrong_on_positives"] == 0


def test_s7_every_dialect_says_what_it_follows_and_for_whom_it_is():
    pages = (ENGLISH, CHINESE, PROJECT / "docs/reference/tools.md")
    heads = (
        "| dialect | follows | as of | for |",
        "| 方言 | 采用什么 | 时间 | 适合谁 |",
        "| dialect | follows | as of | for |",
    )
    for page, head in zip(pages, heads, strict=True):
        table = text(page).split(f"{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
        cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in table]
        assert sorted(row[0] for row in cells) == sorted(f"`{name}`" for name in DIALECTS), page.name
        assert all(len(row) == 4 and all(row) for row in cells), page.name


def test_the_dialects_are_counted():
    count = len(DIALECTS)
    assert f"{('Eight', 'Nine', 'Ten', 'Eleven', 'Twelve')[count - 8]} dialects" in text(ENGLISH)
    assert f"{count} dialects" in text(PROJECT / "docs/comparison.md")
