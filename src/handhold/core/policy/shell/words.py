"""What the shell makes of a word, as far as that can be said before it runs.

A word is read letter by letter, since what a letter means depends on how it was quoted: braces and tildes count only
where nothing quotes them, a value that is put in is split, and a pattern is completed. What only running would tell
becomes a HOLE; a hole that can hold nothing but a name (of `git ls-files`) is a NAME, and a number (`$?`) a NUMBER.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handhold.core.policy.shell import arithmetic
from handhold.core.policy.shell.grammar import Source, Unsure, every
from handhold.core.policy.shell.letters import (
    PLAIN,
    RAW,
    Letter,
    Quoting,
    expand_braces,
    joined,
    lettered,
    quoted,
    unescaped,
    unquoted,
    unslashed,
)
from handhold.core.policy.shell.marks import HOLE, MARKS, NAME, NUMBER, SHOWN, is_number

if TYPE_CHECKING:
    from tree_sitter import Node

_VALUES = frozenset(
    (
        *("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"),
        *("string", "translated_string", "raw_string", "ansi_c_string"),
    )
)

_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!\-])|\$\{\w+\}")
_NAMES = frozenset(("HOSTNAME", "OSTYPE"))
_KEYS = re.compile(r"\$\{!\w+(?:\[[@*]\]|[@*])\}")
_LENGTH = re.compile(r"\$\{#\w+(?:\[[\w@*]+\])?\}")
_ELEMENT = re.compile(r"\$\{(\w+)\[[^@*].*\]\}", re.DOTALL)
_SUBSCRIPT = re.compile(r"\[(.*)\]\+?=", re.DOTALL)
_CODE = re.compile(r"`|\$\((?!\()|[<>]\(")
EVALUATED = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
_ARITHMETIC = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,#$()\[\]{}\0-\2]*")


@dataclass(frozen=True)
class Word:
    text: str
    loose: bool = False  # it may become several words, or none
    glob: bool = False  # the shell completes a pattern in it

    @property
    def known(self) -> bool:
        return not MARKS.search(self.text)

    @property
    def shown(self) -> str:
        return MARKS.sub(SHOWN, self.text)


def listed(words: str) -> frozenset[str]:
    """A table of words, as it is written down."""
    return frozenset(words.split())


@dataclass(frozen=True)
class Reader:
    """Reads the words of one text, given what variables hold and what a substitution would print."""

    source: Source
    value: Callable[[str], str | None]
    printed: Callable[["Node"], str]
    operand: Callable[[str], str | None]  # what a variable holds where it is evaluated
    assigned: Callable[[str, Word], None]
    is_associative: Callable[[str], bool]
    home: str

    def words(self, node: "Node") -> list[Word]:
        """A word of the text, as the words that it becomes."""
        if self.source.data[node.start_byte : node.start_byte + 1] == b"#":
            raise Unsure("what looks like a word may be a comment")
        letters = self.letters(node)
        return [word for each in expand_braces(letters) for word in _split(self._at_home(each))]

    def value_of(self, node: "Node | None", *, keys: bool = False) -> Word:
        """What is assigned: neither split nor completed. `keys`: to an associative array."""
        if node is None:
            return Word("")
        if node.type == "array":
            for each in node.named_children:
                if not keys and self.source.text(each).startswith("["):  # [subscript]=value, which is not split
                    self.evaluate(self.text_of(each).replace("]=", ","))
            return _array([word for each in node.named_children for word in self.words(each)])
        return Word(joined(self._at_home(self.letters(node), colons=True)))

    def text_of(self, node: "Node") -> str:
        """A word that stays one, as behind `<<<`."""
        return joined(self._at_home(self.letters(node)))

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
                return quoted(text[1:-1])
            case "ansi_c_string":
                return quoted(unescaped(text[2:-1]))
            case "string" | "translated_string":
                return self._string(node)
            case "simple_expansion" | "expansion":
                return self._expansion(node, "value" if how == "plain" else how)
            case "command_substitution":
                return lettered(self.printed(node), "value" if how == "plain" else how)
            case "process_substitution":
                self.printed(node)
                return quoted(f"/dev/fd/{HOLE}")
            case "arithmetic_expansion":
                self.arithmetic(node)
                return quoted(NUMBER)
            case _ if PLAIN.fullmatch(text):
                return list(unquoted(text))
            case "$" if text == "$":  # it may also be $$, the number of the shell
                return quoted("$")
            case _:
                raise Unsure("a word of it cannot be read")

    def _string(self, node: "Node") -> list[Letter]:
        inner = [part for part in node.children if part.type not in ('"', "string_content", "$", '$"')]
        opening = 2 if self.source.text(node).startswith("$") else 1
        found, at = [Letter("", "quoted")], node.start_byte + opening
        for part in [*inner, None]:
            piece = self.source.between(at, self.source.start(part) if part else node.end_byte - 1)
            if piece.startswith("\\\n") and self.source.data[at - 1 : at] not in (b'"', b"}", b")", b"`"):
                raise Unsure("a line continuation in it may split the name of a variable")
            found += quoted(unslashed(piece))
            if part:
                found += self.letters(part, "quoted")
                at = part.end_byte
        return found

    def _expansion(self, node: "Node", how: Quoting) -> list[Letter]:
        text = self.source.expansion(node)
        if not _VARIABLE.fullmatch(text):
            return self._computed(node, how)
        name = text.strip("${}")
        if name in ("@", "*"):
            return [Letter(HOLE, "value")]
        if (value := self.value(name)) is not None:
            return lettered(value, how)
        if name in ("#", "?", "$", "!") or self.operand(name) == NUMBER:
            return lettered(NUMBER, how)
        return lettered(NAME if name in _NAMES else HOLE, how)

    def _computed(self, node: "Node", how: Quoting) -> list[Letter]:
        """`${name…}` with more in it. Its own substitutions run; what it becomes is not known."""
        text = self.source.expansion(node)
        self.inside(node)
        if found := re.match(r"\$\{(\w+):?=", text):
            self.assigned(found[1], Word(HOLE))
        if _LENGTH.fullmatch(text):
            return lettered(NUMBER, how)
        if "@]" in text or text.startswith(("${@", "${!")):
            return [Letter(HOLE, "value")]
        numbers = (found := _ELEMENT.fullmatch(text)) and self.operand(found[1]) == NUMBER
        return lettered(NUMBER if numbers else HOLE, how)

    # --- what runs inside of something else

    def inside(self, node: "Node") -> None:
        """Run whatever is substituted in this part; Unsure if there may be more than the grammar found."""
        rest: list[str] = []
        self._rest(node, rest)
        if _CODE.search(re.sub(r"\\.", "", "".join(rest), flags=re.DOTALL)):
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
            case "subscript":
                self._subscript(node, rest)
            case "expansion":
                self._rest_of(node, self._checked(node), rest)
            case _ if node.children:
                self._rest_of(node, node.children, rest)
            case _:
                rest.append(self.source.text(node))

    def _rest_of(self, node: "Node", parts: Sequence["Node"], rest: list[str]) -> None:
        at = node.start_byte
        for part in parts:
            rest.append(self.source.between(at, part.start_byte))
            self._rest(part, rest)
            at = part.end_byte
        if len(parts) == len(node.children):
            rest.append(self.source.between(at, node.end_byte))

    def _checked(self, node: "Node") -> list["Node"]:
        """The parts of an expansion, without an offset, which is evaluated here; Unsure if it would run its value."""
        text = self.source.expansion(node)
        if "@P}" in text or "\\\n" in text or not text.startswith("${"):
            raise Unsure("a value would be run as code")
        if text.startswith("${!") and not _KEYS.fullmatch(text):
            raise Unsure("which variable it names is not known before it runs")
        colon = next((at for at, part in enumerate(node.children) if part.type == ":"), None)
        if colon is None:
            return node.children
        offset = self.expanded(node, node.children[colon].end_byte, node.children[-1].start_byte)
        self.evaluate(offset.replace(":", ","))
        return node.children[:colon]

    def _subscript(self, node: "Node", rest: list[str]) -> None:
        name, opening, *_, closing = node.children
        if self.is_associative(self.source.text(name)):
            self._rest_of(node, node.children, rest)
        elif (text := self.expanded(node, opening.end_byte, closing.start_byte)) not in ("@", "*"):
            self.evaluate(text)

    # --- arithmetic

    def evaluate(self, text: str) -> None:
        """Set the variables that an expression sets; Unsure if evaluating it may run code."""
        for name, value in arithmetic.evaluate(text, self.operand).items():
            self.assigned(name, Word(value))

    def expanded(self, node: "Node", start: int, end: int) -> str:
        """A stretch of a part as bash evaluates it: values in place of expansions, without quotes."""
        text, at = "", start
        for part in node.children:
            if start <= part.start_byte and part.end_byte <= end:
                text += self.source.between(at, part.start_byte) + self.operand_of(part)
                at = part.end_byte
        return text + self.source.between(at, end)

    def operand_of(self, node: "Node") -> str:
        if node.type in _VALUES:
            return arithmetic.check_operand(joined(self.letters(node, "quoted")))
        return self.expanded(node, node.start_byte, node.end_byte)

    def arithmetic(self, node: "Node") -> None:
        """Bash takes `((` for two subshells where the brackets do not agree; then this is no sum."""
        start, end = node.children[0].end_byte, node.children[-1].start_byte
        inner, at = "", start
        for part in every(node):
            if part.type == "command_substitution" and part.start_byte >= at:
                inner += self.source.between(at, part.start_byte) + NAME
                at = part.end_byte
        inner = (inner + self.source.between(at, end)).replace('"', "")
        if not _ARITHMETIC.fullmatch(inner) or not _balanced(inner) or re.search(r"\w\s+\w|\$\(|`", inner):
            raise Unsure("a sum in it cannot be read")
        self.evaluate(self.expanded(node, start, end))

    # --- tildes

    def _at_home(self, letters: Sequence[Letter], *, colons: bool = False) -> list[Letter]:
        found: list[Letter] = []
        begins = True
        for at, letter in enumerate(letters):
            if begins and letter == ("~", "plain"):
                name = "".join(each.char for each in _until_slash(letters[at + 1 :]))
                found += quoted(self.home if name == "" else ("/home/" if name.isidentifier() else HOLE))
            else:
                found.append(letter)
            begins = colons and letter == (":", "plain")
        return found


def _array(words: list[Word]) -> Word:
    numbers = all(is_number(_SUBSCRIPT.sub("", word.text)) for word in words)
    return Word(NUMBER if words and numbers else HOLE, loose=bool(words))


def _until_slash(letters: Sequence[Letter]) -> Iterator[Letter]:
    for letter in letters:
        if letter.char in ("/", ":"):
            return
        yield letter


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


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
    loose = any(letter.char in (HOLE, NAME, NUMBER) and letter.how == "value" for letter in letters)
    glob = any(letter.char in ("*", "?", "[") and letter.how != "quoted" for letter in letters)
    return Word(joined(letters), loose, glob)
