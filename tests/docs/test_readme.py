"""The README claims what can be checked, and its Chinese translation says the same."""

import json
import re
from pathlib import Path

import pytest

from handhold.core.choices import DIALECTS
from tests.docs.pages import PROJECT, blocks, prose
from tests.docs.translation import find_differences

ENGLISH, CHINESE = PROJECT / "README.md", PROJECT / "README.zh-CN.md"
RIVALS = ("try", "nono", "AgentFS", "sandbox-runtime", "container-use")


def text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def table(page: Path, head: str) -> list[list[str]]:
    """The cells of each row below a head."""
    rows = text(page).split(f"{head}\n", 1)[1].split("\n\n", 1)[0].splitlines()[1:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


# --- the translation


def test_the_translation_has_the_same_structure_commands_and_links():
    assert list(find_differences(text(ENGLISH), text(CHINESE))) == []


@pytest.mark.parametrize(
    ("aspect", "pattern", "instead"),
    [
        ("headings", r"^## 数据$", "### 数据"),
        ("headings", r"^## 方言\n", ""),
        ("tables", r"^\| `gemini` .*\n", ""),
        ("tables", r"^(\| `tiny`.*) \| [^|]* \|$", r"\1 |"),
        ("rows of tables", r"^(\| `claude` .*\n)(\| `codex` .*\n)", r"\2\1"),
        ("code blocks", r"rm -rf \*", "rm -rf ."),
        ("code blocks", r"```python", "```text"),
        ("code in the text", r"`handhold install claude-code`", "`handhold install codex`"),
        ("links", r"docs/threat-model\.md", "docs/policy.md"),
        ("links", r"\(#只用-handhold-的工具\)", "(#方言)"),
        ("links", r"\[详情\]\(docs/concepts/policy\.md\)", ""),
        ("figures", r"97\.6 %", "97.5 %"),
        ("figures", r"2026 年 11 月", "2026 年 10 月"),
    ],
)
def test_a_difference_in_the_translation_is_found(aspect: str, pattern: str, instead: str):
    planted, count = re.subn(pattern, instead, text(CHINESE), count=1, flags=re.M)
    assert count == 1, "there is nothing to plant the difference in"
    found = list(find_differences(text(ENGLISH), planted))
    assert any(line.startswith(f"{aspect}: ") for line in found), found


# --- what a reader sees first


def test_the_first_screen_says_what_it_is_how_to_try_it_and_what_it_does_not_do():
    lines = text(ENGLISH).splitlines()
    demo = lines.index("```sh")
    limits = lines.index("## What it does not do")
    assert lines[2].startswith("**"), "a headline under the name"
    assert demo < 12 < limits < 22
    block = next(iter(blocks(ENGLISH)))
    assert block.text.startswith("pip install")
    assert "handhold undo" in block.text
    assert max(map(len, block.text.splitlines())) <= 45, "a phone shows 45 columns"


def test_the_limits_name_the_clients_own_tools_and_docker():
    limits = text(ENGLISH).split("## What it does not do\n")[1].split("\n## ")[0]
    assert "client's own" in limits
    assert "does not confine or preview a client's own tools" in " ".join(limits.split())
    assert "default Docker container" in limits
    assert "handhold install claude-code --only" in text(ENGLISH)


def test_it_is_short():
    shown = re.sub(r"\]\([^)]*\)|[|]|---", " ", prose(text(ENGLISH)))
    assert len(shown.split()) < 900


def test_the_nearest_rivals_are_named_and_the_page_that_compares_is_linked():
    (line,) = [line for line in text(ENGLISH).splitlines() if line.startswith("The nearest tools")]
    assert all(name in line for name in RIVALS)
    assert "docs/comparison.md" in line


# --- the numbers


def test_every_number_names_the_command_or_the_page_that_produced_it():
    rows = table(ENGLISH, "| measured | result | by |")
    assert len(rows) >= 8
    for row in rows:
        assert re.search(r"`(just|python -m) [^`]+`|\]\((tests|docs)/", row[-1]), row


def test_the_numbers_of_edits_are_what_was_measured():
    measured = json.loads(text(PROJECT / "bench/edits/results.json"))["dev"]["all"]
    totals, classes = measured["safe"]["totals"], measured["safe"]["classes"]
    positives = [name for name, row in classes.items() if row["kind"] == "pos"]
    right = [name for name in positives if name.startswith("exact")]
    cases = f"{totals['cases'] - totals['negatives']:,}"
    results = {row[0]: row[1] for row in table(ENGLISH, "| measured | result | by |")}
    assert results["test edits with exactly the intended result"] == f"{totals['exact']:.1f} % of {cases}"
    assert results["the same edits, applied in a wrong place"] == f"{totals['wrong_on_positives']} of {cases}"
    assert (
        results["edits applied that had to be refused"] == f"{totals['wrong_on_negatives']} of {totals['negatives']:,}"
    )
    said = " ".join(text(ENGLISH).split())
    assert "the test edits are synthetic" in said
    assert f"distort the quoted text in {len(positives) - len(right)} ways" in said
    assert f"plus {len(right)} undistorted controls" in said
    assert f"these {len(positives)} classes" in said


def test_the_numbers_of_the_plots_are_those_of_the_table():
    groups = json.loads(text(PROJECT / "bench/results.json"))["groups"]
    results = {row[0]: row[1] for row in table(ENGLISH, "| measured | result | by |")}
    start, _, replaced, _ = groups["shell"]["rows"]
    assert results["extra time of a command"].startswith(f"{start['ours'] - start['bare']:.0f} ms")
    assert (
        results["a command that replaces 20,000 files"] == f"{replaced['ours'] / replaced['bare']:.1f} times bare bash"
    )
    killed = groups["faults"]["rows"][0]
    assert f"{killed['ours_harmed']} of {killed['ours_tried']:,}" in results.values()


# --- the dialects


def test_s7_every_dialect_says_what_it_follows_and_for_whom_it_is():
    pages = (ENGLISH, CHINESE, PROJECT / "docs/reference/tools.md")
    heads = (
        "| dialect | follows | as of | for |",
        "| 方言 | 依据 | 时间 | 适合谁 |",
        "| dialect | follows | as of | for |",
    )
    for page, head in zip(pages, heads, strict=True):
        cells = table(page, head)
        named = [name for row in cells for name in re.findall(r"`(\w+)`", row[0])]
        assert sorted(named) == sorted(DIALECTS), page.name
        assert all(len(row) == 4 and all(row) for row in cells), page.name


def test_the_dialects_are_counted():
    count = ("eight", "nine", "ten", "eleven", "twelve")[len(DIALECTS) - 8]
    assert f"{count} [dialects]" in text(ENGLISH)


def test_the_dialects_that_match_exactly_are_named():
    page = text(PROJECT / "docs/reference/tools.md")
    exact = re.findall(r"^\| \[`(\w+)`\][^|]*\|[^|]*\| `exact` \|", page, re.M)
    (said,) = re.findall(r"The dialects (.*?) match\s+exactly", text(ENGLISH), re.S)
    assert sorted(re.findall(r"`(\w+)`", said)) == sorted(exact)


def test_the_plot_of_edits_says_that_the_errors_are_synthetic_and_has_no_tool_that_was_not_run():
    group = json.loads(text(PROJECT / "bench/results.json"))["groups"]["edits"]
    drawn = text(PROJECT / "docs/pictures/edits.svg")
    assert [row["what"] for row in group["rows"]] == ["Exact matching", "Handhold, safe", "Handhold, bold"]
    assert all(f">{row['exact']:g}<" in drawn for row in group["rows"])
    assert "synthetic" in group["note"]


def test_the_numbers_of_recorded_edits_are_what_was_measured():
    measured = json.loads(text(PROJECT / "bench/recorded.json"))["recorded.jsonl.xz"]["families"]
    misses, exact = measured["all, misses"], measured["all, exact"]
    results = {row[0]: row[1] for row in table(ENGLISH, "| measured | result | by |")}
    count = f"{sum(misses.values()):,}"
    assert results["recorded, misquoted edits applied as meant"] == (
        f"{misses['right']} of {count}; {misses['refused']} refused"
    )
    assert exact["right"] == sum(exact.values()) == 800
    harmed = sum(row.get(verdict, 0) for row in (misses, exact) for verdict in ("wrong", "broken", "repeated"))
    everything = f"{sum(misses.values()) + sum(exact.values()):,}"
    assert results["recorded edits applied wrongly, twice, or breaking Python"] == f"{harmed} of {everything}"
    names = {"Claude": "Claude 4 to 5", "several models": "GPT-4o and Claude 3 Opus in turns"}
    rows = {
        row[0]: row[1:]
        for row in table(
            PROJECT / "docs/concepts/edits.md",
            "| | misquoted | applied as meant | applied, not judged | refused | wrong, repeated or broken |",
        )
    }
    for family in ("Claude", "GPT", "Gemini", "several models"):
        row = measured[f"{family}, misses"]
        shown = (sum(row.values()), row.get("right", 0), row.get("unknown", 0), row.get("refused", 0), 0)
        assert rows[names.get(family, family)] == [str(number) for number in shown]
