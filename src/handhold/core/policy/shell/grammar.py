"""Parse shell code into a syntax tree, and reject what is ambiguous.

The parser was made for syntax highlighting: it accepts some things that bash reads differently. So every gap between
its nodes is checked again, and anything that bash could read in another way is rejected.
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

MAX_COMMAND_BYTES = 64 * 1024
MAX_COMMANDS = 50  # a text with this many commands is rejected
MAX_NODES = 6_000
MAX_HEREDOCS = 500  # including text that looks like one: parsing time is quadratic in their number
MAX_SEPARATORS = 1_000  # outside quotes
MAX_NODE_DEPTH = 120

TEXT_NODES = frozenset(
    ("string", "heredoc_body", "expansion", "arithmetic_expansion", "regex")
)  # blanks are part of their text
SINGLE_LINE_NODES = frozenset(
    (
        *("command", "command_name", "file_redirect", "redirected_statement", "variable_assignment"),
        *("variable_assignments", "declaration_command", "unset_command", "herestring_redirect", "negated_command"),
    )
)
GAPLESS_NODES = frozenset(("concatenation", "variable_assignment", "simple_expansion", "subscript"))
SINGLE_WORD_NODES = GAPLESS_NODES | {
    "command_substitution",
    "brace_expression",
    "extglob_pattern",
}  # their parts form one word
COMMAND_NODES = frozenset(("command", "declaration_command", "unset_command", "test_command"))

_BLANK = re.compile(r"[ \t\n]*")
_BEFORE_EXPANSION = re.compile(rb"(?:\\?\s)*")
_BLANK_AFTER = re.compile(rb"[ \t\n]|\Z")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+")
_OPERATOR = re.compile(rb"[\s;&|<>()]")
_DESCRIPTOR = re.compile(r"\d+|\{\w+\}")
_SEPARATORS = re.compile(r"[;&|\n]")
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
DROPPED_DASH = re.compile(r"[ \t]+-[ \t]*")  # the parser loses a `-` before a heredoc
_LINE_CONTINUATION = re.compile(r"\\\n")
_BEFORE_COMMENT = re.compile(rb"(?:\A|(?:\A|[^\\])[\s;&|()])\Z")


class AnalysisError(Exception):
    """What this code would do is not known before it runs."""

    def __init__(self, because: str) -> None:
        super().__init__(because)
        self.because = because


@cache
def load_language(extra: str = "shell") -> "Language":
    """Raise ExtraMissing if the grammar is not installed; `extra` is the one to recommend."""
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise ExtraMissing(extra) from None
    return tree_sitter.Language(tree_sitter_bash.language())


@dataclass(frozen=True)
class SyntaxTree:
    """Shell code and its syntax tree."""

    data: bytes
    root: "Node"

    @classmethod
    def from_text(cls, text: str, extra: str = "shell") -> "SyntaxTree":
        grammar = load_language(extra)
        from tree_sitter import Parser

        data = text.encode("utf-8", "surrogatepass")
        return cls(data, Parser(grammar).parse(data).root_node)

    def get_text(self, node: "Node") -> str:
        return self.get_slice(node.start_byte, node.end_byte)

    def get_slice(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "surrogatepass")

    def find_expansion_start(self, node: "Node") -> int:
        """Where an expansion begins: inside a string, the parser includes the blanks before it."""
        blanks = _BEFORE_EXPANSION.match(self.data, node.start_byte, node.end_byte)
        return blanks.end() if blanks else node.start_byte

    def get_expansion_text(self, node: "Node") -> str:
        return self.get_slice(self.find_expansion_start(node), node.end_byte)

    def iter_gaps(self, node: "Node") -> Iterator[str]:
        """The text in a node that none of its children covers; for the root, from the very beginning of the text."""
        whole = node == self.root
        at = 0 if whole else node.start_byte
        for part in node.children:
            yield self.get_slice(at, part.start_byte)
            at = part.end_byte
        if node.children or whole:
            yield self.get_slice(at, len(self.data) if whole else node.end_byte)


def parse(text: str) -> SyntaxTree:
    """Parse a text; raise AnalysisError if it is incomplete, too long or complex, or ambiguous."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_COMMAND_BYTES:
        raise AnalysisError("it is too long to analyze")
    if text.count("<<") > MAX_HEREDOCS:
        raise AnalysisError("it has too many heredocs to analyze")
    if "<<" not in text and len(_SEPARATORS.findall(_QUOTED.sub("", text))) > MAX_SEPARATORS:
        raise AnalysisError("it chains too many commands to analyze")  # found before the parser spends a second on them
    tree = SyntaxTree.from_text(text)
    _check_limits(tree.root)
    if tree.root.has_error:
        raise AnalysisError("it is incomplete or not valid shell syntax")
    for node in iter_nodes(tree.root):
        _check_node(tree, node)
    return tree


def iter_nodes(root: "Node") -> Iterator["Node"]:
    """A node and all its descendants."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.children)


def _check_limits(root: "Node") -> None:
    command_count = node_count = 0
    pending = [(root, 0)]
    while pending:
        node, depth = pending.pop()
        node_count += node.child_count
        if node_count > MAX_NODES:
            raise AnalysisError("it has too many parts to analyze")
        command_count += node.type in COMMAND_NODES
        if command_count >= MAX_COMMANDS:
            raise AnalysisError(f"it chains {MAX_COMMANDS} commands or more, which is too many to analyze")
        if depth > MAX_NODE_DEPTH:
            raise AnalysisError("it is nested too deeply to analyze")
        pending += [(child, depth + 1) for child in reversed(node.children)]


def _check_node(tree: SyntaxTree, node: "Node") -> None:
    if node.type == "comment" and not _BEFORE_COMMENT.search(tree.data[: node.start_byte][-2:]):
        raise AnalysisError("what looks like a comment may not be one")
    if node.is_missing:
        raise AnalysisError("it is incomplete")
    parent = node.parent.type if node.parent is not None else ""
    is_reserved_word = (node.type == "!" and parent != "expansion") or (
        node.type == "{" and parent == "compound_statement"
    )
    if is_reserved_word and not _BLANK_AFTER.match(tree.data, node.end_byte):
        raise AnalysisError(f"what looks like a `{node.type}` of the shell's grammar may be a word")
    if node.type == "file_descriptor" and not _DESCRIPTOR.fullmatch(tree.get_text(node)):
        raise AnalysisError("what looks like a file descriptor may be a word")
    if node.type == "variable_name" and not _NAME.fullmatch(tree.get_text(node)):
        raise AnalysisError("what looks like a variable may be a word")
    if node.type in TEXT_NODES or (not node.children and node != tree.root):
        return
    if node.type not in SINGLE_WORD_NODES and not node.type.endswith("_expression"):
        _check_separation(tree, node)
    for gap in tree.iter_gaps(node):
        if node.type == "redirected_statement" and DROPPED_DASH.fullmatch(gap):
            continue
        blank = _LINE_CONTINUATION.sub("", gap)
        if not _BLANK.fullmatch(blank) or (blank != gap and not blank):
            raise AnalysisError("it contains an unsupported escape")
        if (node.type in SINGLE_LINE_NODES and "\n" in blank) or (node.type in GAPLESS_NODES and gap):
            raise AnalysisError("a line or a word ends where another could begin")


def _check_separation(tree: SyntaxTree, node: "Node") -> None:
    """Reject adjacent nodes without an operator between them: to bash they are one word."""
    for first, second in pairwise(node.children):
        touching = first.end_byte == second.start_byte
        if touching and not _OPERATOR.search(tree.data[second.start_byte - 1 : second.start_byte + 1]):
            raise AnalysisError("two words in it may be one")
