import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BadArguments, ToolError, UnknownTool
from handhold.core.requests import Edit, MultiEdit, Read, Replacement, Write
from handhold.dialects.anthropic import dialect as anthropic
from handhold.dialects.argument_examples import build_examples
from handhold.dialects.arguments import SYNONYMS, fit, parse_lenient_json
from handhold.dialects.claude import LIMITS, dialect
from handhold.dialects.codex import dialect as codex
from handhold.dialects.handhold import dialect as own

SCHEMA = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "every": {"type": "boolean", "default": False},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        "box": {"type": "object", "properties": {"size": {"type": "integer"}}, "additionalProperties": False},
        "mode": {"type": "string", "enum": ["content", "count"]},
    },
    "required": ["file_path"],
    "additionalProperties": False,
}


def fitted(**arguments):
    return fit("Tool", {"file_path": "a", **arguments}, SCHEMA)


def refused(arguments) -> BadArguments:
    with pytest.raises(BadArguments) as caught:
        fit("Tool", arguments, SCHEMA)
    return caught.value


def test_arguments_that_fit_stay_as_they_are():
    sent = {"count": 5, "ratio": 2.5, "every": True, "tags": ["x"], "box": {"size": 1}, "mode": "count"}
    result = fitted(**sent)
    assert result.values == {"file_path": "a", **sent}
    assert result.repairs == ()


def test_defaults_are_filled_in():
    assert fitted().values == {"file_path": "a", "every": False}


@pytest.mark.parametrize(
    ("name", "sent", "meant"),
    [
        ("count", "5", 5),
        ("count", " 5 ", 5),
        ("count", 5.0, 5),
        ("count", "5.0", 5),
        ("count", "-3", -3),
        ("ratio", "2.5", 2.5),
        ("ratio", "5", 5),
        ("every", "true", True),
        ("every", "False", False),
        ("tags", '["x", "y"]', ["x", "y"]),
        ("tags", '["x", "y",]', ["x", "y"]),
        ("box", '{"size": "3",}', {"size": 3}),
        ("box", {"size": "3"}, {"size": 3}),
    ],
)
def test_a_near_miss_is_mended_and_told(name, sent, meant):
    result = fitted(**{name: sent})
    assert result.values[name] == meant
    assert type(result.values[name]) is type(meant)
    assert result.repairs


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("count", "five"),
        ("count", 2.5),
        ("count", True),
        ("count", float("nan")),
        ("count", float("inf")),
        ("count", "9" * 5000),
        ("count", []),
        ("ratio", False),
        ("every", "yes"),
        ("every", 1),
        ("tags", "x"),
        ("tags", [1]),
        ("tags", []),
        ("tags", "[" * 100_000),
        ("tags", '{"a": 1}'),
        ("box", "[1]"),
        ("box", {"size": 1, "colour": 2}),
        ("mode", "other"),
        ("file_path", 5),
        ("file_path", {"a": 1}),
    ],
)
def test_what_could_mean_two_things_is_refused(name, sent):
    error = refused({"file_path": "a", name: sent})
    assert error.argument.startswith(name)
    assert error.tool == "Tool"
    assert len(error.got) < 200


def test_a_missing_argument_says_what_was_wanted():
    error = refused({})
    assert (error.argument, error.got, error.wanted) == ("file_path", "missing", "a string")


def test_null_for_an_optional_argument_is_no_argument():
    assert "count" not in fitted(count=None).values
    assert refused({"file_path": None}).got == "null"


def test_an_unknown_argument_is_refused_with_the_known_ones():
    error = refused({"file_path": "a", "colour": 1})
    assert error.argument == "colour"
    assert "file_path, count" in error.wanted


def test_an_unknown_argument_passes_where_the_schema_lets_it():
    assert fit("Tool", {"x": 1}, {"type": "object", "properties": {}}).values == {"x": 1}


@pytest.mark.parametrize("spelling", ["path", "filePath", "FilePath", "file-path", "file", "filename"])
def test_names_of_other_families_are_known(spelling):
    result = fit("Tool", {spelling: "a"}, SCHEMA)
    assert result.values["file_path"] == "a"
    assert result.repairs == (f"{spelling} was taken as file_path",)


def test_an_alias_beside_the_name_itself_is_refused():
    assert refused({"file_path": "a", "path": "b"}).argument == "path"


def test_no_name_has_two_meanings():
    names = [name for group in SYNONYMS for name in group]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("arguments", ["nonsense", None, [1], 5, [{"file_path": "a"}]])
def test_arguments_that_are_no_object_are_refused(arguments):
    assert refused(arguments).argument == "arguments"


def test_arguments_sent_as_json_are_read():
    assert fit("Tool", '{"file_path": "a",}', SCHEMA).values["file_path"] == "a"


def test_an_unknown_tool_names_the_known_ones():
    with pytest.raises(UnknownTool) as caught:
        dialect.decode("Reed", {})
    assert caught.value.known == tuple(spec.name for spec in dialect.specs)


def test_a_comma_inside_a_string_is_not_a_trailing_comma():
    assert parse_lenient_json('{"a": "x,]", "b": [1, 2,],}') == {"a": "x,]", "b": [1, 2]}
    assert parse_lenient_json('["a\nb",]') == ["a\nb"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_lenient_json_reads_strict_json_the_same(value):
    assert parse_lenient_json(json.dumps(value)) == value


@given(JSON)
def test_any_arguments_are_fitted_or_refused(value):
    for tool in ("Read", "MultiEdit"):
        for sent in (value, {"file_path": "a", "edits": value, "offset": value}):
            with contextlib.suppress(BadArguments):
                dialect.decode(tool, sent)


# --- examples


def test_an_example_keeps_what_was_right_and_mends_what_was_not():
    with pytest.raises(BadArguments) as caught:
        own.decode("grep", {"pattern": "total", "glob": "*.py", "mode": "lines"})
    assert json.loads(caught.value.example) == {"pattern": "total", "glob": "*.py", "mode": "files_with_matches"}


def test_an_example_holds_nothing_long():
    with pytest.raises(BadArguments) as caught:
        own.decode("write_file", {"content": "x" * 100_000})
    assert json.loads(caught.value.example) == {"path": "src/app.py", "content": "text"}


def test_an_example_of_the_schema_goes_before_a_made_up_one():
    schema = {"properties": {"diff": {"type": "string", "examples": ["+x"]}}, "required": ["diff"]}
    assert next(build_examples({}, "diff", schema)) == {"diff": "+x"}


def names_and_values(dialect):
    names = sorted({name for spec in dialect.specs for name in spec.input_schema["properties"]})
    return st.dictionaries(st.sampled_from(names), JSON | st.floats(), max_size=6)


@pytest.mark.parametrize("speaker", [dialect, own, codex, anthropic], ids=lambda speaker: speaker.name)
@given(data=st.data())
def test_whatever_is_refused_is_refused_with_a_call_that_is_taken(speaker, data):
    tool = data.draw(st.sampled_from([spec.name for spec in speaker.specs]))
    try:
        speaker.decode(tool, data.draw(names_and_values(speaker)))
    except ToolError as error:
        if isinstance(error, BadArguments):  # else the call was understood, and something else is wrong with it
            speaker.decode(tool, json.loads(error.example, parse_constant=pytest.fail))


# --- the requests that come of it


def test_each_tool_becomes_its_request():
    edit = {"old_string": "a", "new_string": "b"}
    assert dialect.decode("Read", {"file_path": "/a"}) == Read("/a", LIMITS)
    assert dialect.decode("Read", {"file_path": "/a", "offset": 3, "limit": 4}) == Read("/a", LIMITS, 3, 4)
    assert dialect.decode("Write", {"file_path": "/a", "content": "x"}) == Write("/a", "x")
    assert dialect.decode("Edit", {"file_path": "/a", **edit}) == Edit("/a", Replacement("a", "b"))
    many = dialect.decode("MultiEdit", {"file_path": "/a", "edits": [edit, {**edit, "replace_all": True}]})
    assert many == MultiEdit("/a", (Replacement("a", "b"), Replacement("a", "b", every=True)))
    assert own.decode("edit_file", {"path": "a", **edit}) == Edit("a", Replacement("a", "b"))
    assert own.decode("multi_edit", {"path": "a", "edits": [edit]}) == MultiEdit("a", (Replacement("a", "b"),))
    assert own.decode("write_file", {"path": "a", "content": "x"}) == Write("a", "x")
    assert isinstance(own.decode("read_file", {"path": "a"}), Read)


def test_names_inside_an_array_are_mended_too():
    sent = {"path": "/a", "edits": '[{"old_str": "a", "new_str": "b", "replaceAll": "true"},]'}
    assert dialect.decode("MultiEdit", sent) == MultiEdit("/a", (Replacement("a", "b", every=True),))
    assert "edits[0].old_str was taken as old_string" in dialect.decode_and_repair("MultiEdit", sent)[1]


def test_a_single_edit_without_its_array_is_one_edit():
    sent = {"file_path": "/a", "edits": {"old_string": "a", "new_string": "b"}}
    assert dialect.decode("MultiEdit", sent) == MultiEdit("/a", (Replacement("a", "b"),))


@pytest.mark.parametrize("offset", [0, "0", 0.0, 1, "1", 1.0])
def test_zero_is_the_first_line_too(offset):
    assert dialect.decode("Read", {"file_path": "/a", "offset": offset}) == Read("/a", LIMITS, 1)


@pytest.mark.parametrize(
    "sent", [{"offset": -1}, {"limit": 0}, {"limit": -5}, {"offset": 1.5}, {"limit": float("inf")}]
)
def test_lines_are_counted_in_whole_numbers(sent):
    for which, path in ((dialect, {"file_path": "/a"}), (own, {"path": "a"})):
        with pytest.raises(BadArguments) as caught:
            which.decode(which.specs[0].name, {**path, **sent})
        assert caught.value.argument == next(iter(sent))
