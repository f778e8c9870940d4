"""Helpers for nodes of the syntax tree."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from handhold.core.policy.shell.grammar import AnalysisError

if TYPE_CHECKING:
    from tree_sitter import Node


def split_list(node: "Node") -> tuple["Node", "Node", "Node"]:
    parts = [part for part in node.children if part.type != "comment"]
    if len(parts) != 3:
        raise AnalysisError("a list in it cannot be parsed")
    return parts[0], parts[1], parts[2]


def is_simple_substitution(node: "Node") -> bool:
    """Whether a substitution's output is that of one simple command."""
    statements = [part for part in node.named_children if part.type != "comment"]
    while len(statements) == 1 and statements[0].type in ("pipeline", "redirected_statement"):
        inner = statements[0].named_children
        statements = inner[-1:] if statements[0].type == "pipeline" else inner[:1]
    return len(statements) == 1 and statements[0].type == "command"


def get_bodies(node: "Node") -> list["Node"]:
    return [part for at, part in enumerate(node.children) if node.field_name_for_child(at) == "body"]


def iter_tokens(node: "Node") -> Iterator["Node"]:
    for part in node.children:
        yield part
        if part.type.endswith("_expression"):
            yield from iter_tokens(part)


def get_destinations(node: "Node") -> list["Node"]:
    """The target of a redirection, and the words of the command that follow it."""
    if node.type != "file_redirect":
        return []
    return [part for at, part in enumerate(node.children) if node.field_name_for_child(at) == "destination"]


def split_after_heredoc(node: "Node") -> tuple[list["Node"], list["Node"]]:
    """The words and statements after a heredoc's start on the same line: words of the command, other statements."""
    words: list[Node] = []
    following: list[Node] = []
    for at, part in enumerate(node.children):
        if not part.is_named or part.type in ("heredoc_start", "heredoc_body", "heredoc_end", "file_descriptor"):
            continue
        if part.type == "file_redirect":
            words += get_destinations(part)[1:]
        elif node.field_name_for_child(at) == "argument":
            words.append(part)
        else:
            following.append(part)
    return words, following
