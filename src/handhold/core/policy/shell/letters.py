"""The letters of a word, each with how it was quoted, and the words that braces make of them."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.marks import NUMBER

MOST_BRACES = 64  # words that braces may become
RAW = re.compile(r"'[^']*'")
PLAIN = re.compile(r"(?:[^\s\\'\"$`;&|<>()]|\\[^\n])+")
STRING = re.compile(r'(?:[^"\\$`]|\\.|\$(?![\w({@*#?$!\-]|\\\n))*', re.DOTALL)
_RANGE = re.compile(r"-?\d{1,6}\.\.-?\d{1,6}|\w\.\.\w")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(c.)|(.))", re.DOTALL
)

Quoting = Literal["plain", "quoted", "value"]


class Letter(NamedTuple):
    char: str  # empty: that something was quoted here, though nothing stands in it
    how: Quoting


def quoted(text: str) -> list[Letter]:
    return [Letter("", "quoted"), *(Letter(char, "quoted") for char in text)]


def lettered(text: str, how: Quoting) -> list[Letter]:
    return quoted(text) if how == "quoted" else [Letter(char, how) for char in text]


def unquoted(text: str) -> Iterator[Letter]:
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield Letter(text[at + 1], "quoted")
            at += 2
        else:
            yield Letter(text[at], "plain")
            at += 1


def unslashed(text: str) -> str:
    """A piece of what stands between double quotes."""
    if not STRING.fullmatch(text):
        raise Unsure("a string in it cannot be read")
    return slashes_taken(text)


def slashes_taken(text: str) -> str:
    """What a backslash takes the meaning from, between double quotes."""
    return re.sub(r'\\([$`"\\\n])', lambda found: found[1].strip("\n"), text)


def unescaped(text: str) -> str:
    """What stands between `$'` and `'`."""
    return _ANSI.sub(_meant, text)


def _meant(escape: re.Match[str]) -> str:
    x, u, long, octal, control, other = escape.groups()
    if control is not None:
        raise Unsure("a string in it cannot be read")
    if other is not None:
        return _ESCAPES.get(other, other if other in "\\'\"?" else f"\\{other}")
    code = int(octal, 8) & 0xFF if octal else int(x or u or long, 16)
    if not 3 <= code < 0x80 and not (u or long):  # a byte of a longer character, or the end of the string
        raise Unsure("a string in it cannot be read")
    if code < 3 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise Unsure("a string in it cannot be read")
    return chr(code)


def joined(letters: Sequence[Letter]) -> str:
    return "".join(letter.char for letter in letters)


# --- braces


def expand_braces(letters: list[Letter]) -> list[list[Letter]]:
    """`a{b,c}` is two words."""
    done: list[list[Letter]] = []
    waiting = [letters]
    while waiting:
        each = waiting.pop(0)
        options = _first_brace(each)
        if options is None:
            done.append(each)
        else:
            waiting = [*options, *waiting]
        if len(done) + len(waiting) > MOST_BRACES:
            raise Unsure("its braces become too many words to look at")
    return done


def _first_brace(letters: list[Letter]) -> list[list[Letter]] | None:
    for start, letter in enumerate(letters):
        if letter != ("{", "plain") or not (found := _brace(letters, start)):
            continue
        end, commas = found
        before, after = letters[:start], letters[end + 1 :]
        inner = "".join(each.char for each in letters[start + 1 : end])
        if commas:
            cuts = [start, *commas, end]
            parts = [letters[a + 1 : b] for a, b in pairwise(cuts)]
        elif _RANGE.fullmatch(inner):
            parts = [[Letter(char, "quoted") for char in each] for each in _range(inner)]
        elif ".." in inner:
            raise Unsure("its braces cannot be read")
        else:
            continue
        return [[*before, *part, *after] for part in parts]
    return None


def _brace(letters: list[Letter], start: int) -> tuple[int, list[int]] | None:
    depth, commas = 0, list[int]()
    for at in range(start, len(letters)):
        char, how = letters[at]
        if how != "plain":
            continue
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 1:
            commas.append(at)
        if depth == 0:
            return at, commas
    return None


def _range(inner: str) -> list[str]:
    first, _, last = inner.partition("..")
    if first.lstrip("-").isdigit() and last.lstrip("-").isdigit():
        low, high = sorted((int(first), int(last)))
        return [NUMBER] if high - low >= MOST_BRACES else [str(each) for each in range(low, high + 1)]
    low, high = sorted((ord(first), ord(last)))
    return [chr(each) for each in range(low, high + 1)]
