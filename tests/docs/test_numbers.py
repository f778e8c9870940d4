"""The figures that we show: each says how it is made again, and the pictures are drawn from them and from nothing else."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.docs.pages import PROJECT

RESULTS: dict[str, Any] = json.loads((PROJECT / "bench/results.json").read_text(encoding="utf-8"))
GROUPS: dict[str, dict[str, Any]] = RESULTS["groups"]


def page(name: str) -> str:
    return (PROJECT / "docs" / name).read_text(encoding="utf-8")


def test_the_plots_are_drawn_again_without_a_difference():
    command = [sys.executable, "-m", "bench.plots", "--check"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"run `just pictures`:\n{done.stdout}{done.stderr}"


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_session_that_is_pictured_happens_again_as_it_is_drawn():
    done = subprocess.run(
        [sys.executable, "checks/pictures.py", "--check"], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"run `just pictures`:\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("name", GROUPS)
def test_every_figure_says_what_it_is_and_how_it_is_made_again(name: str):
    group = GROUPS[name]
    assert RESULTS["machine"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", group["date"])
    assert group["command"]
    for row in group["rows"]:
        assert row["what"]
        assert row["unit"]


def test_every_command_that_makes_figures_is_there():
    recipes = set(
        re.findall(r"^([a-z-]+)(?: [*a-z=\"-]+)*:", (PROJECT / "justfile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    for group in GROUPS.values():
        for command in re.split(r"\s+·\s+", group["command"]):
            recipe, module = re.match(r"just ([a-z-]+)", command), re.match(r"python -m ([a-z.]+)", command)
            assert recipe or module, command
            if recipe:
                assert recipe[1] in recipes
            if module:
                assert (PROJECT / f"{module[1].replace('.', '/')}.py").is_file()


def test_our_edits_are_what_the_benchmark_recorded():
    recorded = json.loads((PROJECT / "bench/edits/results.json").read_text(encoding="utf-8"))["dev"]["all"]
    ours = {row["what"]: row for row in GROUPS["edits"]["rows"] if row["ours"]}
    for matching in ("safe", "bold"):
        totals, row = recorded[matching]["totals"], ours[f"Handhold, {matching}"]
        assert row["exact"] == round(totals["exact"], 1)
        assert (row["wrong_on_positives"], row["wrong_on_negatives"]) == (0, 0)
        assert totals["wrong_on_positives"] == totals["wrong_on_negatives"] == 0


@pytest.mark.parametrize(
    ("name", "shown", "keys"),
    [
        ("edits", "concepts/edits.md", ("exact", "loose")),
        ("search", "concepts/search.md", ("ours", "bare")),
        ("calls", "numbers.md", ("ours",)),
    ],
)
def test_a_table_on_a_page_has_the_figures_of_the_plot(name: str, shown: str, keys: tuple[str, ...]):
    table = [line for line in page(shown).replace(",", "").replace("*", "").splitlines() if line.startswith("|")]
    for row in GROUPS[name]["rows"]:
        figures = [f"{row[key]:g}" for key in keys]
        assert any(all(re.search(rf"\| {re.escape(each)}(?:\.0)? ", line) for each in figures) for line in table), row[
            "what"
        ]
