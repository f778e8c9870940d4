"""`handhold explain` names the rule that decides, as text and JSON; `handhold trust` trusts a project's rules."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from handhold.backends.shell.sandbox_support import detect_sandbox_support
from handhold.cli.commands import handhold

RULE = """
[[rule]]
name = "no migrations by hand"
verdict = "{verdict}"
verbs = ["change", "create", "delete"]
paths = ["db/migrations"]
because = "make them with the generator"
covers = ["db/migrations/0001.py", "db/migrations/old/1.sql"]
does_not_cover = ["db/models.py", "docs/migrations.md"]

[[rule]]
name = "nobody pushes"
verdict = "{verdict}"
verbs = ["run"]
commands = ["git push"]
because = "a person does"
covers = ["git push origin main"]
does_not_cover = ["git pull"]
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".config/handhold").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("HANDHOLD_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "db/migrations").mkdir(parents=True)
    (root / "db/migrations/0002.py").touch()
    (root / "a.py").touch()
    (root / ".env").write_text("A=1\n")
    return root


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(handhold, [str(each) for each in arguments])


def explained(root: Path, *arguments: str) -> dict[str, Any]:
    done = run("explain", "--json", "--root", root, *arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


def test_u6_explain_names_the_rule_its_file_and_the_nearest_examples(home: Path, root: Path):
    file = home / ".config/handhold/handhold.toml"
    file.write_text(RULE.format(verdict="deny"))
    told = explained(root, "--path", "db/migrations/0002.py")
    assert (told["decision"], told["class"], told["rule"]) == ("deny", "file", "no migrations by hand")
    assert (told["source"], told["because"]) == (str(file), "make them with the generator")
    assert told["covers"][0] == "db/migrations/0001.py"
    assert told["spares"][0] == "docs/migrations.md"
    assert told["verbs"]["read"]["decision"] == "allow"
    assert explained(root, "--path", "db/migrations/0002.py", "--verb", "read")["decision"] == "allow"


def test_u6_explain_follows_whatever_leads_to_a_denied_file(root: Path):
    (root / ".env").write_text("API_TOKEN=xK9mQ2vL7pR4tW8zA1\n")  # without a secret, its other name is an ordinary file
    (root / "link").symlink_to(".env")
    (root / "folder").symlink_to(".")
    os.link(root / ".env", root / "innocent.txt")
    for spelling in (
        ".env",
        "./.env",
        f"{root}/.env",
        "db/../.env",
        "link",
        "folder/.env",
        "folder/link",
        "innocent.txt",
    ):
        told = explained(root, "--path", spelling)
        assert (told["decision"], told["rule"]) == ("deny", "secret environment files"), spelling


def test_explain_tells_a_command_by_its_class(home: Path, root: Path):
    assert explained(root, "--command", "ls -l")["decision"] == "allow"
    pushed = explained(root, "--command", "cd x && git push", "--policy", "edit")
    assert (pushed["decision"], pushed["class"], pushed["rule"]) == ("allow", "network", "mode edit")
    assert ["git", "push"] in pushed["commands"]
    assert explained(root, "--command", "sudo ls", "--policy", "edit")["decision"] == "ask"
    (home / ".config/handhold/handhold.toml").write_text(RULE.format(verdict="deny"))
    pushed = explained(root, "--command", "cd x && git push", "--policy", "open")
    assert (pushed["decision"], pushed["rule"]) == ("deny", "nobody pushes")
    assert pushed["covers"] == ["git push origin main"]


@pytest.mark.parametrize(
    ("target", "kind"),
    [("a.py", "file"), ("db", "folder"), ("new/file.py", "nothing"), ("ls", "read-only"), ("rm -rf /", "dangerous")],
)
def test_explain_guesses_whether_it_is_a_path(root: Path, target: str, kind: str):
    assert explained(root, target)["class"] == kind


def test_explain_says_of_what_lies_outside_that_it_does(root: Path):
    for path in ("../other", "/etc/passwd", "a\0b", ""):
        assert explained(root, "--path", path)["class"] == "outside"


def test_explain_knows_protected_names(root: Path):
    told = explained(root, "--path", "handhold.toml")
    assert (told["decision"], told["rule"]) == ("ask", "protected names")
    assert told["verbs"]["read"]["decision"] == "allow"


def test_explain_takes_one_thing_and_only_one(root: Path):
    assert run("explain", "--root", root).exit_code == 2
    assert run("explain", "--root", root, "a", "--path", "b").exit_code == 2


def test_explain_in_words_says_how_to_allow_and_moves_no_cursor(root: Path):
    done = run("explain", "--root", root, ".env")
    assert "deny: .env [file]" in done.output
    assert "  covers   .env" in done.output
    assert "[[rule]]" in done.output
    assert "\x1b" not in run("explain", "--root", root, "--path", "a\x1b[2Jb").output


def test_explain_leaves_no_state(home: Path, root: Path):
    explained(root, "--path", "a.py")
    assert not (home / ".local").exists()


def test_broken_settings_are_told_plainly(home: Path, root: Path):
    (home / ".config/handhold/handhold.toml").write_text("mode = 1")
    done = run("explain", "--root", root, "a.py")
    assert done.exit_code == 1
    assert "mode must be one of" in done.output
    assert "(got 1)" in done.output


def test_u6_explain_from_a_shell(root: Path):
    command = [sys.executable, "-c", "from handhold.cli import main; main()", "explain", "--json", "--path", ".env"]
    done = subprocess.run(command, cwd=root, capture_output=True, check=True)
    assert json.loads(done.stdout)["decision"] == "deny"


def test_u6_without_a_sandbox_a_rule_is_advisory_for_commands(root: Path):
    """A machine without bubblewrap."""
    program = (
        "import handhold.backends.shell.sandbox_support, sys\n"
        "sys.modules['handhold.backends.shell.sandbox_support'].find_candidates = lambda: iter(())\n"
        "from handhold.cli import main; main()\n"
    )
    command = [sys.executable, "-c", program, "explain", ".env"]
    assert b"Advisory" in subprocess.run(command, cwd=root, capture_output=True, check=True).stdout
    told = json.loads(subprocess.run([*command, "--json"], cwd=root, capture_output=True, check=True).stdout)
    assert told["advisory"] is True
    assert explained(root, "--path", "a.py")["advisory"] is False


@pytest.mark.skipif(detect_sandbox_support().bubblewrap is None, reason="nothing confines commands on this machine")
def test_u6_where_commands_are_contained_a_rule_is_more_than_advice(root: Path):
    assert explained(root, "--path", ".env")["advisory"] is False
    assert "Advisory" not in run("explain", "--root", root, ".env").output


# --- trust


def test_a_project_is_shown_and_counts_from_then_on(root: Path):
    (root / "handhold.toml").write_text('mode = "ask"\n' + RULE.format(verdict="allow"))
    before = explained(root, "--path", "db/migrations/0002.py")
    assert (before["decision"], before["rule"], "not trusted" in before["remarks"][0]) == ("ask", "mode ask", True)
    done = run("trust", root)
    assert done.exit_code == 0
    assert "allow change, create, delete: db/migrations" in done.output
    assert "make them with the generator" in done.output
    after = explained(root, "--path", "db/migrations/0002.py", "--verb", "change")
    assert (after["decision"], after["rule"], after["remarks"]) == ("allow", "no migrations by hand", [])
    assert explained(root, "--path", "a.py")["rule"] == "mode ask"
    assert "no longer trusted" in run("trust", root, "--forget").output
    assert explained(root, "--path", "db/migrations/0002.py")["decision"] == "ask"
    assert "was not trusted" in run("trust", root, "--forget").output


def test_what_is_broken_or_not_there_is_not_trusted(root: Path):
    assert "There is no handhold.toml" in run("trust", root).output
    (root / "handhold.toml").write_text(RULE.format(verdict="deny").replace("db/m", "dbx/m", 1))
    done = run("trust", root)
    assert done.exit_code == 1
    assert "should cover 'db/migrations/0001.py'" in done.output
    assert "SETTINGS_BROKEN" in run("explain", "--root", root, "--path", "a.py").output


def test_what_a_project_writes_moves_no_cursor(root: Path):
    text = RULE.format(verdict="deny").replace("a person does", "\\u001b[2Jall is well\\u202e")
    (root / "handhold.toml").write_text(text)
    shown = run("trust", root).output
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "all is well" in shown
