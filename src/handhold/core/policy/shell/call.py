"""One simple command: its words, what stands at its input, and what can be said of them.

Whoever judges a program says what it finds; the worst finding decides. Commands that run others hand those on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.places import Place, Standing, looks_like_path, place, worst
from handhold.core.policy.shell.words import HOLE, SHOWN, Word
from handhold.core.ports import CommandClass

WEIGHT: tuple[CommandClass, ...] = ("read-only", "workspace-change", "network", "unknown", "dangerous")
"""From the lightest to the heaviest. What is unknown may be anything, so it weighs more than a connection."""


@dataclass(frozen=True)
class Finding:
    kind: CommandClass
    because: str
    pattern: str = ""  # that an approval of the like of it would name


@dataclass(frozen=True)
class Feed:
    """What stands at an input: a text, if it is known, or nothing but names, or a file."""

    text: str | None = None
    names: bool = False
    file: str = ""


class Hands(Protocol):
    """Who looks at what a command would run."""

    def run(self, call: "Call") -> None: ...

    def script(self, text: str, call: "Call") -> None: ...

    def found(self, finding: Finding) -> None: ...

    def moved(self, folder: str) -> None: ...

    def assigned(self, name: str, value: Word) -> None: ...

    def evaluate(self, text: str) -> None: ...

    def check_name(self, text: str) -> None: ...


@dataclass(frozen=True)
class Call:
    words: tuple[Word, ...]
    standing: Standing
    folders: frozenset[str]  # where it may stand; a HOLE is anywhere
    hands: Hands
    feed: Feed | None = None
    background: bool = False

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    def says(self, kind: CommandClass, because: str, pattern: str = "") -> None:
        fixed = all(word.known and "://" not in word.text for word in self.words)
        self.hands.found(Finding(kind, because, pattern if fixed else ""))

    def dangerous(self, because: str) -> None:
        self.says("dangerous", because)

    def unknown(self, because: str) -> None:
        self.says("unknown", because)

    def connects(self, *pattern: str) -> None:
        """It reaches the network; an approval of the like of it would name these words."""
        self.says("network", f"`{' '.join(pattern) or self.name}` connects to the network", " ".join(pattern))

    def changes(self) -> None:
        self.says("workspace-change", f"`{self.name}` may change files of the workspace")

    # --- what it runs

    def runs(self, words: Sequence[Word]) -> None:
        """Another command, at the same place and input."""
        if words:
            self.hands.run(replace(self, words=tuple(words)))

    def code(self, word: Word) -> None:
        """Code for a shell."""
        if not word.known:
            self.unknown(f"`{self.name}` would run code that is not known before it runs")
        else:
            self.hands.script(word.text, self)

    # --- what it touches

    def where(self, text: str) -> Place:
        return worst(place(text, folder, self.standing) for folder in self.folders)

    def reads(self, word: Word) -> None:
        at = self.where(word.text)
        match at.region:
            case "unknown" if word.text.startswith((HOLE, SHOWN)):
                self.unknown(f"what `{self.name}` reads is not known before it runs")
            case "home" | "outside" | "private":
                self.dangerous(f"`{self.name}` reaches {shown(at)}, which lies outside the workspace")
            case "network":
                self.connects()
            case _:
                pass

    def writes(self, word: Word, *, whole: bool = False) -> None:
        """A file that is made or changed; `whole`: it may be gone, with all that is in it."""
        at = self.where(word.text)
        deed = "takes away" if whole else "changes"
        match at.region:
            case "nothing":
                pass
            case "unknown":
                self.unknown(f"what `{self.name}` {deed} is not known before it runs")
            case "temporary":
                self.changes()
            case "inside" if at.protected:
                self.dangerous(f"`{self.name}` {deed} {shown(at)}: {at.protected}")
            case "root" if whole:
                self.dangerous(f"`{self.name}` {deed} {shown(at)}, the workspace itself")
            case "inside" | "root":
                self.changes()
            case "network":
                self.connects()
            case _:
                self.dangerous(f"`{self.name}` {deed} {shown(at)}, which lies outside the workspace")

    def sweep(self, words: Iterable[Word]) -> None:
        """Of arguments whose meaning is not known: those that look like paths are read."""
        for word in words:
            for text in _candidates(word.text):
                if looks_like_path(text):
                    self.reads(Word(text))


def _candidates(text: str) -> list[str]:
    """`/x`, and what stands behind `--option=`, `-o`, `name:` or `@`."""
    found = [text]
    if "=" in text:
        found.append(text.partition("=")[2])
    if text.startswith("-") and not text.startswith("--"):
        found.append(text[2:])
    if text.startswith("@"):
        found.append(text[1:])
    return found


def shown(at: Place) -> str:
    return Word(at.path).shown


# --- options


@dataclass(frozen=True)
class Options:
    """The arguments of a program: its options with their values, and the rest."""

    given: tuple[tuple[str, Word | None], ...]
    operands: tuple[Word, ...]

    @classmethod
    def read(cls, words: Sequence[Word], takes: frozenset[str] = frozenset(), *, permute: bool = True) -> "Options":
        """`takes`: those with a value that stands apart. Without `permute` the first operand ends them."""
        given: list[tuple[str, Word | None]] = []
        operands: list[Word] = []
        at = 0
        while at < len(words):
            word, text = words[at], words[at].text
            at += 1
            if text == "--":
                operands += words[at:]
                break
            if text in ("-", "") or not text.startswith("-"):
                operands.append(word)
                if permute:
                    continue
                operands += words[at:]
                break
            for name, value in _spelled(text, takes):
                if value is None and name in takes and at < len(words):
                    given.append((name, words[at]))
                    at += 1
                else:
                    given.append((name, value))
        return cls(tuple(given), tuple(operands))

    def named(self, *names: str) -> list[Word | None]:
        """The values of these. A long option may be cut short, as GNU's and git's readers of options let it."""
        return [value for name, value in self.given if any(is_option(name, each) for each in names)]

    def has(self, *names: str) -> bool:
        return bool(self.named(*names))


def is_option(given: str, name: str) -> bool:
    return given == name or (len(given) > 3 and given.startswith("--") and name.startswith(given))


def _spelled(text: str, takes: frozenset[str]) -> list[tuple[str, Word | None]]:
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        return [(name, Word(value) if equals else None)]
    found: list[tuple[str, Word | None]] = []
    for at in range(1, len(text)):
        name = f"-{text[at]}"
        if name in takes:
            rest = text[at + 1 :]
            return [*found, (name, Word(rest) if rest else None)]
        found.append((name, None))
    return found


def sure(words: Iterable[Word], program: str) -> None:
    """Unsure if a word that decides how a command is read may be several words, or none."""
    if any(word.loose for word in words):
        raise Unsure(f"what `{program}` would run is not known before it runs")
