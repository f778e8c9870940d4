"""The curves of `just growth`: what is measured at which sizes, and how much it may grow."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module

Figures = dict[str, float]


@dataclass(frozen=True)
class Curve:
    """`measure` is the name of a function of a module here. It gets a size, in a process of its own."""

    title: str
    unit: str  # of the sizes
    module: str
    sizes: tuple[int, ...]
    large: tuple[int, ...] = ()  # sizes that take long to prepare; measured if asked for
    measure: str = "measure"
    # How many times the figure at the first size it may be at most, and must be at least.
    limits: Mapping[str, float] = field(default_factory=dict[str, float])
    floors: Mapping[str, float] = field(default_factory=dict[str, float])

    def load(self) -> Callable[[int], Figures]:
        return getattr(import_module(f"bench.growth.{self.module}"), self.measure)


def by_files(title: str, measure: str, **limits: float) -> Curve:
    sizes = (1_000, 10_000, 100_000)
    return Curve(title, "files", "commands", sizes, large=(500_000,), measure=measure, limits=limits)


CURVES = {
    "commands": by_files("`true`, with the default rules", "measure", cpu_ms=1.3, system_calls=1.1),
    "printing": by_files(
        "a command that prints a line, with the default rules", "measure_printing", cpu_ms=1.3, system_calls=1.1
    ),
    "watched": by_files("`true`, with a rule that can match anywhere", "measure_watched", cpu_ms=1.3, system_calls=1.1),
    "first": by_files("the first command of a process", "measure_first", cpu_ms=1.3),
    "first-printing": by_files("the first command of a process that prints a line", "measure_first_printing"),
    "linked-read": by_files("a read of a file with a second name", "measure_linked_read", cpu_ms=1.3, system_calls=1.1),
    "linked-read-cold": by_files(
        "a toolbox's first read of a file with a second name", "measure_linked_read_cold", cpu_ms=1.3
    ),
    "linked-edit": by_files("an edit of a file with a second name", "measure_linked_edit", cpu_ms=1.3),
    "sessions": Curve(
        "a read, by sessions in one process",
        "sessions",
        "sessions",
        (8, 80, 1000),
        limits={"cpu_ms": 1.3, "p99_ms": 3, "sql_statements": 1},
    ),
    "undo": Curve(
        "an undo after a redo, and a command that changes a file",
        "earlier reads",
        "undo",
        (100, 1_000, 10_000),
        limits={"cpu_ms": 1.5, "command_cpu_ms": 1.5, "sql_statements": 1},
    ),
    "processes": Curve(
        "edits a second of processes on one state, and how fairly they take turns",
        "processes",
        "processes",
        (8, 32, 100),
        floors={"throughput": 0.8, "slowest_share": 0.5},
    ),
    "slots": Curve("an edit and a command at the bound of undo", "slots", "slots", (1_000, 20_000), large=(300_000,)),
    "edits": Curve(
        "an edit of one line", "MB", "edits", (1, 10, 60), limits={"cpu_ms_per_mb": 1.3, "memory_per_byte": 1.3}
    ),
}
