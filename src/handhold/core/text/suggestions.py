"""Names like one that is not there: what somebody may have meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from posixpath import basename, dirname, join, splitext

MAX_SUGGESTIONS = 100  # told to whoever asks; some of them may not be shown
MAX_SIMILAR_NAMES = 3  # by their letters alone, which says the least


def find_similar_paths(path: str, folder: str, names: Sequence[str], same_named: Iterable[str]) -> tuple[str, ...]:
    """What may be meant by a way down from a root that leads to nothing, the likeliest first.

    `names` are those in `folder`, the deepest on the way that is there; `same_named` are ways to files of that name.
    """
    missing = path.removeprefix(f"{folder}/" if folder else "").split("/")[0]
    same = [name for name in names if name != missing and name.casefold() == missing.casefold()]
    stem, kind = splitext(missing)
    other_kind = [name for name in names if splitext(name)[0] == stem] if missing == basename(path) else []
    stems = get_close_matches(
        stem, {splitext(name)[0] for name in names}, MAX_SIMILAR_NAMES
    )  # .txt makes no two names alike
    alike = sorted(
        (name for name in names if splitext(name)[0] in stems),
        key=lambda name: (stems.index(splitext(name)[0]), splitext(name)[1] != kind, name),
    )[:MAX_SIMILAR_NAMES]
    moved = sorted(same_named, key=lambda way: (-_count_shared_parents(way, path), way.count("/"), way))
    beside = [join(folder, name) for name in [*same, *other_kind]]
    paths = dict.fromkeys([*beside, *moved, *(join(folder, name) for name in alike)])
    return tuple(way for way in paths if way not in (path, join(folder, missing)))[:MAX_SUGGESTIONS]


def _count_shared_parents(one: str, other: str) -> int:
    """How many folders above both are called the same, from the file upwards."""
    count = 0
    while (one := dirname(one)) and (other := dirname(other)) and basename(one) == basename(other):
        count += 1
    return count


def suggest(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that nobody knows: the nearest known one, else all of them."""
    names = list(known)
    closest = get_close_matches(name, names, 1)
    return f"Did you mean {closest[0]!r}?" if closest else f"There are: {', '.join(names)}."
