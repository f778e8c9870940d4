"""Rules: what may be done to which paths, commands and hosts, and who said so.

Deny goes over ask, and ask over allow, in whatever order they are written. Where no rule is about a thing, the mode
decides. An `allow` lifts the mode's question, not what the mode denies. What is built in gives way to an `allow` of the
user's file or of the code; a project's rules make things stricter, and at most spare the mode's question.

A rule carries its own examples: what it covers and what it spares is checked where it is made, so that a pattern that
does not mean what its author meant cannot be loaded.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

from handhold.core.choices import Secrets
from handhold.core.policy.hosts import DEFAULT_PORTS, BadHost, HostPattern, normalize_host, parse_port
from handhold.core.policy.modes import MODE_RULE_PREFIX, ModePolicy, is_judged_by_effects
from handhold.core.policy.path_patterns import PathPatterns, escape_glob
from handhold.core.ports.policy import CommandAnalysis, PolicyDecision, Verb, Verdict
from handhold.core.text.path_escaping import escape_path, unescape_ambiguous

Origin = Literal["user", "code", "project", "built in"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
Target = Literal["paths", "commands", "hosts"]

SEVERITY = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
PATH_VERBS = (Verb.READ, Verb.CHANGE, Verb.CREATE, Verb.DELETE)
TARGET_BY_VERB: dict[Verb, Target] = {**dict.fromkeys(PATH_VERBS, "paths"), Verb.RUN: "commands", Verb.CONNECT: "hosts"}

_SURROGATES = re.compile("[\ud800-\udfff]")  # bytes that are no text: TOML cannot hold them
_EXAMPLE_ROOT, _EXAMPLE_HOME = "/\x01", "/\x02"  # where the examples of a rule lie


@dataclass(frozen=True, init=False)
class Rule:
    """One rule. It has one kind of target: paths, commands or hosts.

    `covers` and `does_not_cover` are examples: paths as the patterns spell them (from a root on, `/…` or `~/…`), simple
    commands, or hosts. `because` is shown to whoever is refused or asked: say what to do instead, if there is any.
    """

    name: str
    verdict: Verdict
    verbs: tuple[Verb, ...]
    because: str
    covers: tuple[str, ...]
    does_not_cover: tuple[str, ...]
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    hosts: tuple[str, ...]
    exclude: tuple[str, ...]  # paths that it leaves alone
    ignore_case: bool  # takes A and a for one, whatever the file system does

    def __init__(
        self,
        name: str,
        verdict: Verdict | Literal["allow", "ask", "deny"],
        verbs: Iterable[Verb | Literal["read", "change", "create", "delete", "run", "connect"]],
        because: str,
        covers: Iterable[str],
        does_not_cover: Iterable[str],
        *,
        paths: Iterable[str] = (),
        commands: Iterable[str] = (),
        hosts: Iterable[str] = (),
        exclude: Iterable[str] = (),
        ignore_case: bool = False,
    ) -> None:
        """ValueError if it is no rule, or is not about what its examples say."""
        lists = {"verbs": verbs, "covers": covers, "does_not_cover": does_not_cover}
        lists |= {"paths": paths, "commands": commands, "hosts": hosts, "exclude": exclude}
        try:
            for field, value in lists.items():
                if isinstance(value, str):
                    raise ValueError(f"{field} is a list, even of one")
                object.__setattr__(self, field, tuple(map(Verb, value) if field == "verbs" else value))
            for field, value in {
                "name": name,
                "because": because,
                "verdict": Verdict(verdict),
                "ignore_case": ignore_case,
            }.items():
                object.__setattr__(self, field, value)
            if problem := self._find_problem():
                raise ValueError(problem)
        except ValueError as error:
            raise ValueError(f"rule {name!r}: {error}") from None

    @cached_property
    def target(self) -> Target:
        return TARGET_BY_VERB[self.verbs[0]]

    def _find_problem(self) -> str:
        if not self.name.strip() or not self.because.strip():
            return "it has a name, and says because of what"
        if self.name.startswith(MODE_RULE_PREFIX):
            return f"a name that begins with {MODE_RULE_PREFIX!r} is a mode's"
        if not self.verbs or {TARGET_BY_VERB[verb] for verb in self.verbs} != {self.target}:
            return "its verbs are read, change, create and delete, or run, or connect"
        given = {name for name in ("paths", "commands", "hosts") if getattr(self, name)}
        if given != {self.target}:
            return f"the verb {self.verbs[0]} needs {self.target}, and nothing else"
        if not all(pattern.strip() for pattern in self.commands):
            return "a command has a word at least"
        if self.exclude and self.target != "paths":
            return "only a rule about paths leaves some alone with `exclude`"
        if not self.covers or not self.does_not_cover:
            return "it needs an example at least of what it covers, and one of what it spares"
        try:
            return self._find_wrong_example()
        except ValueError as error:
            return str(error)

    def _find_wrong_example(self) -> str:
        """The first example that is not as it says."""
        matcher = self.build_example_matcher()
        for example in self.covers:
            if not matcher.covers(example):
                return f"it should cover {example!r}, and does not"
        for example in self.does_not_cover:
            if matcher.covers(example):
                return f"it should spare {example!r}, and does not"
        return ""

    def build_example_matcher(self) -> "ExampleMatcher":
        return ExampleMatcher(self)


class ExampleMatcher:
    """A rule among its own examples: what it would do to such a path, command or host, wherever the roots are."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._resolved = ResolvedRule(rule, RuleSet("code", "", (rule,)), (_EXAMPLE_ROOT,), _EXAMPLE_HOME)

    def covers(self, example: str) -> bool:
        match self._rule.target:
            case "paths":
                return self._resolved.covers_path(_resolve_example(example))
            case "commands":
                return self._resolved.covers_command(tuple(example.split()))
            case "hosts":
                return self._resolved.covers_host(example)


def _resolve_example(example: str) -> str:
    if example.startswith("~/"):
        return _EXAMPLE_HOME + example[1:]
    if example.startswith("/"):
        return example
    return "/".join((_EXAMPLE_ROOT, *(part for part in example.split("/") if part not in ("", "."))))


@dataclass(frozen=True)
class RuleSet:
    """The rules of one origin. `source` is the file, for people; a project's rules hold below its root only."""

    origin: Origin
    source: str
    rules: tuple[Rule, ...]
    root: str = ""
    trusted: bool = True  # else whoever reads its reasons is told that nobody has reviewed them
    usable_by_commands: bool = False  # commands may use what it denies, unless secrets are strict


@dataclass(frozen=True, eq=False)
class ResolvedRule:
    """A rule, with where it is written and where it holds."""

    rule: Rule
    rule_set: RuleSet
    roots: tuple[str, ...]
    home: str
    ignore_case: bool = False

    @property
    def is_from_user(self) -> bool:
        return self.rule_set.origin in ("user", "code")

    @property
    def sort_key(self) -> tuple[int, str, str, str]:
        """Which of two that say the same is named: it does not depend on who was loaded first."""
        return ORIGINS.index(self.rule_set.origin), self.rule_set.source, self.rule.name, repr(self.rule)

    def covers_path(self, place: str) -> bool:
        return self._path_patterns.covers(place) and not (self.rule.exclude and self._excluded_patterns.covers(place))

    def covers_command(self, words: tuple[str, ...]) -> bool:
        from handhold.core.policy.shell import matches

        return any(matches(pattern, words) for pattern in self.rule.commands)

    def covers_host(self, target: str) -> bool:
        """A host, with a port or with the usual ones. One that is spelled in two ways is nobody's."""
        host_text, colon, port = target.partition(":")
        try:
            host, ports = normalize_host(host_text), (parse_port(port),) if colon else DEFAULT_PORTS
        except BadHost:
            return False
        return any(pattern.matches(host, each) for pattern in self._host_patterns for each in ports)

    @cached_property
    def _host_patterns(self) -> list[HostPattern]:
        return list(map(HostPattern.parse, self.rule.hosts))

    @cached_property
    def _path_patterns(self) -> PathPatterns:
        return self._compile_patterns(self.rule.paths)

    @cached_property
    def _excluded_patterns(self) -> PathPatterns:
        return self._compile_patterns(self.rule.exclude)

    def _compile_patterns(self, patterns: Sequence[str]) -> PathPatterns:
        return PathPatterns(patterns, self.roots, self.home, ignore_case=self.ignore_case or self.rule.ignore_case)

    def to_decision(self, remedy: str = "") -> PolicyDecision:
        because = (
            self.rule.because if self.rule_set.trusted else f"an untrusted file of rules says: {self.rule.because}"
        )
        return PolicyDecision(self.rule.verdict, because, self.rule.name, self.rule_set.source, remedy)


@dataclass(frozen=True)
class RulePolicy:
    """A mode, and the rules that go before it."""

    mode: ModePolicy
    rule_sets: tuple[RuleSet, ...]
    roots: tuple[str, ...]
    home: str = ""  # what ~ is; empty: nothing
    ignore_case: bool = False  # whether the file system takes A and a for one
    secrets: Secrets = "usable"
    user_file: str = ""  # where a user would write a rule; empty: only in code
    warnings: tuple[str, ...] = field(default=(), compare=False)  # what was found and does not count

    @property
    def name(self) -> str:
        return self.mode.name

    @cached_property
    def for_commands(self) -> "RulePolicy":
        """The policy for what commands do: unless secrets are strict, they may use files that the built-in rules name.

        Where that is all the same, the policy itself.
        """
        rule_sets = tuple(rule_set for rule_set in self.rule_sets if not rule_set.usable_by_commands)
        return self if self.secrets == "strict" or rule_sets == self.rule_sets else replace(self, rule_sets=rule_sets)

    @cached_property
    def has_read_restrictions(self) -> bool:
        return any(each.rule.verdict is not Verdict.ALLOW for each in self._rules_by_verb[Verb.READ])

    # --- paths

    def decide(self, verb: Verb, target: str) -> PolicyDecision:
        if verb is Verb.CONNECT:
            hits = [each for each in self._rules_by_verb[verb] if each.covers_host(target)]
            return self._decide_by_rules(
                hits, self.mode.decide(verb, target), closed_by_default=self.name != "read-only"
            )
        if verb is Verb.RUN:
            raise ValueError("a command is judged whole: decide_command")
        place = unescape_ambiguous(target)
        if not self._ruled_paths.covers(place):
            return self.mode.decide(verb, target)
        hits = [each for each in self._rules_by_verb[verb] if each.covers_path(place)]
        decision = self._decide_by_rules(hits, self.mode.decide(verb, target), remedy=(verb, place))
        return replace_ask_with_deny(decision) if verb is Verb.READ else decision

    def has_rule_for(self, place: str) -> bool:
        return self._ruled_paths.covers(unescape_ambiguous(place))

    @cached_property
    def read_rules_key(self) -> str:
        """All that decides what may be read: replies that were made under other rules may show something else."""
        rules = (
            (rule.verdict.value, rule.paths, rule.exclude, rule.ignore_case, rule_set.origin, rule_set.root)
            for rule_set in self.rule_sets
            for rule in rule_set.rules
            if Verb.READ in rule.verbs
        )
        return repr(sorted(rules)) + ("strict" if self.secrets == "strict" else "")

    @cached_property
    def is_visible(self) -> Callable[[str], bool]:
        """Whether a place, spelled as the disk does, may be read: the same as `decide`, for who asks of every file."""
        read_rules = self._rules_by_verb[Verb.READ]
        may_be_restricted = self._merge_patterns(
            [each for each in read_rules if each.rule.verdict is not Verdict.ALLOW]
        ).covers
        by_mode = self.mode.decide(Verb.READ, "")

        def is_allowed(place: str) -> bool:
            hits = [each for each in read_rules if each.covers_path(place)]
            return self._decide_by_rules(hits, by_mode).verdict is Verdict.ALLOW

        return lambda place: not may_be_restricted(place) or is_allowed(place)

    @cached_property
    def _rules_by_verb(self) -> dict[Verb, list[ResolvedRule]]:
        resolved = [
            ResolvedRule(rule, rule_set, (rule_set.root,) if rule_set.root else self.roots, self.home, self.ignore_case)
            for rule_set in self.rule_sets
            for rule in rule_set.rules
        ]
        resolved.sort(key=lambda each: each.sort_key)
        return {verb: [each for each in resolved if verb in each.rule.verbs] for verb in Verb}

    @cached_property
    def _ruled_paths(self) -> PathPatterns:
        """All places that rules may be about, to be done with the others at a glance."""
        return self._merge_patterns([each for verb in PATH_VERBS for each in self._rules_by_verb[verb]])

    def _merge_patterns(self, resolved: Sequence[ResolvedRule]) -> PathPatterns:
        patterns = dict.fromkeys(pattern for each in resolved for pattern in each.rule.paths)
        return PathPatterns(
            patterns,
            self.roots,
            self.home,
            ignore_case=self.ignore_case or any(each.rule.ignore_case for each in resolved),
        )

    # --- hosts

    @property
    def allows_hosts(self) -> bool:
        """Whether the user or the code opens a host; a project cannot."""
        opening_rules = (
            each
            for each in self._rules_by_verb[Verb.CONNECT]
            if each.is_from_user and each.rule.verdict is not Verdict.DENY
        )
        return self.name != "read-only" and any(opening_rules)

    # --- commands

    def decide_command(self, analysis: CommandAnalysis) -> PolicyDecision:
        by_mode = self.mode.decide_command(analysis)
        if analysis.invisible or not (run_rules := self._rules_by_verb[Verb.RUN]):
            return by_mode
        hits = [each for each in run_rules if any(map(each.covers_command, analysis.commands))]
        allow_rules = [each for each in hits if each.rule.verdict is Verdict.ALLOW]
        if allow_rules and not self._is_fully_allowed(analysis, allow_rules):
            hits = [each for each in hits if each.rule.verdict is not Verdict.ALLOW]
        decision = self._decide_by_rules(hits, by_mode)
        if analysis.kind == "unknown" and decision.verdict is Verdict.ALLOW and decision.rule == by_mode.rule:
            restricting_rule = next((each for each in run_rules if each.rule.verdict is not Verdict.ALLOW), None)
            if restricting_rule is not None:
                because = f"{analysis.because}: whether the rule is about it, its text does not tell"
                return PolicyDecision(
                    Verdict.ASK, because, restricting_rule.rule.name, restricting_rule.rule_set.source
                )
        return decision

    def _is_fully_allowed(self, analysis: CommandAnalysis, allow_rules: Sequence[ResolvedRule]) -> bool:
        """Whether these rules are about all that would be asked: the line is one such command and nothing else, or each
        command in it is allowed or harmless, and nothing but commands raises the question.

        A redirection or an assignment may make a line worse than the commands in it, and nobody allowed that.
        """
        from handhold.core.policy.shell import ShellContext, analyze_command

        def is_allowed(words: tuple[str, ...]) -> bool:
            return any(each.covers_command(words) for each in allow_rules)

        if is_allowed(whole_line := tuple(analysis.text.split())) and whole_line in analysis.commands:
            return True
        context = ShellContext(self.roots, self.roots[0], self.home)
        return bool(analysis.patterns) and all(
            is_allowed(words)
            or is_judged_by_effects(
                replace(analyze_command(" ".join(map(_quote_word, words)), context), contained=analysis.contained)
            )
            for words in analysis.commands
        )

    # --- the verdict

    def _decide_by_rules(
        self,
        hits: Sequence[ResolvedRule],
        by_mode: PolicyDecision,
        *,
        closed_by_default: bool = False,
        remedy: tuple[Verb, str] | None = None,
    ) -> PolicyDecision:
        """`closed_by_default` is for what the mode denies until the user says otherwise: the network."""
        user_rules = [each for each in hits if each.is_from_user]
        if any(each.rule.verdict is Verdict.ALLOW for each in user_rules):
            hits = [each for each in hits if each.rule_set.origin != "built in"]
        worst = max(hits, key=lambda each: SEVERITY[each.rule.verdict], default=None)  # the first of several
        if worst is None:
            return by_mode
        if worst.rule.verdict is Verdict.DENY:
            built_in = worst.rule_set.origin == "built in"
            return worst.to_decision(self._format_remedy(*remedy) if built_in and remedy else "")
        if by_mode.verdict is Verdict.DENY and not (closed_by_default and user_rules):
            return by_mode
        return worst.to_decision()

    def _format_remedy(self, verb: Verb, place: str) -> str:
        """How a person allows what is denied by what is built in: in their file, and in code."""
        root = next((root for root in self.roots if place.startswith(root.rstrip("/") + "/")), "")
        relative_path = "./" + place[len(root.rstrip("/")) + 1 :] if root else place
        pattern, relative_path = (
            escape_glob(_SURROGATES.sub("\0", relative_path)).replace("\0", "?"),
            _SURROGATES.sub("?", relative_path),
        )
        fields = {
            "name": _quote_toml(f"allow {escape_path(relative_path)}"),
            "verdict": _quote_toml("allow"),
            # Nobody edits what they cannot see.
            "verbs": f"[{', '.join(map(_quote_toml, dict.fromkeys((Verb.READ, verb))))}]",
            "paths": f"[{_quote_toml(pattern)}]",
            "because": _quote_toml("say why"),
            "covers": f"[{_quote_toml(relative_path)}]",
            "does_not_cover": f"[{_quote_toml('README.md')}]",
        }
        in_code = ", ".join(f"{name}={value}" for name, value in fields.items())
        in_file = "\n".join(("[[rule]]", *(f"{name} = {value}" for name, value in fields.items())))
        if not self.user_file:
            return f"A person can allow it in code: rules=[Rule({in_code})]"
        return f"A person can allow it in {self.user_file}:\n\n{in_file}\n\nor in code: rules=[Rule({in_code})]"


def replace_ask_with_deny(decision: PolicyDecision) -> PolicyDecision:
    """The same, but denied where it asks: of reading there is nothing to show a person beforehand."""
    if decision.verdict is not Verdict.ASK:
        return decision
    because = f"{decision.because} (reading is not asked about: what asks about it denies it)"
    return replace(decision, verdict=Verdict.DENY, because=because)


def _quote_word(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _quote_toml(text: str) -> str:
    """A text in quotes, as TOML and Python both read it."""
    chars = (char if char.isprintable() and char not in '"\\' else _escape_char(char) for char in text)
    return '"' + "".join(chars) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
