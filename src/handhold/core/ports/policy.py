"""The policy: decides about paths, commands and hosts."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol, cast


class Verb(StrEnum):
    """What a call would do to a path or host."""

    READ = "read"
    CHANGE = "change"
    CREATE = "create"
    DELETE = "delete"
    RUN = "run"
    CONNECT = "connect"


class Verdict(StrEnum):
    """The outcome of a decision."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


INVALID_ANSWER = "invalid policy answer"  # the rule of a denial that replaces an invalid answer


@dataclass(frozen=True)
class Decision:
    """A verdict, the reason, and the rule that decided, with the file that contains it.

    The verdict may be given as a string. An unknown one denies.
    """

    verdict: Verdict
    because: str
    rule: str = ""
    source: str = ""
    remedy: str = ""  # how a person can allow it, if there is a way

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
    """What a command would do, as far as its text shows. The command has not run."""

    text: str
    kind: CommandClass
    because: str  # why it has this class
    commands: tuple[tuple[str, ...], ...] = ()  # the words of every simple command, also behind wrappers
    patterns: tuple[str, ...] = ()  # what the answer "pattern" would allow; empty: only this command
    invisible: str = ""  # invisible characters in it, which deny it without a question
    connects: str = ""  # the part that uses the network, even if another part decides the class
    contained: bool = False  # it would run in the sandbox: its changes and connections are decided about later


class Policy(Protocol):
    """Decides what is allowed. If a method raises, or returns something that is not a Decision, the call is denied."""

    @property
    def name(self) -> str:
        """The name of the policy or mode."""
        ...

    def decide(self, verb: Verb, target: str) -> Decision:
        """Decide about a resolved path, or a host if the verb is `connect`."""
        ...

    def decide_command(self, analysis: CommandAnalysis) -> Decision:
        """Decide about a command before it runs."""
        ...

    @property
    def allows_hosts(self) -> bool:
        """Whether a rule allows any host."""
        ...

    def has_rule_for(self, place: str) -> bool:
        """Whether a rule, not only the mode, applies to this path. Searches call it for every file."""
        ...
