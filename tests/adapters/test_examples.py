"""The examples do what they show, with the frameworks as they are and a model that follows a script."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.adapters.scripted import Turn, scripted
from tests.adapters.shop import CART, DONE, FIXED, MENDING, MENDING_BY_TYPES, TASK, Shop, mending_by_paths

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


@pytest.mark.parametrize(("name", "script", "answers"), FRAMEWORKS)
def test_an_example_mends_a_repository(name: str, script: Script, answers: str, shop: Shop):
    assert DONE in run(name, script, answers, shop)
    assert shop.cart == FIXED


@pytest.mark.parametrize(("name", "script", "answers"), FRAMEWORKS)
def test_an_example_takes_no_for_an_answer(name: str, script: Script, answers: str, shop: Shop):
    run(name, script, answers.replace("y", "n"), shop)
    assert shop.cart == CART


OURS = [path for path in sorted(EXAMPLES.glob("*.py")) if "handhold.adapters" in path.read_text()]


@pytest.mark.parametrize("example", OURS, ids=lambda path: path.stem)
def test_an_example_of_a_framework_is_under_forty_lines(example: Path):
    assert len(example.read_text().splitlines()) < 40
