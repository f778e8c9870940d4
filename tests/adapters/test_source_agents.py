"""The agents in examples/sources/ hold the conversations that the sources describe, on a model that follows a script."""

import io
import runpy
from pathlib import Path

import pytest

from tests.adapters.scripted import Model, Turn, Use, scripted
from tests.dialects.sources import piece
from tests.suites.machine import has_shadows

EXAMPLES = Path(__file__).parents[2] / "examples/sources"
AGENTS = sorted(EXAMPLES.glob("*_agent.py"))
needs_shadows = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


class Desktop:
    """A folder with files, and a person who types tasks at an agent."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, printed: pytest.CaptureFixture[str]) -> None:
        self.folder = folder / "ws"
        self._patch, self._printed = patch, printed
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.folder / name.replace("__", "/").replace("_py", ".py").replace("_md", ".md")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        return (self.folder / name).read_text("utf-8")

    def run(self, dialect: str, task: str, *turns: Turn) -> tuple[Model, list[str]]:
        """The model, and the results that it got."""
        with scripted(*turns) as model, self._patch.context() as patch:
            for name, value in model.environment.items():
                patch.setenv(name, value)
            patch.setattr("sys.argv", ["agent", str(self.folder), "scripted"])
            patch.setattr("sys.stdin", io.StringIO(f"{task}\n\n"))
            runpy.run_path(str(EXAMPLES / f"{dialect}_agent.py"), run_name="__main__")
        assert "Done." in self._printed.readouterr().out
        return model, [result.text for result in model.results]


@pytest.fixture
def desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desktop:
    return Desktop(tmp_path, monkeypatch, capsys)


@pytest.mark.parametrize("agent", AGENTS, ids=lambda path: path.stem)
def test_m11_an_agent_has_at_most_80_lines(agent: Path):
    assert len(agent.read_text("utf-8").splitlines()) <= 80


@needs_shadows
def test_m11_the_agent_of_000_combines_its_tools(desktop: Desktop):
    desktop.write(src__utils_py="def deprecated_function():\n    return 1\n", src__main_py="print('ok')\n")
    file = str(desktop.folder / "src/utils.py")
    model, results = desktop.run(
        "deepagents",
        "Rename deprecated_function.",
        Use("glob", {"pattern": "**/*.py"}),
        Use("grep", {"pattern": "deprecated_function", "glob": "*.py"}),
        Use("read_file", {"file_path": file}),
        Use("edit_file", {"file_path": file, "old_string": "deprecated_function", "new_string": "current"}),
        Use("execute", {"command": "cat src/utils.py"}),
        "Done.",
    )
    assert desktop.read("src/utils.py") == "def current():\n    return 1\n"
    assert results[3] == f"Edited {file}"
    assert results[4].startswith("def current():")
    assert piece("000", "large.instructions") in model.requests[0]["messages"][0]["content"]


@needs_shadows
def test_m11_the_agent_of_001_edits_what_it_quoted_without_indentation(desktop: Desktop):
    desktop.write(a_py="def f(user):\n        if user is None:\n            return 1\n")
    _, results = desktop.run(
        "tiny",
        "Return 2.",
        Use("read_file", {"path": "a.py"}),
        Use(
            "edit_file",
            {
                "path": "a.py",
                "old_text": "if user is None:\n    return 1",
                "new_text": "if user is None:\n    return 2",
            },
        ),
        Use("bash", {"command": "cat a.py"}),
        "Done.",
    )
    assert desktop.read("a.py") == results[2] == "def f(user):\n        if user is None:\n            return 2\n"


def test_m11_the_agent_of_002_reads_edits_and_edits_several_places(desktop: Desktop):
    desktop.write(a_py="one\ntwo\nthree\n")
    file = str(desktop.folder / "a.py")
    _, results = desktop.run(
        "claude",
        "Make them capital.",
        Use("Edit", {"file_path": file, "old_string": "one", "new_string": "ONE"}),
        Use("Read", {"file_path": file}),
        Use("Edit", {"file_path": file, "old_string": "one", "new_string": "ONE"}),
        Use(
            "MultiEdit",
            {
                "file_path": file,
                "edits": [{"old_string": each, "new_string": each.upper()} for each in ("two", "three")],
            },
        ),
        "Done.",
    )
    assert results[0] == piece("002", "tracker.unread")
    assert results[3].startswith(f"Applied 2 edits to {file}:")
    assert desktop.read("a.py") == "ONE\nTWO\nTHREE\n"


@needs_shadows
def test_m11_the_agent_of_003_lists_reads_searches_edits_and_uppercases(desktop: Desktop):
    desktop.write(README_md="TODO one\ntwo\nTODO three\n")
    model, results = desktop.run(
        "hello",
        piece("003", "task"),
        Use("bash", {"command": "ls"}),
        Use("read_file", {"file_path": "README.md"}),
        Use("bash", {"command": "grep -n TODO README.md"}),
        [
            Use("edit_file", {"file_path": "README.md", "old_string": "TODO one", "new_string": "DONE one"}),
            Use("uppercase", {"text": "done"}),
            Use("uppercase", {"word": "done"}),
        ],
        Use("edit_file", {"file_path": "README.md", "old_string": "TODO three", "new_string": "DONE three"}),
        Use("read_file", {"file_path": "README.md"}),
        "Done.",
    )
    assert results[0] == "README.md"
    assert results[2] == "1:TODO one\n3:TODO three"
    assert sorted(results[3:6])[0] == "DONE"
    assert any(text.startswith("错误:") for text in results[3:6])
    assert desktop.read("README.md") == "DONE one\ntwo\nDONE three\n"
    assert [tool["function"]["name"] for tool in model.requests[0]["tools"]] == [
        *("bash", "read_file", "write_file", "edit_file", "uppercase")
    ]
    assert "uppercase" in model.requests[0]["messages"][0]["content"]


def test_m11_the_agent_of_004_goes_from_structure_to_details(desktop: Desktop):
    desktop.write(src__app_py="def start():\n    return 1\n", node_modules__x_py="def start(): ...\n")
    model, results = desktop.run(
        "mycode",
        "Where is start defined?",
        Use("LS", {}),
        Use("Glob", {"pattern": "**/*.py"}),
        Use("Grep", {"pattern": "def start"}),
        Use("Read", {"path": "src/app.py", "start_line": 1, "limit": 2}),
        "Done.",
    )
    assert '"paths": ["src/app.py"]' in results[1]
    assert '"line": 1, "text": "def start():"' in results[2]
    assert "     2→    return 1" in results[3]
    assert "node_modules" not in "".join(results)
    assert piece("004", "instructions") in model.requests[0]["messages"][0]["content"]
