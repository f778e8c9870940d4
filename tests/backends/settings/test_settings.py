"""Settings: which files apply, what they may contain, and that broken rules stop the toolbox from opening."""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Rule, Toolbox
from handhold.backends.settings import FILE_NAME, CodeSettings, is_case_insensitive, load_policy, narrow_mode
from handhold.backends.settings.settings_file import parse_settings
from handhold.backends.state import trust
from handhold.core.choices import MODES, Mode
from handhold.core.errors import SettingsBroken
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.ports.policy import Verb, Verdict

RULE = """
[[rule]]
name = "{name}"
verdict = "{verdict}"
verbs = ["read", "change", "create", "delete"]
paths = ["{path}"]
because = "so"
covers = ["{path}"]
does_not_cover = ["something/else"]
"""


def rule(verdict: str, path: str, name: str = "r") -> str:
    return RULE.format(name=name, verdict=verdict, path=path)


def users(home: Path, text: str) -> Path:
    file = home / ".config/handhold/handhold.toml"
    file.write_text(text)
    return file


def projects(root: Path, text: str, *, trusted: bool = True) -> None:
    (root / FILE_NAME).write_text(text)
    if trusted:
        trust.record_trust(str(root), text.encode())


def loaded(root: Path, mode: Mode | None = None, **more: object) -> RulePolicy:
    return load_policy((str(root),), CodeSettings(mode, "edit"), **more)  # pyright: ignore[reportArgumentType]


def read(policy: RulePolicy, root: Path, way: str) -> str:
    return policy.decide(Verb.READ, f"{root}/{way}").verdict.value


# --- the user's file


def test_without_a_file_there_is_the_mode_and_what_is_built_in(root: Path):
    policy = loaded(root)
    assert (policy.name, read(policy, root, "a"), read(policy, root, ".env")) == ("edit", "allow", "deny")


def test_no_file_costs_no_parser(root: Path):
    code = f"""
import sys
from handhold import Toolbox
with Toolbox.open({str(root)!r}, state={str(root.parent / "state")!r}) as box:
    box.call("read_file", {{"path": "a"}})
    assert "tomllib" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_users_rules_and_mode_count(home: Path, root: Path):
    file = users(home, 'mode = "ask"\n' + rule("deny", "private"))
    policy = loaded(root)
    judgement = policy.decide(Verb.READ, f"{root}/private/a")
    assert (policy.name, judgement.verdict, judgement.rule, judgement.source) == ("ask", Verdict.DENY, "r", str(file))


def test_the_codes_mode_goes_before_the_users(home: Path, root: Path):
    users(home, 'mode = "read-only"')
    assert loaded(root).name == "read-only"
    assert loaded(root, "open").name == "open"


def test_another_file_may_be_named_and_must_be_there(root: Path, monkeypatch: pytest.MonkeyPatch):
    other = root.parent / "fleet.toml"
    monkeypatch.setenv("HANDHOLD_CONFIG", str(other))
    with pytest.raises(SettingsBroken, match="not there"):
        loaded(root)
    other.write_text('mode = "ask"')
    assert loaded(root).name == "ask"
    (root.parent / "third.toml").write_text('mode = "open"')
    assert loaded(root, settings=root.parent / "third.toml").name == "open"
    with pytest.raises(SettingsBroken):
        loaded(root, settings=root / "none.toml")


def test_the_standard_says_where_the_users_file_is(root: Path, monkeypatch: pytest.MonkeyPatch):
    folder = root.parent / "xdg/handhold"
    folder.mkdir(parents=True)
    (folder / FILE_NAME).write_text('mode = "ask"')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder.parent))
    assert loaded(root).name == "ask"
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert loaded(root).name == "edit"


def test_without_a_home_nothing_that_stands_in_its_place_counts(root: Path, monkeypatch: pytest.MonkeyPatch):
    text = rule("allow", ".env")
    (root / ".config/handhold").mkdir(parents=True)
    (root / ".config/handhold/handhold.toml").write_text(text)
    projects(root, rule("allow", "a"), trusted=False)
    record = root / ".local/state/handhold/trusted" / trust.digest(os.fsencode(root))
    record.parent.mkdir(parents=True)
    record.write_text(trust.digest((root / FILE_NAME).read_bytes()))
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", ".")
    policy = loaded(root, "ask")
    assert (read(policy, root, ".env"), policy.decide(Verb.CHANGE, f"{root}/a").verdict) == ("deny", Verdict.ASK)
    assert "not trusted" in policy.warnings[0]


def test_no_settings_are_read_where_none_are_wanted(home: Path, root: Path):
    users(home, "broken")
    projects(root, "broken", trusted=False)
    policy = loaded(root, settings=False)
    assert (policy.name, policy.warnings, read(policy, root, ".env")) == ("edit", (), "deny")


BROKEN = {
    "no TOML": "mode = ",
    "no text": b"\xff\xfe",
    "another mode": 'mode = "careful"',
    "an unknown key": "modus = 1",
    "a rule that is no table": "rule = 1",
    "rules that are no tables": "rule = [1]",
    "no name": '[[rule]]\nverdict = "deny"',
    "an unknown key of a rule": rule("deny", "a") + 'host = "x"',
    "a text for a list": rule("deny", "a").replace('["a"]', '"a"'),
    "a number in a list": rule("deny", "a").replace('["something/else"]', "[1]"),
    "an unknown verb": rule("deny", "a").replace('"read"', '"see"'),
    "an unknown verdict": rule("forbid", "a"),
    "two rules of one name": rule("deny", "a") + rule("deny", "b"),
    "no because": rule("deny", "a").replace('because = "so"', ""),
    "nested too deep": "a=" + "[" * 100_000,
    "too large": "#" * (1024 * 1024 + 1),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_of_the_users_opens_nothing(home: Path, root: Path, fault: str):
    content = BROKEN[fault]
    users(home, "").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(SettingsBroken) as broken:
        Toolbox.open(root, state=root.parent / "state")
    assert broken.value.path == str(home / ".config/handhold/handhold.toml")


def test_a_wrong_example_is_named_with_its_file_and_its_rule(home: Path, root: Path):
    users(home, rule("deny", "a").replace('covers = ["a"]', 'covers = ["b"]'))
    with pytest.raises(SettingsBroken) as broken:
        loaded(root)
    assert broken.value.because == "rule 'r': it should cover 'b', but does not"


# --- renamed keys of a rule


def keys(does_not_cover: str = "does_not_cover", exclude: str = "exclude") -> bytes:
    text = rule("deny", "db").replace("spares = ", f"{does_not_cover} = ")
    return f'{text}{exclude} = ["db/README.md"]\n'.encode()


@pytest.mark.parametrize("does_not_cover", ["does_not_cover", "spares"])
@pytest.mark.parametrize("exclude", ["exclude", "but"])
def test_a_rule_means_the_same_under_the_old_keys_and_the_new(does_not_cover: str, exclude: str):
    (found,) = parse_settings(keys(does_not_cover, exclude), "f").rules
    assert (found.does_not_cover, found.exclude) == (("something/else",), ("db/README.md",))


@pytest.mark.parametrize(("old", "new"), [("but", "exclude"), ("spares", "does_not_cover")])
def test_the_old_and_the_new_key_in_one_rule_are_refused(old: str, new: str):
    with pytest.raises(SettingsBroken) as broken:
        parse_settings(keys() + f'{old} = ["db/a"]\n'.encode(), "f")
    assert broken.value.because == f"rule 'r': {old} and {new} are the same key; give only one"


@pytest.mark.parametrize("key", ["folds", "ignore_case"])
def test_whether_case_counts_is_no_key_of_a_file(key: str):
    with pytest.raises(SettingsBroken, match=f"unknown key '{key}'"):
        parse_settings(keys() + f"{key} = true\n".encode(), "f")


@pytest.mark.parametrize("key", ["exclude", "but"])
def test_what_a_rule_of_a_project_excludes_lies_in_the_project_too(key: str):
    with pytest.raises(SettingsBroken, match="not a path of this project"):
        parse_settings(keys(exclude=key).replace(b"db/README.md", b"~/db"), "f", is_project=True)


@pytest.mark.parametrize("thing", ["a folder", "a pipe", "a loop", "a device"])
def test_what_is_no_file_is_broken_and_keeps_nobody_waiting(home: Path, root: Path, thing: str):
    file = home / ".config/handhold/handhold.toml"
    match thing:
        case "a folder":
            file.mkdir()
        case "a pipe":
            os.mkfifo(file)
        case "a loop":
            file.symlink_to(file)
        case _:
            file.symlink_to("/dev/zero")
    with pytest.raises(SettingsBroken):
        loaded(root)


@given(st.binary(max_size=200) | st.text('mode="ask[]rule\n=', max_size=60).map(str.encode))
def test_whatever_a_file_holds_it_is_settings_or_broken(data: bytes):
    with suppress(SettingsBroken):  # and nothing else is raised
        parse_settings(data, "f", is_project=True)


# --- a project's file


def test_a_project_spares_the_modes_question_only_once_it_is_trusted(root: Path):
    text = 'mode = "ask"\n' + rule("deny", "private") + rule("allow", "src", "spared")
    projects(root, text, trusted=False)
    policy = loaded(root)
    assert (policy.name, read(policy, root, "private")) == ("ask", "deny")
    assert policy.decide(Verb.CHANGE, f"{root}/src/a").verdict is Verdict.ASK
    assert "not trusted" in policy.warnings[0]
    trust.record_trust(str(root), text.encode())
    policy = loaded(root)
    assert (policy.name, read(policy, root, "private"), policy.warnings) == ("ask", "deny", ())
    assert policy.decide(Verb.CHANGE, f"{root}/src/a").verdict is Verdict.ALLOW


def test_a_file_that_changed_is_not_trusted(root: Path):
    projects(root, rule("deny", "private") + rule("allow", "src", "spared"))
    with (root / FILE_NAME).open("a") as file:
        file.write("\n")
    policy = loaded(root, "ask")
    assert read(policy, root, "private") == "deny"
    assert policy.decide(Verb.CHANGE, f"{root}/src/a").verdict is Verdict.ASK
    assert "changed since" in policy.warnings[0]


def test_trust_is_of_a_folder_and_of_what_it_holds(root: Path):
    text = rule("allow", "src")
    projects(root, text)
    copy = root.parent / "copy"
    copy.mkdir()
    projects(copy, text, trusted=False)
    assert loaded(copy).warnings
    (root.parent / "link").symlink_to(root)
    assert trust.read_trusted_digest(str(root.parent / "link")) == trust.digest(text.encode())
    assert trust.forget_trust(str(root))
    assert not trust.forget_trust(str(root))
    assert loaded(root).warnings


def test_a_project_cannot_allow_what_is_built_in_nor_widen_the_mode(root: Path):
    projects(root, 'mode = "open"\n' + rule("allow", ".env"))
    policy = loaded(root, "ask")
    assert (policy.name, read(policy, root, ".env")) == ("ask", "deny")


@pytest.mark.parametrize("path", ["/etc", "~/.ssh"])
def test_a_projects_rules_are_about_the_project(root: Path, path: str):
    with pytest.raises(SettingsBroken, match="not a path of this project"):
        parse_settings(rule("allow", path).encode(), "f", is_project=True)


@given(st.sampled_from(MODES), st.sampled_from([None, *MODES]))
def test_a_projects_mode_always_narrows(mode: Mode, other: Mode | None):
    assert MODES.index(narrow_mode(mode, other)) <= MODES.index(mode)


# --- Handhold's own files


def test_no_tool_writes_its_own_permission(home: Path, root: Path):
    file = users(home, "")
    policy = load_policy((str(home),), CodeSettings("open", "edit"))
    assert policy.decide(Verb.CHANGE, str(file)).verdict is Verdict.DENY
    assert policy.decide(Verb.READ, str(file)).verdict is Verdict.ALLOW
    record = home / ".local/state/handhold/trusted/x"
    assert [policy.decide(verb, str(record)).verdict for verb in (Verb.READ, Verb.CREATE)] == [Verdict.DENY] * 2


def test_a_link_to_the_users_file_does_not_open_it(home: Path, root: Path):
    kept = root / "dotfiles.toml"
    kept.write_text('mode = "ask"')
    (home / ".config/handhold/handhold.toml").symlink_to(kept)
    policy = loaded(root)
    assert (policy.name, policy.decide(Verb.CHANGE, str(kept)).verdict) == ("ask", Verdict.DENY)


def test_a_state_folder_in_the_workspace_is_not_for_tools(root: Path):
    with Toolbox.open(root, state=root / "state") as box:
        database = next((root / "state").rglob("*.db*"), None) or next((root / "state").rglob("*.txt"))
        assert box.call("read_file", {"path": str(database)}).code == "DENIED"


# --- case


def test_a_file_system_is_asked_whether_it_folds(root: Path):
    assert not is_case_insensitive(str(root))
    (root / "a").touch()
    assert not is_case_insensitive(str(root))
    os.link(root / "a", root / "A")  # the closest that this file system allows
    assert is_case_insensitive(str(root))
    assert not is_case_insensitive(str(root / "none"))


# --- in code


def test_rules_in_code_go_with_a_mode_and_not_with_a_policy_of_ones_own(root: Path):
    rule = Rule("r", "deny", ["read"], "so", ["a"], ["b"], paths=["a"])
    (root / "a").touch()
    with Toolbox.open(root, state=root.parent / "state", rules=[rule]) as box:
        reply = box.call("read_file", {"path": "a"})
        assert (reply.code, reply.data["rule"]) == ("DENIED", "r")
        with pytest.raises(ValueError, match="rules"):
            Toolbox.open(root, state=root.parent / "state", policy=box.policy, rules=[rule])
    assert Toolbox.in_memory({"a": ""}, rules=[rule]).call("read_file", {"path": "a"}).code == "DENIED"


def test_the_message_of_a_denied_secret_says_what_to_write_and_it_works(home: Path, root: Path):
    (root / ".env").write_text("A=1\n")
    state = root.parent / "state"
    with Toolbox.open(root, state=state) as box:
        refused = box.call("read_file", {"path": ".env"})
    assert refused.code == "DENIED"
    where, _, rest = refused.text.partition(":\n\n")
    assert where.endswith(str(home / ".config/handhold/handhold.toml"))
    written, _, in_code = rest.partition("\n\nor in code: rules=")
    users(home, written)
    with Toolbox.open(root, state=state) as box:
        assert "A=1" in box.call("read_file", {"path": ".env"}).text
    users(home, "")
    rules = eval(in_code, {"Rule": Rule})  # what a person would paste
    with Toolbox.open(root, state=state, rules=rules) as box:
        assert "A=1" in box.call("read_file", {"path": ".env"}).text


STRANGE = ['"quoted".env', "a\\b.env", "[x]*?.env", "é\u202e.env", "tab\t.env", "\udcff.env", "{a,b}.env"]


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_name_can_be_allowed_by_the_message_too(home: Path, root: Path, name: str):
    policy = loaded(root)
    place = f"{root}/d/{name}"
    remedy = policy.decide(Verb.READ, place).remedy
    users(home, remedy.partition(":\n\n")[2].partition("\n\nor in code")[0])
    assert loaded(root).decide(Verb.READ, place).verdict is Verdict.ALLOW
