"""Heredocs, read line by line: the parser is unreliable about where they end."""

import re
from typing import TYPE_CHECKING

from handhold.core.policy.shell.grammar import AnalysisError, SyntaxTree

if TYPE_CHECKING:
    from tree_sitter import Node

    from handhold.core.policy.shell.words import WordExpander

_DELIMITER = re.compile(r"'[\w .-]+'|\"[\w .-]+\"|\\?[\w.-]+")
_BODY_NODES = ("heredoc_body", "heredoc_end")
_EXPANSION = re.compile(r"[$`]|\\[\\\n]")  # if the delimiter is not quoted


class Heredoc:
    """The body as bash reads it: up to the first line that is exactly the delimiter."""

    def __init__(self, tree: SyntaxTree, start: "Node", *, strip_tabs: bool) -> None:
        raw_delimiter = tree.get_text(start)
        if not _DELIMITER.fullmatch(raw_delimiter):
            raise AnalysisError("the heredoc's delimiter is not one word")
        self.delimiter = raw_delimiter.strip("'\"\\")
        self.is_quoted = self.delimiter != raw_delimiter
        rest = tree.get_slice(start.end_byte, len(tree.data))
        self.rest_of_line, _, below = rest.partition("\n")
        lines = [line.lstrip("\t") if strip_tabs else line for line in below.split("\n")]
        if self.delimiter not in lines:
            raise AnalysisError("it is incomplete")
        end = lines.index(self.delimiter)
        self.body = "".join(f"{line}\n" for line in lines[:end])
        self.following_lines = lines[end + 1 :]
        self.body_start = start.end_byte + len(self.rest_of_line.encode("utf-8", "surrogatepass")) + 1
        before = below.split("\n")[:end]
        self.body_end = self.body_start + sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in before)

    @property
    def has_expansions(self) -> bool:
        return not self.is_quoted and _EXPANSION.search(self.body) is not None


def read_heredoc(node: "Node", expander: "WordExpander") -> str | None:
    """The text that a command gets as input; None if it is not known before it runs."""
    parts = {part.type: part for part in node.children}
    if "heredoc_start" not in parts or "heredoc_end" not in parts:
        raise AnalysisError("a heredoc in it is incomplete")
    document = Heredoc(expander.tree, parts["heredoc_start"], strip_tabs="<<-" in parts)
    if any(part.end_byte >= document.body_start for part in node.children if part.type not in _BODY_NODES):
        raise AnalysisError("a heredoc in it begins in an unexpected place")
    if "<<" in document.rest_of_line or "#" in document.rest_of_line:
        raise AnalysisError("two heredocs, or a heredoc and a comment, are on one line")
    if expander.tree.get_slice(document.body_end, document.body_end + 1) == "\t":
        document.body_end += len(expander.tree.get_slice(document.body_end, parts["heredoc_end"].start_byte))
    body = parts.get("heredoc_body")
    if parts["heredoc_end"].start_byte != document.body_end or (body and body.end_byte > document.body_end):
        raise AnalysisError("a heredoc in it ends in an unexpected place")
    if not document.has_expansions:
        return document.body
    if body is None:
        raise AnalysisError("a heredoc in it cannot be parsed")
    expander.check_substitutions(body)
    return None
