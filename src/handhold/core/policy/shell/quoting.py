"""The characters of a word with their quoting, and brace expansion."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.placeholders import UNKNOWN_NUMBER

MAX_BRACE_WORDS = 64  # most words that a brace expansion may yield
SINGLE_QUOTED = re.compile(r"'[^']*'")
UNQUOTED = re.compile(r"(?:[^\s\\'\"$`;&|<>()]|\\[^\n])+")
DOUBLE_QUOTED = re.compile(r'(?:[^"\\$`]|\\.|\$(?![\w({@*#?$!\-]|\\\n))*', re.DOTALL)
_RANGE = re.compile(r"-?\d{1,6}\.\.-?\d{1,6}|\w\.\.\w")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI_C_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(c.)|(.))", re.DOTALL
)

Quoting = Literal["plain", "quoted", "value"]


class WordChar(NamedTuple):
    char: str  # empty: an empty quoted string
    quoting: Quoting


def to_quoted_chars(text: str) -> list[WordChar]:
    return [WordChar("", "quoted"), *(WordChar(char, "quoted") for char in text)]


def to_chars(text: str, quoting: Quoting) -> list[WordChar]:
    return to_quoted_chars(text) if quoting == "quoted" else [WordChar(char, quoting) for char in text]


def parse_unquoted(text: str) -> Iterator[WordChar]:
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield WordChar(text[at + 1], "quoted")
            at += 2
        else:
            yield WordChar(text[at], "plain")
            at += 1


def decode_double_quoted(text: str) -> str:
    """Decode a piece of a double-quoted string."""
    if not DOUBLE_QUOTED.fullmatch(text):
        raise AnalysisError("a string in it cannot be parsed")
    return remove_backslashes(text)


def remove_backslashes(text: str) -> str:
    """Remove the backslashes that escape a character between double quotes."""
    return re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), text)


def decode_ansi_c(text: str) -> str:
    """Decode the text between `$'` and `'`."""
    return _ANSI_C_ESCAPE.sub(_decode_ansi_c_escape, text)


def _decode_ansi_c_escape(escape: re.Match[str]) -> str:
    x, u, long, octal, control, other = escape.groups()
    if control is not None:
        raise AnalysisError("a string in it cannot be parsed")
    if other is not None:
        return _ESCAPES.get(other, other if other in "\\'\"?" else f"\\{other}")
    code = int(octal, 8) & 0xFF if octal else int(x or u or long, 16)
    if not 3 <= code < 0x80 and not (u or long):  # a byte of a multi-byte character, or the end of the string
        raise AnalysisError("a string in it cannot be parsed")
    if code < 3 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise AnalysisError("a string in it cannot be parsed")
    return chr(code)


def join_chars(letters: Sequence[WordChar]) -> str:
    return "".join(letter.char for letter in letters)


# --- braces


def expand_braces(letters: list[WordChar]) -> list[list[WordChar]]:
    """`a{b,c}` becomes two words."""
    done: list[list[WordChar]] = []
    pending = [letters]
    while pending:
        each = pending.pop(0)
        options = _expand_first_brace(each)
        if options is None:
            done.append(each)
        else:
            pending = [*options, *pending]
        if len(done) + len(pending) > MAX_BRACE_WORDS:
            raise AnalysisError("its braces expand to too many words to analyze")
    return done


def _expand_first_brace(letters: list[WordChar]) -> list[list[WordChar]] | None:
    for start, letter in enumerate(letters):
        if letter != ("{", "plain") or not (found := _find_brace_end(letters, start)):
            continue
        end, commas = found
        before, after = letters[:start], letters[end + 1 :]
        inner = "".join(each.char for each in letters[start + 1 : end])
        if commas:
            cuts = [start, *commas, end]
            parts = [letters[a + 1 : b] for a, b in pairwise(cuts)]
        elif _RANGE.fullmatch(inner):
            parts = [[WordChar(char, "quoted") for char in each] for each in _expand_range(inner)]
        elif ".." in inner:
            raise AnalysisError("its braces cannot be parsed")
        else:
            continue
        return [[*before, *part, *after] for part in parts]
    return None


def _find_brace_end(letters: list[WordChar], start: int) -> tuple[int, list[int]] | None:
    depth, commas = 0, list[int]()
    for at in range(start, len(letters)):
        char, quoting = letters[at]
        if quoting != "plain":
            continue
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 1:
            commas.append(at)
        if depth == 0:
            return at, commas
    return None


def _expand_range(inner: str) -> list[str]:
    first, _, last = inner.partition("..")
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = sorted((int(first), int(last)))
        return [UNKNOWN_NUMBER] if high - low >= MAX_BRACE_WORDS else [str(each) for each in range(low, high + 1)]
    low, high = sorted((ord(first), ord(last)))
    return [chr(each) for each in range(low, high + 1)]
