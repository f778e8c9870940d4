"""Parts of files and calls as a reply quotes them: numbered and bounded."""

from collections.abc import Iterable, Sequence

from handhold.core.text.encoding import replace_undecodable

MAX_ECHO_CHARS = 2000
MAX_ROW_CHARS = 200


def format_row(number: int, text: str, separator: str = "→") -> str:
    return f"{number:>6}{separator}{text}"


def pluralize(count: int, noun: str, plural: str = "") -> str:
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def echo(text: str) -> str:
    """Text that the model sent, quoted back to it."""
    over = len(text) - MAX_ECHO_CHARS
    return text if over <= 0 else f"{text[:MAX_ECHO_CHARS]}... (more {over} characters are truncated)"


def truncate(text: str, max_chars: int = MAX_ROW_CHARS) -> str:
    """The start of a line, with the number of characters left out."""
    over = len(text) - max_chars
    return text if over <= 0 else f"{text[:max_chars]}... ({over} more characters)"


def format_list(items: Iterable[object], *, max_items: int = 20) -> str:
    """A, B, C and 7 more."""
    words = [truncate(str(item)) for item in items]
    if len(words) > max_items:
        return f"{', '.join(words[:max_items])} and {len(words) - max_items} more"
    return ", ".join(words)


def format_ranges(spans: Sequence[tuple[int, int]]) -> str:
    """Line ranges: 1-40, 55."""
    return format_list(f"{first}-{last}" if last > first else f"{first}" for first, last in spans)


def format_span(noun: str, first: int, last: int) -> str:
    """Lines 2-4, or line 2."""
    return f"{noun}s {first}-{last}" if last > first else f"{noun} {first}"


def replace_surrogates(text: str) -> str:
    """Text that can be encoded as UTF-8: an unpaired surrogate becomes U+FFFD."""
    return replace_undecodable(text)
