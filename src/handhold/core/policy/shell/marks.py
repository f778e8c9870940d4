"""Characters that stand for what only running would tell. None can be in a text: they are refused as invisible."""

import re

HOLE = "\0"  # anything
NAME = "\1"  # nothing but a name or a number
NUMBER = "\2"  # an integer
SHOWN = "…"  # what they look like in the words that others see
MARKS = re.compile("[\0\1\2]")
_INTEGER = re.compile("[-+]?[0-9\2]+")


def is_number(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None
