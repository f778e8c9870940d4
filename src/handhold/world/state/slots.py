"""Slots, as the journal counts them: by the command that filled them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from handhold.core.plans import FileChange, Shelved


def commands_of(files: Iterable[FileChange]) -> Mapping[str, int]:
    """The commands whose slots these changes are about, and the bytes that lie there, before or afterwards."""
    held: defaultdict[str, int] = defaultdict(int)
    for each in files:
        things = [content for content in (each.before, each.after) if isinstance(content, Shelved)]
        if things:
            held[things[0].slot.partition("/")[0]] += max(thing.size for thing in things)
    return held
