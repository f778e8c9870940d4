"""Suggest similar names for one that does not exist."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from posixpath import basename, dirname, join, splitext

MAX_SUGGESTIONS = 100  # some of them may be filtered out later
MAX_SIMILAR_NAMES = 3  # by spelling alone, the weakest hint


def find_similar_paths(path: str, folder: str, names: Sequence[str], same_named: Iterable[str]) -> tuple[str, ...]:
    """What a path that does not exist may have meant, likeliest first.

    `path` is relative to a root. `names` are the entries of `folder`, the deepest existing folder on the way;
    `same_named` are paths of files with the same name.
    """
    missing = path.removeprefix(f"{folder}/" if folder else "").split("/")[0]
    same = [name for name in names if name != missing and name.casefold() == missing.casefold()]
    stem, kind = splitext(missing)
    other_kind = [name for name in names if splitext(name)[0] == stem] if missing == basename(path) else []
    stems = get_close_matches(
        stem, {splitext(name)[0] for name in names}, MAX_SIMILAR_NAMES
    )  # without the extension, which would make names look alike
    alike = sorted(
        (name for name in names if splitext(name)[0] in stems),
        key=lambda name: (stems.index(splitext(name)[0]), splitext(name)[1] != kind, name),
    )[:MAX_SIMILAR_NAMES]
    moved = sorted(same_named, key=lambda way: (-_count_shared_parents(way, path), way.count("/"), way))
    beside = [join(folder, name) for name in [*same, *other_kind]]
    paths = dict.fromkeys([*beside, *moved, *(join(folder, name) for name in alike)])
    return tuple(way for way in paths if way not in (path, join(folder, missing)))[:MAX_SUGGESTIONS]


def _count_shared_parents(one: str, other: str) -> int:
    """How many parent folders have the same names, from the file upwards."""
    count = 0
    while (one := dirname(one)) and (other := dirname(other)) and basename(one) == basename(other):
        count += 1
    return count


def suggest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the closest known one, otherwise all of them."""
    names = list(known)
    closest = get_close_matches(name, names, 1)
    return f"Did you mean {closest[0]!r}?" if closest else f"There are: {', '.join(names)}."
