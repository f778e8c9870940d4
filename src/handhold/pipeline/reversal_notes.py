"""What an undo or redo leaves as it is, or is refused for, in words."""

from collections.abc import Mapping, Sequence
from typing import Any

from handhold.core.change_diff import shorten_path

MAX_NAMED_PATHS = 10


def format_notes(facts: Mapping[str, Any], roots: Sequence[str]) -> str:
    """Sentences for the facts of an undo or redo; empty if it left nothing."""

    def listed(paths: Sequence[str]) -> str:
        names = ", ".join(shorten_path(path, roots) for path in paths[:MAX_NAMED_PATHS])
        return names + (f" and {len(paths) - MAX_NAMED_PATHS} more" if len(paths) > MAX_NAMED_PATHS else "")

    notes: list[str] = []
    if kept := facts.get("kept_lines"):
        lines = sum(kept.values())
        later = "later changes" if not lines else f"{lines} later line{'s' if lines > 1 else ''}"
        notes.append(f"Kept {later} in {listed(list(kept))}.")
    if left := facts.get("left"):
        notes.append(f"Left as it is: {listed(left)}.")
    if saved := facts.get("saved"):
        notes.append(f"Left as it is, with the other version beside it: {listed(list(saved.values()))}.")
    if not_kept := facts.get("not_kept"):
        notes.append(f"Not undone, because the old content was not kept: {listed(not_kept)}.")
    if used := facts.get("used_repositories"):
        notes.append(f"Git objects stay in {listed(used)}, which was used since.")
    return "".join(f" {note}" for note in notes)


def list_conflict_lines(text: str) -> list[str]:
    """The lines between git's markers, markers included."""
    shown: list[str] = []
    is_inside = False
    for line in text.splitlines():
        is_inside = is_inside or line.startswith("<<<<<<< ")
        shown += [line] if is_inside else []
        is_inside = is_inside and not line.startswith(">>>>>>> ")
    return shown
