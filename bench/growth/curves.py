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
    limits: Mapping[str, float] = field(
        default_factory=dict[str, float]
    )  # at most so many times that at the first size
    floors: Mapping[str, float] = field(default_factory=dict[str, float])  # at least

    def load(self) -> Callable[[int], Figures]:
        return getattr(import_module(f"bench.growth.{self.module}"), self.measure)


CURVES = {
    "commands": Curve(
        "`true`, with the default rules",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure",
        limits={"cpu_ms": 1.3, "system_calls": 1.1},
    ),
    "printing": Curve(
        "a command that prints a line, with the default rules",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure_printing",
        limits={"cpu_ms": 1.3, "system_calls": 1.1},
    ),
    "watched": Curve(
        "`true`, with a rule that can match anywhere",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure_watched",
        limits={"cpu_ms": 1.3, "system_calls": 1.1},
    ),
    "first": Curve(
        "the first command of a process",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure_first",
        limits={"cpu_ms": 1.3},
    ),
    "linked-read": Curve(
        "a read of a file with a second name",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure_linked_read",
        limits={"cpu_ms": 1.3, "system_calls": 1.1},
    ),
    "linked-edit": Curve(
        "an edit of a file with a second name",
        "files",
        "commands",
        (1_000, 10_000, 100_000),
        large=(500_000,),
        measure="measure_linked_edit",
        limits={"cpu_ms": 1.3},
    ),
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
