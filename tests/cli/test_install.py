"""`handhold install`: the entry in a client's configuration is shown, written, and removed byte for byte."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.cli.clients import CLIENTS
from handhold.cli.commands import handhold
from handhold.cli.recording_hooks import build_entry, is_our_hook
from handhold.cli.server_check import count_tools
from handhold.hooks.events import HOOK_DIALECTS
from tests.cli.test_prompt import Terminal
from tests.scale import examples

Run = Callable[..., Result]
FILES = {  # from each client's documentation: project file, user file
    "claude-code": (".mcp.json", ".claude.json", "mcpServers"),
    "claude-desktop": ("", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    "codex": (".codex/config.toml", ".codex/config.toml", "mcp_servers"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers"),
    "devin-desktop": (".devin/mcp_config.json", ".config/devin/mcp_config.json", "mcpServers"),
    "gemini-cli": (".gemini/settings.json", ".gemini/settings.json", "mcpServers"),
    "opencode": ("opencode.json", ".config/opencode/opencode.json", "mcp"),
    "qwen-code": (".qwen/settings.json", ".qwen/settings.json", "mcpServers"),
    "vscode": (".vscode/mcp.json", ".config/Code/User/mcp.json", "servers"),
    "windsurf": ("", ".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".zed/settings.json", ".config/zed/settings.json", "context_servers"),
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    # Each starts a process; tests of their own show that they do.
    monkeypatch.setattr("handhold.cli.server_check.count_tools", lambda _: 3)
    monkeypatch.setattr("handhold.cli.install.start_baseline", lambda: None)
    return tmp_path / "home"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(handhold, ["install", *arguments])


def said(path: Path) -> dict[str, Any]:
    text = path.read_text()
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("scope", ["project", "user"])
def test_each_client_gets_a_server_where_it_looks_for_one(client: str, scope: str, home: Path):
    of_project, of_user, key = FILES[client]
    file = Path(of_project) if of_project and scope == "project" else home / of_user
    done = run(client, *(["--user"] if scope == "user" else []))
    assert (done.exit_code, "Installed handhold in" in done.output) == (0, True)
    entry = said(file)[key]["handhold"]
    program, first, *_ = entry["command"] if client == "opencode" else [entry["command"], *entry["args"]]
    assert (os.path.basename(program), first) == ("handhold", "mcp")
    assert run(client, *(["--user"] if scope == "user" else []), "--remove").exit_code == 0
    left = [
        path
        for path in (*home.rglob("*"), *Path().rglob("*"))
        if "state" not in path.parts and ".local" not in path.parts
    ]
    assert not [path for path in left if path.is_file()]
    assert not [path for path in left if path.is_dir()]


def test_r31_the_local_scope_of_claude_code_is_for_one_person_in_one_project(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shared = home / ".claude.json"
    shared.write_text('{"projects": {"/x": {}}}')
    places = [tmp_path / "one", tmp_path / "two"]
    for place in places:
        place.mkdir()
        monkeypatch.chdir(place)
        assert run("claude-code", "--local").exit_code == 0
        assert [str(path) for path in Path().rglob("*") if path.is_file()] == [".claude/settings.local.json"]
    assert run("claude-code", "--user").exit_code == 0
    projects = said(shared)["projects"]
    assert [os.path.basename(projects[str(place)]["mcpServers"]["handhold"]["command"]) for place in places] == [
        "handhold"
    ] * 2
    assert json.loads(CliRunner().invoke(handhold, ["doctor", "claude-code", "--json"]).output)["findings"][0]["holds"]
    assert run("claude-code", "--user", "--remove").exit_code == 0
    for place in places:
        monkeypatch.chdir(place)
        assert run("claude-code", "--local", "--remove").exit_code == 0
        assert not list(Path().rglob("*"))
    assert shared.read_text() == '{"projects": {"/x": {}}}'
    assert run("codex", "--local").exit_code == 2


@pytest.mark.parametrize(
    ("client", "words"),
    [("claude-code", ["--dialect", "claude"]), ("vscode", ["--root", "${workspaceFolder}"]), ("windsurf", ["--root"])],
)
def test_the_server_is_started_as_suits_the_client(client: str, words: list[str]):
    printed = json.loads(run(client, "--print", "--json").output)
    (entry,) = next(iter(printed["entry"].values())).values()
    assert entry["args"][1 : 1 + len(words)] == words


def test_comments_formatting_and_everything_else_stay():
    file = Path(".zed/settings.json")
    file.parent.mkdir()
    before = (
        '// mine\n{\n\t"theme": "One", // dark\n\t"context_servers": {\n\t\t"x": {"command": "y"}, // last\n\t},\n}\n'
    )
    file.write_text(before)
    file.chmod(0o640)
    assert run("zed").exit_code == 0
    after = file.read_text()
    assert after.startswith(
        '// mine\n{\n\t"theme": "One", // dark\n\t"context_servers": {\n\t\t"x": {"command": "y"}, // last\n\t\t"handhold": {\n'
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert run("zed", "--policy", "ask").exit_code == 0
    assert "ask" in file.read_text()
    assert run("zed", "--remove").exit_code == 0
    assert file.read_text() == before


def test_what_somebody_changed_since_stays_when_ours_goes():
    run("cursor")
    file = Path(".cursor/mcp.json")
    file.write_text(file.read_text().replace('"mcpServers": {', '"mcpServers": {\n    "theirs": {"command": "x"},'))
    assert run("cursor", "--remove").exit_code == 0
    assert said(file) == {"mcpServers": {"theirs": {"command": "x"}}}
    assert "not installed" in run("cursor", "--remove").output


@pytest.mark.parametrize("broken", ["{", "[1, 2]", '{"mcpServers": 3}', '{"a": 1}}'])
def test_a_broken_file_is_told_and_left_alone(broken: str):
    Path(".mcp.json").write_text(broken)
    done = run("claude-code", "--json")
    assert done.exit_code == 1
    assert json.loads(done.output)["error"]["code"] == "SETTINGS_BROKEN"
    assert run("claude-code", "--remove").exit_code == 1
    assert Path(".mcp.json").read_text() == broken
    assert [path.name for path in Path().iterdir()] == [".mcp.json"], "another file was written"


def test_a_file_that_is_no_text_or_leads_elsewhere_is_left_alone(tmp_path: Path):
    Path(".mcp.json").write_bytes(b'{"a": "\xff"}')
    assert run("claude-code").exit_code == 1
    Path(".mcp.json").unlink()
    (tmp_path / "elsewhere").write_text("{}")
    Path(".mcp.json").symlink_to(tmp_path / "elsewhere")
    assert run("claude-code").exit_code == 1
    assert (tmp_path / "elsewhere").read_text() == "{}"


def test_a_users_own_link_to_a_configuration_stays_a_link(home: Path, tmp_path: Path):
    (tmp_path / "dotfiles.json").write_text('{"numStartups": 7}\n')
    (home / ".claude.json").symlink_to(tmp_path / "dotfiles.json")
    assert run("claude-code", "--user").exit_code == 0
    assert (home / ".claude.json").is_symlink()
    assert said(tmp_path / "dotfiles.json")["numStartups"] == 7
    run("claude-code", "--user", "--remove")
    assert (tmp_path / "dotfiles.json").read_text() == '{"numStartups": 7}\n'


def test_printing_touches_nothing():
    done = CliRunner().invoke(handhold, ["install", "codex", "--no-record", "--print"])
    assert tomllib.loads(done.stdout)["mcp_servers"]["handhold"]["command"]
    assert not list(Path().iterdir())


def test_a_name_that_is_no_plain_word_is_a_wrong_command_line():
    assert run("codex", "--name", 'a"]\n[b').exit_code == 2


@pytest.mark.parametrize("answer", [b"y\n", b"n\n"])
def test_at_a_terminal_the_change_is_shown_and_asked_about(tmp_path: Path, answer: bytes):
    screen = Terminal.of([sys.executable, "-c", "from handhold.cli import main; main()", "install", "cursor"])
    try:
        screen.wait_for("n (no): ")
        assert '"mcpServers"' in screen.seen
        assert "\x1b[32m+" in screen.seen
        assert not Path(".cursor").exists()
        screen.type(answer)
        assert screen.end() == (0 if answer == b"y\n" else 1)
    finally:
        screen.process.kill()
        screen.process.wait()
        os.close(screen.ours)
    assert Path(".cursor/mcp.json").exists() is (answer == b"y\n")


ODD = st.sampled_from(
    ["", " \n", "{}", "{ }\n", '{"a": 1}', '{"mcpServers": {}}', '{\r\n  "mcpServers": {\r\n    "x": {} // c\r\n  }\r\n}', '\ufeff{\n\t"mcpServers": {"handhold": 1,},\n}', "// only\n", "/* a */ {}"]
)  # fmt: skip


@settings(max_examples=examples(20))
@given(ODD, st.sampled_from([(), ("--policy", "ask")]), st.booleans())
def test_entering_and_taking_out_is_always_nothing(text: str, more: tuple[str, ...], twice: bool):
    with tempfile.TemporaryDirectory() as folder:
        before = os.getcwd()
        os.chdir(folder)
        try:
            Path(".mcp.json").write_bytes(text.encode())
            assert run("claude-code", *more).exit_code == 0
            if twice:
                assert run("claude-code", "--dialect", "tiny").exit_code == 0
            assert run("claude-code", "--remove").exit_code == 0
            assert Path(".mcp.json").read_bytes() == text.encode()
        finally:
            os.chdir(before)


RECORDED = {  # the file of hooks in a project
    "claude-code": ".claude/settings.json",
    "codex": ".codex/hooks.json",
    "gemini-cli": ".gemini/settings.json",
    "qwen-code": ".qwen/settings.json",
}
THEIRS = """{
  // theirs
  "hooks": {
    "PreToolUse": [{"matcher": "MINE", "hooks": [{"type": "command", "command": "MINE"}]}],
    "SessionStart": []
  },
  "permissions": {"deny": ["Bash", "MINE"]}, "tools": {
  }
}
"""


@pytest.mark.parametrize("client", RECORDED)
@pytest.mark.parametrize("options", [(), ("--strict", "--only", "--allow-tools")])
def test_the_clients_own_tools_are_recorded_by_its_hooks(client: str, options: tuple[str, ...]):
    if client == "gemini-cli":
        options = tuple(option for option in options if option != "--only")
    assert run(client, *options).exit_code == 0
    hooks = said(Path(RECORDED[client]))["hooks"]
    assert set(hooks) == set(HOOK_DIALECTS[client].events)
    for event, (group,) in hooks.items():
        (hook,) = group["hooks"]
        is_strict = bool(options) and HOOK_DIALECTS[client].events[event] == "begin"
        assert f"handhold hook {client}{' --strict' if is_strict else ''}" in hook["command"]
        assert ("exit 2" in hook["command"] or hook.get("onFailure") == "block") is is_strict
        if HOOK_DIALECTS[client].events[event] == "begin":
            assert all(re.fullmatch(group["matcher"], tool) for tool in HOOK_DIALECTS[client].tools)
            assert not re.search(group["matcher"], "Read")
    assert run(client, "--no-record").exit_code == 0
    assert not Path(RECORDED[client]).exists() or "hooks" not in said(Path(RECORDED[client]))


@pytest.mark.parametrize("client", [*RECORDED, "opencode"])
@pytest.mark.parametrize("meanwhile", [False, True])
@pytest.mark.parametrize("before", [THEIRS, THEIRS.replace("\n", "\r\n"), "{}", '{"hooks": {}, "x": "MINE"}'])
def test_what_a_user_changes_meanwhile_stays_and_the_rest_is_as_it_was(client: str, meanwhile: bool, before: str):
    """Byte for byte, also if other parts of the file were edited after the installation."""
    name = RECORDED.get(client, "opencode.json")
    file = Path(name)
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before.encode())
    options = ["--allow-tools"] if client == "gemini-cli" else ["--only", "--allow-tools"]
    assert run(client, *options).exit_code == 0
    text = file.read_bytes().decode()
    assert text != before
    if meanwhile:
        text, before = text.replace("MINE", "CHANGED"), before.replace("MINE", "CHANGED")
        file.write_bytes(text.encode())
    assert run(client, "--remove").exit_code == 0
    assert file.read_bytes().decode() == before
    assert [path for path in Path().rglob("*") if path.is_file()] == [file]


def test_text_of_the_user_that_looks_like_ours_stays():
    """Ours was taken out by hand; the only text like it is the user's."""
    file = Path(".claude/settings.json")
    file.parent.mkdir()
    file.write_text('{"mine": {"deny": ["MINE"]}, "permissions": {"deny": ["Read"]}}')
    assert run("claude-code", "--only").exit_code == 0
    text = file.read_text()
    ours = text[text.index('"Read"') + len('"Read"') : text.index("]", text.index('"Read"'))]
    assert "Bash" in ours
    file.write_text(text.replace(ours, "").replace('"MINE"', '"MINE"' + ours))
    assert run("claude-code", "--remove").exit_code == 0
    assert said(file) == {
        "mine": {"deny": ["MINE", *json.loads(f"[{ours.lstrip().lstrip(',')}]")]},
        "permissions": {"deny": ["Read"]},
    }


def test_a_value_that_was_replaced_comes_back_after_other_changes():
    file = Path(".codex/config.toml")
    file.parent.mkdir()
    file.write_text('model = "MINE"\n\n[features]\n# which shell\nshell_tool = true\nother = 1\n')
    assert run("codex", "--only").exit_code == 0
    assert said(file)["features"] == {"shell_tool": False, "unified_exec": False, "other": 1}
    file.write_text(file.read_text().replace("MINE", "CHANGED"))
    assert run("codex", "--remove").exit_code == 0
    assert file.read_text() == 'model = "CHANGED"\n\n[features]\n# which shell\nshell_tool = true\nother = 1\n'


def test_a_hook_is_known_by_its_command_also_in_a_folder_with_a_blank():
    for program in ("handhold", "/usr/bin/handhold", "/a b/handhold"):
        entry = build_entry("codex", program, is_strict=False, tools="")
        assert is_our_hook(entry), entry
    assert not is_our_hook({"hooks": [{"command": "log-handhold-hooks hook x"}]})


def test_another_copy_of_handhold_finds_its_hooks_without_a_record(home: Path):
    Path(".claude").mkdir()
    Path(".claude/settings.json").write_text('{"hooks": {"Stop": [{"hooks": []}]}}')
    assert run("claude-code").exit_code == 0
    shutil.rmtree(home / ".local")
    assert run("claude-code", "--strict").exit_code == 0
    assert all(len(each) == 1 + (name == "Stop") for name, each in said(Path(".claude/settings.json"))["hooks"].items())
    shutil.rmtree(home / ".local")
    assert run("claude-code", "--remove").exit_code == 0
    assert said(Path(".claude/settings.json")) == {"hooks": {"Stop": [{"hooks": []}]}}


def test_only_ours_are_left_where_a_client_can_turn_its_own_off():
    assert run("claude-code", "--only").exit_code == 0
    assert "Bash" in said(Path(".claude/settings.json"))["permissions"]["deny"]
    assert "apply_patch" in run("codex", "--only").output
    assert said(Path(".codex/config.toml"))["features"] == {"shell_tool": False, "unified_exec": False}
    assert run("gemini-cli", "--only").exit_code == 2
    assert run("cursor", "--strict").exit_code == 2


def test_n9_only_says_that_own_tools_are_off_and_installing_without_it_that_they_are_on_again():
    only = run("claude-code", "--only").output
    assert "own file and shell tools are off" in only
    assert "own tools change is recorded" not in only
    assert "are on again: --only was not given" in run("claude-code").output
    assert "permissions" not in said(Path(".claude/settings.json"))
    assert "on again" not in run("claude-code", "--strict").output


def test_a_plugin_that_somebody_else_wrote_is_left_alone():
    Path(".handhold").mkdir()
    Path(".handhold/opencode.js").write_text("mine")
    assert run("opencode").exit_code == 1
    assert Path(".handhold/opencode.js").read_text() == "mine"
    assert not Path("opencode.json").exists()


def test_r31_a_server_that_does_not_start_is_not_installed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    with pytest.raises(OSError, match="not on the PATH"):
        count_tools(["no-such-program"])
    with pytest.raises(OSError, match="No such option"):
        count_tools(["handhold", "mcp", "--nonsense"])
    assert count_tools(["handhold", "mcp", "--dialect", "claude"]) > 5


def test_the_installed_command_starts_a_server(tmp_path: Path):
    """The command line in the configuration is valid."""
    printed = json.loads(run("claude-code", "--print", "--json").output)
    (entry,) = printed["entry"]["mcpServers"].values()
    command = [sys.executable, "-c", "from handhold.cli import main; main()", *entry["args"], "--help"]
    assert b"MCP server" in subprocess.run(command, check=True, capture_output=True).stdout
