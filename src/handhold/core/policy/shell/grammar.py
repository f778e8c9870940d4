"""A text becomes a tree of the shell's grammar, or it is not sure what it is.

The grammar's parser was made for colouring: it lets some things through that bash takes otherwise. So every blank
between its parts is looked at again, and whatever bash could read in another way is not taken.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from handhold.core.errors import ExtraMissing

if TYPE_CHECKING:
    from tree_sitter import Language, Node

LONGEST = 64 * 1024  # bytes
MOST_COMMANDS = 50  # from here on nobody looks at each of them
MOST_PARTS = 6_000
MOST_HEREDOCS = 500  # beginnings, or what looks like one: the parser takes the square of their number
MOST_SEPARATORS = 1_000  # outside quotes
DEEPEST = 120  # parts within parts

SPOKEN = frozenset(("string", "heredoc_body", "expansion", "arithmetic_expansion", "regex"))  # blanks are their text
ONE_LINE = frozenset(
    (
        *("command", "command_name", "file_redirect", "redirected_statement", "variable_assignment"),
        *("variable_assignments", "declaration_command", "unset_command", "herestring_redirect", "negated_command"),
    )
)
NO_GAPS = frozenset(("concatenation", "variable_assignment", "simple_expansion", "subscript"))
JOINED = NO_GAPS | {"command_substitution", "brace_expression", "extglob_pattern"}  # parts make one word
COMMANDS = frozenset(("command", "declaration_command", "unset_command", "test_command"))

_BLANK = re.compile(r"[ \t\n]*")
_BEFORE_EXPANSION = re.compile(rb"(?:\\?\s)*")
_BLANK_BEHIND = re.compile(rb"[ \t\n]|\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
_OPERATOR = re.compile(rb"[\s;&|<>()]")
_DESCRIPTOR = re.compile(r"\d+|\{\w+\}")
_SEPARATORS = re.compile(r"[;&|\n]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
LOST = re.compile(r"[ \t]+-[ \t]*")  # the parser loses a `-` before a here-document
_CONTINUED = re.compile(r"\\\n")
_BEFORE_COMMENT = re.compile(rb"(?:\A|(?:\A|[^\\])[\s;&|()])\Z")


class Unsure(Exception):
    """What this text would do cannot be told before it runs."""

    def __init__(self, because: str) -> None:
        super().__init__(because)
        self.because = because


@cache
def language(extra: str = "shell") -> "Language":
    """ExtraMissing names the extra that whoever asks would have installed."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise ExtraMissing(extra) from None
    return tree_sitter.Language(tree_sitter_bash.language())


@dataclass(frozen=True)
class Source:
    """A text, and its tree."""

    data: bytes
    root: "Node"

    @classmethod
    def read(cls, text: str, extra: str = "shell") -> "Source":
        known = language(extra)
        from tree_sitter import Parser

        data = text.encode("utf-8", "surrogatepass")
        return cls(data, Parser(known).parse(data).root_node)

    def text(self, node: "Node") -> str:
        return self.between(node.start_byte, node.end_byte)

    def between(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def start(self, node: "Node") -> int:
        """Where an expansion begins: within a string the parser counts the blanks before it as its own."""
        blanks = _BEFORE_EXPANSION.match(self.data, node.start_byte, node.end_byte)
        return blanks.end() if blanks else node.start_byte

    def expansion(self, node: "Node") -> str:
        return self.between(self.start(node), node.end_byte)

    def gaps(self, node: "Node") -> Iterator[str]:
        """What stands in a part and belongs to none of its parts. The whole begins with the text, not with its tree."""
        whole = node == self.root
        at = 0 if whole else node.start_byte
        for part in node.children:
            yield self.between(at, part.start_byte)
            at = part.end_byte
        if node.children or whole:
            yield self.between(at, len(self.data) if whole else node.end_byte)


def parse(text: str) -> Source:
    """Unsure if it is not whole, too much to look at, or could be read in two ways."""
    if len(text.encode("utf-8", "surrogatepass")) > LONGEST:
        raise Unsure("it is too long to look at")
    if text.count("<<") > MOST_HEREDOCS:
        raise Unsure("it has too many here-documents to look at")
    if "<<" not in text and len(_SEPARATORS.findall(_QUOTED.sub("", text))) > MOST_SEPARATORS:
        raise Unsure("it chains too many commands to look at")  # known before the parser spends a second on them
    source = Source.read(text)
    _bounded(source.root)
    if source.root.has_error:
        raise Unsure("it is not complete, or not what a shell understands")
    for node in every(source.root):
        _sound(source, node)
    return source


def every(root: "Node") -> Iterator["Node"]:
    """A part and all that is in it."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += reversed(node.children)


def _bounded(root: "Node") -> None:
    commands = parts = 0
    waiting = [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        parts += node.child_count
        if parts > MOST_PARTS:
            raise Unsure("it has too many parts to look at")
        commands += node.type in COMMANDS
        if commands >= MOST_COMMANDS:
            raise Unsure(f"it chains {MOST_COMMANDS} commands or more: too many to look at")
        if depth > DEEPEST:
            raise Unsure("it is nested too deeply to look at")
        waiting += [(child, depth + 1) for child in reversed(node.children)]


def _sound(source: Source, node: "Node") -> None:
    if node.type == "comment" and not _BEFORE_COMMENT.search(source.data[: node.start_byte][-2:]):
        raise Unsure("what looks like a comment may be none")
    if node.is_missing:
        raise Unsure("it is not complete")
    parent = node.parent.type if node.parent is not None else ""
    word = (node.type == "!" and parent != "expansion") or (node.type == "{" and parent == "compound_statement")
    if word and not _BLANK_BEHIND.match(source.data, node.end_byte):
        raise Unsure(f"what looks like a `{node.type}` of the shell's grammar may be a word")
    if node.type == "file_descriptor" and not _DESCRIPTOR.fullmatch(source.text(node)):
        raise Unsure("what looks like the number of a file may be a word")
    if node.type == "variable_name" and not _NAME.fullmatch(source.text(node)):
        raise Unsure("what looks like a variable may be a word")
    if node.type in SPOKEN or (not node.children and node != source.root):
        return
    if node.type not in JOINED and not node.type.endswith("_expression"):
        _apart(source, node)
    for gap in source.gaps(node):
        if node.type == "redirected_statement" and LOST.fullmatch(gap):
            continue
        blank = _CONTINUED.sub("", gap)
        if not _BLANK.fullmatch(blank) or (blank != gap and not blank):
            raise Unsure("it holds an escape that is not taken")
        if (node.type in ONE_LINE and "\n" in blank) or (node.type in NO_GAPS and gap):
            raise Unsure("a line or a word ends where another could begin")


def _apart(source: Source, node: "Node") -> None:
    """Two parts that touch are one word to bash, unless one of them is an operator."""
    for first, second in pairwise(node.children):
        touching = first.end_byte == second.start_byte
        if touching and not _OPERATOR.search(source.data[second.start_byte - 1 : second.start_byte + 1]):
            raise Unsure("two words in it may be one")
