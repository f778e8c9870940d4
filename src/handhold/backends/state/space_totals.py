"""How much is kept for undo, by kind and level, and how far that exceeds the bound."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

DROP_PORTION = 100  # contents or slots that one change drops, and more if the bound is exceeded by too much
MAX_EXCESS_SHARE = 0.025  # of the bound, which may wait for later changes

Victim = tuple[bytes, int, int | None]  # hash, stored bytes, blob
AnyVictim = TypeVar("AnyVictim", tuple[bytes, int], Victim)


class DiskOverhead(NamedTuple):
    """Bytes on disk besides the data itself."""

    content: int = 256  # rows and their indexes
    slot: int = 8192  # a command's folder, and the file about its parent folders
    entry: int = 4096  # what an entry counts at least, so that the bound also limits the number of inodes


DISK_OVERHEAD = DiskOverhead()


class Excess(NamedTuple):
    """Bytes beyond the bound, and how many of them may wait."""

    bytes: int
    slack: int

    @property
    def can_wait(self) -> bool:
        return self.bytes <= self.slack

    def without(self, size: int) -> "Excess":
        return Excess(self.bytes - size, self.slack)


def keep_totals(table: str, kind: str, level: str, size: str) -> Iterator[str]:
    """Triggers that keep the totals of a table."""

    def add(row: str, sign: str) -> str:
        where = f"kind = '{kind}' AND level = {row}.{level}" if level else f"kind = '{kind}'"
        return f"UPDATE totals SET bytes = bytes {sign} {row}.{size}, number = number {sign} 1 WHERE {where};"

    yield f"CREATE TRIGGER {table}_add AFTER INSERT ON {table} BEGIN {add('NEW', '+')} END"
    yield f"CREATE TRIGGER {table}_remove AFTER DELETE ON {table} BEGIN {add('OLD', '-')} END"
    if level:
        yield (
            f"CREATE TRIGGER {table}_move AFTER UPDATE OF {level}, {size} ON {table}"
            f" WHEN OLD.{level} <> NEW.{level} OR OLD.{size} <> NEW.{size}"
            f" BEGIN {add('OLD', '-')} {add('NEW', '+')} END"
        )


# The totals by kind and level are needed at every change, so they are stored.
TOTALS_SCHEMA = (
    """CREATE TABLE totals (
        kind TEXT NOT NULL, level INTEGER NOT NULL, bytes INTEGER NOT NULL, number INTEGER NOT NULL,
        PRIMARY KEY (kind, level)
    ) WITHOUT ROWID""",
    *(f"INSERT INTO totals VALUES ('{kind}', {level}, 0, 0)" for kind in ("contents", "slots") for level in range(3)),
    "INSERT INTO totals VALUES ('dropped', 0, 0, 0)",
    *keep_totals("contents", "contents", "intended", "stored"),
)


def take_until_freed(excess: Excess, victims: Iterable[AnyVictim], overhead: int) -> list[AnyVictim]:
    """The first victims that together free the excess; after a portion, only as many as cannot wait."""
    taken: list[AnyVictim] = []
    over = excess.bytes
    for victim in victims if over > 0 else ():
        taken.append(victim)
        over -= victim[1] + overhead
        if over <= (0 if len(taken) < DROP_PORTION else excess.slack):
            break
    return taken
