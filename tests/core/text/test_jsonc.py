"""What another program wrote is edited as text: one member, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handhold.core.text import jsonc, toml_table
from handhold.core.text.json_spans import BadJson
from handhold.core.text.jsonc import (
    TextEdit,
    apply_text_edits,
    parse_jsonc,
    put,
    remove,
    revert_text_edits,
    to_plain_json,
)

PATH = ("servers", "ours")
OURS = {"command": "handhold", "args": ["mcp", "--root", 'ä "b"']}

scalars = st.none() | st.booleans() | st.integers(-999, 999) | st.text(alphabet='ab"/*,{}\\ é\n', max_size=6)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
blanks = st.sampled_from(["", " ", "\n", "\r\n  ", "\t", "// c, }\n", "/* { , */", ' // " \n\t'])


@st.composite
def written(draw: st.DrawFn, value: Any) -> str:
    """A value as somebody may have written it, with comments and loose commas."""

    def gap() -> str:
        return draw(blanks)

    if isinstance(value, dict):
        members = [
            f"{gap()}{json.dumps(name)}{gap()}:{gap()}{draw(written(each))}{gap()}" for name, each in value.items()
        ]
        loose = draw(st.sampled_from(["", ","])) if members else ""
        return "{" + ",".join(members) + loose + gap() + "}"
    if isinstance(value, list):
        return "[" + ",".join(gap() + draw(written(each)) + gap() for each in value) + gap() + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


@st.composite
def settings(draw: st.DrawFn) -> str:
    outer = draw(st.dictionaries(st.text(alphabet="abc", min_size=1, max_size=3), values, max_size=3))
    if draw(st.booleans()):
        outer["servers"] = draw(st.dictionaries(st.sampled_from(["ours", "x", "y/*"]), values, max_size=3))
    text = draw(blanks) + draw(written(outer)) + draw(blanks)
    return draw(st.sampled_from(["", "\ufeff"])) + text


@given(settings())
def test_what_is_put_in_is_there_and_everything_else_stays(text: str):
    before = parse_jsonc(text)
    after = parse_jsonc(apply_text_edits(text, put(text, PATH, OURS)))
    assert after["servers"].pop("ours") == OURS
    before.setdefault("servers", {}).pop("ours", None)
    assert after == before


@given(settings())
def test_putting_in_is_always_taken_back_byte_for_byte(text: str):
    cuts = put(text, PATH, OURS)
    assert revert_text_edits(apply_text_edits(text, cuts), cuts) == text


@given(settings())
@example('{"a":null,"b":[null],"servers":{// c, }\n"ours":null}}')
def test_what_is_taken_out_takes_nothing_along(text: str):
    put_in = apply_text_edits(text, put(text, PATH, OURS))
    wanted = parse_jsonc(put_in)
    del wanted["servers"]["ours"]
    left = apply_text_edits(put_in, remove(put_in, PATH))
    assert parse_jsonc(left) == wanted
    assert remove(left, PATH) == []
    if "ours" not in parse_jsonc(text).get("servers", {}):  # one that stands in it goes with it
        assert put_in.count("// c, }") == left.count("// c, }")


@given(settings())
def test_putting_in_twice_changes_nothing_more(text: str):
    once = apply_text_edits(text, put(text, PATH, OURS))
    assert put(once, PATH, OURS) == []


@given(st.text(alphabet='{}[]",:/*\\ab1 \n', max_size=30))
def test_whatever_a_file_holds_it_is_edited_rightly_or_not_at_all(text: str):
    try:
        cuts = put(text, PATH, OURS)
    except BadJson:
        return
    assert parse_jsonc(apply_text_edits(text, cuts))["servers"]["ours"] == OURS
    assert revert_text_edits(apply_text_edits(text, cuts), cuts) == text


@given(settings())
def test_blanks_for_comments_keep_every_place(text: str):
    plain = to_plain_json(text)
    assert len(plain) == len(text)
    assert plain.count("\n") == text.count("\n")


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "1",
        '{"servers": []}',
        '{"servers": null}',
        '{"servers": {}, "servers": {}}',
        '{"a": [1,, 2]}',
        "{",
        '{"a": 1} x',
        "/* {}",
    ],
)
def test_a_file_with_no_place_for_it_is_refused(text: str):
    with pytest.raises(BadJson):
        put(text, PATH, OURS)


def test_the_new_member_looks_like_its_neighbours():
    text = '{\r\n\t"servers": {\r\n\t\t"x": 1, // the first\r\n\t\t// and last\r\n\t}\r\n}\r\n'
    after = apply_text_edits(text, put(text, PATH, {"command": "h"}))
    assert '\t\t// and last\r\n\t\t"ours": {\r\n\t\t\t"command": "h"\r\n\t\t},\r\n\t}\r\n' in after
    assert (
        apply_text_edits('{"servers": {"x": 1}}', put('{"servers": {"x": 1}}', PATH, {}))
        == '{"servers": {"x": 1, "ours": {}}}'
    )


def test_many_openings_of_comments_do_not_take_long():
    assert parse_jsonc('"' + "/*" * 100_000 + '"').startswith("/*")
    with pytest.raises(BadJson):
        parse_jsonc("/*" * 20_000)


# --- TOML

ROWS = (
    'model = "o"',
    "n = 1",
    "",
    "# [mcp.ours]",
    "[other]",
    'x = """',
    "[mcp.ours]",
    '"""',
    "[mcp.there]",
    "[mcp]",
    "list = [",
    "  1,",
    "]",
)
tables = st.lists(st.sampled_from(ROWS), max_size=8).flatmap(
    lambda rows: st.sampled_from(["\n", "\r\n"]).map(lambda line: line.join(rows))
)
TABLE = {"command": "handhold", "args": ["mcp", 'a "b" \\ ä']}


@given(tables | st.text(alphabet="[]mcp.ours\"'= \n#", max_size=40))
def test_a_table_is_put_in_rightly_or_not_at_all(text: str):
    path = ("mcp", "ours")
    try:
        before = toml_table.parse_toml(text)
        cuts = toml_table.put(text, path, TABLE)
    except ValueError:
        return
    after = apply_text_edits(text, cuts)
    assert revert_text_edits(after, cuts) == text
    assert toml_table.parse_toml(after) == {**before, "mcp": {**before.get("mcp", {}), "ours": TABLE}}
    assert toml_table.put(after, path, TABLE) == []
    left = apply_text_edits(after, toml_table.remove(after, path))
    assert "ours" not in toml_table.parse_toml(left).get("mcp", {})


def test_a_table_is_replaced_with_the_tables_in_it_and_comments_of_others_stay():
    text = '[mcp.ours]\ncommand = "old"\n[mcp.ours.env]\nA = "1"\n\n# about x\n[x]\ny = 1\n'
    after = apply_text_edits(text, toml_table.put(text, ("mcp", "ours"), {"command": "new"}))
    assert after == '[mcp.ours]\ncommand = "new"\n\n# about x\n[x]\ny = 1\n'
    assert apply_text_edits(after, toml_table.remove(after, ("mcp", "ours"))) == "\n# about x\n[x]\ny = 1\n"


@pytest.mark.parametrize("line", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("before", "after", "left"),
    [
        ("", "[mcp]|ours = false|", "[mcp]|"),
        ("x = 1", "x = 1||[mcp]|ours = false|", "x = 1||[mcp]|"),
        ("[mcp] # mine|a = 1|", "[mcp] # mine|ours = false|a = 1|", "[mcp] # mine|a = 1|"),
        ("[mcp]|ours = true # why|a = 1|[x]|", "[mcp]|ours = false|a = 1|[x]|", "[mcp]|a = 1|[x]|"),
        ("[mcp]", "[mcp]|ours = false|", "[mcp]|"),
        ("[x]|ours = 1|[mcp]|", "[x]|ours = 1|[mcp]|ours = false|", "[x]|ours = 1|[mcp]|"),
    ],
)
def test_a_value_goes_into_its_table_and_out_of_it(before: str, after: str, left: str, line: str):
    before, after, left = (each.replace("|", line) for each in (before, after, left))
    if "\n" not in before and line == "\r\n":
        return  # nothing tells which line ends the file has
    path = ("mcp", "ours")
    assert apply_text_edits(before, toml_table.put(before, path, False)) == after
    assert apply_text_edits(after, toml_table.remove(after, path)) == left


def test_an_inline_table_is_refused_rather_than_broken():
    with pytest.raises(toml_table.BadToml):
        toml_table.put("mcp = {x = {}}\n", ("mcp", "ours"), TABLE)


def test_cuts_are_done_and_undone_in_any_number():
    cuts = [TextEdit(0, "a", "xyz"), TextEdit(2, "", "!"), TextEdit(3, "d", "")]
    assert apply_text_edits("abcd", cuts) == "xyzb!c"
    assert revert_text_edits("xyzb!c", cuts) == "abcd"
    assert jsonc.apply_text_edits("", []) == ""
