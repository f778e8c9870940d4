"""One thing that `install` enters into a file: a member of an object, an item of an array, or the whole file.

Each can be entered and removed, as text edits that leave the rest of the file as it is, and can be kept as JSON in the
record of an installation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar

from handhold.core.text import jsonc, toml_table
from handhold.core.text.jsonc import TextEdit, apply_text_edits


@dataclass(frozen=True)
class Member:
    """A member of an object, or a table or value of a TOML file."""

    kind: ClassVar[str] = "member"
    path: tuple[str, ...]
    value: Any
    is_toml: bool = False

    def put(self, text: str) -> list[TextEdit]:
        return (toml_table if self.is_toml else jsonc).put(text, self.path, self.value)

    def remove(self, text: str) -> list[TextEdit]:
        return (toml_table if self.is_toml else jsonc).remove(text, self.path)

    @property
    def containers(self) -> list["Container"]:
        return [] if self.is_toml else [Container(path) for path in _list_prefixes(self.path[:-1])]


@dataclass(frozen=True)
class Item:
    """An item of an array in a JSON file."""

    kind: ClassVar[str] = "item"
    path: tuple[str, ...]
    value: Any

    def put(self, text: str) -> list[TextEdit]:
        return jsonc.append(text, self.path, self.value)

    def remove(self, text: str) -> list[TextEdit]:
        return jsonc.remove_item(text, self.path, self.value)

    @property
    def containers(self) -> list["Container"]:
        return [Container(path) for path in _list_prefixes(self.path)]


@dataclass(frozen=True)
class Container:
    """An object or array that was created for something in it; it goes when it is empty."""

    kind: ClassVar[str] = "container"
    path: tuple[str, ...]

    def is_missing(self, text: str) -> bool:
        return jsonc.get_member(text, self.path) is None

    def remove(self, text: str) -> list[TextEdit]:
        return jsonc.remove(text, self.path) if jsonc.get_member(text, self.path) in ({}, []) else []


@dataclass(frozen=True)
class WholeFile:
    """A file that only Handhold writes. Its first line says so."""

    kind: ClassVar[str] = "file"
    path: tuple[str, ...]  # empty
    value: str

    @property
    def head(self) -> str:
        return self.value.partition("\n")[0]

    def put(self, text: str) -> list[TextEdit]:
        if text and not text.startswith(self.head):
            raise ValueError("it was not written by Handhold")
        return [TextEdit(0, text, self.value)] if text != self.value else []

    def remove(self, text: str) -> list[TextEdit]:
        return [TextEdit(0, text, "")] if text.startswith(self.head) else []

    @property
    def containers(self) -> list[Container]:
        return []


Step = Member | Item | WholeFile


def apply_steps(text: str, steps: Iterable[Step]) -> tuple[str, list[list[TextEdit]], list[Step | Container]]:
    """The text after these steps, the edits of each, and what was really entered, in order."""
    layers: list[list[TextEdit]] = []
    entered: list[Step | Container] = []
    for step in steps:
        missing = [each for each in step.containers if each.is_missing(text)]
        if edits := step.put(text):
            entered += [*missing, step]
            layers.append(edits)
            text = apply_text_edits(text, edits)
    return text, layers, entered


def remove_steps(text: str, steps: Sequence[Step | Container]) -> str:
    """The text without what was entered."""
    for step in reversed(steps):
        text = apply_text_edits(text, step.remove(text))
    return text


def encode_step(step: Step | Container) -> list[Any]:
    return [step.kind, list(step.path), getattr(step, "value", None), getattr(step, "is_toml", False)]


def decode_step(given: Sequence[Any]) -> Step | Container:
    kind, path, value, is_toml = given[0], tuple(given[1]), given[2], given[3]
    if kind == Member.kind:
        return Member(path, value, is_toml)
    if kind == Container.kind:
        return Container(path)
    return Item(path, value) if kind == Item.kind else WholeFile(path, value)


def _list_prefixes(path: tuple[str, ...]) -> Iterable[tuple[str, ...]]:
    return list(accumulate(((name,) for name in path), lambda a, b: a + b))
