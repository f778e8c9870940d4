"""Decide about paths, commands and hosts by rules and a mode."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from handhold.core.choices import Secrets
from handhold.core.policy.modes import ModePolicy, is_judged_by_effects
from handhold.core.policy.path_patterns import PathPatterns, escape_glob, find_fixed_tops
from handhold.core.policy.rules import PATH_VERBS, SEVERITY, ResolvedRule, RuleSet
from handhold.core.ports.policy import CommandAnalysis, Decision, Verb, Verdict
from handhold.core.text.path_escaping import escape_path, unescape_ambiguous

_SURROGATES = re.compile("[\ud800-\udfff]")  # undecodable bytes, which TOML cannot represent


def name_only(place: str) -> Sequence[str]:
    return (place,)


@dataclass(frozen=True)
class RulePolicy:
    """A mode, and the rules that take precedence over it.

    Deny overrides ask, and ask overrides allow, whatever their order. If no rule applies, the mode decides.
    An `allow` lifts the mode's question, but not what the mode denies. Built-in rules yield to an `allow` in the user's
    file or in code. A project's rules can only make things stricter, or lift the mode's question.
    """

    mode: ModePolicy
    rule_sets: tuple[RuleSet, ...]
    roots: tuple[str, ...]
    home: str = ""  # what ~ expands to; empty: nothing
    ignore_case: bool = False  # whether the file system is case-insensitive
    secrets: Secrets = "usable"
    user_file: str = ""  # where the user writes rules; empty: only in code
    find_names: Callable[[str], Sequence[str]] = field(default=name_only, compare=False)  # by which a place is judged
    warnings: tuple[str, ...] = field(
        default=(), compare=False
    )  # about settings that do not apply, such as untrusted allow rules

    @property
    def name(self) -> str:
        return self.mode.name

    @cached_property
    def for_commands(self) -> "RulePolicy":
        """The policy for commands: unless secrets are strict, they may use files that the built-in rules deny.

        Returns `self` if that makes no difference.
        """
        rule_sets = tuple(rule_set for rule_set in self.rule_sets if not rule_set.usable_by_commands)
        return self if self.secrets == "strict" or rule_sets == self.rule_sets else replace(self, rule_sets=rule_sets)

    @cached_property
    def has_read_restrictions(self) -> bool:
        return any(each.rule.verdict is not Verdict.ALLOW for each in self._rules_by_verb[Verb.READ])

    @cached_property
    def denies_changes(self) -> bool:
        """Whether a rule denies a change; the mode does not count."""
        verbs = (Verb.CREATE, Verb.CHANGE, Verb.DELETE)
        return any(each.rule.verdict is Verdict.DENY for verb in verbs for each in self._rules_by_verb[verb])

    @cached_property
    def read_restricted_tops(self) -> tuple[str, ...] | None:
        """Places that contain everything that may not be read; None if that may be anywhere."""
        tops: list[str] = []
        for each in self._rules_by_verb[Verb.READ]:
            found = each.find_tops() if each.rule.verdict is not Verdict.ALLOW else ()
            if found is None:
                return None
            tops += found
        return tuple(dict.fromkeys(tops))

    # --- paths

    def decide(self, verb: Verb, target: str) -> Decision:
        if verb is Verb.CONNECT:
            hits = [each for each in self._rules_by_verb[verb] if each.covers_host(target)]
            return self._decide_by_rules(
                hits, self.mode.decide(verb, target), closed_by_default=self.name != "read-only"
            )
        if verb is Verb.RUN:
            raise ValueError("a command is decided as a whole: use decide_command")
        decisions = (self._decide_by_name(verb, name) for name in self.find_names(unescape_ambiguous(target)))
        return max(decisions, key=lambda each: SEVERITY[each.verdict])  # the first of several

    def _decide_by_name(self, verb: Verb, place: str) -> Decision:
        if not self._ruled_paths.covers(place):
            return self.mode.decide(verb, place)
        hits = [each for each in self._rules_by_verb[verb] if each.covers_path(place)]
        decision = self._decide_by_rules(hits, self.mode.decide(verb, place), remedy=(verb, place))
        return replace_ask_with_deny(decision) if verb is Verb.READ else decision

    def has_rule_for(self, place: str) -> bool:
        return any(map(self._ruled_paths.covers, self.find_names(unescape_ambiguous(place))))

    @property
    def by_name(self) -> "RulePolicy":
        return replace(self, find_names=name_only)

    @cached_property
    def is_restricted(self) -> Callable[[str], bool]:
        """Whether a rule that asks or denies covers a path, by its name only."""
        return self._merge_patterns(self._restricting_rules).covers

    @cached_property
    def spelled_paths(self) -> tuple[str, ...]:
        """The paths that these rules spell out, as far as there is no wildcard."""
        found = (
            find_fixed_tops([pattern], each.roots, self.home) or ()
            for each in self._restricting_rules
            for pattern in each.rule.paths
        )
        return tuple(dict.fromkeys(path for paths in found for path in paths))

    @cached_property
    def read_rules_key(self) -> str:
        """A key for the rules that decide about reading: replies from other rules may show something else."""
        rules = (
            (rule.verdict.value, rule.paths, rule.exclude, rule.ignore_case, rule_set.origin, rule_set.root)
            for rule_set in self.rule_sets
            for rule in rule_set.rules
            if Verb.READ in rule.verbs
        )
        return repr(sorted(rules)) + ("strict" if self.secrets == "strict" else "")

    @cached_property
    def is_visible(self) -> Callable[[str], bool]:
        """Whether a canonical place may be read: like `decide`, but fast enough to call for every file."""
        read_rules = self._rules_by_verb[Verb.READ]
        may_be_restricted = self._merge_patterns(
            [each for each in read_rules if each.rule.verdict is not Verdict.ALLOW]
        ).covers
        by_mode = self.mode.decide(Verb.READ, "")

        def is_allowed(place: str) -> bool:
            hits = [each for each in read_rules if each.covers_path(place)]
            return self._decide_by_rules(hits, by_mode).verdict is Verdict.ALLOW

        def is_visible_name(name: str) -> bool:
            return not may_be_restricted(name) or is_allowed(name)

        if (find_names := self.find_names) is name_only:
            return is_visible_name
        return lambda place: all(map(is_visible_name, find_names(place)))

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
        """All places that rules may concern, to skip the others quickly."""
        return self._merge_patterns(self._path_rules)

    @cached_property
    def _path_rules(self) -> list[ResolvedRule]:
        return [each for verb in PATH_VERBS for each in self._rules_by_verb[verb]]

    @cached_property
    def _restricting_rules(self) -> list[ResolvedRule]:
        return [each for each in self._path_rules if each.rule.verdict is not Verdict.ALLOW]

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
        """Whether the user or the code allows a host; a project cannot."""
        opening_rules = (
            each
            for each in self._rules_by_verb[Verb.CONNECT]
            if each.is_from_user and each.rule.verdict is not Verdict.DENY
        )
        return self.name != "read-only" and any(opening_rules)

    # --- commands

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
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
                because = f"{analysis.because}, so it is unknown whether the rule applies"
                return Decision(Verdict.ASK, because, restricting_rule.rule.name, restricting_rule.rule_set.source)
        return decision

    def _is_fully_allowed(self, analysis: CommandAnalysis, allow_rules: Sequence[ResolvedRule]) -> bool:
        """Whether the allow rules cover all that needs approval: the line is one allowed command, or each command in it
        is allowed or harmless and nothing but commands raises the question.

        A redirection or an assignment may make a line worse than its commands, and no rule has allowed that.
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

    # --- decision

    def _decide_by_rules(
        self,
        hits: Sequence[ResolvedRule],
        by_mode: Decision,
        *,
        closed_by_default: bool = False,
        remedy: tuple[Verb, str] | None = None,
    ) -> Decision:
        """`closed_by_default` is for the network, which the mode denies until the user allows it."""
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
        """How a person allows what a built-in rule denies, in their settings file and in code."""
        root = next((root for root in self.roots if place.startswith(root.rstrip("/") + "/")), "")
        relative_path = "./" + place[len(root.rstrip("/")) + 1 :] if root else place
        pattern, relative_path = (
            escape_glob(_SURROGATES.sub("\0", relative_path)).replace("\0", "?"),
            _SURROGATES.sub("?", relative_path),
        )
        fields = {
            "name": _quote_toml(f"allow {escape_path(relative_path)}"),
            "verdict": _quote_toml("allow"),
            # A file that cannot be read cannot be edited sensibly.
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


def replace_ask_with_deny(decision: Decision) -> Decision:
    """Deny instead of asking: before a read there is nothing to show a person."""
    if decision.verdict is not Verdict.ASK:
        return decision
    because = f"{decision.because} (nobody can be asked about a read, so it is denied)"
    return replace(decision, verdict=Verdict.DENY, because=because)


def _quote_word(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _quote_toml(text: str) -> str:
    """A quoted string that both TOML and Python accept."""
    chars = (char if char.isprintable() and char not in '"\\' else _escape_char(char) for char in text)
    return '"' + "".join(chars) + '"'


def _escape_char(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
