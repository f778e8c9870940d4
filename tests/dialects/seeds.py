"""The documents that dialects come from, where they lie beside the project."""

import re
from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "shared/seeds"


@cache
def seed(name: str) -> str:
    if not (FOLDER / name).exists():
        pytest.skip("the folder of source documents is not beside the project")
    return (FOLDER / name).read_text("utf-8")


def in_seed(name: str, text: str) -> bool:
    """Whether a text stands there, blanks and the joints of a string in two pieces aside."""
    return _plain(text) in _plain(seed(name))


def _plain(text: str) -> str:
    return re.sub(r'"\s*\+\s*"|\s', "", text)
