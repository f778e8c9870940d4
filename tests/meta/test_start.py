"""F-4: what an import costs, and what an install includes."""

import json
import resource
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import pytest

from tests.scale import nightly

EXTRAS = (
    "numpy",
    "PIL",
    "pypdfium2",
    "mcp",
    "openai",
    "anthropic",
    "agents",
    "langchain_core",
    "pydantic_ai",
    "click",
    "asyncio",
    "tree_sitter",
)


def cpu_seconds(code: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@nightly(sampled_by="tests/meta/test_start.py::test_f4_an_import_loads_few_modules")
@pytest.mark.alone
@pytest.mark.parametrize(
    ("code", "most"),
    [("import handhold", 12), ("from handhold import Toolbox", 16)],  # the second: all but SQLite and the system calls
)
def test_f4_an_import_costs_at_most_twelve_bare_interpreters(code: str, most: int):
    ratios: list[float] = []
    for _ in range(5):  # interleaved, since other tests run at the same time
        bare = min(cpu_seconds("pass") for _ in range(3))
        ratios.append(min(cpu_seconds(code) for _ in range(3)) / bare)
        if ratios[-1] <= most:
            break
    print(f"{code}: {min(ratios):.1f} x a bare interpreter")
    assert min(ratios) <= most


@pytest.mark.parametrize(("code", "most"), [("import handhold", 4), ("from handhold import Toolbox", 120)])
def test_f4_an_import_loads_few_modules(code: str, most: int):
    """Modules beyond those of a bare interpreter. The cost of an import is mostly the number of modules it loads."""
    count = f"import sys; bare = set(sys.modules); {code}; print(len(set(sys.modules) - bare))"
    loaded = int(subprocess.run([sys.executable, "-c", count], check=True, capture_output=True).stdout)
    print(f"{code}: {loaded} modules")
    assert loaded <= most


def test_f4_the_import_loads_none_of_the_extras():
    code = "import json, sys; from handhold import Toolbox; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    assert not set(EXTRAS) & set(loaded)


def test_f4_what_searches_is_loaded_when_somebody_searches(tmp_path: Path):
    code = f"""
import sys
from handhold import Toolbox
with Toolbox.open({str(tmp_path)!r}, state={str(tmp_path / "state")!r}) as box:
    box.call("read_file", {{"path": "a"}})
    assert not {{"subprocess", "handhold.backends.search"}} & set(sys.modules)
    box.call("glob", {{"pattern": "*"}})
    assert "handhold.backends.search" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_f4_a_session_that_only_reads_loads_nothing_that_changes_or_runs(tmp_path: Path):
    unneeded = {f"handhold.pipeline.{name}" for name in ("approvals", "changes", "commands", "policy_review", "undo")}
    code = f"""
import sys
from handhold import Toolbox
with Toolbox.open({str(tmp_path)!r}, state={str(tmp_path / "state")!r}) as box:
    box.call("read_file", {{"path": "a"}})
assert not {unneeded} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_f4_a_workspace_in_memory_loads_nothing_of_the_disk():
    code = """
import sys
from handhold import Toolbox
with Toolbox.in_memory({"a": "x"}) as box:
    box.call("read_file", {"path": "a"})
    box.call("write_file", {"path": "b", "content": "y"})
assert "handhold.backends.files.workspace" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_f4_the_base_install_is_small():
    base = [requirement for requirement in requires("handhold") or [] if "extra ==" not in requirement]
    assert len(base) + 1 <= 10
