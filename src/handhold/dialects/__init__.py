"""Dialects: tool names, schemas, limits and wording, each after the source that it follows."""

from pathlib import Path


def read_instructions(name: str) -> str:
    """The instructions of one of our dialects, without loading the dialect; empty if there are none."""
    file = Path(__file__).with_name(name) / "instructions.md"
    return file.read_text("utf-8") if file.exists() else ""
