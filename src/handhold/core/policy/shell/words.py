"""Expand words as the shell would, as far as the result is known before it runs.

A word is expanded character by character, because the meaning of a character depends on its quoting: braces and tildes
are special only when unquoted, unquoted values are split, and unquoted globs are expanded. What is known only at run
time becomes UNKNOWN, or UNKNOWN_NAME if it can only be a name (from `git ls-files`), or UNKNOWN_NUMBER (`$?`).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from handhold.core.policy.shell import arithmetic
from handhold.core.policy.shell.grammar import AnalysisError, SyntaxTree, iter_nodes
from handhold.core.policy.shell.placeholders import (
    ELLIPSIS,
    PLACEHOLDERS,
    UNKNOWN,
    UNKNOWN_NAME,
    UNKNOWN_NUMBER,
    is_number,
)
from handhold.core.policy.shell.quoting import (
    SINGLE_QUOTED,
    UNQUOTED,
    Quoting,
    WordChar,
    decode_ansi_c,
    decode_double_quoted,
    expand_braces,
    join_chars,
    parse_unquoted,
    to_chars,
    to_quoted_chars,
)

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSION_NODES = frozenset(
    (
        *("simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion"),
        *("string", "translated_string", "raw_string", "ansi_c_string"),
    )
)

_SIMPLE_VARIABLE = re.compile(r"\$(?:\w+|[@*#?$!\-])|\$\{\w+\}")
_NAME_VARIABLES = frozenset(("HOSTNAME", "OSTYPE"))
_KEYS_EXPANSION = re.compile(r"\$\{!\w+(?:\[[@*]\]|[@*])\}")
_LENGTH_EXPANSION = re.compile(r"\$\{#\w+(?:\[[\w@*]+\])?\}")
_ELEMENT_EXPANSION = re.compile(r"\$\{(\w+)\[[^@*].*\]\}", re.DOTALL)
_SUBSCRIPT = re.compile(r"\[(.*)\]\+?=", re.DOTALL)
_SUBSTITUTION_START = re.compile(r"`|\$\((?!\()|[<>]\(")
SUBSCRIPT_CODE = re.compile(r"\[.*(?:\$\(|`)", re.DOTALL)
_ARITHMETIC_CHARS = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,#$()\[\]{}\0-\2]*")


@dataclass(frozen=True)
class Word:
    text: str
    can_split: bool = False  # it may become several words, or none
    has_glob: bool = False  # it contains an unquoted glob

    @property
    def is_known(self) -> bool:
        return not PLACEHOLDERS.search(self.text)

    @property
    def display_text(self) -> str:
        return PLACEHOLDERS.sub(ELLIPSIS, self.text)


def split_words(words: str) -> frozenset[str]:
    """The set of words in a table written as text."""
    return frozenset(words.split())


@dataclass(frozen=True)
class WordExpander:
    """Expands the words of one text, given the values of variables and the output of substitutions."""

    tree: SyntaxTree
    lookup: Callable[[str], str | None]
    substitute: Callable[["Node"], str]
    lookup_operand: Callable[[str], str | None]  # a variable's value in arithmetic
    assign: Callable[[str, Word], None]
    is_associative: Callable[[str], bool]
    home: str

    def expand_words(self, node: "Node") -> list[Word]:
        """The words that a word of the text expands to."""
        if self.tree.data[node.start_byte : node.start_byte + 1] == b"#":
            raise AnalysisError("what looks like a word may be a comment")
        letters = self.expand_chars(node)
        return [word for each in expand_braces(letters) for word in _split_fields(self._expand_tildes(each))]

    def expand_assigned(self, node: "Node | None", *, is_associative: bool = False) -> Word:
        """An assigned value, which is neither split nor globbed. `is_associative`: to an associative array."""
        if node is None:
            return Word("")
        if node.type == "array":
            for each in node.named_children:
                text = self.tree.get_text(each)
                if not is_associative and text.startswith("["):  # [subscript]=value, which is not split
                    if not _closes_subscript(text):
                        raise AnalysisError("a subscript in it may continue after a space and contain code")
                    self.evaluate(self.expand_text(each).replace("]=", ","))
            return _summarize_array([word for each in node.named_children for word in self.expand_words(each)])
        return Word(join_chars(self._expand_tildes(self.expand_chars(node), after_colons=True)))

    def expand_text(self, node: "Node") -> str:
        """A word that is not split, as after `<<<`."""
        return join_chars(self._expand_tildes(self.expand_chars(node)))

    # --- characters

    def expand_chars(self, node: "Node", quoting: Quoting = "plain") -> list[WordChar]:
        text = self.tree.get_text(node)
        match node.type:
            case "concatenation":
                following_parts = [*node.children[1:], None]
                return [
                    letter
                    for part, following in zip(node.children, following_parts, strict=True)
                    if not (part.type == "$" and following is not None and following.type == "string")  # $"…"
                    for letter in self.expand_chars(part, quoting)
                ]
            case "raw_string" if SINGLE_QUOTED.fullmatch(text):
                return to_quoted_chars(text[1:-1])
            case "ansi_c_string":
                return to_quoted_chars(decode_ansi_c(text[2:-1]))
            case "string" | "translated_string":
                return self._expand_string(node)
            case "simple_expansion" | "expansion":
                return self._expand_parameter(node, "value" if quoting == "plain" else quoting)
            case "command_substitution":
                return to_chars(self.substitute(node), "value" if quoting == "plain" else quoting)
            case "process_substitution":
                self.substitute(node)
                return to_quoted_chars(f"/dev/fd/{UNKNOWN}")
            case "arithmetic_expansion":
                self.evaluate_node(node)
                return to_quoted_chars(UNKNOWN_NUMBER)
            case _ if UNQUOTED.fullmatch(text):
                return list(parse_unquoted(text))
            case "$" if text == "$":  # may also be $$, the shell's process id
                return to_quoted_chars("$")
            case _:
                raise AnalysisError("one of its words cannot be parsed")

    def _expand_string(self, node: "Node") -> list[WordChar]:
        inner = [part for part in node.children if part.type not in ('"', "string_content", "$", '$"')]
        opening = 2 if self.tree.get_text(node).startswith("$") else 1
        found, at = [WordChar("", "quoted")], node.start_byte + opening
        for part in [*inner, None]:
            piece = self.tree.get_slice(at, self.tree.find_expansion_start(part) if part else node.end_byte - 1)
            if piece.startswith("\\\n") and self.tree.data[at - 1 : at] not in (b'"', b"}", b")", b"`"):
                raise AnalysisError("a line continuation in it may split the name of a variable")
            found += to_quoted_chars(decode_double_quoted(piece))
            if part:
                found += self.expand_chars(part, "quoted")
                at = part.end_byte
        return found

    def _expand_parameter(self, node: "Node", quoting: Quoting) -> list[WordChar]:
        text = self.tree.get_expansion_text(node)
        if not _SIMPLE_VARIABLE.fullmatch(text):
            return self._expand_computed(node, quoting)
        name = text.strip("${}")
        if name in ("@", "*"):
            return [WordChar(UNKNOWN, "value")]
        if (value := self.lookup(name)) is not None:
            return to_chars(value, quoting)
        if name in ("#", "?", "$", "!") or self.lookup_operand(name) == UNKNOWN_NUMBER:
            return to_chars(UNKNOWN_NUMBER, quoting)
        return to_chars(UNKNOWN_NAME if name in _NAME_VARIABLES else UNKNOWN, quoting)

    def _expand_computed(self, node: "Node", quoting: Quoting) -> list[WordChar]:
        """`${name…}` with an operator. Analyze its substitutions; the result is unknown."""
        text = self.tree.get_expansion_text(node)
        self.check_substitutions(node)
        if found := re.match(r"\$\{(\w+):?=", text):
            self.assign(found[1], Word(UNKNOWN))
        if _LENGTH_EXPANSION.fullmatch(text):
            return to_chars(UNKNOWN_NUMBER, quoting)
        if "@]" in text or text.startswith(("${@", "${!")):
            return [WordChar(UNKNOWN, "value")]
        is_numeric = (found := _ELEMENT_EXPANSION.fullmatch(text)) and self.lookup_operand(found[1]) == UNKNOWN_NUMBER
        return to_chars(UNKNOWN_NUMBER if is_numeric else UNKNOWN, quoting)

    # --- nested code

    def check_substitutions(self, node: "Node") -> None:
        """Analyze the substitutions in this node; raise AnalysisError if there may be more than the parser found."""
        rest: list[str] = []
        self._collect_unquoted(node, rest)
        if _SUBSTITUTION_START.search(re.sub(r"\\.", "", "".join(rest), flags=re.DOTALL)):
            raise AnalysisError("a substitution in it cannot be parsed")

    def _collect_unquoted(self, node: "Node", rest: list[str]) -> None:
        """Collect the text of a node, without quoted parts and substitutions."""
        match node.type:
            case "command_substitution" | "process_substitution":
                self.substitute(node)
            case "raw_string" | "ansi_c_string":
                if SUBSCRIPT_CODE.search(self.tree.get_text(node)):
                    raise AnalysisError("a subscript in it would be run as code")
            case "arithmetic_expansion":
                self.evaluate_node(node)
            case "subscript":
                self._check_subscript(node, rest)
            case "expansion":
                self._collect_parts(node, self._check_expansion(node), rest)
            case _ if node.children:
                self._collect_parts(node, node.children, rest)
            case _:
                rest.append(self.tree.get_text(node))

    def _collect_parts(self, node: "Node", parts: Sequence["Node"], rest: list[str]) -> None:
        at = node.start_byte
        for part in parts:
            rest.append(self.tree.get_slice(at, part.start_byte))
            self._collect_unquoted(part, rest)
            at = part.end_byte
        if len(parts) == len(node.children):
            rest.append(self.tree.get_slice(at, node.end_byte))

    def _check_expansion(self, node: "Node") -> list["Node"]:
        """Evaluate the offset of an expansion and return its other parts; AnalysisError if it may run its value."""
        text = self.tree.get_expansion_text(node)
        if "@P}" in text or "\\\n" in text or not text.startswith("${"):
            raise AnalysisError("a value would be run as code")
        if text.startswith("${!") and not _KEYS_EXPANSION.fullmatch(text):
            raise AnalysisError("which variable it names is not known before it runs")
        colon = next((at for at, part in enumerate(node.children) if part.type == ":"), None)
        if colon is None:
            return node.children
        offset = self.expand_operands(node, node.children[colon].end_byte, node.children[-1].start_byte)
        self.evaluate(offset.replace(":", ","))
        return node.children[:colon]

    def _check_subscript(self, node: "Node", rest: list[str]) -> None:
        name, opening, *_, closing = node.children
        if self.is_associative(self.tree.get_text(name)):
            self._collect_parts(node, node.children, rest)
        elif (text := self.expand_operands(node, opening.end_byte, closing.start_byte)) not in ("@", "*"):
            self.evaluate(text)

    # --- arithmetic

    def evaluate(self, text: str) -> None:
        """Apply the assignments of an arithmetic expression; raise AnalysisError if evaluating it may run code."""
        for name, value in arithmetic.evaluate(text, self.lookup_operand).items():
            self.assign(name, Word(value))

    def expand_operands(self, node: "Node", start: int, end: int) -> str:
        """Part of a node as bash evaluates it: with expansions replaced by their values, and without quotes."""
        text, at = "", start
        for part in node.children:
            if start <= part.start_byte and part.end_byte <= end:
                text += self.tree.get_slice(at, part.start_byte) + self.expand_operand(part)
                at = part.end_byte
        return text + self.tree.get_slice(at, end)

    def expand_operand(self, node: "Node") -> str:
        if node.type in _EXPANSION_NODES:
            return arithmetic.check_operand(join_chars(self.expand_chars(node, "quoted")))
        return self.expand_operands(node, node.start_byte, node.end_byte)

    def evaluate_node(self, node: "Node") -> None:
        """Evaluate `((…))`. Bash reads `((` with unbalanced brackets as two subshells, so reject those."""
        start, end = node.children[0].end_byte, node.children[-1].start_byte
        inner, at = "", start
        for part in iter_nodes(node):
            if part.type == "command_substitution" and part.start_byte >= at:
                inner += self.tree.get_slice(at, part.start_byte) + UNKNOWN_NAME
                at = part.end_byte
        inner = (inner + self.tree.get_slice(at, end)).replace('"', "")
        if not _ARITHMETIC_CHARS.fullmatch(inner) or not _is_balanced(inner) or re.search(r"\w\s+\w|\$\(|`", inner):
            raise AnalysisError("an arithmetic expression in it cannot be parsed")
        self.evaluate(self.expand_operands(node, start, end))

    # --- tildes

    def _expand_tildes(self, letters: Sequence[WordChar], *, after_colons: bool = False) -> list[WordChar]:
        found: list[WordChar] = []
        is_start = True
        for at, letter in enumerate(letters):
            if is_start and letter == ("~", "plain"):
                name = "".join(each.char for each in _take_until_slash(letters[at + 1 :]))
                found += to_quoted_chars(self.home if name == "" else ("/home/" if name.isidentifier() else UNKNOWN))
            else:
                found.append(letter)
            is_start = after_colons and letter == (":", "plain")
        return found


def _closes_subscript(text: str) -> bool:
    """Whether a word that begins with a bracket surely closes it: in bash, a space does not end a subscript."""
    depth = 0
    for char in text:
        if char in "\"'\\`{(":  # quotes and expansions may hide brackets
            return False
        depth += (char == "[") - (char == "]")
        if not depth:
            return True
    return False


def _summarize_array(words: list[Word]) -> Word:
    is_numeric = all(is_number(_SUBSCRIPT.sub("", word.text)) for word in words)
    return Word(UNKNOWN_NUMBER if words and is_numeric else UNKNOWN, can_split=bool(words))


def _take_until_slash(letters: Sequence[WordChar]) -> Iterator[WordChar]:
    for letter in letters:
        if letter.char in ("/", ":"):
            return
        yield letter


def _is_balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def _split_fields(letters: Sequence[WordChar]) -> Iterator[Word]:
    piece: list[WordChar] = []
    for letter in letters:
        if letter.quoting == "value" and letter.char in (" ", "\t", "\n"):
            if piece:
                yield _make_word(piece)
            piece = []
        else:
            piece.append(letter)
    if piece:
        yield _make_word(piece)


def _make_word(letters: Sequence[WordChar]) -> Word:
    can_split = any(
        letter.char in (UNKNOWN, UNKNOWN_NAME, UNKNOWN_NUMBER) and letter.quoting == "value" for letter in letters
    )
    has_glob = any(letter.char in ("*", "?", "[") and letter.quoting != "quoted" for letter in letters)
    return Word(join_chars(letters), can_split, has_glob)
