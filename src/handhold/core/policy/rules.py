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
from handhold.core.policy.hosts import USUAL, BadHost, HostPattern, host_named, port_numbered
from handhold.core.policy.modes import MODE, ModePolicy, is_judged_by_effects
from handhold.core.policy.places import Places, literal
from handhold.core.ports import Judgement, Study, Verb, Verdict
from handhold.core.text.names import escaped, real

Origin = Literal["user", "code", "project", "built in"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
Target = Literal["paths", "commands", "hosts"]

SEVERITY = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}
ON_PATHS = (Verb.READ, Verb.CHANGE, Verb.CREATE, Verb.DELETE)
TARGET_OF: dict[Verb, Target] = {**dict.fromkeys(ON_PATHS, "paths"), Verb.RUN: "commands", Verb.CONNECT: "hosts"}

_UNTOLD = re.compile("[\ud800-\udfff]")  # bytes that are no text: TOML cannot hold them
_ROOT, _HOME = "/\x01", "/\x02"  # where the examples of a rule lie


@dataclass(frozen=True, init=False)
class Rule:
    """One rule. It has one kind of target: paths, commands or hosts.

    `covers` and `spares` are examples: paths as the patterns spell them (from a root on, `/…` or `~/…`), simple
    commands, or hosts. `because` is shown to whoever is refused or asked: say what to do instead, if there is any.
    """

    name: str
    verdict: Verdict
    verbs: tuple[Verb, ...]
    because: str
    covers: tuple[str, ...]
    spares: tuple[str, ...]
    paths: tuple[str, ...]
    commands: tuple[str, ...]
    hosts: tuple[str, ...]
    but: tuple[str, ...]  # paths that it leaves alone
    folds: bool  # takes A and a for one, whatever the file system does

    def __init__(
        self,
        name: str,
        verdict: Verdict | Literal["allow", "ask", "deny"],
        verbs: Iterable[Verb | Literal["read", "change", "create", "delete", "run", "connect"]],
        because: str,
        covers: Iterable[str],
        spares: Iterable[str],
        *,
        paths: Iterable[str] = (),
        commands: Iterable[str] = (),
        hosts: Iterable[str] = (),
        but: Iterable[str] = (),
        folds: bool = False,
    ) -> None:
        """ValueError if it is no rule, or is not about what its examples say."""
        lists = {"verbs": verbs, "covers": covers, "spares": spares}
        lists |= {"paths": paths, "commands": commands, "hosts": hosts, "but": but}
        try:
            for field, value in lists.items():
                if isinstance(value, str):
                    raise ValueError(f"{field} is a list, even of one")
                object.__setattr__(self, field, tuple(map(Verb, value) if field == "verbs" else value))
            for field, value in {"name": name, "because": because, "verdict": Verdict(verdict), "folds": folds}.items():
                object.__setattr__(self, field, value)
            if trouble := self._trouble():
                raise ValueError(trouble)
        except ValueError as error:
            raise ValueError(f"rule {name!r}: {error}") from None

    @cached_property
    def target(self) -> Target:
        return TARGET_OF[self.verbs[0]]

    def _trouble(self) -> str:
        if not self.name.strip() or not self.because.strip():
            return "it has a name, and says because of what"
        if self.name.startswith(MODE):
            return f"a name that begins with {MODE!r} is a mode's"
        if not self.verbs or {TARGET_OF[verb] for verb in self.verbs} != {self.target}:
            return "its verbs are read, change, create and delete, or run, or connect"
        given = {name for name in ("paths", "commands", "hosts") if getattr(self, name)}
        if given != {self.target}:
            return f"the verb {self.verbs[0]} needs {self.target}, and nothing else"
        if not all(pattern.strip() for pattern in self.commands):
            return "a command has a word at least"
        if self.but and self.target != "paths":
            return "only a rule about paths leaves some alone with `but`"
        if not self.covers or not self.spares:
            return "it needs an example at least of what it covers, and one of what it spares"
        try:
            return self._misled()
        except ValueError as bad:
            return str(bad)

    def _misled(self) -> str:
        """The first example that is not as it says."""
        covers = self.examples()
        for example in self.covers:
            if not covers.about(example):
                return f"it should cover {example!r}, and does not"
        for example in self.spares:
            if covers.about(example):
                return f"it should spare {example!r}, and does not"
        return ""

    def examples(self) -> "Examples":
        return Examples(self)


class Examples:
    """A rule among its own examples: what it would do to such a path, command or host, wherever the roots are."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._bound = Bound(rule, Book("code", "", (rule,)), (_ROOT,), _HOME)

    def about(self, example: str) -> bool:
        match self._rule.target:
            case "paths":
                return self._bound.about_place(_placed(example))
            case "commands":
                return self._bound.about_command(tuple(example.split()))
            case "hosts":
                return self._bound.about_host(example)


def _placed(example: str) -> str:
    if example.startswith("~/"):
        return _HOME + example[1:]
    if example.startswith("/"):
        return example
    return "/".join((_ROOT, *(part for part in example.split("/") if part not in ("", "."))))


@dataclass(frozen=True)
class Book:
    """The rules of one origin. `source` is the file, for people; a project's rules hold below its root only."""

    origin: Origin
    source: str
    rules: tuple[Rule, ...]
    root: str = ""
    trusted: bool = True  # else whoever reads its reasons is told that nobody has reviewed them
    usable: bool = False  # commands may use what it denies, unless secrets are strict


@dataclass(frozen=True, eq=False)
class Bound:
    """A rule, with where it is written and where it holds."""

    rule: Rule
    book: Book
    roots: tuple[str, ...]
    home: str
    folds: bool = False

    @property
    def of_user(self) -> bool:
        return self.book.origin in ("user", "code")

    @property
    def order(self) -> tuple[int, str, str, str]:
        """Which of two that say the same is named: it does not depend on who was loaded first."""
        return ORIGINS.index(self.book.origin), self.book.source, self.rule.name, repr(self.rule)

    def about_place(self, place: str) -> bool:
        return self._paths.covers(place) and not (self.rule.but and self._but.covers(place))

    def about_command(self, words: tuple[str, ...]) -> bool:
        from handhold.core.policy.shell import matches

        return any(matches(pattern, words) for pattern in self.rule.commands)

    def about_host(self, target: str) -> bool:
        """A host, with a port or with the usual ones. One that is spelled in two ways is nobody's."""
        named, colon, port = target.partition(":")
        try:
            host, ports = host_named(named), (port_numbered(port),) if colon else USUAL
        except BadHost:
            return False
        return any(pattern.matches(host, each) for pattern in self._hosts for each in ports)

    @cached_property
    def _hosts(self) -> list[HostPattern]:
        return list(map(HostPattern.parse, self.rule.hosts))

    @cached_property
    def _paths(self) -> Places:
        return self._places(self.rule.paths)

    @cached_property
    def _but(self) -> Places:
        return self._places(self.rule.but)

    def _places(self, patterns: Sequence[str]) -> Places:
        return Places(patterns, self.roots, self.home, folds=self.folds or self.rule.folds)

    def judgement(self, remedy: str = "") -> Judgement:
        because = self.rule.because if self.book.trusted else f"an untrusted file of rules says: {self.rule.because}"
        return Judgement(self.rule.verdict, because, self.rule.name, self.book.source, remedy)


@dataclass(frozen=True)
class RulePolicy:
    """A mode, and the rules that go before it."""

    mode: ModePolicy
    books: tuple[Book, ...]
    roots: tuple[str, ...]
    home: str = ""  # what ~ is; empty: nothing
    folds: bool = False  # whether the file system takes A and a for one
    secrets: Secrets = "usable"
    user_file: str = ""  # where a user would write a rule; empty: only in code
    remarks: tuple[str, ...] = field(default=(), compare=False)  # what was found and does not count

    @property
    def name(self) -> str:
        return self.mode.name

    @cached_property
    def for_commands(self) -> "RulePolicy":
        """The policy for what commands do: unless secrets are strict, they may use files that the built-in rules name.

        Where that is all the same, the policy itself.
        """
        books = tuple(book for book in self.books if not book.usable)
        return self if self.secrets == "strict" or books == self.books else replace(self, books=books)

    @cached_property
    def denies_reading(self) -> bool:
        return any(each.rule.verdict is not Verdict.ALLOW for each in self._bound[Verb.READ])

    # --- paths

    def may(self, verb: Verb, target: str) -> Judgement:
        if verb is Verb.CONNECT:
            hits = [each for each in self._bound[verb] if each.about_host(target)]
            return self._judged(hits, self.mode.may(verb, target), shut=self.name != "read-only")
        if verb is Verb.RUN:
            raise ValueError("a command is judged whole: may_run")
        place = real(target)
        if not self._near.covers(place):
            return self.mode.may(verb, target)
        hits = [each for each in self._bound[verb] if each.about_place(place)]
        judgement = self._judged(hits, self.mode.may(verb, target), remedy=(verb, place))
        return deny_question(judgement) if verb is Verb.READ else judgement

    def concerns(self, place: str) -> bool:
        return self._near.covers(real(place))

    @cached_property
    def reading(self) -> str:
        """All that decides what may be read: replies that were made under other rules may show something else."""
        rules = (
            (rule.verdict.value, rule.paths, rule.but, rule.folds, book.origin, book.root)
            for book in self.books
            for rule in book.rules
            if Verb.READ in rule.verbs
        )
        return repr(sorted(rules)) + ("strict" if self.secrets == "strict" else "")

    @cached_property
    def visible(self) -> Callable[[str], bool]:
        """Whether a place, spelled as the disk does, may be read: the same as `may`, for who asks of every file."""
        readers = self._bound[Verb.READ]
        perhaps = self._together([each for each in readers if each.rule.verdict is not Verdict.ALLOW]).covers
        by_mode = self.mode.may(Verb.READ, "")

        def allowed(place: str) -> bool:
            hits = [each for each in readers if each.about_place(place)]
            return self._judged(hits, by_mode).verdict is Verdict.ALLOW

        return lambda place: not perhaps(place) or allowed(place)

    @cached_property
    def _bound(self) -> dict[Verb, list[Bound]]:
        bound = [
            Bound(rule, book, (book.root,) if book.root else self.roots, self.home, self.folds)
            for book in self.books
            for rule in book.rules
        ]
        bound.sort(key=lambda each: each.order)
        return {verb: [each for each in bound if verb in each.rule.verbs] for verb in Verb}

    @cached_property
    def _near(self) -> Places:
        """All places that rules may be about, to be done with the others at a glance."""
        return self._together([each for verb in ON_PATHS for each in self._bound[verb]])

    def _together(self, bound: Sequence[Bound]) -> Places:
        patterns = dict.fromkeys(pattern for each in bound for pattern in each.rule.paths)
        return Places(patterns, self.roots, self.home, folds=self.folds or any(each.rule.folds for each in bound))

    # --- hosts

    @property
    def connects(self) -> bool:
        """Whether the user or the code opens a host; a project cannot."""
        opened = (each for each in self._bound[Verb.CONNECT] if each.of_user and each.rule.verdict is not Verdict.DENY)
        return self.name != "read-only" and any(opened)

    # --- commands

    def may_run(self, study: Study) -> Judgement:
        by_mode = self.mode.may_run(study)
        if study.invisible or not (bound := self._bound[Verb.RUN]):
            return by_mode
        hits = [each for each in bound if any(map(each.about_command, study.commands))]
        allows = [each for each in hits if each.rule.verdict is Verdict.ALLOW]
        if allows and not self._allowed_whole(study, allows):
            hits = [each for each in hits if each.rule.verdict is not Verdict.ALLOW]
        judgement = self._judged(hits, by_mode)
        if study.kind == "unknown" and judgement.verdict is Verdict.ALLOW and judgement.rule == by_mode.rule:
            wary = next((each for each in bound if each.rule.verdict is not Verdict.ALLOW), None)
            if wary is not None:
                because = f"{study.because}: whether the rule is about it, its text does not tell"
                return Judgement(Verdict.ASK, because, wary.rule.name, wary.book.source)
        return judgement

    def _allowed_whole(self, study: Study, allows: Sequence[Bound]) -> bool:
        """Whether these rules are about all that would be asked: the line is one such command and nothing else, or each
        command in it is allowed or harmless, and nothing but commands raises the question.

        A redirection or an assignment may make a line worse than the commands in it, and nobody allowed that.
        """
        from handhold.core.policy.shell import Standing
        from handhold.core.policy.shell import study as studied

        def allowed(words: tuple[str, ...]) -> bool:
            return any(each.about_command(words) for each in allows)

        if allowed(alone := tuple(study.text.split())) and alone in study.commands:
            return True
        standing = Standing(self.roots, self.roots[0], self.home)
        return bool(study.patterns) and all(
            allowed(words)
            or is_judged_by_effects(
                replace(studied(" ".join(map(_quoted, words)), standing), contained=study.contained)
            )
            for words in study.commands
        )

    # --- the verdict

    def _judged(
        self,
        hits: Sequence[Bound],
        by_mode: Judgement,
        *,
        shut: bool = False,
        remedy: tuple[Verb, str] | None = None,
    ) -> Judgement:
        """`shut` is for what the mode denies until the user says otherwise: the network."""
        own = [each for each in hits if each.of_user]
        if any(each.rule.verdict is Verdict.ALLOW for each in own):
            hits = [each for each in hits if each.book.origin != "built in"]
        worst = max(hits, key=lambda each: SEVERITY[each.rule.verdict], default=None)  # the first of several
        if worst is None:
            return by_mode
        if worst.rule.verdict is Verdict.DENY:
            built_in = worst.book.origin == "built in"
            return worst.judgement(self._remedy(*remedy) if built_in and remedy else "")
        if by_mode.verdict is Verdict.DENY and not (shut and own):
            return by_mode
        return worst.judgement()

    def _remedy(self, verb: Verb, place: str) -> str:
        """How a person allows what is denied by what is built in: in their file, and in code."""
        root = next((root for root in self.roots if place.startswith(root.rstrip("/") + "/")), "")
        way = "./" + place[len(root.rstrip("/")) + 1 :] if root else place
        pattern, way = literal(_UNTOLD.sub("\0", way)).replace("\0", "?"), _UNTOLD.sub("?", way)
        fields = {
            "name": _toml(f"allow {escaped(way)}"),
            "verdict": _toml("allow"),
            # Nobody edits what they cannot see.
            "verbs": f"[{', '.join(map(_toml, dict.fromkeys((Verb.READ, verb))))}]",
            "paths": f"[{_toml(pattern)}]",
            "because": _toml("say why"),
            "covers": f"[{_toml(way)}]",
            "spares": f"[{_toml('README.md')}]",
        }
        in_code = ", ".join(f"{name}={value}" for name, value in fields.items())
        in_file = "\n".join(("[[rule]]", *(f"{name} = {value}" for name, value in fields.items())))
        if not self.user_file:
            return f"A person can allow it in code: rules=[Rule({in_code})]"
        return f"A person can allow it in {self.user_file}:\n\n{in_file}\n\nor in code: rules=[Rule({in_code})]"


def deny_question(judgement: Judgement) -> Judgement:
    """The same, but denied where it asks: of reading there is nothing to show a person beforehand."""
    if judgement.verdict is not Verdict.ASK:
        return judgement
    because = f"{judgement.because} (reading is not asked about: what asks about it denies it)"
    return replace(judgement, verdict=Verdict.DENY, because=because)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _toml(text: str) -> str:
    """A text in quotes, as TOML and Python both read it."""
    spelled = (char if char.isprintable() and char not in '"\\' else _escape(char) for char in text)
    return '"' + "".join(spelled) + '"'


def _escape(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
