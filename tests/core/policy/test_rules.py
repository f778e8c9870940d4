"""Rules: what they are about, which of them decides, and who may lift what."""

import re
from dataclasses import replace
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.choices import MODES, Mode
from handhold.core.policy.default_rules import BUILT_IN_RULES
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rule_policy import RulePolicy
from handhold.core.policy.rules import PATH_VERBS, SEVERITY, Origin, Rule, RuleSet
from handhold.core.policy.shell import ShellContext, analyze_command, matches
from handhold.core.ports.policy import CommandAnalysis, Decision, Verb, Verdict

ROOT, HOME = "/ws", "/home/me"
STANDING = ShellContext((ROOT,), ROOT, HOME)


def on_paths(verdict: str, *paths: str, verbs: tuple[Verb, ...] = PATH_VERBS, name: str = "", **more: object) -> Rule:
    covers = more.pop("covers", paths)
    fields = {"because": "so", "covers": covers, "does_not_cover": ("something/else",), **more}
    return Rule(name or f"{verdict} {paths[0]}", Verdict(verdict), verbs, paths=paths, **fields)  # pyright: ignore[reportArgumentType]


def on_commands(verdict: str, *commands: str, name: str = "") -> Rule:
    covers = tuple(command.replace("*", "x") for command in commands)
    fields = {"because": "so", "covers": covers, "does_not_cover": ("something else",)}
    return Rule(name or f"{verdict} {commands[0]}", Verdict(verdict), (Verb.RUN,), commands=commands, **fields)


def on_hosts(verdict: str, *hosts: str) -> Rule:
    covers = tuple(host.replace("*", "x") for host in hosts)
    fields = {"because": "so", "covers": covers, "does_not_cover": ("else.example.net",)}
    return Rule(f"{verdict} {hosts[0]}", Verdict(verdict), (Verb.CONNECT,), hosts=hosts, **fields)


def policy(
    *rules: Rule, mode: Mode = "edit", user: tuple[Rule, ...] = (), project: tuple[Rule, ...] = ()
) -> RulePolicy:
    """`rules` are the code's."""
    books = (
        RuleSet("user", "user.toml", user),
        RuleSet("code", "code", rules),
        RuleSet("project", "p.toml", project, ROOT),
    )
    return RulePolicy(ModePolicy(mode), (*books, BUILT_IN_RULES), (ROOT,), HOME, user_file="user.toml")


def verdict(policy: RulePolicy, verb: Verb, way: str) -> str:
    return policy.decide(verb, f"{ROOT}/{way}").verdict.value


def run(policy: RulePolicy, command: str) -> Decision:
    return policy.decide_command(analyze_command(command, STANDING))


# --- a rule and its examples


GOOD = {
    "name": "r",
    "verdict": "deny",
    "verbs": ["read"],
    "because": "so",
    "paths": ["*.x"],
    "covers": ["a.x"],
    "does_not_cover": ["a.y"],
}


def test_a_rule_takes_lists_and_plain_words():
    rule = Rule(**GOOD)  # pyright: ignore[reportArgumentType]
    assert (rule.verdict, rule.verbs, rule.paths) == (Verdict.DENY, (Verb.READ,), ("*.x",))
    assert hash(rule) == hash(replace(rule))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("covers", [], "covers"),
        ("does_not_cover", [], "does_not_cover"),
        ("covers", ["a.y"], r"should cover 'a\.y'"),
        ("does_not_cover", ["b/a.x"], r"should not cover 'b/a\.x'"),
        ("because", " ", "because"),
        ("name", "", "name"),
        ("name", "mode open", "reserved for modes"),
        ("verdict", "maybe", "maybe"),
        ("verbs", ["look"], "look"),
        ("verbs", [], "verbs"),
        ("verbs", ["read", "run"], "verbs"),
        ("verbs", ["run"], "needs commands"),
        ("verbs", "read", "must be a list"),
        ("paths", "*.x", "must be a list"),
        ("paths", [], "needs paths"),
        ("paths", ["[a"], "not a valid path pattern"),
        ("paths", ["../a"], "not a valid path pattern"),
        ("commands", ["git push"], "needs paths, and nothing else"),
        ("exclude", ["{"], "not a valid path pattern"),
    ],
)
def test_c90_a_rule_that_is_not_what_its_examples_say_cannot_be_made(field: str, value: object, said: str):
    with pytest.raises(ValueError, match=said):
        Rule(**{**GOOD, field: value})  # pyright: ignore[reportArgumentType]


def test_the_examples_of_a_command_and_of_a_host_are_checked_too():
    with pytest.raises(ValueError, match="should cover 'git pull'"):
        Rule("r", Verdict.DENY, (Verb.RUN,), "so", ("git pull",), ("ls",), commands=("git push",))
    with pytest.raises(ValueError, match="at least one word"):
        Rule("r", Verdict.DENY, (Verb.RUN,), "so", ("git pull",), ("ls",), commands=("git pull", " "))
    with pytest.raises(ValueError, match=r"should not cover 'a\.example\.org'"):
        Rule("r", Verdict.DENY, (Verb.CONNECT,), "so", ("b.example.org",), ("a.example.org",), hosts=("*.example.org",))
    with pytest.raises(ValueError, match="rule 'r'"):
        Rule("r", Verdict.DENY, (Verb.CONNECT,), "so", ("10.0.0.1",), ("a.example.org",), hosts=("10.0.0.1",))


def test_examples_may_lie_in_the_home_or_anywhere():
    rule = on_paths("deny", "~/.x", "/etc/y", covers=("~/.x", "/etc/y/z"), does_not_cover=(".x", "etc/y"))
    assert policy(rule).decide(Verb.READ, "/home/me/.x").rule == rule.name


# --- which rule decides


def test_c90_without_a_rule_the_mode_decides():
    for mode in MODES:
        for verb in PATH_VERBS:
            assert policy(mode=mode).decide(verb, f"{ROOT}/a") == ModePolicy(mode).decide(verb, f"{ROOT}/a")
        assert policy(mode=mode).decide_command(analyze_command("git push", STANDING)) == ModePolicy(
            mode
        ).decide_command(analyze_command("git push", STANDING))


def test_c90_deny_goes_over_ask_and_ask_over_allow():
    rules = on_paths("allow", "a"), on_paths("ask", "a"), on_paths("deny", "a", "b")
    assert verdict(policy(rules[0], mode="ask"), Verb.CHANGE, "a") == "allow"
    assert verdict(policy(*rules[:2]), Verb.CHANGE, "a") == "ask"
    for order in permutations(rules):
        assert policy(*order).decide(Verb.CHANGE, f"{ROOT}/a").rule == "deny a"


def test_a_verb_that_a_rule_does_not_name_is_the_modes():
    box = policy(on_paths("deny", "a", verbs=(Verb.DELETE,)))
    assert [verdict(box, verb, "a") for verb in PATH_VERBS] == ["allow", "allow", "allow", "deny"]


def test_an_allow_lifts_the_modes_question_and_not_what_it_denies():
    rule = on_paths("allow", "src")
    assert verdict(policy(rule, mode="ask"), Verb.CHANGE, "src/a") == "allow"
    assert verdict(policy(rule, mode="ask"), Verb.CHANGE, "lib/a") == "ask"
    assert verdict(policy(rule, mode="read-only"), Verb.CHANGE, "src/a") == "deny"
    assert verdict(policy(on_paths("ask", "src"), mode="read-only"), Verb.CHANGE, "src/a") == "deny"


def test_what_a_rule_leaves_alone_is_the_modes():
    box = policy(on_paths("deny", "db", exclude=("db/README.md",), does_not_cover=("db/README.md",)))
    assert verdict(box, Verb.READ, "db/README.md") == "allow"
    assert verdict(box, Verb.READ, "db/x") == "deny"


def test_the_judgement_names_the_rule_its_file_and_its_reason():
    said = policy(user=(on_paths("deny", "a", because="ask Ann"),)).decide(Verb.READ, f"{ROOT}/a/b")
    assert (said.rule, said.source, said.because) == ("deny a", "user.toml", "ask Ann")


def test_a_name_that_is_spelled_out_is_judged_as_it_is():
    box = policy(on_paths("deny", r"a\\n", covers=(r"a\n",)))
    assert box.decide(Verb.READ, f"{ROOT}/a\\\\n").verdict is Verdict.DENY  # how `escape_ambiguous` spells it
    assert not box.is_visible(f"{ROOT}/a\\n")


# --- commands


def test_a_rule_about_a_command_finds_it_wherever_it_stands():
    box = policy(on_commands("deny", "git push --force"), mode="open")
    for command in (
        "git push --force",
        "ls; git push --force origin",
        "(cd x && git push --force)",
        "env git push --force",
    ):
        assert run(box, command).rule == "deny git push --force"
    assert run(box, "git push").verdict is Verdict.ALLOW


def test_an_allow_must_be_about_all_that_would_be_asked():
    box = policy(on_commands("allow", "git push"))
    assert run(box, "git push").verdict is Verdict.ALLOW
    assert run(box, "git status && git push origin main").verdict is Verdict.ALLOW
    for command in (
        "git push && curl x.example.org",
        "sudo git push",
        "GIT_SSH_COMMAND=./evil git push",
        "git push > /etc/passwd",
        "git push $(cat /etc/shadow)",
        "git push; $x",
    ):
        assert run(box, command).verdict is Verdict.ASK, command
    assert run(policy(on_commands("allow", "git push"), mode="read-only"), "git push").verdict is Verdict.DENY


def test_one_command_that_is_allowed_by_name_runs_whatever_its_class():
    box = policy(on_commands("allow", "sudo systemctl status *"))
    assert run(box, "sudo systemctl status x").verdict is Verdict.ALLOW
    assert run(box, "sudo systemctl status x; echo k > /etc/hosts").verdict is Verdict.ASK


@given(st.text("ab*", max_size=6), st.text("ab", max_size=8))
def test_a_star_in_a_word_is_always_any_letters(pattern: str, word: str):
    expression = ".*".join(map(re.escape, pattern.split("*")))
    assert matches(f"x {pattern}y", ("x", f"{word}y")) == bool(re.fullmatch(f"{expression}y", f"{word}y"))


def test_a_long_word_does_not_take_long():
    assert not matches("x *b*b*b*b*c", ("x", "b" * 60_000))


def test_what_cannot_be_read_asks_where_a_rule_might_be_about_it():
    command = "$tool push"
    assert run(policy(mode="open"), command).verdict is Verdict.ALLOW
    assert run(policy(on_commands("deny", "git push"), mode="open"), command).verdict is Verdict.ASK
    assert run(policy(on_commands("allow", "git push"), mode="open"), command).verdict is Verdict.ALLOW


def test_what_nobody_can_see_stays_denied():
    box = policy(on_commands("allow", "ls"))
    assert (
        box.decide_command(CommandAnalysis("ls\u200b", "unknown", "", (("ls",),), invisible="U+200B")).verdict
        is Verdict.DENY
    )


# --- hosts


def test_the_network_is_shut_but_for_hosts_that_a_rule_of_the_users_names():
    box = policy(on_hosts("allow", "*.example.org"))
    assert box.allows_hosts
    assert box.decide(Verb.CONNECT, "a.example.org:443").verdict is Verdict.ALLOW
    for host in (
        "example.org",
        "a.example.org.evil.test",
        "xexample.org",
        "a.example.org:22",
        "10.0.0.1",
        "a.example.org\0",
    ):
        assert box.decide(Verb.CONNECT, host).verdict is Verdict.DENY, host
    assert not policy().allows_hosts


def test_a_project_opens_no_host_and_can_shut_one():
    allow, deny = on_hosts("allow", "a.example.org"), on_hosts("deny", "a.example.org")
    assert policy(project=(allow,)).decide(Verb.CONNECT, "a.example.org").verdict is Verdict.DENY
    assert not policy(project=(allow,)).allows_hosts
    assert policy(allow, project=(deny,)).decide(Verb.CONNECT, "a.example.org").rule == deny.name
    assert policy(allow, mode="read-only").decide(Verb.CONNECT, "a.example.org").verdict is Verdict.DENY


# --- who may lift what


@pytest.mark.parametrize("origin", ["user", "code"])
def test_a_secret_is_allowed_by_the_user_or_the_code(origin: Origin):
    rule = on_paths("allow", "./.env", verbs=(Verb.READ,))
    box = policy(rule) if origin == "code" else policy(user=(rule,))
    assert verdict(box, Verb.READ, ".env") == "allow"
    assert verdict(box, Verb.CHANGE, ".env") == "deny"
    assert verdict(box, Verb.READ, "a/.env") == "deny"
    assert box.is_visible(f"{ROOT}/.env")
    assert not box.is_visible(f"{ROOT}/a/.env")


def test_a_secret_is_never_allowed_by_a_project():
    assert verdict(policy(project=(on_paths("allow", ".env"),)), Verb.READ, ".env") == "deny"


def test_a_question_of_the_users_does_not_lift_what_is_built_in():
    ask, allow = on_paths("ask", ".env"), on_paths("allow", ".env")
    assert verdict(policy(ask), Verb.READ, ".env") == "deny"
    assert verdict(policy(ask, allow), Verb.CHANGE, ".env") == "ask"
    assert verdict(policy(ask, allow), Verb.READ, ".env") == "deny"  # of reading nobody is asked


def test_the_rules_of_a_project_hold_below_its_root_only():
    book = RuleSet("project", "p.toml", (on_paths("deny", "a"),), "/one")
    box = RulePolicy(ModePolicy("edit"), (book,), ("/one", "/two"))
    assert box.decide(Verb.READ, "/one/a").verdict is Verdict.DENY
    assert box.decide(Verb.READ, "/two/a").verdict is Verdict.ALLOW


WAYS = ["a", "a/b", "b", "a/.env", "b/x.pem"]
rules = st.builds(
    lambda verdict, paths, verbs, n: on_paths(verdict, *paths, verbs=tuple(verbs), name=f"{n}"),
    st.sampled_from(list(Verdict)),
    st.lists(st.sampled_from(["a", "b", "a/b", ".env", "*.pem"]), min_size=1, max_size=3, unique=True),
    st.lists(st.sampled_from(PATH_VERBS), min_size=1, unique=True),
    st.integers(0, 3),
)
some = st.lists(rules, max_size=4).map(tuple)


@given(st.sampled_from(MODES), some, some, some, st.randoms(use_true_random=False))
def test_the_order_of_rules_never_matters(
    mode: Mode, code: tuple[Rule, ...], user: tuple[Rule, ...], project: tuple[Rule, ...], chance
):
    one = policy(*code, mode=mode, user=user, project=project)
    books = [replace(book, rules=tuple(chance.sample(book.rules, len(book.rules)))) for book in one.rule_sets]
    chance.shuffle(books)
    other = replace(one, rule_sets=tuple(books))
    for verb in PATH_VERBS:
        for way in WAYS:
            assert one.decide(verb, f"{ROOT}/{way}") == other.decide(verb, f"{ROOT}/{way}")


@given(st.sampled_from(MODES), some, some, some)
def test_a_project_never_widens_but_for_the_modes_question(
    mode: Mode, code: tuple[Rule, ...], user: tuple[Rule, ...], project: tuple[Rule, ...]
):
    without = policy(*code, mode=mode, user=user)
    trusted = policy(*code, mode=mode, user=user, project=project)
    for verb in PATH_VERBS:
        for way in WAYS:
            before, after = without.decide(verb, f"{ROOT}/{way}"), trusted.decide(verb, f"{ROOT}/{way}")
            spared = before.verdict is Verdict.ASK and before.rule == f"mode {mode}"
            assert spared or SEVERITY[after.verdict] >= SEVERITY[before.verdict]


@given(st.sampled_from(MODES), some, some)
def test_what_may_be_seen_is_always_what_may_be_read(mode: Mode, code: tuple[Rule, ...], user: tuple[Rule, ...]):
    box = policy(*code, mode=mode, user=user)
    for way in WAYS:
        denied = box.decide(Verb.READ, f"{ROOT}/{way}").verdict is Verdict.DENY
        assert box.is_visible(f"{ROOT}/{way}") is not denied


@given(some)
def test_a_place_that_is_judged_otherwise_than_by_the_mode_always_concerns_a_rule(code: tuple[Rule, ...]):
    box = policy(*code)
    for way in WAYS:
        if any(box.decide(verb, f"{ROOT}/{way}").rule != "mode edit" for verb in PATH_VERBS):
            assert box.has_rule_for(f"{ROOT}/{way}")
