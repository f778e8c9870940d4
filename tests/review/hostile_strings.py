"""Strings that try to be more than text, read from `hostile_strings.json`; 200 of them."""

import json
from pathlib import Path

HOSTILE: list[str] = json.loads((Path(__file__).parent / "hostile_strings.json").read_text(encoding="utf-8"))
