"""Rules: what may be done to which paths, commands and hosts, and where each rule comes from.

A rule carries examples of what it covers and what it does not. They are checked when it is created, so a pattern that
does not mean what its author intended cannot be loaded.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from handhold.core.policy.hosts import DEFAULT_PORTS, BadHost, HostPattern, normalize_host, parse_port
from handhold.core.policy.modes import MODE_RULE_PREFIX
from handhold.core.policy.path_patterns import PathPatterns, find_fixed_tops
from handhold.core.ports.policy import Decision, Verb, Verdict

Origin = Literal["user", "code", "project", "built in"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
Target = Literal["paths", "commands", "hosts"]

SEVERITY = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
PATH_VERBS = (Verb.READ, Verb.CHANGE, Verb.CREATE, Verb.DELETE)
TARGET_BY_VERB: dict[Verb, Target] = {**dict.fromkeys(PATH_VERBS, "paths"), Verb.RUN: "commands", Verb.CONNECT: "hosts"}

_EXAMPLE_ROOT, _EXAMPLE_HOME = "/\x01", "/\x02"  # where the examples of a rule are placed


@dataclass(frozen=True, init=False)
class Rule:
    """One rule. It has one kind of target: paths, commands or hosts.

    `covers` and `does_not_cover` are examples: paths as the patterns spell them (root-relative, `/…` or `~/…`), simple
    commands, or hosts. `because` is shown when a call is refused or asked about: say what to do instead, if possible.
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
    exclude: tuple[str, ...]  # paths that the rule does not apply to
    ignore_case: bool  # whatever the file system does

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
        """Raise ValueError for an invalid rule, or if an example contradicts it."""
        lists = {"verbs": verbs, "covers": covers, "does_not_cover": does_not_cover}
        lists |= {"paths": paths, "commands": commands, "hosts": hosts, "exclude": exclude}
        try:
            for field, value in lists.items():
                if isinstance(value, str):
                    raise ValueError(f"{field} must be a list, even with one item")
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
            return "it needs a name and a reason (because)"
        if self.name.startswith(MODE_RULE_PREFIX):
            return f"names that start with {MODE_RULE_PREFIX!r} are reserved for modes"
        if not self.verbs or {TARGET_BY_VERB[verb] for verb in self.verbs} != {self.target}:
            return "its verbs must be some of read, change, create and delete, or only run, or only connect"
        given = {name for name in ("paths", "commands", "hosts") if getattr(self, name)}
        if given != {self.target}:
            return f"the verb {self.verbs[0]} needs {self.target}, and nothing else"
        if not all(pattern.strip() for pattern in self.commands):
            return "a command must have at least one word"
        if self.exclude and self.target != "paths":
            return "only a rule about paths can have `exclude`"
        if not self.covers or not self.does_not_cover:
            return "it needs at least one example in `covers` and one in `does_not_cover`"
        try:
            return self._find_wrong_example()
        except ValueError as error:
            return str(error)

    def _find_wrong_example(self) -> str:
        """Describe the first example that contradicts the rule."""
        matcher = self.build_example_matcher()
        for example in self.covers:
            if not matcher.covers(example):
                return f"it should cover {example!r}, but does not"
        for example in self.does_not_cover:
            if matcher.covers(example):
                return f"it should not cover {example!r}, but does"
        return ""

    def build_example_matcher(self) -> "ExampleMatcher":
        return ExampleMatcher(self)


class ExampleMatcher:
    """Matches a rule against its own examples, independent of the actual roots."""

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
    """The rules from one origin. `source` is the file, for people; a project's rules apply only below its root."""

    origin: Origin
    source: str
    rules: tuple[Rule, ...]
    root: str = ""
    trusted: bool = True  # if not, its reasons are marked as untrusted
    usable_by_commands: bool = False  # commands may use what it denies, unless secrets are strict


@dataclass(frozen=True, eq=False)
class ResolvedRule:
    """A rule with its origin and scope."""

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
        """Which of several equal rules is named: independent of the load order."""
        return ORIGINS.index(self.rule_set.origin), self.rule_set.source, self.rule.name, repr(self.rule)

    def covers_path(self, place: str) -> bool:
        return self._path_patterns.covers(place) and not (self.rule.exclude and self._excluded_patterns.covers(place))

    def find_tops(self) -> tuple[str, ...] | None:
        """Places that contain every path that it covers; None if that may be anywhere."""
        return find_fixed_tops(
            self.rule.paths, self.roots, self.home, ignore_case=self.ignore_case or self.rule.ignore_case
        )

    def covers_command(self, words: tuple[str, ...]) -> bool:
        from handhold.core.policy.shell import matches

        return any(matches(pattern, words) for pattern in self.rule.commands)

    def covers_host(self, target: str) -> bool:
        """Whether the rule covers a host, with a port or with the default ones. An ambiguous host is never covered."""
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

    def to_decision(self, remedy: str = "") -> Decision:
        because = (
            self.rule.because if self.rule_set.trusted else f"from an untrusted settings file: {self.rule.because}"
        )
        return Decision(self.rule.verdict, because, self.rule.name, self.rule_set.source, remedy)
