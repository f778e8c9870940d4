"""Here-documents, read by their lines: the grammar's parser is not sure of where they end."""

import re
from typing import TYPE_CHECKING

from handhold.core.policy.shell.grammar import Source, Unsure

if TYPE_CHECKING:
    from tree_sitter import Node

    from handhold.core.policy.shell.words import Reader

_DELIMITER = re.compile(r"'[\w .-]+'|\"[\w .-]+\"|\\?[\w.-]+")
_OWN = ("heredoc_body", "heredoc_end")
_EXPANDS = re.compile(r"[$`]|\\[\\\n]")  # where the delimiter is not quoted


class Heredoc:
    """The text between, as bash takes it: up to the first line that is the delimiter and nothing else."""

    def __init__(self, source: Source, start: "Node", *, tabs: bool) -> None:
        spelled = source.text(start)
        if not _DELIMITER.fullmatch(spelled):
            raise Unsure("the heredoc's delimiter is not one word")
        self.delimiter = spelled.strip("'\"\\")
        self.quoted = self.delimiter != spelled
        rest = source.between(start.end_byte, len(source.data))
        self.behind, _, below = rest.partition("\n")
        lines = [line.lstrip("\t") if tabs else line for line in below.split("\n")]
        if self.delimiter not in lines:
            raise Unsure("it is not complete")
        end = lines.index(self.delimiter)
        self.body = "".join(f"{line}\n" for line in lines[:end])
        self.after = lines[end + 1 :]
        self.first = start.end_byte + len(self.behind.encode("utf-8", "surrogatepass")) + 1
        before = below.split("\n")[:end]
        self.last = self.first + sum(len(line.encode("utf-8", "surrogatepass")) + 1 for line in before)

    @property
    def expands(self) -> bool:
        return not self.quoted and _EXPANDS.search(self.body) is not None


def heredoc(node: "Node", reader: "Reader") -> str | None:
    """What a command is fed; None if that is not known before it runs."""
    parts = {part.type: part for part in node.children}
    if "heredoc_start" not in parts or "heredoc_end" not in parts:
        raise Unsure("a here-document in it is not complete")
    found = Heredoc(reader.source, parts["heredoc_start"], tabs="<<-" in parts)
    if any(part.end_byte >= found.first for part in node.children if part.type not in _OWN):
        raise Unsure("a here-document in it begins in an odd place")
    if "<<" in found.behind or "#" in found.behind:
        raise Unsure("two here-documents, or a comment, stand on one line")
    if reader.source.between(found.last, found.last + 1) == "\t":
        found.last += len(reader.source.between(found.last, parts["heredoc_end"].start_byte))
    body = parts.get("heredoc_body")
    if parts["heredoc_end"].start_byte != found.last or (body and body.end_byte > found.last):
        raise Unsure("a here-document in it ends in an odd place")
    if not found.expands:
        return found.body
    if body is None:
        raise Unsure("a here-document in it cannot be read")
    reader.inside(body)
    return None
