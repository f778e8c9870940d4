"""Secrets are denied unless the user says otherwise. What each rule covers and spares stands beside it."""

from collections.abc import Callable
from time import process_time

import pytest

from handhold.core.choices import MODES, Mode
from handhold.core.policy.default_rules import BUILT_IN_RULES, SECRET_RULES
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import PATH_VERBS
from handhold.core.ports.policy import Verb, Verdict
from tests.scale import scaled

BOX = RulePolicy(ModePolicy("open"), (BUILT_IN_RULES,), ("/ws", "/home/me"), "/home/me", user_file="/home/me/x.toml")


def placed(example: str) -> str:
    return f"/home/me{example[1:]}" if example.startswith("~") else f"/ws/{example}"


COVERED = [example for rule in SECRET_RULES for example in rule.covers]
SPARED = sorted({example for rule in SECRET_RULES for example in rule.does_not_cover})


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("example", COVERED)
def test_u6_a_secret_is_denied_in_every_mode_in_any_case(example: str, mode: Mode):
    box = RulePolicy(ModePolicy(mode), BOX.rule_sets, BOX.roots, BOX.home)
    above, _, name = placed(example).rpartition("/")
    for place in (f"{above}/{name}", f"{above}/{name.upper()}"):
        assert [box.decide(verb, place).verdict for verb in PATH_VERBS] == [Verdict.DENY] * 4
        assert not box.is_visible(place)


@pytest.mark.parametrize("example", SPARED)
def test_what_one_rule_spares_no_other_covers(example: str):
    assert BOX.is_visible(placed(example))
    assert BOX.decide(Verb.CHANGE, placed(example)).verdict is Verdict.ALLOW


@pytest.mark.parametrize(
    "way",
    [
        *(
            "README.md",
            "src/env.py",
            "environment.yml",
            ".envrc",
            "package.json",
            "tsconfig.json",
            "Makefile",
            ".npmrc",
        ),
        *("keys.py", "src/keyboard/key.ts", "locale/en.json", "lib/monkey.rb", "docs/credentials.md", "tokens.css"),
        *("src/id_rsa_parser.c", "cert.pem", ".venv/lib/python3.11/site-packages/certifi/cacert.pem", ".git/config"),
        *("config/secrets.example.yml", "Cargo.lock", "app.config.json", ".dockerignore", ".aws-sam/build.toml"),
        *("tests/fixtures/tls/server.key", "node_modules/ws/test/fixtures/key.pem", "android/app/debug.keystore"),
    ],
)
def test_what_projects_are_made_of_is_no_secret(way: str):
    assert BOX.is_visible(f"/ws/{way}")


def test_the_message_says_how_to_allow_it():
    remedy = BOX.decide(Verb.READ, "/ws/a/.env").remedy
    assert "/home/me/x.toml" in remedy
    assert 'paths = ["./a/.env"]' in remedy
    assert "rules=[Rule(" in remedy
    assert (
        "x.toml" not in RulePolicy(ModePolicy("edit"), (BUILT_IN_RULES,), ("/ws",)).decide(Verb.READ, "/ws/.env").remedy
    )


@pytest.mark.alone
def test_a_place_that_no_rule_is_about_costs_little_more_than_to_take_its_name():
    """Half a microsecond where nothing else runs."""
    places = [f"/ws/src/package_{i % 2000}/module_{i}.py" for i in range(100_000)]
    names = {"x"}

    def by_name(place: str) -> bool:
        above, _, name = place.rpartition("/")
        return above not in names and name not in names

    def cost(ask: Callable[[str], bool]) -> float:
        begun = process_time()
        for place in places:
            ask(place)
        return (process_time() - begun) / len(places) * 1e6

    rounds = [(cost(by_name), cost(BOX.is_visible)) for _ in range(scaled(4, 9))]
    ratio = min(asked / named for named, asked in rounds)
    print(
        f"to take its name: {min(rounds)[0]:.2f} µs; to look at it: {min(each[1] for each in rounds):.2f} µs; {ratio:.1f} x"
    )
    assert ratio <= 5
