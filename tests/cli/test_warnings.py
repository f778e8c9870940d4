"""Every command warns about untrusted allow rules of a project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from handhold.backends.state import trust
from tests.server.hosting import Shop, Wire
from tests.server.test_http_process import started

RULES = """
[[rule]]
name = "spared"
verdict = "allow"
verbs = ["change"]
paths = ["src"]
because = "so"
covers = ["src/a.py"]
does_not_cover = ["docs/a.md"]

[[rule]]
name = "closed"
verdict = "deny"
verbs = ["read"]
paths = ["private"]
because = "so"
covers = ["private"]
does_not_cover = ["docs/a.md"]
"""
UNTRUSTED = "handhold.toml is not trusted: its 1 allow rule is ignored"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("HANDHOLD_CONFIG", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    shop = Shop.below(tmp_path)
    (shop.root / "handhold.toml").write_text(RULES)
    (shop.root / "private").write_text("secret\n")
    return shop


def run(shop: Shop, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from handhold.cli import main; main()", *arguments, "--root", str(shop.root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


COMMANDS = {
    "call": ("call", "read_file", '{"path": "a.py"}'),
    "log": ("log",),
    "diff": ("diff",),
    "undo": ("undo",),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("as_json", [False, True])
def test_r6_a_command_says_on_standard_error_that_allow_rules_do_not_count(shop: Shop, command: str, as_json: bool):
    done = run(shop, *COMMANDS[command], *(["--json"] if as_json else []))
    assert done.stderr.count(UNTRUSTED) == 1
    assert UNTRUSTED not in done.stdout
    if as_json:
        json.loads(done.stdout)
    trust.record_trust(str(shop.root), RULES.encode())
    assert UNTRUSTED not in run(shop, *COMMANDS[command]).stderr


def test_r6_doctor_and_explain_say_it_in_words_and_as_json(shop: Shop):
    assert UNTRUSTED in run(shop, "doctor").stdout
    assert UNTRUSTED in json.loads(run(shop, "doctor", "--json").stdout)["warnings"][0]
    assert UNTRUSTED in run(shop, "explain", "a.py").stdout
    told = json.loads(run(shop, "explain", "private", "--json").stdout)
    assert (told["decision"], told["rule"]) == ("deny", "closed")
    assert UNTRUSTED in told["remarks"][0]
    trust.record_trust(str(shop.root), RULES.encode())
    assert json.loads(run(shop, "doctor", "--json").stdout)["warnings"] == []


def test_r6_a_broken_file_is_named_by_every_command(shop: Shop):
    (shop.root / "handhold.toml").write_text("mode = ")
    for arguments in COMMANDS.values():
        done = run(shop, *arguments)
        assert done.returncode == 1
        assert f"SETTINGS_BROKEN: The settings in {shop.root}/handhold.toml" in done.stderr
    assert f"{shop.root}/handhold.toml cannot be used" in run(shop, "doctor").stdout


def test_r6_mcp_says_it_at_the_start_in_its_log_and_in_its_instructions(shop: Shop):
    wire = Wire(shop.command, env=dict(os.environ))
    told = wire.begin()["result"]["instructions"]
    wire.hear(wire.call("read_file", {"path": "a.py"}))
    denied = wire.hear(wire.call("read_file", {"path": "private"}))
    errors = wire.end().decode()
    assert UNTRUSTED in told
    assert errors.count(UNTRUSTED) == 1
    assert "Denied" in denied["result"]["content"][0]["text"]


def test_r6_serve_says_it_when_it_starts(shop: Shop):
    with started(shop.root) as server:
        assert UNTRUSTED in server.told


def test_r6_a_server_on_a_broken_file_says_so_and_refuses_calls(shop: Shop):
    (shop.root / "handhold.toml").write_text("mode = ")
    wire = Wire(shop.command, env=dict(os.environ))
    wire.begin()
    refused = wire.hear(wire.call("read_file", {"path": "a.py"}))
    assert refused["result"]["isError"]
    assert "handhold.toml" in refused["result"]["content"][0]["text"]
    assert f"{shop.root}/handhold.toml cannot be used" in wire.end().decode()
