"""Syntax errors in C and C++, whose preprocessor can turn any text into valid code.

A grammar sees the text before that. So what it calls an error is told only if it still does without the usual suspects:
directives, all but the first branch of each condition, and macros that are used like a statement or a keyword.
"""

import re

from handhold.backends.checks.tree_sitter_errors import TreeSitterErrors
from handhold.core.ports.checks import TextError

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)(?:[^\\\n]|\\(?s:.))*", re.MULTILINE)
_MACRO_STATEMENT = re.compile(
    r"(?<=[;{}])(\s*)[A-Z][A-Z0-9_]{2,}[ \t]*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))(?=\s*\n\s*[\w}#])"
)
_LONE_WORD = re.compile(r"unexpected `[A-Za-z_]\w*`")


class CErrors:
    def __init__(self, language: str) -> None:
        self._raw = TreeSitterErrors(language)
        self._expanded: TreeSitterErrors | None = None

    def find(self, text: str) -> list[TextError]:
        found = self._raw.find(text)
        if not found:
            return []
        self._expanded = self._expanded or self._raw.copy()
        return [each for each in self._expanded.find(_expand(text)) if not _LONE_WORD.fullmatch(each.message)]


def _expand(text: str) -> str:
    """The text with as many lines, without what only the preprocessor understands."""
    pieces: list[str] = []
    at, skipping = 0, list[bool]()  # for each open condition, whether its current branch is left out
    for found in _DIRECTIVE.finditer(text):
        pieces.append(_blank(text[at : found.start()]) if any(skipping) else text[at : found.start()])
        pieces.append(_blank(found[0]))
        at = found.end()
        match found[1]:
            case "if" | "ifdef" | "ifndef":
                skipping.append(False)
            case "else" | "elif" if skipping:
                skipping[-1] = True
            case "endif" if skipping:
                skipping.pop()
            case _:
                pass
    pieces.append(text[at:])
    return _MACRO_STATEMENT.sub(lambda call: f"{call[1]};{_blank(call[2])}", "".join(pieces))


def _blank(text: str) -> str:
    return "\n" * text.count("\n")
