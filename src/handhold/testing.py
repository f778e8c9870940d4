"""What every dialect must do, as tests that its own test class inherits. For pytest; nothing of it is imported here.

    class TestMine(DialectSuite):
        dialect = dialect
        calls = (("read", {"path": "src/app.py"}), …)

`calls` are valid calls on the workspace `FILES`, at least one of each tool, in an order in which all of them succeed.
The value "{job}" stands for what the reply before it has as `job` in its data.
"""

from ast import Import, ImportFrom, Name, parse, walk
from collections.abc import Iterator, Mapping, Sequence
from json import dumps
from pathlib import Path
from sys import modules
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, get_origin, get_type_hints

from handhold.assembly import Toolbox
from handhold.core.errors import PathError, ToolError
from handhold.core.results import Reply
from handhold.dialects.family import Family
from handhold.dialects.plain import unworded

FILES: Mapping[str, str] = {
    "src/app.py": "def greet(name):\n    return 'Hello, ' + name\n\n\nprint(greet('world'))\n",
    "src/tests.py": "from app import greet\n\nassert greet('you') == 'Hello, you'\n",
    "README.md": "# Greetings\n\nSay hello.\n",
    "book.ipynb": dumps(
        {
            "cells": [{"cell_type": "markdown", "id": "first", "metadata": {}, "source": ["# Greetings"]}],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
}
BUDGET = 82_000  # characters: 20,000 tokens and a frame around them
INSTRUCTIONS = 2_000  # characters: they are sent with every turn
OUTSIDE = (
    *("handhold.world", "handhold.assembly", "handhold.toolbox", "handhold.cli"),
    *("asyncio", "io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile"),
)
_FACTS: Mapping[Any, Any] = {str: "x", int: 3, float: 2.5, bool: False}


class DialectSuite:
    """Inherited by the test class of a dialect."""

    dialect: ClassVar[Family]
    calls: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]]
    budget: ClassVar[int] = BUDGET
    long_read: ClassVar[tuple[str, Mapping[str, Any]] | None] = None  # a call that reads the file `long.txt`
    wide_search: ClassVar[tuple[str, Mapping[str, Any]] | None] = None  # one that finds all of `many/`

    # --- schemas

    def test_every_tool_has_a_schema_and_words_for_it(self):
        names = [spec.name for spec in self.dialect.specs]
        assert len(names) == len(set(names))
        for spec in self.dialect.specs:
            schema = spec.input_schema
            assert spec.description.strip()
            assert schema["type"] == "object"
            assert set(schema.get("required", ())) <= set(schema["properties"])
            assert set(spec.annotations) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}

    # --- calls

    def test_every_tool_is_reached_and_answers(self):
        called = {tool for tool, _ in self.calls}
        assert called == {spec.name for spec in self.dialect.specs}
        with _box(self.dialect) as box:
            for tool, arguments, reply in _played(box, self.calls):
                assert reply.status in ("success", "partial"), (tool, arguments, reply.text)
                assert reply.text.strip(), tool

    def test_numbers_and_lists_in_quotes_are_understood_and_said_to_have_been(self):
        with _box(self.dialect) as box:
            quoted = [(tool, {name: _quoted(value) for name, value in given.items()}) for tool, given in self.calls]
            for (_, meant), (tool, arguments, reply) in zip(self.calls, _played(box, quoted), strict=True):
                assert reply.status in ("success", "partial"), (tool, arguments, reply.text)
                assert arguments.keys() == meant.keys()
                if any(_quoted(value) != value for value in meant.values()):
                    assert reply.data["repaired"], (tool, arguments)

    def test_what_is_missing_is_named_with_what_is_wanted_and_a_call_that_would_be_taken(self):
        with _box(self.dialect) as box:
            for spec in self.dialect.specs:
                if required := spec.input_schema.get("required", ()):
                    reply = box.call(spec.name, {})
                    assert reply.code == "BAD_ARGUMENTS", (spec.name, reply.text)
                    assert reply.data["argument"] in required
                    assert self.dialect.decode(spec.name, reply.data["example"])

    def test_a_tool_that_is_not_there_is_refused_with_those_that_are(self):
        with _box(self.dialect) as box:
            reply = box.call("no_such_tool", {})
            assert reply.code == "UNKNOWN_TOOL"
            assert self.dialect.specs[0].name in reply.text

    # --- words

    def test_every_error_has_words(self):
        for kind in kinds():
            for tool in (*(spec.name for spec in self.dialect.specs), "undo"):
                for hints in (False, True):
                    text = self.dialect.refuse(tool, example(kind), hints=hints)
                    assert text.strip(), (kind, tool)
                    assert unworded(example(kind)) not in text, (kind, tool)

    def test_c102_instructions_name_every_tool_and_are_short(self):
        text = self.dialect.instructions
        assert all(spec.name in text for spec in self.dialect.specs)
        assert len(text) <= INSTRUCTIONS

    # --- budgets

    def test_nothing_is_over_budget(self):
        with _box(self.dialect) as box:
            for call in (self.long_read, self.wide_search):
                if call is not None:
                    reply = box.call(*call)
                    assert reply.code is None or reply.blame == "model", reply.text
                    assert len(reply.text) <= self.budget, (call, len(reply.text))

    def test_a_refusal_is_short_whatever_was_sent(self):
        with _box(self.dialect) as box:
            for tool, arguments in self.calls:
                for name in arguments:
                    reply = box.call(tool, {**arguments, name: "x" * 200_000})
                    assert len(reply.text) <= self.budget, (tool, name)

    # --- words only

    def test_it_does_nothing_itself(self):
        folder = Path(str(modules[type(self.dialect).__module__].__file__)).parent
        for file in sorted(folder.glob("*.py")):
            for name in imported(file.read_text("utf-8")):
                assert not any(name == each or name.startswith(f"{each}.") for each in OUTSIDE), (file.name, name)
            assert "open" not in names(file.read_text("utf-8")), file.name


def imported(source: str) -> Iterator[str]:
    """The modules that a source imports."""
    for node in walk(parse(source)):
        if isinstance(node, Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ImportFrom) and node.module:
            yield node.module


def names(source: str) -> set[str]:
    """The bare names that a source uses."""
    return {node.id for node in walk(parse(source)) if isinstance(node, Name)}


def kinds(base: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """Every kind of error that there is."""
    for kind in base.__subclasses__():
        if kind is not PathError:
            yield kind
        yield from kinds(kind)


def example(kind: type[ToolError]) -> ToolError:
    """One of this kind, with facts in it."""
    hints = get_type_hints(kind)
    return kind(**{name: () if get_origin(hints[name]) is tuple else _FACTS.get(hints[name]) for name in kind.fields})


class _box:  # noqa: N801 - it reads as a verb: with _box(dialect) as box
    """A toolbox of a dialect on a workspace of its own, on the disk, where commands can be run."""

    def __init__(self, dialect: Family) -> None:
        self.dialect = dialect
        self.folder = TemporaryDirectory(prefix="dialect-")

    def __enter__(self) -> Toolbox:
        place = Path(self.folder.name)
        for name, text in FILES.items():
            (place / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "ws" / name).write_text(text)
        (place / "ws/long.txt").write_text("".join(f"{n} {'word ' * (n % 900)}\n" for n in range(5000)))
        (place / "ws/many").mkdir()
        for n in range(1500):
            (place / f"ws/many/{'long-name-' * 8}{n}.txt").write_text("needle\n")
        self.box = Toolbox.open(place / "ws", state=place / "state", dialect=self.dialect)
        return self.box

    def __exit__(self, *_: object) -> None:
        self.box.close()
        self.folder.cleanup()


def _played(
    box: Toolbox, calls: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[tuple[str, Mapping[str, Any], Reply]]:
    """Each call with its reply."""
    job = ""
    for tool, arguments in calls:
        given = {name: job if value == "{job}" else value for name, value in arguments.items()}
        reply = box.call(tool, given)
        job = reply.data.get("job", job)
        yield tool, given, reply


def _quoted(value: Any) -> Any:
    """A value as a careless model sends it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return dumps(value) if isinstance(value, list) else value


__all__ = ["BUDGET", "FILES", "DialectSuite", "example", "imported", "kinds"]
