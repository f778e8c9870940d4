"""`--json` prints exactly the fields that the command declares, which the reference lists."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints, is_typeddict

import click
import pytest
from click.testing import CliRunner

from handhold.cli.commands import COMMANDS, handhold
from handhold.cli.options import ErrorJSON

RULE = """
[[rule]]
name = "vendored"
verdict = "deny"
verbs = ["change"]
because = "vendored code"
paths = ["vendor/**"]
exclude = ["vendor/ours/**"]
covers = ["vendor/a.py"]
does_not_cover = ["a.py"]
"""
WRITE = '{"path": "b.py", "content": "y = 2\\n"}'
HOOK = '{"path": ".git/hooks/pre-commit", "content": "make\\n"}'
ID = "an approval's id"
RUNS = {  # by command and the option that selects the output, in this order
    ("call", ""): ["write_file", WRITE],
    ("tools", ""): [],
    ("log", ""): [],
    ("log", "--verify"): ["--verify"],
    ("show", ""): ["1"],
    ("diff", ""): [],
    ("undo", ""): ["--yes"],
    ("redo", ""): ["--yes"],
    ("forks", ""): [],
    ("adopt", ""): ["a.py"],
    ("forget", ""): ["--yes"],
    ("approve", ""): [],
    ("approve", "ID"): [ID, "--yes"],
    ("explain", ""): ["--path", "vendor/a.py"],
    ("allow", ""): ["example.org"],
    ("trust", ""): [],
    ("trust", "--forget"): ["--forget"],
    ("install", ""): ["claude-code"],
    ("install", "--print"): ["claude-code", "--print"],
    ("doctor", ""): [],
    ("doctor", "CLIENT"): ["claude-code"],
    ("completion", ""): ["bash"],
}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    (tmp_path / "project").mkdir()
    (tmp_path / "project/handhold.toml").write_text(RULE)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_every_command_prints_the_fields_that_it_declares():
    run("call", "write_file", HOOK)  # leaves a pending approval
    assert CliRunner().invoke(handhold, ["watch", "--", "true"]).exit_code == 0  # makes a baseline
    assert CliRunner().invoke(handhold, ["fork", "try", "--", "true"]).exit_code == 0  # lets `forks` list one
    for (name, selected_by), arguments in RUNS.items():
        given = [run("approve")[0]["id"] if each == ID else each for each in arguments]
        printed = run(name, *given)
        assert printed, f"{name} {selected_by} has to print something, or nothing is compared"
        compare(printed, outputs_of(name)[selected_by], f"{name} {selected_by}")


def test_every_declared_output_is_run():
    context = click.Context(handhold)
    commands = {name: handhold.get_command(context, name) for name in COMMANDS}
    with_json = [
        name for name, each in commands.items() if each and any("--json" in param.opts for param in each.params)
    ]
    assert set(RUNS) == {(name, selected_by) for name in with_json for selected_by in outputs_of(name)}


def test_explain_declares_the_fields_of_paths_and_of_commands():
    path, command = run("explain", "--path", "a.py"), run("explain", "--command", "git push")
    compare(command, outputs_of("explain")[""], "explain --command")
    assert path.keys() | command.keys() == get_type_hints(outputs_of("explain")[""]).keys()


@pytest.mark.parametrize("arguments", [["diff"], ["approve", "unknown", "--show"], ["trust", ".."]])
def test_an_error_has_the_fields_that_all_commands_declare(arguments: list[str]):
    compare(run(*arguments), ErrorJSON, "an error")


def run(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(handhold, [*arguments, "--json"]).stdout)


def outputs_of(name: str) -> Mapping[str, Any]:
    return import_module(COMMANDS[name].import_path.partition(":")[0]).JSON_OUTPUT


def compare(value: Any, shape: Any, where: str) -> None:
    """Compare the keys of every object, at every depth."""
    if value is None:
        return
    if get_origin(shape) in (Union, UnionType):
        shape = get_args(shape)[0]
    if get_origin(shape) in (list, tuple):
        for each in value:
            compare(each, get_args(shape)[0], where)
    elif get_origin(shape) is dict:
        for each in value.values():
            compare(each, get_args(shape)[1], where)
    elif is_typeddict(shape) or is_dataclass(shape):
        declared = get_type_hints(shape)
        optional: frozenset[str] = getattr(shape, "__optional_keys__", frozenset())
        printed = cast(dict[str, Any], value)
        assert declared.keys() - optional <= printed.keys() <= declared.keys(), where
        for name, each in printed.items():
            compare(each, declared[name], f"{where}: {name}")
