"""Placeholders for what is known only at run time. They cannot occur in code, where they are rejected as invisible."""

import re

UNKNOWN = "\0"  # anything
UNKNOWN_NAME = "\1"  # only a name or a number
UNKNOWN_NUMBER = "\2"  # an integer
ELLIPSIS = "…"  # how placeholders are displayed
PLACEHOLDERS = re.compile("[\0\1\2]")
_INTEGER = re.compile("[-+]?[0-9\2]+")


def is_number(text: str) -> bool:
    return _INTEGER.fullmatch(text) is not None
