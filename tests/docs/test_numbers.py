"""The figures that we publish: each names the command that measures it, and the plots are drawn from nothing else."""

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


def test_the_page_of_numbers_shows_every_plot():
    for plot in (PROJECT / "docs/pictures").glob("*.svg"):
        if plot.stem in GROUPS:
            assert f"](pictures/{plot.name})" in page("numbers.md")


def test_the_costs_of_a_call_are_what_was_measured():
    table = [line for line in page("numbers.md").splitlines() if line.startswith("|")]
    for row in GROUPS["calls"]["rows"]:
        assert any(re.search(rf"\| {row['ours']:g} ", line) for line in table), row["what"]


def test_the_page_on_edits_has_the_figures_of_the_benchmark():
    recorded = json.loads((PROJECT / "bench/edits/results.json").read_text(encoding="utf-8"))
    for matching in ("safe", "bold"):
        totals = recorded["dev"]["all"][matching]["totals"]
        table = [line for line in page("concepts/edits.md").splitlines() if line.startswith(f"| `{matching}` |")]
        assert table == [f"| `{matching}` | {totals['exact']:.1f} % | {totals['loose']:.1f} % | 0 |"]
        assert f"{totals['cases'] - totals['negatives']:,} cases to apply" in page("concepts/edits.md")
