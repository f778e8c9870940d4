"""Characters that stand for what only running would tell. None can be in a text: they are refused as invisible."""

import re

UNKNOWN = "\0"  # anything
UNKNOWN_NAME = "\1"  # nothing but a name or a number
UNKNOWN_NUMBER = "\2"  # an integer
ELLIPSIS = "…"  # what they look like in the words that others see
PLACEHOLDERS = re.compile("[\0\1\2]")
_INTEGER = re.compile("[-+]?[0-9\2]+")


def is_number(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None
