"""Tool definitions: titles, hints and schemas, for every dialect."""

import pytest

from handhold.core.choices import DIALECTS
from handhold.core.requests import Run
from handhold.factory import load_dialect
from handhold.server.tools import ToolCatalog
from tests.server.hosting import Shop

LOOKS, REPLACES, CHANGES, RUNS = "looks", "replaces", "changes", "runs"
ASKS, STOPS = "asks a job", "stops a job"
HINTS = {  # read-only, destructive, idempotent
    LOOKS: (True, False, True),
    ASKS: (True, False, False),  # output that was shown is not shown again
    REPLACES: (False, True, True),
    STOPS: (False, True, True),
    CHANGES: (False, True, False),
    RUNS: (False, True, False),
}
TOOLS = {
    "handhold": {
        LOOKS: "read_file read_files list_files glob grep",
        REPLACES: "write_file",
        CHANGES: "edit_file multi_edit notebook_edit apply_patch bash_input",
        RUNS: "bash",
        ASKS: "bash_output",
        STOPS: "bash_stop",
    },
    "claude": {
        LOOKS: "Read Glob Grep LS",
        REPLACES: "Write",
        CHANGES: "Edit MultiEdit NotebookEdit",
        RUNS: "Bash",
        ASKS: "BashOutput",
        STOPS: "KillShell",
    },
    "deepagents": {LOOKS: "ls read_file glob grep", REPLACES: "write_file", CHANGES: "edit_file", RUNS: "execute"},
    "codex": {CHANGES: "apply_patch", RUNS: "shell"},
    "tiny": {LOOKS: "read_file", REPLACES: "write_file", CHANGES: "edit_file", RUNS: "bash"},
    "hello": {LOOKS: "read_file", REPLACES: "write_file", CHANGES: "edit_file", RUNS: "bash"},
    "mycode": {LOOKS: "LS Glob Grep Read"},
    "anthropic": {CHANGES: "str_replace_based_edit_tool", RUNS: "bash"},
    "gemini": {
        LOOKS: "list_directory read_file glob search_file_content",
        REPLACES: "write_file",
        CHANGES: "replace",
        RUNS: "run_shell_command",
    },
}


def test_the_table_has_every_dialect():
    assert set(TOOLS) == set(DIALECTS)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_tool_says_what_it_may_do(shop: Shop, dialect: str):
    tools = ToolCatalog.from_config(shop.serving(dialect=dialect))
    expected = {name: does for does, names in TOOLS[dialect].items() for name in names.split()}
    assert {tool.name for tool in tools.definitions} == set(expected)
    for tool in tools.definitions:
        said = tool.annotations
        assert said is not None
        assert (said.read_only_hint, said.destructive_hint, said.idempotent_hint) == HINTS[expected[tool.name]]
        assert said.open_world_hint is False, "commands have no network here"
        assert tool.title
        assert said.title == tool.title
        assert 0 < len(tool.name) <= 64
        assert tool.input_schema["type"] == "object"
        kind = {LOOKS: "look", ASKS: "look", RUNS: "command"}.get(expected[tool.name], "change")
        assert tools.kinds[tool.name] == kind


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("how", [{"network": True}, {"network": ("example.org",)}, {"shell": "unconfined"}])
def test_the_world_is_open_to_commands_that_have_a_network_and_to_nothing_else(shop: Shop, dialect: str, how: dict):
    tools = ToolCatalog.from_config(shop.serving(dialect=dialect, **how))
    for tool in tools.definitions:
        assert tool.annotations
        assert tool.annotations.open_world_hint is (tools.kinds[tool.name] == "command")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_tools_are_those_of_the_dialect_in_its_order_and_each_time_the_same(shop: Shop, dialect: str):
    first, second = (ToolCatalog.from_config(shop.serving(dialect=dialect)).definitions for _ in range(2))
    assert first == second
    assert [tool.name for tool in first] == [spec.name for spec in load_dialect(dialect).specs]
    assert [tool.input_schema for tool in first] == [spec.input_schema for spec in load_dialect(dialect).specs]


def test_what_runs_a_command_is_told_by_what_it_asks_for_and_not_by_its_name():
    editor = load_dialect("anthropic")
    assert isinstance(editor.decode("bash", {"command": "true"}), Run)
