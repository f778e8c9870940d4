"""Names like one that is not there: what somebody may have meant."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from posixpath import basename, dirname, join, splitext

MOST = 100  # told to whoever asks; some of them may not be shown
MOST_ALIKE = 3  # by their letters alone, which says the least


def near(wanted: str, folder: str, names: Sequence[str], elsewhere: Iterable[str]) -> tuple[str, ...]:
    """What may be meant by a way down from a root that leads to nothing, the likeliest first.

    `names` are those in `folder`, the deepest on the way that is there; `elsewhere` are ways to files of the same name.
    """
    missing = wanted.removeprefix(f"{folder}/" if folder else "").split("/")[0]
    same = [name for name in names if name != missing and name.casefold() == missing.casefold()]
    stem, kind = splitext(missing)
    other_kind = [name for name in names if splitext(name)[0] == stem] if missing == basename(wanted) else []
    stems = get_close_matches(stem, {splitext(name)[0] for name in names}, MOST_ALIKE)  # .txt makes no two names alike
    alike = sorted(
        (name for name in names if splitext(name)[0] in stems),
        key=lambda name: (stems.index(splitext(name)[0]), splitext(name)[1] != kind, name),
    )[:MOST_ALIKE]
    moved = sorted(elsewhere, key=lambda way: (-_shared_end(way, wanted), way.count("/"), way))
    beside = [join(folder, name) for name in [*same, *other_kind]]
    ways = dict.fromkeys([*beside, *moved, *(join(folder, name) for name in alike)])
    return tuple(way for way in ways if way not in (wanted, join(folder, missing)))[:MOST]


def _shared_end(one: str, other: str) -> int:
    """How many folders above both are called the same, from the file upwards."""
    count = 0
    while (one := dirname(one)) and (other := dirname(other)) and basename(one) == basename(other):
        count += 1
    return count


def suggest(name: str, known: Iterable[str]) -> str:
    """What to write instead of a name that nobody knows: the nearest known one, else all of them."""
    names = list(known)
    near = get_close_matches(name, names, 1)
    return f"Did you mean {near[0]!r}?" if near else f"There are: {', '.join(names)}."
