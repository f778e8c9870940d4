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
    limits: Mapping[str, float] = field(default_factory=dict[str, float])  # most times the figure at the first size

    def load(self) -> Callable[[int], Figures]:
        return getattr(import_module(f"bench.growth.{self.module}"), self.measure)


CURVES = {
    "edits": Curve(
        "an edit of one line", "MB", "edits", (1, 10, 60), limits={"cpu_ms_per_mb": 1.3, "memory_per_byte": 1.3}
    ),
}
