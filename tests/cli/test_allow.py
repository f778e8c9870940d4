"""`handhold allow HOST`: a rule in the user's own settings, beside what is there."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from handhold import Toolbox
from handhold.cli.commands import handhold
from handhold.core.ports.policy import Verb

OWN = 'mode = "edit"\n\n# mine\n[[rule]]\nname = "mine"\nverdict = "deny"\nverbs = ["connect"]\nhosts = ["*.example.net"]\n'
OWN += 'because = "no"\ncovers = ["a.example.net"]\ndoes_not_cover = ["example.net"]'


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "config/handhold.toml"
    file.parent.mkdir()
    file.touch()
    monkeypatch.setenv("HANDHOLD_CONFIG", str(file))
    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(handhold, ["allow", *arguments])


def test_c95_a_host_is_allowed_once_and_what_was_there_stays(settings: Path, tmp_path: Path):
    settings.write_text(OWN)
    assert run("a.example.org", "*.example.com:8443").exit_code == 0
    written = settings.read_text()
    assert written.startswith(OWN)
    told = json.loads(run("--json", "a.example.org").stdout)
    assert (told["added"], told["allowed_before"]) == ([], ["a.example.org"])
    assert settings.read_text() == written
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", settings=True) as box:
        verdicts = {
            host: box.policy.decide(Verb.CONNECT, host).verdict.value
            for host in ("a.example.org:443", "b.example.com:8443", "b.example.com:443", "a.example.net:443")
        }
    assert verdicts == {
        "a.example.org:443": "allow",
        "b.example.com:8443": "allow",
        "b.example.com:443": "deny",
        "a.example.net:443": "deny",
    }


@pytest.mark.parametrize("host", ["localhost", "10.0.0.1", "*", "*.org", "a b", "http://a.example.org", ""])
def test_c95_what_is_no_host_name_is_refused_and_nothing_is_written(settings: Path, host: str):
    assert run("a.example.org", host).exit_code == 2
    assert settings.read_text() == ""


def test_c93_broken_settings_stay_as_they_are(settings: Path):
    settings.write_text("mode = ")
    assert run("a.example.org").exit_code == 1
    assert settings.read_text() == "mode = "
