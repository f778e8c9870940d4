"""Syntax errors in Python, by Python's own parser.

It is stricter than a grammar made for editors, above all about indentation. But a file may be written for a newer
Python than the one that runs Handhold, so an error that newer syntax can cause needs the grammar's agreement.
"""

import warnings
from symtable import symtable

from handhold.backends.checks import tree_sitter_errors
from handhold.core.ports.checks import TextError

# What our Python may say about text that a newer one accepts.
_NEWER_SYNTAX = (
    "invalid syntax",
    "f-string",
    "t-string",
    "multiple exception types",
    "unterminated",
    "expected ':'",
    "expected '('",
)

_FILE_NAME = "<checked by handhold>"
# Warnings about the checked text are not ours to print. `catch_warnings` would not be safe with threads.
warnings.filterwarnings("ignore", module=_FILE_NAME)


def find_errors(text: str) -> list[TextError]:
    error = _parse(text)
    if error is None:
        return []
    certain = isinstance(error, IndentationError) or not error.msg.startswith(_NEWER_SYNTAX)
    if not certain:
        installed = tree_sitter_errors.is_installed("python")
        if not installed or not tree_sitter_errors.TreeSitterErrors("python").find(text):
            return []
    line = max(error.lineno or 1, 1)
    return [TextError(line, max(error.offset or 0, 0), error.msg, max(error.end_lineno or line, line))]


def _parse(text: str) -> SyntaxError | None:
    try:
        symtable(text, _FILE_NAME, "exec")  # parses, without making an object of each node as `ast` does
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError):  # a NUL or half a character, or nested too deeply
        return None
    return None
