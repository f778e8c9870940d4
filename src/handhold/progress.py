"""How far long work has come, for whoever looks. Where nobody does, it costs nothing."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Look = Callable[[str, int, int], None]  # what is counted, how many are done, of how many; 0 if nobody knows

_looks: list[Look] = []


@contextmanager
def looking(look: Look) -> Generator[None]:
    _looks.append(look)
    try:
        yield
    finally:
        _looks.remove(look)


def came(what: str, done: int, of: int) -> None:
    for look in _looks:
        look(what, done, of)


def counted(things: Sequence[T], what: str) -> Iterable[T]:
    """The same things, one after the other."""
    return _counting(things, what) if _looks else things


def _counting(things: Sequence[T], what: str) -> Iterator[T]:
    for done, thing in enumerate(things):
        came(what, done, len(things))
        yield thing
    came(what, len(things), len(things))
