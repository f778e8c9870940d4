"""Syntax errors by tree-sitter: where its parser had to skip text, or to invent a token.

One grammar is loaded for each language that is used, at its first use. They are separate packages: the package that
bundles all of them takes 184 MB, and its newer versions download grammars at run time.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from handhold.core.ports.checks import TextError

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

MAX_ERRORS = 50  # collected in one file
MAX_QUOTED_CHARS = 40
CLOSERS = {"{": "}", "(": ")", "[": "]"}

# The package of each language, and the function in it that has the grammar.
GRAMMARS: dict[str, tuple[str, str]] = {
    "bash": ("tree_sitter_bash", "language"),
    "c": ("tree_sitter_c", "language"),
    "c#": ("tree_sitter_c_sharp", "language"),
    "c++": ("tree_sitter_cpp", "language"),
    "go": ("tree_sitter_go", "language"),
    "java": ("tree_sitter_java", "language"),
    "javascript": ("tree_sitter_javascript", "language"),
    "php": ("tree_sitter_php", "language_php"),
    "python": ("tree_sitter_python", "language"),
    "ruby": ("tree_sitter_ruby", "language"),
    "rust": ("tree_sitter_rust", "language"),
    "tsx": ("tree_sitter_typescript", "language_tsx"),
    "typescript": ("tree_sitter_typescript", "language_typescript"),
}


@cache
def is_installed(language: str) -> bool:
    return find_spec("tree_sitter") is not None and find_spec(GRAMMARS[language][0]) is not None


@cache
def get_parser(language: str) -> "Parser":
    from tree_sitter import Language, Parser

    package, function = GRAMMARS[language]
    grammar: Any = import_module(package)
    capsule: object = getattr(grammar, function)()
    return Parser(Language(capsule))


class TreeSitterErrors:
    """The errors of similar texts, such as a file after a change and before it: only what differs is parsed again.

    Parsers are made for editors, so they accept some text that is not valid.
    """

    def __init__(self, language: str) -> None:
        self._language = language
        self._last: tuple[bytes, Tree] | None = None

    def find(self, text: str) -> list[TextError]:
        """In order."""
        data = text.encode("utf-8", "surrogatepass")
        parser = get_parser(self._language)
        tree = parser.parse(data, _edit_tree(*self._last, data)) if self._last else parser.parse(data)
        self._last = data, tree
        return (
            []
            if not tree.root_node.has_error
            else [_describe(each, data) for each in _iter_error_nodes(tree.root_node)]
        )


def _edit_tree(old: bytes, tree: "Tree", new: bytes) -> "Tree":
    """The tree of the old text, marked where the new one differs."""
    start = _count_same(old, new)
    same = _count_same(old[start:][::-1], new[start:][::-1])
    old_end, new_end = len(old) - same, len(new) - same
    points = [
        (text.count(b"\n", 0, at), at - text.rfind(b"\n", 0, at) - 1)
        for text, at in ((old, start), (old, old_end), (new, new_end))
    ]
    tree.edit(start, old_end, new_end, *points)
    return tree


def _count_same(one: bytes, other: bytes) -> int:
    """How many bytes at the beginning are the same, by bisection."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _iter_error_nodes(root: "Node") -> Iterator["Node"]:
    count, pending = 0, [root]
    while pending and count < MAX_ERRORS:
        node = pending.pop()
        if node.is_error or node.is_missing:
            count += 1
            yield node
        elif node.has_error:
            pending += reversed(node.children)


def _describe(node: "Node", text: bytes) -> TextError:
    if node.is_missing:
        return _at(node, f"missing `{node.type}`", node, text)
    if opener := _find_unclosed(node):
        return _at(opener, f"`{opener.type}` is never closed", node, text)
    quoted = text[node.start_byte : node.end_byte].decode("utf-8", "replace").strip().partition("\n")[0].strip()
    shown = quoted if len(quoted) <= MAX_QUOTED_CHARS else f"{quoted[:MAX_QUOTED_CHARS]}…"
    return _at(node, f"unexpected `{shown}`" if shown else "unexpected end", node, text)


def _at(place: "Node", message: str, error: "Node", text: bytes) -> TextError:
    # Not by `start_point`: in tree-sitter 0.26.0 its row and column free a number that is still in use, and the
    # process crashes (py-tree-sitter 466).
    line_start = text.rfind(b"\n", 0, place.start_byte) + 1
    line, last = (text.count(b"\n", 0, at) + 1 for at in (place.start_byte, error.end_byte))
    return TextError(line, len(text[line_start : place.start_byte].decode("utf-8", "replace")) + 1, message, last)


def _find_unclosed(error: "Node") -> "Node | None":
    """The innermost bracket among the skipped tokens that has no partner there."""
    unclosed: list[Node] = []
    for child in error.children:
        if child.type in CLOSERS:
            unclosed.append(child)
        elif unclosed and child.type == CLOSERS[unclosed[-1].type]:
            unclosed.pop()
    return unclosed[-1] if unclosed else None
