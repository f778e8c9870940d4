"""Syntax errors by tree-sitter: where its parser had to skip text, or to invent a token.

One grammar is loaded for each language that is used, at its first use. They are separate packages: the package that
bundles all of them takes 184 MB, and its newer versions download grammars at run time.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import accumulate, groupby
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

    def copy(self) -> "TreeSitterErrors":
        """For texts that are similar to the last one, but not to the next."""
        made = TreeSitterErrors(self._language)
        made._last = self._last and (self._last[0], self._last[1].copy())
        return made

    def find(self, text: str) -> list[TextError]:
        """In order."""
        data = text.encode("utf-8", "surrogatepass")
        parser = get_parser(self._language)
        tree = parser.parse(data, edit_tree(*self._last, data)) if self._last else parser.parse(data)
        self._last = data, tree
        return (
            []
            if not tree.root_node.has_error
            else [_describe(each, data) for each in _iter_error_nodes(tree.root_node)]
        )


def edit_tree(old: bytes, tree: "Tree", new: bytes) -> "Tree":
    """The tree of the old text, marked where the new one differs."""
    before, after = old.split(b"\n"), new.split(b"\n")
    old_offsets, new_offsets = _get_offsets(before), _get_offsets(after)
    for first, old_end, new_end in reversed(_find_changed_lines(before, after)):
        start = old_offsets[first]
        new_stop = start + new_offsets[new_end] - new_offsets[first]
        points = [
            (end, 0) if end < len(lines) else (end - 1, len(lines[-1]))
            for lines, end in ((before, old_end), (after, new_end))
        ]
        tree.edit(start, old_offsets[old_end], new_stop, (first, 0), *points)
    return tree


def _get_offsets(lines: list[bytes]) -> list[int]:
    """Where each line starts, and where the text ends."""
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    return [*starts[:-1], starts[-1] - 1]


def _find_changed_lines(before: list[bytes], after: list[bytes]) -> list[tuple[int, int, int]]:
    """The first line of each place that differs, its end, and its end in the text after. There is one place, unless
    the texts have as many lines: then each line is compared with its counterpart."""
    if len(before) == len(after):
        changed = [n for n, (one, other) in enumerate(zip(before, after, strict=True)) if one != other]
        runs = [[n for _, n in run] for _, run in groupby(enumerate(changed), lambda each: each[1] - each[0])]
        return [(run[0], run[-1] + 1, run[-1] + 1) for run in runs]
    last = min(len(before), len(after)) - 1
    first = next((n for n in range(last) if before[n] != after[n]), last)
    same = next((n for n in range(last - first) if before[-1 - n] != after[-1 - n]), last - first)
    return [(first, len(before) - same, len(after) - same)]


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
