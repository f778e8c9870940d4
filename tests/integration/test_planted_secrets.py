"""C-89: secrets that are planted in twelve ways do not reach the reply, the journal or a watcher; files are not altered."""

import base64
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.core.text.token_rules import RULE_NAMES, TOKEN_RULES, make_token_redactor
from handhold.pipeline.redaction import find_environment_secrets
from tests.scale import sampled
from tests.suites.machine import has_shadows

WAYS = tomllib.loads(Path(__file__).with_name("planted_secrets.toml").read_text())["way"]
# Joined here, so that nobody takes this file for a leak.
BY_ENVIRONMENT = {
    "DEPLOY_PASSWORD": "vR7mQ2xLp9Zs" + "4TkW8nBd",
    "CI_VALUE": "ghp_" + "Zq8Lw2Xv5Rt9Ns3Bk7Mf1Hd6Jp4Cy0GaE2uT",
}
BY_FILE = {"API_TOKEN": "nK5wP8vX" + "2mL7qR4zB9sT"}
BY_FORM = {
    "github-token": "gho_" + "a7Bq3Zx9Lm2Wv8Rt5Ns1Kd6Jf4Hp0GyC2EuT",
    "slack-token": "xoxb-" + "483920175634-8812736459012-Lq7Wz3Xv9Rt2Ns",
}
SECRETS = {**BY_ENVIRONMENT, **BY_FILE, **BY_FORM}
CASES = [(way, name) for way in WAYS for name in SECRETS]
needs_overlay = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


def test_there_are_sixty_of_them_in_twelve_ways():
    assert (len(WAYS), len(CASES)) == (12, 60)


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Toolbox]:
    for name, value in BY_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (root := tmp_path / "ws").mkdir()
    (root / ".env").write_text("".join(f"{name}={value}\n" for name, value in BY_FILE.items()))
    for name, value in SECRETS.items():
        (root / f"{name}.txt").write_text(f"{value}\n")
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open") as opened:
        yield opened


def run(box: Toolbox, way: dict[str, Any], name: str):
    prefix = f"F={name}.txt; V=$(cat $F)\n"
    return box.call("bash", {"command": prefix + way["command"]})


def leaks(text: str, value: str) -> bool:
    flat = "".join(text.split())
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")[:-1]
    return value in flat or encoded in flat


@needs_overlay
@pytest.mark.parametrize(
    ("way", "name"),
    sampled(CASES, 24, lambda case: case[0]["name"]),
    ids=lambda each: each if isinstance(each, str) else each["name"],
)
def test_a_planted_secret_is_redacted(box: Toolbox, way: dict[str, Any], name: str):
    reply = run(box, way, name)
    if way["caught"] == "known" and name in BY_FORM:
        assert leaks(reply.text, SECRETS[name])  # listed in the threat model: if it is caught now, say so there
        return
    assert "[redacted: " in reply.text
    assert not leaks(reply.text, SECRETS[name])
    assert not leaks(str(reply.data), SECRETS[name])
    if way["name"] == "name of a file":
        return  # undo needs the name: the journal has it
    (entry,) = box.log(last=1)
    assert not leaks(str(entry), SECRETS[name])


@needs_overlay
def test_each_redaction_names_the_variable_or_the_rule(box: Toolbox):
    for name in SECRETS:
        assert f"[redacted: {name}]" in box.call("bash", {"command": f"cat {name}.txt"}).text


@needs_overlay
def test_the_kept_file_of_a_long_output_is_read_without_secrets(box: Toolbox):
    key = (
        "-----BEGIN RSA PRIVATE KEY-----\n"
        + "Zq8Lw2Xv5Rt9Ns3Bk7Mf1Hd6Jp4Cy0GaE2uT\n" * 6
        + "-----END RSA PRIVATE KEY-----"
    )
    (Path(box.files.roots[0]) / "key.txt").write_text(f"{key}\n")
    printed = box.call("bash", {"command": "cat *.txt; seq 100000"})
    kept = printed.data["output"]["handle"]
    replies = [
        box.call("read_file", {"path": kept}),
        box.call("read_file", {"path": kept.replace("results/", "results/./"), "offset": 1, "limit": 40}),
        box.call("bash", {"command": f"head -c 2000 {kept}"}),
        box.call("grep", {"pattern": "_|xox", "path": kept, "mode": "content"}),
    ]
    for reply in replies:
        assert reply.ok, reply.text
        for name, value in SECRETS.items():
            assert value not in f"{reply.text}{reply.data}{reply.result}", (name, reply.text[:500])
    for reply in replies[:3]:
        assert "[redacted: private-key]" in reply.text
        assert key[40:70] not in f"{reply.text}{reply.result}"


def test_search_hits_are_redacted_and_files_are_not(box: Toolbox):
    for name, value in SECRETS.items():
        hits = box.call("grep", {"pattern": value[:6], "mode": "content"})
        assert value not in hits.text + str(hits.data)
        read = box.call("read_file", {"path": f"{name}.txt"})
        assert value in read.text
        edit = box.call("edit_file", {"path": f"{name}.txt", "old_string": value, "new_string": f"{value} "})
        assert value in edit.ui_extra
        missing = box.call("edit_file", {"path": f"{name}.txt", "old_string": f"{value}\nx", "new_string": "y"})
        assert value in missing.text  # what must be quoted is shown as it is


def test_errors_are_redacted(box: Toolbox):
    """An error does not look for secret files: it redacts the values that an earlier search or command has found."""
    for value in BY_FILE.values():
        box.call("grep", {"pattern": value[:6], "mode": "content"})
    for value in SECRETS.values():
        reply = box.call("read_file", {"path": f"nowhere/{value}"})
        assert reply.code == "NOT_FOUND"
        assert value not in reply.text + str(reply.data)


@needs_overlay
def test_a_watcher_sees_no_secret(box: Toolbox):
    from handhold.pipeline.cancellation import CancelToken

    seen: list[str] = []
    box.call("bash", {"command": "cat *.txt"}, cancel_token=CancelToken(watch=seen.append))
    assert "[redacted: " in "".join(seen)
    assert not any(value in "".join(seen) for value in SECRETS.values())


@needs_overlay
def test_each_rule_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DEPLOY_PASSWORD", BY_ENVIRONMENT["DEPLOY_PASSWORD"])
    (root := tmp_path / "ws").mkdir()
    command = f"echo {BY_ENVIRONMENT['DEPLOY_PASSWORD']} {BY_FORM['github-token']} {BY_FORM['slack-token']}"
    options: dict[str, Any] = {"state": tmp_path / "state", "settings": False, "policy": "open"}
    with Toolbox.open(root, unredacted=("environment", "github-token"), **options) as opened:
        reply = opened.call("bash", {"command": command})
        assert BY_ENVIRONMENT["DEPLOY_PASSWORD"] in reply.text
        assert BY_FORM["github-token"] in reply.text
        assert "[redacted: slack-token]" in reply.text


@given(st.text())
def test_text_without_a_token_is_never_altered(text: str):
    assert make_token_redactor()(text) == text


def test_turning_all_rules_off_redacts_nothing():
    text = " ".join(BY_FORM.values())
    assert make_token_redactor(RULE_NAMES)(text) == text
    assert make_token_redactor()(text) == "[redacted: github-token] [redacted: slack-token]"


def test_names_of_rules_are_unique_and_their_anchors_are_part_of_what_they_match():
    assert len(set(RULE_NAMES)) == len(RULE_NAMES) == len(TOKEN_RULES) + 1


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "postgresql://user:password@localhost/db",
        "https://user:${TOKEN}@example.org",
        "Authorization: Bearer <token>",
        "class=sk-estimator-doc-link.sk-toggleable__label-arrow",
        "npm_config_registry npm_lifecycle_event_of_a_very_long_name_indeed",
        "http://localhost:8080@x",
        "eyJ0.eyJ1.x",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    ],
)
def test_what_only_looks_like_a_token_stays(text: str):
    assert make_token_redactor()(text) == text


def test_variables_that_are_not_secret_are_not_redacted():
    plain = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/root",
        "EDITOR": "vim",
        "TOKEN_URL": "https://a.org/token",
        "KEY": "short",
    }
    assert find_environment_secrets(plain) == ()
    assert [each.name for each in find_environment_secrets({"DB_PASSWORD": "hunter2hunter2hunter"})] == ["DB_PASSWORD"]
