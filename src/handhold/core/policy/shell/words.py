"""What the shell makes of a word, as far as that can be said before it runs.

A word is read letter by letter, since what a letter means depends on how it was quoted: braces and tildes count only
where nothing quotes them, a value that is put in is split, and a pattern is completed. What only running would tell
becomes a HOLE; a hole that can hold nothing but a name or a number (of `git ls-files`, `$(nproc)`, `$?`) is a NAME.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from handhold.core.policy.shell.grammar import Source, Unsure, every

if TYPE_CHECKING:
    from tree_sitter import Node

HOLE, NAME = "\0", "\1"  # neither can be in a text: they are refused with all that is invisible
SHOWN = "…"  # what a hole looks like in the words that others see
MOST_BRACES = 64  # words that braces may become

RAW = re.compile(r"'[^']*'")
PLAIN = re.compile(r"(?:[^\s\\'\"$`;&|<>()]|\\[^\n])+")
STRING = re.compile(r'(?:[^"\\$`]|\\.|\$(?![\w({@*#?$!\-]))*', re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!\-])|\$\{\w+\}")
_NUMBERS = frozenset("#?$!") | {"RANDOM", "LINENO", "SECONDS", "UID", "EUID", "PPID", "BASHPID", "HOSTNAME", "OSTYPE"}
_CODE = re.compile(r"`|\$\((?!\()|[<>]\(")
EVALUATED = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,#$()\[\]{}\0\1]*")
_RANGE = re.compile(r"-?\d{1,6}\.\.-?\d{1,6}|\w\.\.\w")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_ANSI = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(c.)|(.))", re.DOTALL
)

Quoting = Literal["plain", "quoted", "value"]


class Letter(NamedTuple):
    char: str  # empty: that something was quoted here, though nothing stands in it
    how: Quoting


@dataclass(frozen=True)
class Word:
    text: str
    loose: bool = False  # it may become several words, or none
    glob: bool = False  # the shell completes a pattern in it

    @property
    def known(self) -> bool:
        return HOLE not in self.text and NAME not in self.text

    @property
    def shown(self) -> str:
        return self.text.replace(HOLE, SHOWN).replace(NAME, SHOWN)


def listed(words: str) -> frozenset[str]:
    """A table of words, as it is written down."""
    return frozenset(words.split())


@dataclass(frozen=True)
class Reader:
    """Reads the words of one text, given what variables hold and what a substitution would print."""

    source: Source
    value: Callable[[str], str | None]
    printed: Callable[["Node"], str]
    forgotten: Callable[[str], None]  # a variable whose value is no longer known
    home: str

    def words(self, node: "Node") -> list[Word]:
        """A word of the text, as the words that it becomes."""
        if self.source.data[node.start_byte : node.start_byte + 1] == b"#":
            raise Unsure("what looks like a word may be a comment")
        letters = self.letters(node)
        return [word for each in _braces(letters) for word in _split(self._at_home(each))]

    def value_of(self, node: "Node | None") -> Word:
        """What is assigned: neither split nor completed."""
        if node is None:
            return Word("")
        if node.type == "array":
            inside = [word for each in node.named_children for word in self.words(each)]
            return Word(HOLE, loose=bool(inside))
        return Word(_joined(self._at_home(self.letters(node), colons=True)))

    def text_of(self, node: "Node") -> str:
        """A word that stays one, as behind `<<<`."""
        return _joined(self._at_home(self.letters(node)))

    # --- letters

    def letters(self, node: "Node", how: Quoting = "plain") -> list[Letter]:
        text = self.source.text(node)
        match node.type:
            case "concatenation":
                behind = [*node.children[1:], None]
                return [
                    letter
                    for part, following in zip(node.children, behind, strict=True)
                    if not (part.type == "$" and following is not None and following.type == "string")  # $"…"
                    for letter in self.letters(part, how)
                ]
            case "raw_string" if RAW.fullmatch(text):
                return _quoted(text[1:-1])
            case "ansi_c_string":
                return _quoted(unescaped(text[2:-1]))
            case "string" | "translated_string":
                return self._string(node)
            case "simple_expansion" | "expansion":
                return self._expansion(node, "value" if how == "plain" else how)
            case "command_substitution":
                return _lettered(self.printed(node), "value" if how == "plain" else how)
            case "process_substitution":
                self.printed(node)
                return _quoted(f"/dev/fd/{HOLE}")
            case "arithmetic_expansion":
                self.arithmetic(node)
                return _quoted(NAME)
            case _ if PLAIN.fullmatch(text):
                return list(_unquoted(text))
            case "$" if text == "$":  # it may also be $$, the number of the shell
                return _quoted("$")
            case _:
                raise Unsure("a word of it cannot be read")

    def _string(self, node: "Node") -> list[Letter]:
        inner = [part for part in node.children if part.type not in ('"', "string_content", "$", '$"')]
        opening = 2 if self.source.text(node).startswith("$") else 1
        found, at = [Letter("", "quoted")], node.start_byte + opening
        for part in inner:
            found += _quoted(_unslashed(self.source.between(at, part.start_byte)))
            found += self.letters(part, "quoted")
            at = part.end_byte
        return found + _quoted(_unslashed(self.source.between(at, node.end_byte - 1)))

    def _expansion(self, node: "Node", how: Quoting) -> list[Letter]:
        text = self.source.text(node)
        if not _VARIABLE.fullmatch(text):
            return self._computed(node, how)
        name = text.strip("${}")
        if name in ("@", "*"):
            return [Letter(HOLE, "value")]
        if (value := self.value(name)) is not None:
            return _lettered(value, how)
        return _lettered(NAME if name in _NUMBERS else HOLE, how)

    def _computed(self, node: "Node", how: Quoting) -> list[Letter]:
        """`${name…}` with more in it. Its own substitutions run; what it becomes is not known."""
        text = self.source.text(node)
        if "@P}" in text or not text.startswith("${"):
            raise Unsure("a value would be run as code")
        self.inside(node)
        if assigned := re.match(r"\$\{(\w+):?=", text):
            self.forgotten(assigned[1])
        if "@]" in text or text.startswith(("${@", "${!")):
            return [Letter(HOLE, "value")]
        return _lettered(NAME if text.startswith("${#") else HOLE, how)

    # --- what runs inside of something else

    def inside(self, node: "Node") -> None:
        """Run whatever is substituted in this part; Unsure if there may be more than the grammar found."""
        rest: list[str] = []
        self._rest(node, rest)
        if _CODE.search(re.sub(r"\\.", "", "".join(rest))):
            raise Unsure("a substitution in it cannot be read")

    def _rest(self, node: "Node", rest: list[str]) -> None:
        """The text of a part without what is quoted in it, or run."""
        match node.type:
            case "command_substitution" | "process_substitution":
                self.printed(node)
            case "raw_string" | "ansi_c_string":
                if EVALUATED.search(self.source.text(node)):
                    raise Unsure("a subscript in it would be run as code")
            case "arithmetic_expansion":
                self.arithmetic(node)
            case _ if node.children:
                at = node.start_byte
                for part in node.children:
                    rest.append(self.source.between(at, part.start_byte))
                    self._rest(part, rest)
                    at = part.end_byte
                rest.append(self.source.between(at, node.end_byte))
            case _:
                rest.append(self.source.text(node))

    def arithmetic(self, node: "Node") -> None:
        """Bash takes `((` for two subshells where the brackets do not agree; then this is no sum."""
        ran: list[tuple[int, int]] = []
        for part in every(node):
            if part.type == "command_substitution" and not any(start <= part.start_byte < end for start, end in ran):
                self.printed(part)
                ran.append((part.start_byte, part.end_byte))
        text, at = "", node.start_byte
        for start, end in [*ran, (node.end_byte, node.end_byte)]:
            text += self.source.between(at, start) + NAME
            at = end
        inner = text.strip(NAME).removeprefix("$").removeprefix("[").removesuffix("]")
        inner = inner.removeprefix("((").removesuffix("))").replace('"', "")
        if not _ARITHMETIC.fullmatch(inner) or not _balanced(inner) or re.search(r"\w\s+\w|\$\(|`", inner):
            raise Unsure("a sum in it cannot be read")
        if assigned := re.search(r"(\w+)\s*(?:\+\+|--|[-+*/%&|^]?=(?!=))", inner):
            self.forgotten(assigned[1])

    # --- tildes

    def _at_home(self, letters: Sequence[Letter], *, colons: bool = False) -> list[Letter]:
        found: list[Letter] = []
        begins = True
        for at, letter in enumerate(letters):
            if begins and letter == ("~", "plain"):
                name = "".join(each.char for each in _until_slash(letters[at + 1 :]))
                found += _quoted(self.home if name == "" else ("/home/" if name.isidentifier() else HOLE))
            else:
                found.append(letter)
            begins = colons and letter == (":", "plain")
        return found


def _until_slash(letters: Sequence[Letter]) -> Iterator[Letter]:
    for letter in letters:
        if letter.char in ("/", ":"):
            return
        yield letter


def _quoted(text: str) -> list[Letter]:
    return [Letter("", "quoted"), *(Letter(char, "quoted") for char in text)]


def _lettered(text: str, how: Quoting) -> list[Letter]:
    return _quoted(text) if how == "quoted" else [Letter(char, how) for char in text]


def _unquoted(text: str) -> Iterator[Letter]:
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield Letter(text[at + 1], "quoted")
            at += 2
        else:
            yield Letter(text[at], "plain")
            at += 1


def _unslashed(text: str) -> str:
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
    if not 2 <= code < 0x80 and not (u or long):  # a byte of a longer character, or the end of the string
        raise Unsure("a string in it cannot be read")
    if code < 2 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise Unsure("a string in it cannot be read")
    return chr(code)


def _joined(letters: Sequence[Letter]) -> str:
    return "".join(letter.char for letter in letters)


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


# --- braces


def _braces(letters: list[Letter]) -> list[list[Letter]]:
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
        return [NAME] if high - low >= MOST_BRACES else [str(each) for each in range(low, high + 1)]
    low, high = sorted((ord(first), ord(last)))
    return [chr(each) for each in range(low, high + 1)]


# --- words


def _split(letters: Sequence[Letter]) -> Iterator[Word]:
    piece: list[Letter] = []
    for letter in letters:
        if letter.how == "value" and letter.char in (" ", "\t", "\n"):
            if piece:
                yield _word(piece)
            piece = []
        else:
            piece.append(letter)
    if piece:
        yield _word(piece)


def _word(letters: Sequence[Letter]) -> Word:
    loose = any(letter.char in (HOLE, NAME) and letter.how == "value" for letter in letters)
    glob = any(letter.char in ("*", "?", "[") and letter.how != "quoted" for letter in letters)
    return Word(_joined(letters), loose, glob)
