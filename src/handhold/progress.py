"""Progress of long work, for listeners. Without a listener it costs nothing."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
ProgressListener = Callable[[str, int, int], None]  # what is counted, how many are done, the total or 0

_listeners: list[ProgressListener] = []


@contextmanager
def listen(listener: ProgressListener) -> Generator[None]:
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def report(what: str, done: int, total: int) -> None:
    for listener in _listeners:
        listener(what, done, total)


def track(items: Sequence[T], what: str) -> Iterable[T]:
    """The same items, reporting each."""
    return _track(items, what) if _listeners else items


def _track(items: Sequence[T], what: str) -> Iterator[T]:
    for done, item in enumerate(items):
        report(what, done, len(items))
        yield item
    report(what, len(items), len(items))
