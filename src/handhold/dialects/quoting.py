"""Pieces of files and of calls as they are quoted back to a model: numbered, and bounded."""

from collections.abc import Iterable, Sequence

from handhold.core.text.encoding import shown

MOST_ECHOED = 2000
CLIPPED_ROW = 200


def row(number: int, text: str, mark: str = "→") -> str:
    return f"{number:>6}{mark}{text}"


def several(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def echo(text: str) -> str:
    """What the model wrote, quoted back to it."""
    over = len(text) - MOST_ECHOED
    return text if over <= 0 else f"{text[:MOST_ECHOED]}... (more {over} characters are truncated)"


def clipped(text: str, most: int = CLIPPED_ROW) -> str:
    """The start of a line, with a count of what is missing."""
    over = len(text) - most
    return text if over <= 0 else f"{text[:most]}... ({over} more characters)"


def listed(items: Iterable[object], *, most: int = 20) -> str:
    """A, B, C and 7 more."""
    words = [clipped(str(item)) for item in items]
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return ", ".join(words)


def ranges(spans: Sequence[tuple[int, int]]) -> str:
    """Line ranges: 1-40, 55."""
    return listed(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)


def sendable(text: str) -> str:
    """Text that can leave as UTF-8: an unpaired surrogate in a call or a file becomes U+FFFD."""
    return shown(text)
