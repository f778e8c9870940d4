"""F-4: an adapter loads its framework when it is used, and never another one."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import handhold.adapters
from tests.scale import sampled

MODULES = sorted(path.stem for path in Path(handhold.adapters.__path__[0]).glob("[!_]*.py"))
FRAMEWORKS = {"agents", "anthropic", "deepagents", "langchain", "langchain_core", "langgraph", "openai", "pydantic_ai"}

# What makes an adapter use its framework, and what that brings.
USES = [
    ("from handhold.adapters.openai import Responses, Chat; Responses(box).tools; Chat(box).tools", set[str]()),
    ("from handhold.adapters.anthropic import Messages; Messages(box).tools", set[str]()),
    ("from handhold.adapters.anthropic import Messages; Messages(box).make_runnable_tools()", {"anthropic"}),
    ("from handhold.adapters.anthropic import Messages; Messages(box).make_async_runnable_tools()", {"anthropic"}),
    ("from handhold.adapters.openai_agents import tools; tools(box)", {"agents", "openai"}),
    ("from handhold.adapters.langchain import tools; tools(box)", {"langchain_core", "langgraph"}),
    ("from handhold.adapters.pydantic_ai import toolset; toolset(box)", {"pydantic_ai"}),
    (
        "from handhold.adapters.deepagents import raw, workspace_backend; workspace_backend(Toolbox.in_memory({}, dialect=raw))",
        {"deepagents", "langchain", "langchain_core", "langgraph"},
    ),
]


def loaded(code: str) -> set[str]:
    lines = f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", lines], check=True, capture_output=True, text=True)
    return set(json.loads(done.stdout)) & FRAMEWORKS


def test_f4_to_import_an_adapter_loads_no_framework():
    """All of them in one process: what none loads there, none loads alone."""
    assert loaded("\n".join(f"import handhold.adapters.{module}" for module in MODULES)) == set()


@pytest.mark.parametrize(("code", "brought"), sampled(USES, 3))
def test_f4_to_use_an_adapter_loads_its_framework_and_no_other(code: str, brought: set[str]):
    assert loaded(f"from handhold import Toolbox\nbox = Toolbox.in_memory({{}})\n{code}") == brought
