"""Options: what is misspelled or has a wrong value is refused when the toolbox is opened, by the option's name."""

from functools import partial
from inspect import signature
from pathlib import Path
from pydoc import render_doc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Rule, Toolbox, Verb, Verdict
from handhold.backends.settings.settings_file import parse_settings
from handhold.cli.commands import handhold
from handhold.config import OPTION_NAMES, ToolboxConfig
from handhold.core.errors import SettingsBroken
from handhold.core.policy.modes import ModePolicy
from handhold.server.server_config import ServerConfig

WRONG: dict[str, list[Any]] = {
    "root": [3, b"/tmp", [], [3], None, ""],
    "state": [3, b"state", ""],
    "read_only": [3, [3], None, {"a": "b"}, b"docs"],
    "encodings": ["cp1251", {"*.txt": 3}, [("*.txt", "cp1251")]],
    "undo_bytes": ["2G", 1.5, 0, -1, True],
    "dialect": ["claud", 3, None, object()],
    "model": [3, None],
    "secrets": ["loose", True, 3],
    "session": [3, None, b"s"],
    "policy": ["readonly", 3, True, object(), ["ask"]],
    "rules": ["deny all", [{"name": "x"}], 3, None],
    "settings": [3, 1, ["a.toml"], ""],
    "approver": ["yes", True, 3],
    "matching": ["fuzzy", True],
    "hints": ["yes", 1],
    "check_syntax": ["yes", 1, None],
    "checkers": ["ruff", [3], None, {"a": "b"}],
    "refuse_broken": ["types", True],
    "shell": ["none", True, None],
    "network": [
        "host",
        "10.0.0.1",
        ["example.org", "localhost"],
        1,
        None,
        [3],
        "https://example.org",
        {"a.org": 1},
        "",
    ],
    "credentials": ["ftp://a.org", "a b", 3, None, ["https://a.org/path"]],
    "unredacted": ["passwords", [3], None],
    "hidden": [3, None, [None], b"docs"],
    "memory": ["1G", 1.5, 0, -1, True],
    "processes": ["many", 0, -5, False],
    "tracing": ["yes", 1, None],
    "search_seconds": ["soon", 0, -1.0, float("nan"), float("inf"), True],
    "searcher": ["ripgrep", 3],
    "converter": ["pdf", object()],
    "hub": ["hub", "http://example.org", 3, ""],
    "durable": ["disk", 3, None],
}


def opened(tmp_path: Path, **options: Any) -> Toolbox:
    root = tmp_path / "ws"
    root.mkdir(exist_ok=True)
    given: dict[str, Any] = {"root": root, "state": tmp_path / "state", **options}
    return Toolbox.open(**given)


def test_every_option_is_in_the_table():
    parameters = signature(Toolbox.open).parameters
    assert list(parameters) == list(OPTION_NAMES)
    assert sorted(parameters) == sorted(WRONG)
    defaults = {name: each.default for name, each in parameters.items() if name != "root"}
    assert ToolboxConfig(**defaults) == ToolboxConfig()
    for method in (Toolbox.in_memory, Toolbox.on):
        shared = {name: each.default for name, each in signature(method).parameters.items() if name in defaults}
        assert shared == {name: defaults[name] for name in shared}


@pytest.mark.parametrize("method", [Toolbox.open, Toolbox.in_memory, Toolbox.on])
def test_help_describes_every_keyword_and_what_is_raised(method: Any):
    text = render_doc(method)
    described = signature(Toolbox.open if method is Toolbox.open else method).parameters
    if method is Toolbox.open:
        assert [name for name in described if f"\n        {name}: " not in (method.__doc__ or "")] == []
        assert "SettingsBroken" in text
    assert all(name in text for name in (*described, "TypeError", "ValueError"))


def test_a_config_is_frozen_and_describes_itself():
    config = ToolboxConfig(root="ws", network="example.org")
    assert (config.root, config.network, config.mode) == (("ws",), ("example.org",), None)
    with pytest.raises(AttributeError):
        config.root = ()  # pyright: ignore[reportAttributeAccessIssue]
    assert ToolboxConfig(policy="ask").mode == "ask"


def test_a_policy_object_is_given_alone():
    policy = Toolbox.in_memory({}).policy
    rule = Rule("env", Verdict.DENY, [Verb.READ], "secret", [".env"], ["a.py"], paths=["*.env"])
    assert ToolboxConfig(policy=policy).custom_policy is policy
    for more in ({"secrets": "strict"}, {"settings": "my.toml"}, {"rules": rule}):
        with pytest.raises(ValueError, match="Policy object"):
            ToolboxConfig(policy=policy, **more)


@pytest.mark.parametrize(
    ("name", "near"), [("polcy", "policy"), ("readonly", "read_only"), ("Network", "network"), ("approve", "approver")]
)
def test_r3_unknown_options_are_refused_with_the_nearest_name(tmp_path: Path, name: str, near: str):
    with pytest.raises(TypeError, match=f"'{name}'.*'{near}'"):
        opened(tmp_path, **{name: "read-only"})
    assert not (tmp_path / "state").exists()
    box = Toolbox.in_memory({})
    for refused in (partial(Toolbox.in_memory, {}), partial(Toolbox.on, box.files, box.store)):
        with pytest.raises(TypeError, match=f"'{name}'" + (f".*'{near}'" if near in ("policy", "approver") else "")):
            refused(**{name: "read-only"})  # pyright: ignore[reportArgumentType]


@given(st.text().filter(lambda name: name not in OPTION_NAMES))
def test_r3_no_name_but_a_known_one_is_ever_an_option(name: str):
    with pytest.raises(TypeError, match="unknown option"):
        ToolboxConfig(**{name: True})
    with pytest.raises(TypeError, match="unknown option"):
        Toolbox.open(".", **{name: True})  # pyright: ignore[reportArgumentType]


def test_r3_unknown_keys_of_settings_and_rules_are_refused_with_the_nearest_name():
    with pytest.raises(SettingsBroken) as broken:
        parse_settings(b'mod = "ask"', "handhold.toml")
    assert "'mode'" in broken.value.because
    with pytest.raises(SettingsBroken) as broken:
        parse_settings(b'[[rule]]\nname = "x"\nverdct = "deny"', "handhold.toml")
    assert "'verdict'" in broken.value.because


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_r4_a_wrong_value_is_refused_at_open_by_the_name_of_its_option(tmp_path: Path, name: str, value: Any):
    with pytest.raises((TypeError, ValueError), match=f"^{name} must be "):
        opened(tmp_path, **{name: value})
    assert not (tmp_path / "state").exists()


def test_r4_a_text_counts_as_one(tmp_path: Path):
    docs = tmp_path / "docs"
    docs.mkdir()
    with opened(tmp_path, read_only=str(docs), hidden=str(docs), network="example.org") as box:
        assert box.files.roots == (str(tmp_path / "ws"), str(docs))
        assert box.call("write_file", {"path": str(docs / "a"), "content": "x"}).code == "READ_ONLY"
    assert ToolboxConfig(hidden="docs").hidden == (str(Path.cwd() / "docs"),)
    assert ToolboxConfig(network="*.example.org").network == ("*.example.org",)


@pytest.mark.parametrize("name", ["settings", "shell", "network", "state"])
def test_r4_options_that_would_have_no_effect_in_memory_are_refused(name: str):
    with pytest.raises(TypeError, match=f"unknown option '{name}'"):
        Toolbox.in_memory({}, **{name: "x"})  # pyright: ignore[reportArgumentType]


def test_r4_what_is_served_is_checked_when_it_is_said(tmp_path: Path):
    with pytest.raises(ValueError, match=r"^network must be "):
        ServerConfig((str(tmp_path),), network=("localhost",))
    assert ServerConfig((str(tmp_path),), network="example.org").network == ("example.org",)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("command", ["mcp", "serve"])
def test_r4_a_bad_host_is_a_wrong_command_line(tmp_path: Path, command: str):
    from click.testing import CliRunner

    done = CliRunner().invoke(handhold, [command, "--root", str(tmp_path), "--host", "localhost"])
    assert (done.exit_code, "localhost" in done.output) == (2, True)


class EmptyPolicy(ModePolicy):
    """A policy of somebody's own that is falsy, as a container without rules is."""

    def __len__(self) -> int:
        return 0


def test_a_policy_object_that_is_falsy_still_decides(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    policy = EmptyPolicy("read-only")
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", policy=policy) as box:
        assert box.call("write_file", {"path": "a", "content": "x"}).code == "DENIED"
    assert Toolbox.in_memory({}, policy=policy).call("write_file", {"path": "a", "content": "x"}).code == "DENIED"


@pytest.mark.parametrize("settings", [True, "handhold.toml"])
def test_settings_that_a_policy_object_would_replace_are_refused(tmp_path: Path, settings: bool | str):
    with pytest.raises(ValueError, match="settings"):
        Toolbox.open(tmp_path, state=tmp_path / "state", policy=ModePolicy("edit"), settings=settings)
