"""Arithmetic evaluation. Bash evaluates the value of a variable as an expression, and a subscript in it can run code.

So an expression is harmless only if every value in it is known to be a number, or a constant without code.
"""

import re
from collections.abc import Callable

from handhold.core.policy.shell.grammar import AnalysisError
from handhold.core.policy.shell.placeholders import UNKNOWN, UNKNOWN_NUMBER, is_number

COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
NUMERIC_VARIABLES = frozenset(
    ("RANDOM", "LINENO", "SECONDS", "UID", "EUID", "PPID", "BASHPID", "SRANDOM", "EPOCHSECONDS", "OPTIND")
)
"""Variables that bash itself sets to a number."""
_CODE = re.compile(r"[$`\\\0\1]")
_UNSAFE_OPERAND = re.compile(r"[$`\\\0\1\[*?]")  # a value with a glob may have expanded to a file name
_OPERAND = re.compile(r"(?<![\w#\2])([A-Za-z_]\w*)(?!\w|\s*=(?!=))")
_ASSIGNMENT = re.compile(
    r"(?:\+\+|--)\s*([A-Za-z_]\w*)"
    r"|([A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))"
)
_CONDITIONAL = re.compile(r"&&|\|\||\?")


def check_operand(value: str) -> str:
    """Check a value used in an expression; raise AnalysisError if it may contain code."""
    if _UNSAFE_OPERAND.search(value):
        raise AnalysisError("a value in it would be evaluated as arithmetic and may contain code")
    return value


def check_key(text: str) -> None:
    """Check the key of an associative array, which bash expands again; raise AnalysisError if that may run code."""
    if _CODE.search(text):
        raise AnalysisError("a subscript in it would be expanded again and may contain code")


def evaluate(text: str, lookup: Callable[[str], str | None]) -> dict[str, str]:
    """The variables that an expression sets; raise AnalysisError if evaluating it may run code."""
    assigned: dict[str, str] = {}
    for part in re.split("[,;]", text):
        _check_expression(part, lambda name: assigned.get(name) or lookup(name))
        for found in _ASSIGNMENT.finditer(part):
            name = found[1] or found[2]
            is_certain = not _CONDITIONAL.search(part) or is_number(lookup(name) or "")
            assigned[name] = UNKNOWN_NUMBER if is_certain else UNKNOWN
    return assigned


def _check_expression(text: str, lookup: Callable[[str], str | None]) -> None:
    check_key(text)
    seen: set[str] = set()
    pending = [text]
    while pending:
        for name in _OPERAND.findall(pending.pop()):
            if name in seen:
                continue
            seen.add(name)
            known = lookup(name)
            if known is None:
                raise AnalysisError(f"the value of {name} is not known and would be evaluated as arithmetic")
            pending.append(check_operand(known))
