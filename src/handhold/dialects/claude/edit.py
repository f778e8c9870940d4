"""Edit on a text without a file: its check and its execution, as separate functions."""

from handhold.core.requests import Replacement
from handhold.core.tools import edit
from handhold.dialects.claude import messages
from handhold.dialects.formatting import replace_surrogates


def valid(content: str, old_string: str, new_string: str, replace_all: bool) -> str | None:  # noqa: FBT001 - the source's signature
    """The message that refuses this edit; None if it can be made."""
    error = edit.find_edit_error(content, Replacement(old_string, new_string, every=replace_all), matching="exact")
    return replace_surrogates(messages.format_error("Edit", error)) if error else None


def execute(content: str, old_string: str, new_string: str, replace_all: bool) -> str:  # noqa: FBT001 - the source's signature
    """The content with the edit applied; raises the error that `valid` describes."""
    return edit.apply_edit(content, Replacement(old_string, new_string, every=replace_all), matching="exact")
