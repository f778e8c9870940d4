"""What a command would do, as far as its text tells.

The worst that is found in it decides. What only running could tell is not guessed: it is unknown.
"""

from functools import lru_cache

from handhold.core.policy.shell.call import WEIGHT, Finding
from handhold.core.policy.shell.grammar import LONGEST, Unsure
from handhold.core.policy.shell.invisible import invisible
from handhold.core.policy.shell.places import Standing
from handhold.core.policy.shell.walk import Walk
from handhold.core.ports import Study

NOTHING = Finding("read-only", "it only looks")
ASKED = ("dangerous", "unknown", "network")


def study(text: str, standing: Standing) -> Study:
    """ExtraMissing if the shell's grammar is not installed."""
    if len(text) > LONGEST:
        return Study(text, "unknown", "it is too long to look at", invisible=invisible(text))
    return _studied(text, standing)


@lru_cache(maxsize=64)  # rules and approvals ask again
def _studied(text: str, standing: Standing) -> Study:
    if unseen := invisible(text):
        return Study(text, "unknown", "it holds characters that nobody can see", invisible=unseen)
    walk = Walk(standing)
    try:
        walk.text(text)
    except Unsure as unsure:
        walk.found(Finding("unknown", unsure.because))
    worst = max((NOTHING, *walk.findings), key=lambda finding: WEIGHT.index(finding.kind))
    commands = tuple(dict.fromkeys(tuple(word.shown for word in words) for words in walk.commands))
    connects = next((finding.because for finding in walk.findings if finding.kind == "network"), "")
    return Study(text, worst.kind, worst.because, commands, _patterns(walk.findings), connects=connects)


def _patterns(findings: list[Finding]) -> tuple[str, ...]:
    """Those that together cover all that is asked about; none if something has no like."""
    asked = [finding for finding in findings if finding.kind in ASKED]
    if not all(finding.pattern for finding in asked):
        return ()
    return tuple(dict.fromkeys(finding.pattern for finding in asked))


def matches(pattern: str, words: tuple[str, ...]) -> bool:
    """Whether a command begins with the words of a pattern. `*` in one is any letters; as the last, any rest."""
    wanted = pattern.split()
    if wanted and wanted[-1] == "*":
        wanted = wanted[:-1]
    if not wanted or len(wanted) > len(words):
        return not wanted and bool(pattern)
    return all(_like(each, word) for each, word in zip(wanted, words, strict=False))


def _like(pattern: str, word: str) -> bool:
    """In one pass: a regular expression would try every way in which the stars could share a long word."""
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
