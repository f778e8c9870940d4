"""The tutorial for contributors works: each step is made in a copy of the project, and its commands are run there."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, Block, blocks
from tests.scale import nightly

PAGE = PROJECT / "docs/contributing/tutorial.md"
COPIED = ("src", "tests", "bench", "examples", "docs", "pyproject.toml", "justfile")
SCENARIO = "tests/scenarios/handhold_edit_ignores_capitals"
SAMPLE = """
from bench.edits import sample
score = sample.score("safe")
print(sample.table(score))
raise SystemExit(sample.fallen(score.rows(), "safe") or 0)
"""
ALL_BLOCKS = list(blocks(PAGE))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Contributor:
    """Makes the changes of the page in a copy, and runs commands on it with this environment."""

    def __init__(self, project: Path) -> None:
        self.project = project
        for name in COPIED:
            source = PROJECT / name
            if source.is_dir():
                shutil.copytree(source, project / name, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
            else:
                shutil.copy(source, project / name)

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
        paths = os.pathsep.join((str(self.project / "src"), str(self.project)))
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.project,
            env=kept | {"PYTHONPATH": paths, **variables},
            capture_output=True,
            text=True,
            check=False,
        )

    def run_block(self, block: Block, **variables: str) -> subprocess.CompletedProcess[str]:
        """`just test` is pytest."""
        just, recipe, *arguments = shlex.split(block.text)
        assert (just, recipe) == ("just", "test"), block.text
        return self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not alone", *arguments, **variables)

    def write(self, block: Block) -> None:
        file = self.project / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(block.text, encoding="utf-8")

    def append(self, block: Block) -> None:
        file = self.project / block.title
        file.write_text(f"{file.read_text(encoding='utf-8')}\n\n{block.text}", encoding="utf-8")

    def insert(self, block: Block, pattern: str) -> None:
        """Behind what `pattern` matches."""
        file = self.project / block.title
        before = file.read_text(encoding="utf-8")
        (found,) = re.finditer(pattern, before, re.MULTILINE)
        file.write_text(before[: found.end()] + block.text + before[found.end() :], encoding="utf-8")


@pytest.fixture(scope="module")
def contributor(tmp_path_factory: pytest.TempPathFactory) -> Contributor:
    return Contributor(tmp_path_factory.mktemp("contributor") / "project")


def titled(path: str) -> list[Block]:
    found = [block for block in ALL_BLOCKS if block.title == path]
    assert found, path
    return found


def commands() -> Iterator[Block]:
    return (block for block in ALL_BLOCKS if block.kind == "sh")


def command(words: str) -> Block:
    (found,) = (block for block in commands() if words in block.text)
    return found


@pytest.fixture(scope="module")
def strategy(contributor: Contributor) -> Contributor:
    """After the steps that add the strategy and its scenario."""
    function, entry = titled("src/handhold/core/text/match.py")
    contributor.insert(entry, r"^STRATEGIES = \(\n(?:    .*\n)+")
    contributor.insert(replace(function, text=f"{function.text}\n\n"), r"^(?=STRATEGIES = \()")
    for block in ALL_BLOCKS:
        if block.title.startswith(SCENARIO):
            contributor.write(block)
    return contributor


def test_r37_the_strategy_succeeds_and_its_scenario_passes(strategy: Contributor):
    test = command("ignores_capitals")
    failed = strategy.run_block(test)
    assert failed.returncode == 1, failed.stdout + failed.stderr
    assert "3→LIMIT 1" in failed.stdout, "the actual reply is shown"
    written = strategy.run_block(test, HANDHOLD_WRITE_REPLIES="1")
    assert written.returncode == 0, written.stdout + written.stderr
    assert "capitals" in (strategy.project / SCENARIO / "reply.txt").read_text(encoding="utf-8")
    passed = strategy.run_block(test)
    assert passed.returncode == 0, passed.stdout + passed.stderr
    assert "2 passed" in passed.stdout


@nightly(sampled_by="tests/docs/test_tutorial.py::test_r37_the_strategy_succeeds_and_its_scenario_passes")
def test_r37_the_strategy_passes_the_benchmark(strategy: Contributor):
    for path in ("bench/edits/positives.py", "bench/edits/negatives.py"):
        (case_class,) = titled(path)
        strategy.append(case_class)
    measured = strategy.run("-c", SAMPLE)
    assert measured.returncode == 0, measured.stdout + measured.stderr
    rows = {words[0]: words[1:] for line in measured.stdout.splitlines() if (words := line.split())}
    assert rows["capitals_in_context"] == ["24", "100.0", "0", "0", "0"]
    assert rows["neg_capitals_replaced"] == ["24", "0", "24", "0"]


def test_r37_the_rule_passes_the_tests_of_rules(contributor: Contributor):
    (rule,) = titled("src/handhold/core/policy/default_rules.py")
    contributor.insert(rule, r"^SECRET_RULES: .*\n(?:    .*\n)+")
    passed = contributor.run_block(command("test_default_rules"))
    assert passed.returncode == 0, passed.stdout + passed.stderr
    file = contributor.project / rule.title
    valid = file.read_text(encoding="utf-8")
    file.write_text(valid.replace('"main.tf"', '"main.tfstate"'), encoding="utf-8")
    refused = contributor.run("-c", "import handhold.core.policy.default_rules")
    file.write_text(valid, encoding="utf-8")
    assert "ValueError" in refused.stderr
    assert "main.tfstate" in refused.stderr


def test_r37_the_dialect_is_found_and_its_tests_pass(contributor: Contributor):
    copying = shlex.split(command("cp -r").text)
    subprocess.run(copying, cwd=contributor.project, check=True)
    choices = contributor.project / "src/handhold/core/choices.py"
    choices.write_text(
        choices.read_text(encoding="utf-8").replace('"gemini")', '"gemini", "cline")', 1), encoding="utf-8"
    )
    found = contributor.run("-c", "from handhold import Toolbox; print(Toolbox.in_memory({}, dialect='cline').specs)")
    assert "replace_in_file" in found.stdout, found.stderr
    passed = contributor.run_block(command("test_cline_example"))
    assert passed.returncode == 0, passed.stdout + passed.stderr


def test_every_block_of_the_tutorial_is_followed():
    followed = {"src/handhold/core/text/match.py", "src/handhold/core/policy/default_rules.py"}
    followed |= {"bench/edits/positives.py", "bench/edits/negatives.py"}
    followed |= {f"{SCENARIO}/{name}" for name in ("call.json", "before/query.sql", "after/query.sql")}
    assert {block.title for block in ALL_BLOCKS if block.kind != "sh"} == followed
    assert len(list(commands())) == 4
    json.loads(titled(f"{SCENARIO}/call.json")[0].text)
