"""The examples do what they show, with the frameworks as they are and a model that follows a script."""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.adapters.scripted import Turn, scripted
from tests.adapters.shop import CART, DONE, FIXED, MENDING, MENDING_BY_TYPES, TASK, Shop, mending_by_paths
from tests.scale import NIGHTLY, spread

Script = Sequence[Turn] | Callable[[Shop], Sequence[Turn]]
EXAMPLES = Path(__file__).parents[2] / "examples"
# Two edits of one file wait at once. Where a run pauses for them, the second is another change once the first is made,
# and is asked about again.
FRAMEWORKS = [
    pytest.param("openai_responses", MENDING, "y\ny\n", id="openai"),
    pytest.param("anthropic_messages", MENDING_BY_TYPES, "y\n", id="anthropic"),
    pytest.param("openai_agents_sdk", MENDING, "y\ny\ny\n", id="openai_agents"),
    pytest.param("langchain_agent", MENDING, "y\ny\ny\n", id="langchain"),
    pytest.param("pydantic_ai_agent", MENDING, "y\ny\ny\n", id="pydantic_ai"),
    pytest.param("deepagents_backend", mending_by_paths, "y\ny\n", id="deepagents"),
]


def run(name: str, script: Script, answers: str, shop: Shop) -> str:
    with scripted(*(script(shop) if callable(script) else script)) as model:
        done = subprocess.run(
            [sys.executable, EXAMPLES / f"{name}.py", shop.root, "scripted", TASK],
            env={**os.environ, **model.environment, "XDG_STATE_HOME": str(shop.root.parent / "state")},
            input=answers,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


# With every change each answer is given in one of the frameworks.
@pytest.mark.parametrize(("name", "script", "answers"), FRAMEWORKS if NIGHTLY else spread(FRAMEWORKS[::2], 1))
def test_an_example_mends_a_repository(name: str, script: Script, answers: str, shop: Shop):
    assert DONE in run(name, script, answers, shop)
    assert shop.cart == FIXED


@pytest.mark.parametrize(("name", "script", "answers"), FRAMEWORKS if NIGHTLY else spread(FRAMEWORKS[1::2], 1))
def test_an_example_takes_no_for_an_answer(name: str, script: Script, answers: str, shop: Shop):
    run(name, script, answers.replace("y", "n"), shop)
    assert shop.cart == CART


OURS = [path for path in sorted(EXAMPLES.glob("*.py")) if "handhold.adapters" in path.read_text()]


@pytest.mark.parametrize("example", OURS, ids=lambda path: path.stem)
def test_an_example_of_a_framework_is_under_forty_lines(example: Path):
    assert len(example.read_text().splitlines()) < 40


# --- what an example needs

EXTRAS = {
    "anthropic_messages": "anthropic",
    "deepagents_backend": "deepagents",
    "langchain_agent": "langchain",
    "openai_agents_sdk": "openai-agents",
    "openai_responses": "openai",
    "pydantic_ai_agent": "pydantic-ai",
}
PYPROJECT = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text())["project"]


def installed_by(requirements: Sequence[str]) -> set[str]:
    """The distributions that these requirements bring, and what those require in turn."""
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    waiting = [Requirement(each) for each in requirements]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        found.add(name)
        for extra in ("", *wanted.extras):
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for each in map(Requirement, distribution(name).requires or ()):
                if each.marker is None or each.marker.evaluate({"extra": extra}):
                    waiting.append(each)
    return found


def imported_modules(example: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(example.read_text())))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
    return {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"handhold"}


@pytest.mark.parametrize("example", OURS, ids=lambda path: path.stem)
def test_r39_an_example_imports_only_what_its_extra_brings(example: Path):
    brought = installed_by(PYPROJECT["optional-dependencies"][EXTRAS[example.stem]])
    homes = packages_distributions()
    for module in imported_modules(example):
        assert {canonicalize_name(home) for home in homes[module]} & brought, module
