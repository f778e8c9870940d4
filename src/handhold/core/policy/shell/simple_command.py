"""One simple command: its words, its standard input, and the findings about it.

Program analyzers report findings, and the most severe one decides. Commands that run others pass those on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.paths import (
    ClassifiedPath,
    ShellContext,
    classify_path,
    looks_like_path,
    pick_most_severe,
)
from handhold.core.policy.shell.words import ELLIPSIS, UNKNOWN, Word
from handhold.core.ports.policy import CommandClass

CLASSES_BY_SEVERITY: tuple[CommandClass, ...] = ("read-only", "workspace-change", "network", "unknown", "dangerous")
"""From least to most severe. An unknown command may do anything, so it ranks above network access."""


@dataclass(frozen=True)
class CommandFinding:
    kind: CommandClass
    because: str
    pattern: str = ""  # what an approval for similar commands would name


@dataclass(frozen=True)
class StdinContent:
    """Standard input: a text if known, otherwise only names, or a file."""

    text: str | None = None
    is_names_only: bool = False
    file: str = ""


class Analyzer(Protocol):
    """Analyzes what a command would run."""

    def analyze_command(self, command: "SimpleCommand") -> None: ...

    def analyze_script(self, text: str, command: "SimpleCommand") -> None: ...

    def add_finding(self, finding: CommandFinding) -> None: ...

    def change_directory(self, path: str) -> None: ...

    def assign_variable(self, name: str, value: Word) -> None: ...

    def evaluate_arithmetic(self, text: str) -> None: ...

    def check_variable_name(self, text: str) -> None: ...


@dataclass(frozen=True)
class SimpleCommand:
    words: tuple[Word, ...]
    context: ShellContext
    cwds: frozenset[str]  # possible working directories; UNKNOWN is anywhere
    analyzer: Analyzer
    stdin: StdinContent | None = None
    background: bool = False

    @property
    def name(self) -> str:
        return self.words[0].text.rpartition("/")[2]

    @property
    def arguments(self) -> tuple[Word, ...]:
        return self.words[1:]

    def report(self, kind: CommandClass, because: str, pattern: str = "") -> None:
        is_literal = all(word.is_known and "://" not in word.text for word in self.words)
        self.analyzer.add_finding(CommandFinding(kind, because, pattern if is_literal else ""))

    def report_dangerous(self, because: str) -> None:
        self.report("dangerous", because)

    def report_unknown(self, because: str) -> None:
        self.report("unknown", because)

    def report_network(self, *pattern: str) -> None:
        """Report network access; `pattern` is what an approval for similar commands would name."""
        self.report("network", f"`{' '.join(pattern) or self.name}` connects to the network", " ".join(pattern))

    def report_change(self) -> None:
        self.report("workspace-change", f"`{self.name}` may change files in the workspace")

    # --- nested commands

    def analyze_nested(self, words: Sequence[Word]) -> None:
        """Analyze another command with the same working directory and input."""
        if words:
            self.analyzer.analyze_command(replace(self, words=tuple(words)))

    def analyze_code(self, word: Word) -> None:
        """Analyze shell code."""
        if not word.is_known:
            self.report_unknown(f"`{self.name}` would run code that is not known before it runs")
        else:
            self.analyzer.analyze_script(word.text, self)

    # --- paths

    def classify(self, text: str) -> ClassifiedPath:
        return pick_most_severe(classify_path(text, folder, self.context) for folder in self.cwds)

    def check_read(self, word: Word) -> None:
        target = self.classify(word.text)
        match target.region:
            case "unknown" if word.text.startswith((UNKNOWN, ELLIPSIS)):
                self.report_unknown(f"what `{self.name}` reads is not known before it runs")
            case "home" | "outside" | "private":
                self.report_dangerous(f"`{self.name}` accesses {format_path(target)}, which is outside the workspace")
            case "network":
                self.report_network()
            case _:
                pass

    def check_write(self, word: Word, *, deletes: bool = False) -> None:
        """Check a file that is created or changed; with `deletes`, one that may be removed with its contents."""
        target = self.classify(word.text)
        action = "takes away" if deletes else "changes"
        match target.region:
            case "nothing":
                pass
            case "unknown":
                self.report_unknown(f"what `{self.name}` {action} is not known before it runs")
            case "temporary":
                self.report_change()
            case "inside" if target.protection_reason:
                self.report_dangerous(f"`{self.name}` {action} {format_path(target)}: {target.protection_reason}")
            case "root" if deletes:
                self.report_dangerous(f"`{self.name}` {action} {format_path(target)}, the workspace itself")
            case "inside" | "root":
                self.report_change()
            case "network":
                self.report_network()
            case _:
                self.report_dangerous(f"`{self.name}` {action} {format_path(target)}, which is outside the workspace")

    def check_path_arguments(self, words: Iterable[Word]) -> None:
        """Check arguments of unknown meaning: those that look like paths count as read."""
        for word in words:
            for text in _path_candidates(word.text):
                if looks_like_path(text):
                    self.check_read(Word(text))


def _path_candidates(text: str) -> list[str]:
    """The text itself, and what follows `--option=`, `-o`, `name:` or `@`."""
    found = [text]
    if "=" in text:
        found.append(text.partition("=")[2])
    if text.startswith("-") and not text.startswith("--"):
        found.append(text[2:])
    if text.startswith("@"):
        found.append(text[1:])
    return found


def format_path(path: ClassifiedPath) -> str:
    return Word(path.path).display_text


# --- options


@dataclass(frozen=True)
class ProgramArguments:
    """A program's arguments: its options with their values, and the operands."""

    options: tuple[tuple[str, Word | None], ...]
    operands: tuple[Word, ...]

    @classmethod
    def parse(
        cls, words: Sequence[Word], value_options: frozenset[str] = frozenset(), *, permute: bool = True
    ) -> "ProgramArguments":
        """`value_options` take the next word as their value. Without `permute`, the first operand ends the options."""
        options: list[tuple[str, Word | None]] = []
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
            for name, value in _split_option(text, value_options):
                if value is None and name in value_options and at < len(words):
                    options.append((name, words[at]))
                    at += 1
                else:
                    options.append((name, value))
        return cls(tuple(options), tuple(operands))

    def get_values(self, *names: str) -> list[Word | None]:
        """The values of these options. Long options may be abbreviated, as GNU programs and git allow."""
        return [value for name, value in self.options if any(is_option_match(name, each) for each in names)]

    def has_option(self, *names: str) -> bool:
        return bool(self.get_values(*names))


def is_option_match(given: str, name: str) -> bool:
    return given == name or (len(given) > 3 and given.startswith("--") and name.startswith(given))


def _split_option(text: str, value_options: frozenset[str]) -> list[tuple[str, Word | None]]:
    if text.startswith("--"):
        name, equals, value = text.partition("=")
        return [(name, Word(value) if equals else None)]
    found: list[tuple[str, Word | None]] = []
    for at in range(1, len(text)):
        name = f"-{text[at]}"
        if name in value_options:
            rest = text[at + 1 :]
            return [*found, (name, Word(rest) if rest else None)]
        found.append((name, None))
    return found


def require_single_words(words: Iterable[Word], program: str) -> None:
    """Raise AnalysisError if a word that decides how a command is parsed may become several words, or none."""
    if any(word.can_split for word in words):
        raise AnalysisError(f"what `{program}` would run is not known before it runs")
