"""What the source documents prescribe, as `checks/sources.py` extracted it from them into tests/sources/."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "sources"
PLACEHOLDER = re.compile(r"\{[^{}]*\}|%[dsvw]")


@cache
def _pieces(source: str) -> dict[str, Any]:
    (file,) = FOLDER.glob(f"{source}_*.json")
    return {row["name"]: row["value"] for row in json.loads(file.read_text("utf-8"))}


def piece(source: str, name: str) -> Any:
    """A string, number, schema, format or example of a source, by its number and the name of the piece."""
    return _pieces(source)[name]


def filled(template: str, *values: object) -> str:
    """A prescribed message with these values in place of its placeholders, in order."""
    left = iter(values)
    text = PLACEHOLDER.sub(lambda _: str(next(left)), template)
    assert not list(left), template
    return text
