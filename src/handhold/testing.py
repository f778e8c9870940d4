"""Tests that every dialect must pass, as a base class. They run under pytest, but this module does not import it.

    class TestMine(DialectSuite):
        dialect = dialect
        calls = (("read", {"path": "src/app.py"}), …)

`calls` are valid calls on the workspace `FILES`, at least one of each tool, in an order in which all of them succeed.
The value "{job}" is replaced by `job` in the data of the previous reply.
"""

from ast import Import, ImportFrom, Name, parse, walk
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from json import dumps
from pathlib import Path
from sys import modules
from tempfile import TemporaryDirectory
from types import UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from handhold.core import requests, results
from handhold.core.errors import NotFound, PathError, ToolError
from handhold.core.ports.dialect import DialectOptions
from handhold.core.results import Reply
from handhold.dialects.base import BaseDialect
from handhold.dialects.error_messages import format_unknown_error
from handhold.toolbox import Toolbox

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
_CELL: Mapping[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": ["word " * 60]}
UNUSUAL_FILES: Mapping[str, bytes] = {
    "picture.png": b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    ),
    "broken.png": b"\x89PNG\r\n\x1a\n\0",
    "paper.pdf": b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n"
    b"2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>endobj\ntrailer<</Root 1 0 R>>\n",
    "odd.txt": (b'"\\\x01' * 500 + b"\n") * 150,
    "large.ipynb": dumps({"cells": [_CELL] * 1000, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}).encode(),
}
"""Files other than plain text: images, a PDF, text that grows in JSON, a notebook of a thousand cells."""

RESULT_TYPES: Mapping[Any, tuple[Any, ...]] = {
    requests.Read: (results.TextResult, results.ImageResult, results.PdfResult, results.NotebookResult),
    requests.ReadMany: (results.ReadManyResult,),
    requests.Write: (results.WriteResult,),
    requests.Edit: (results.EditResult,),
    requests.MultiEdit: (results.EditResult,),
    requests.Insert: (results.EditResult,),
    requests.NotebookEdit: (results.NotebookEditResult,),
    requests.Patch: (results.PatchResult,),
    requests.ListFiles: (results.ListResult,),
    requests.Glob: (results.GlobResult,),
    requests.Grep: (results.GrepResult,),
    requests.Run: (results.RunResult,),
    requests.JobOutput: (results.JobResult,),
    requests.JobInput: (results.JobResult,),
    requests.JobStop: (results.JobResult,),
    requests.RestartShell: (results.RestartResult,),
}
"""The result types that each request can have."""

ANNOTATIONS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
MAX_REPLY_CHARS = 82_000  # characters: 20,000 tokens and some overhead
MAX_INSTRUCTIONS_CHARS = 2_000  # characters: they are sent with every turn
FORBIDDEN_IMPORTS = (
    *("handhold.backends", "handhold.factory", "handhold.toolbox", "handhold.cli"),
    *("asyncio", "io", "os", "pathlib", "shutil", "socket", "subprocess", "tempfile"),
)
_SAMPLE_VALUES: Mapping[Any, tuple[Any, Any]] = {
    str: ("", "x"),
    int: (0, 3),
    float: (0.0, 2.5),
    bool: (False, True),
    bytes: (b"", b"x"),
}
_SAMPLE_VALUES_BY_FIELD: Mapping[str, tuple[str, str]] = {  # fields that take one of a few texts
    "claimed_medium": ("", "png"),
    "encoding_source": ("content", "mark"),
}
VARIANTS = range(8)  # at least the number of alternatives of any field


class DialectSuite:
    """Base class for the tests of a dialect."""

    dialect: ClassVar[BaseDialect]
    calls: ClassVar[Sequence[tuple[str, Mapping[str, Any]]]]
    budget: ClassVar[int] = MAX_REPLY_CHARS
    long_read: ClassVar[tuple[str, Mapping[str, Any]] | None] = None  # a call that reads the file `long.txt`
    wide_search: ClassVar[tuple[str, Mapping[str, Any]] | None] = None  # a call that finds all of `many/`

    # --- schemas

    def test_every_tool_has_a_schema_and_words_for_it(self):
        names = [spec.name for spec in self.dialect.specs]
        assert len(names) == len(set(names)), f"two tools have the same name: {sorted(names)}"
        for spec in self.dialect.specs:
            schema = spec.input_schema
            assert spec.description.strip(), f"{spec.name}: the description is empty"
            assert schema["type"] == "object", f"{spec.name}: the input schema must be of type object"
            unknown = set(schema.get("required", ())) - set(schema["properties"])
            assert not unknown, f"{spec.name}: required but not in properties: {sorted(unknown)}"
            assert set(spec.annotations) == ANNOTATIONS, f"{spec.name}: annotations must be {sorted(ANNOTATIONS)}"

    # --- calls

    def test_every_tool_is_reached_and_answers(self):
        called = {tool for tool, _ in self.calls}
        missing = {spec.name for spec in self.dialect.specs} ^ called
        assert not missing, f"each tool needs a call in `calls`, and no other: {sorted(missing)}"
        with _TemporaryToolbox(self.dialect) as box:
            for tool, arguments, reply in _run_calls(box, self.calls):
                assert reply.status in ("success", "partial"), f"{tool} {arguments} failed: {reply.text}"
                assert reply.text.strip(), f"{tool} {arguments}: the reply is empty"

    def test_numbers_and_lists_in_quotes_are_understood_and_said_to_have_been(self):
        with _TemporaryToolbox(self.dialect) as box:
            quoted = [
                (tool, {name: _quote_value(value) for name, value in given.items()}) for tool, given in self.calls
            ]
            for (_, meant), (tool, arguments, reply) in zip(self.calls, _run_calls(box, quoted), strict=True):
                assert reply.status in ("success", "partial"), f"{tool} {arguments} failed: {reply.text}"
                assert arguments.keys() == meant.keys(), f"{tool}: the call changed its own arguments"
                if any(_quote_value(value) != value for value in meant.values()):
                    assert reply.data["repaired"], f"{tool} {arguments}: the reply does not report the repair"

    def test_what_is_missing_is_named_with_what_is_wanted_and_a_call_that_would_be_taken(self):
        with _TemporaryToolbox(self.dialect) as box:
            for spec in self.dialect.specs:
                if required := spec.input_schema.get("required", ()):
                    reply = box.call(spec.name, {})
                    assert reply.code == "BAD_ARGUMENTS", f"{spec.name} without arguments: {reply.code}, {reply.text}"
                    named, example = reply.data["argument"], reply.data["example"]
                    assert named in required, f"{spec.name} without arguments: the reply names {named}"
                    decoded = self.dialect.decode(spec.name, example)
                    assert decoded, f"{spec.name}: the example is not accepted: {example}"

    def test_a_tool_that_is_not_there_is_refused_with_those_that_are(self):
        with _TemporaryToolbox(self.dialect) as box:
            reply = box.call("no_such_tool", {})
            assert reply.code == "UNKNOWN_TOOL", f"an unknown tool: {reply.code}, {reply.text}"
            assert self.dialect.specs[0].name in reply.text, f"the refusal does not list the tools: {reply.text}"

    # --- words

    def test_every_error_has_words(self):
        for error in (make_error(kind, turn) for kind in iter_error_types() for turn in (1, 2)):
            for tool in (*(spec.name for spec in self.dialect.specs), "undo"):
                for hints in (False, True):
                    text = self.dialect.refuse(tool, error, hints=hints)
                    assert text.strip(), f"{tool}: no words for {error!r}"
                    assert format_unknown_error(error) not in text, f"{tool}: no words of its own for {error!r}"

    def test_every_result_has_words(self):
        for tool, arguments in self.calls:
            request = self.dialect.decode(tool, arguments)
            for kind in iter_result_types(request, self.dialect.options):
                for result in (make_value(kind, turn) for turn in VARIANTS):
                    for hints in (False, True):
                        text = self.dialect.encode(tool, request, result, hints=hints)
                        # Some dialects show an empty file as an empty reply.
                        assert text.strip() or kind is results.TextResult, f"{tool}: no words for {result!r}"
                        assert len(text) <= self.budget, f"{tool}: {len(text)} characters for {result!r}"

    def test_whatever_can_be_read_is_shown_or_refused_in_words_and_within_the_budget(self):
        codes = {"broken.png": "BROKEN_FILE", "odd.txt": "PAGE_TOO_LONG", "nothing": "NOT_FOUND"}
        codes |= dict.fromkeys(("src", "many"), "IS_DIRECTORY")
        with _TemporaryToolbox(self.dialect, crowded=True) as box:
            for tool, arguments, name in self._iter_read_calls():
                for path in {*UNUSUAL_FILES, "book.ipynb", *codes}:
                    alone = not isinstance(arguments[name], list)
                    reply = box.call(tool, {**arguments, name: path if alone else ["README.md", path]})
                    assert reply.code in (None, "EXTRA_MISSING", codes.get(path)), f"{tool} {path}: {reply.text}"
                    assert reply.text.strip(), f"{tool} {path}: the reply is empty"
                    assert len(reply.text) <= self.budget, f"{tool} {path}: {len(reply.text)} characters"
                    shown = path != "picture.png" or reply.code or reply.images or not alone
                    assert shown, f"{tool} {path}: the reply has no image: {reply.text}"

    def _iter_read_calls(self) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        """Calls that read, and the name of their path argument."""
        for tool, arguments in self.calls:
            match self.dialect.decode(tool, arguments):
                case requests.Read(path=path):
                    yield tool, arguments, next(name for name, value in arguments.items() if value == path)
                case requests.ReadMany():
                    yield tool, arguments, next(name for name, value in arguments.items() if isinstance(value, list))
                case _:
                    continue

    def test_c102_instructions_name_every_tool_and_are_short(self):
        text = self.dialect.instructions
        unnamed = [spec.name for spec in self.dialect.specs if spec.name not in text]
        assert not unnamed, f"the instructions do not name {unnamed}"
        assert len(text) <= MAX_INSTRUCTIONS_CHARS, f"the instructions have {len(text)} characters"

    # --- budgets

    def test_nothing_is_over_budget(self):
        with _TemporaryToolbox(self.dialect, crowded=True) as box:
            for call in (self.long_read, self.wide_search):
                if call is not None:
                    reply = box.call(*call)
                    assert reply.code is None or reply.error_source == "model", f"{call} failed: {reply.text}"
                    assert len(reply.text) <= self.budget, f"{call}: {len(reply.text)} characters"

    def test_a_refusal_is_short_whatever_was_sent(self):
        with _TemporaryToolbox(self.dialect) as box:
            for tool, arguments in self.calls:
                for name in arguments:
                    reply = box.call(tool, {**arguments, name: "x" * 200_000})
                    assert len(reply.text) <= self.budget, f"{tool}, a long {name}: {len(reply.text)} characters"

    # --- text only

    def test_it_does_nothing_itself(self):
        folder = Path(str(modules[type(self.dialect).__module__].__file__)).parent
        for file in sorted(folder.glob("*.py")):
            for name in find_imports(file.read_text("utf-8")):
                forbidden = any(name == each or name.startswith(f"{each}.") for each in FORBIDDEN_IMPORTS)
                assert not forbidden, f"{file.name} imports {name}: a dialect only words replies"
            names = find_names(file.read_text("utf-8"))
            assert "open" not in names, f"{file.name} uses open(): a dialect only words replies"


def find_imports(source: str) -> Iterator[str]:
    """The modules that a source file imports."""
    for node in walk(parse(source)):
        if isinstance(node, Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ImportFrom) and node.module:
            yield node.module


def find_names(source: str) -> set[str]:
    """The bare names that a source file uses."""
    return {node.id for node in walk(parse(source)) if isinstance(node, Name)}


def iter_error_types(base: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    """Every error type."""
    for kind in base.__subclasses__():
        if kind is not PathError:
            yield kind
        yield from iter_error_types(kind)


def make_error(kind: type[ToolError], variant: int = 1) -> ToolError:
    """An error of this type with sample facts."""
    hints = get_type_hints(kind)
    return kind(**{each.name: make_value(hints[each.name], variant, each.name) for each in fields(kind)})


def iter_result_types(request: requests.Request, options: DialectOptions) -> Iterator[Any]:
    """The result types that a request can have."""
    yield from RESULT_TYPES[type(request)]
    match request:
        case requests.Read(if_changed=if_changed):
            yield from [results.ListResult] * options.lists_folders
            yield from [results.UnchangedResult] * if_changed
        case requests.Run(background=True):
            yield results.JobResult
        case _:
            return


def make_value(hint: Any, variant: int, name: str = "") -> Any:
    """A value of a type: as empty as possible for variant 0, then filled, with each alternative in turn."""
    kind, args = get_origin(hint), get_args(hint)
    if kind is Literal:
        return args[variant % len(args)]
    if kind in (Union, UnionType):
        return make_value(args[variant % len(args)], variant, name)
    if kind is tuple and args[-1] is Ellipsis:
        never_empty = name in ("steps", "files")
        return (make_value(args[0], variant),) * 2 if variant or never_empty else ()
    if kind is tuple:
        return tuple(make_value(each, variant) for each in args)
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return {make_value(args[0], variant): make_value(args[1], variant)} if variant else {}
    if hint in _SAMPLE_VALUES:
        return _SAMPLE_VALUES_BY_FIELD.get(name, _SAMPLE_VALUES[hint])[bool(variant)]
    if issubclass(hint, ToolError):
        return make_error(NotFound, variant)
    if hint is type(None):
        return None
    return hint(**{each: make_value(of, variant, each) for each, of in _get_field_types(hint).items()})


def _get_field_types(kind: Any) -> dict[str, Any]:
    known = getattr(kind, "__dataclass_fields__", None) or kind._fields
    return {name: hint for name, hint in get_type_hints(kind).items() if name in known}


class _TemporaryToolbox:
    """A toolbox for a dialect on its own on-disk workspace, where commands can run."""

    def __init__(self, dialect: BaseDialect, *, crowded: bool = False) -> None:
        self.dialect = dialect
        self.crowded = crowded
        self.folder = TemporaryDirectory(prefix="dialect-")

    def __enter__(self) -> Toolbox:
        place = Path(self.folder.name)
        for name, text in FILES.items():
            (place / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
            (place / "ws" / name).write_text(text)
        for name, data in UNUSUAL_FILES.items():
            (place / "ws" / name).write_bytes(data)
        if self.crowded:  # about a megabyte, with some very long lines
            lines = (f"{n} {'word ' * (n % 60 or 900)}\n" for n in range(5000))
            (place / "ws/long.txt").write_text("".join(lines))
        (place / "ws/many").mkdir()
        for n in range(1500 if self.crowded else 1):
            (place / f"ws/many/{'long-name-' * 8}{n}.txt").write_text("needle\n")
        self.box = Toolbox.open(place / "ws", state=place / "state", dialect=self.dialect)
        return self.box

    def __exit__(self, *_: object) -> None:
        self.box.close()
        self.folder.cleanup()


def _run_calls(
    box: Toolbox, calls: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[tuple[str, Mapping[str, Any], Reply]]:
    """Each call with its reply."""
    job = ""
    for tool, arguments in calls:
        given = {name: job if value == "{job}" else value for name, value in arguments.items()}
        reply = box.call(tool, given)
        job = reply.data.get("job", job)
        yield tool, given, reply


def _quote_value(value: Any) -> Any:
    """A value as a careless model might send it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return dumps(value) if isinstance(value, list) else value


__all__ = [
    "MAX_REPLY_CHARS",
    "FILES",
    "UNUSUAL_FILES",
    "DialectSuite",
    "make_error",
    "find_imports",
    "iter_error_types",
]
