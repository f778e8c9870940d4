"""Words: the names, schemas, limits and wording of the source that each dialect follows."""

from pathlib import Path


def read_instructions(name: str) -> str:
    """What teaches a model the tools of a dialect that is ours; nothing of the dialect is loaded for it."""
    file = Path(__file__).with_name(name) / "instructions.md"
    return file.read_text("utf-8") if file.exists() else ""
