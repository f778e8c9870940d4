"""Analyze what a command would do, as far as its text shows.

The most severe finding decides. What is known only at run time is not guessed: it counts as unknown.
"""

from functools import lru_cache

from handhold.core.policy.shell.analyzer import ShellAnalyzer
from handhold.core.policy.shell.grammar import MAX_COMMAND_BYTES, AnalysisError
from handhold.core.policy.shell.invisible import find_invisible
from handhold.core.policy.shell.paths import ShellContext
from handhold.core.policy.shell.simple_command import CLASSES_BY_SEVERITY, CommandFinding
from handhold.core.ports.policy import CommandAnalysis

READ_ONLY_FINDING = CommandFinding("read-only", "it only reads")
CLASSES_TO_ASK = ("dangerous", "unknown", "network")


def analyze_command(text: str, context: ShellContext) -> CommandAnalysis:
    """Raise ExtraMissing if the shell's grammar is not installed."""
    if len(text) > MAX_COMMAND_BYTES:
        return CommandAnalysis(text, "unknown", "it is too long to analyze", invisible=find_invisible(text))
    return _analyze_cached(text, context)


@lru_cache(maxsize=64)  # rules and approvals ask again
def _analyze_cached(text: str, context: ShellContext) -> CommandAnalysis:
    if invisible_chars := find_invisible(text):
        return CommandAnalysis(text, "unknown", "it contains invisible characters", invisible=invisible_chars)
    analyzer = ShellAnalyzer(context)
    try:
        analyzer.analyze_text(text)
    except AnalysisError as error:
        analyzer.add_finding(CommandFinding("unknown", error.because))
    worst = max((READ_ONLY_FINDING, *analyzer.findings), key=lambda finding: CLASSES_BY_SEVERITY.index(finding.kind))
    commands = tuple(dict.fromkeys(tuple(word.display_text for word in words) for words in analyzer.commands))
    connects = next((finding.because for finding in analyzer.findings if finding.kind == "network"), "")
    return CommandAnalysis(
        text, worst.kind, worst.because, commands, _collect_patterns(analyzer.findings), connects=connects
    )


def _collect_patterns(findings: list[CommandFinding]) -> tuple[str, ...]:
    """The patterns that together cover everything that needs approval; none if a finding has no pattern."""
    to_ask = [finding for finding in findings if finding.kind in CLASSES_TO_ASK]
    if not all(finding.pattern for finding in to_ask):
        return ()
    return tuple(dict.fromkeys(finding.pattern for finding in to_ask))


def matches(pattern: str, words: tuple[str, ...]) -> bool:
    """Whether a command begins with the words of a pattern. `*` matches any characters; as the last word, any rest."""
    wanted = pattern.split()
    if wanted and wanted[-1] == "*":
        wanted = wanted[:-1]
    if not wanted or len(wanted) > len(words):
        return not wanted and bool(pattern)
    return all(_matches_word(each, word) for each, word in zip(wanted, words, strict=False))


def _matches_word(pattern: str, word: str) -> bool:
    """Match in one pass: a regular expression with several stars could backtrack for long on a long word."""
    first, *between = pattern.split("*")
    if not between:
        return word == first
    last = between.pop()
    at, end = len(first), len(word) - len(last)
    if at > end or not word.startswith(first) or not word.endswith(last):
        return False
    for part in between:
        at = word.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
