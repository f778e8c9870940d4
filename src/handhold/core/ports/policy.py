"""What decides about paths, commands and hosts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, cast


class Verb(StrEnum):
    READ = "read"
    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"
    RUN = "run"
    CONNECT = "connect"


class Verdict(StrEnum):
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


INVALID_ANSWER = "invalid policy answer"  # the rule of a judgement that stands for an answer which was none


@dataclass(frozen=True)
class Decision:
    """What is decided, why, and by which rule: its name, and where it is written.

    The verdict may be given as a text. One that is unknown denies.
    """

    verdict: Verdict
    because: str
    rule: str = ""
    source: str = ""
    remedy: str = ""  # how a person allows it, where there is a way

    def __post_init__(self) -> None:
        given = cast(object, self.verdict)
        if type(given) is Verdict:
            return
        known = isinstance(given, str) and given in frozenset(Verdict)
        object.__setattr__(self, "verdict", Verdict(given) if known else Verdict.DENY)
        if not known:
            object.__setattr__(self, "because", f"the policy gave the verdict {given!r}: not allow, ask or deny")
            object.__setattr__(self, "rule", INVALID_ANSWER)


CommandClass = Literal["read-only", "workspace-change", "network", "dangerous", "unknown"]


@dataclass(frozen=True)
class CommandAnalysis:
    """What a command would do, as far as its text tells. Nothing of it has run."""

    text: str
    kind: CommandClass
    because: str  # what makes it one of these
    commands: tuple[tuple[str, ...], ...] = ()  # every simple command in it, in its words, also behind wrappers
    patterns: tuple[str, ...] = ()  # those that an approval of the like of it would name; none: only itself
    invisible: str = ""  # characters in it that nobody could see: it is not even asked about
    connects: str = ""  # what part of it uses the network, also where a worse part decides its class
    contained: bool = False  # it would run on an overlay, without a network: its effects are judged later


class Policy(Protocol):
    @property
    def name(self) -> str: ...

    def decide(self, verb: Verb, target: str) -> Decision:
        """A place, spelled really, or for `connect` a host."""
        ...

    def decide_command(self, analysis: CommandAnalysis) -> Decision: ...

    @property
    def allows_hosts(self) -> bool:
        """Whether a rule allows some host."""
        ...

    def has_rule_for(self, place: str) -> bool:
        """Whether a rule is about this place in particular. Modes are about none: searches ask of every file."""
        ...
