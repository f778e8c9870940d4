"""Arithmetic evaluation. Bash evaluates the value of a variable as an expression, and a subscript in it can run code.

So an expression is harmless if every value in it is known to be a number, or a constant that holds no code.
"""

import re
from collections.abc import Callable

from handhold.core.policy.shell.grammar import Unsure
from handhold.core.policy.shell.marks import HOLE, NUMBER, is_number

COMPARISONS = frozenset(("-eq", "-ne", "-lt", "-le", "-gt", "-ge"))
NUMBERS = frozenset(
    ("RANDOM", "LINENO", "SECONDS", "UID", "EUID", "PPID", "BASHPID", "SRANDOM", "EPOCHSECONDS", "OPTIND")
)
"""Variables in which bash itself keeps a number."""
_CODE = re.compile(r"[$`\\\0\1]")
_NO_OPERAND = re.compile(r"[$`\\\0\1\[*?]")  # a value with a pattern in it may have become the name of a file
_OPERAND = re.compile(r"(?<![\w#\2])([A-Za-z_]\w*)(?!\w|\s*=(?!=))")
_ASSIGNED = re.compile(
    r"(?:\+\+|--)\s*([A-Za-z_]\w*)"
    r"|([A-Za-z_]\w*)(?:\[[^\]]*\])?\s*(?:\+\+|--|(?:<<|>>|[-+*/%&|^])?=(?!=))"
)
_MAY_NOT_RUN = re.compile(r"&&|\|\||\?")


def check_operand(value: str) -> str:
    """A value that is put into an expression; Unsure if it may hold code."""
    if _NO_OPERAND.search(value):
        raise Unsure("a value in it would be evaluated as arithmetic, and may hold code")
    return value


def check_key(text: str) -> None:
    """The key of an associative array, where bash expands it once more; Unsure if that may run code."""
    if _CODE.search(text):
        raise Unsure("a subscript in it would be expanded again, and may hold code")


def evaluate(text: str, value: Callable[[str], str | None]) -> dict[str, str]:
    """The variables that an expression sets, with their values; Unsure if evaluating it may run code."""
    assigned: dict[str, str] = {}
    for part in re.split("[,;]", text):
        _check(part, lambda name: assigned.get(name) or value(name))
        for found in _ASSIGNED.finditer(part):
            name = found[1] or found[2]
            certain = not _MAY_NOT_RUN.search(part) or is_number(value(name) or "")
            assigned[name] = NUMBER if certain else HOLE
    return assigned


def _check(text: str, value: Callable[[str], str | None]) -> None:
    check_key(text)
    seen: set[str] = set()
    waiting = [text]
    while waiting:
        for name in _OPERAND.findall(waiting.pop()):
            if name in seen:
                continue
            seen.add(name)
            known = value(name)
            if known is None:
                raise Unsure(f"the value of {name} is not known, and would be evaluated as arithmetic")
            waiting.append(check_operand(known))
