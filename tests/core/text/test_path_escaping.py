import json
import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from handhold.core.text.path_escaping import escape_ambiguous, escape_path, unescape_path

NASTY = st.sampled_from(
    [
        "\\",
        "n",
        "x",
        "f",
        "\n",
        "\t",
        "\x1b",
        "\udcff",
        "\u202e",
        "\u200b",
        "\u2028",
        "é",
        "日",
        "🙂",
        " ",
        "u",
        "2",
        "0",
        "e",
    ]
)
NAMES = st.one_of(
    st.lists(NASTY, min_size=1, max_size=8).map("".join),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1),
    st.binary(min_size=1).filter(lambda raw: b"/" not in raw and b"\0" not in raw).map(os.fsdecode),
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("two\nlines.txt", r"two\nlines.txt"),
        ("tab\there", r"tab\there"),
        ("\x1b[31mred", r"\x1b[31mred"),
        (os.fsdecode(b"\xff\xfe.txt"), r"\xff\xfe.txt"),
        ("ev\u202etxt.exe", r"ev\u202etxt.exe"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("line\u2028end", r"line\u2028end"),
        ("no\xa0break", r"no\xa0break".replace("xa0", "u00a0")),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("a\\b\nc", r"a\\b\nc"),
        (r"C:\new", r"C:\\new"),
    ],
)
def test_nasties_19_to_21_what_cannot_be_seen_is_spelled_out(name: str, shown: str):
    assert escape_path(name) == shown
    assert unescape_path(shown) == name


@pytest.mark.parametrize(
    "name", ["a.py", "Überfluß.txt", "日本語/文書.md", "🙂.png", "a b", r"C:\Users", "\\", "~", "$(id)"]
)
def test_an_ordinary_name_is_its_own_spelling(name: str):
    assert escape_path(name) == name
    assert unescape_path(name) is None


@pytest.mark.parametrize("shown", [r"a\x2fb", r"\x2e\x2e", r"\x41", r"\u0041", r"\xFF", r"\ud800x\q", "a\\"])
def test_what_is_nobodys_spelling_means_itself(shown: str):
    assert unescape_path(shown) is None


@given(PATHS)
@example("\\n")
@example("\\\\n")
@example("\\\\")
def test_every_name_comes_back_from_its_spelling(name: str):
    shown = escape_path(name)
    assert unescape_path(shown) == (name if shown != name else None)


@given(PATHS, PATHS)
@example("\n", "\\n")
@example("\\n", "\\\\n")
def test_two_names_never_look_the_same(one: str, other: str):
    assert (escape_path(one) == escape_path(other)) == (one == other)


@given(PATHS)
def test_a_spelling_can_be_sent_and_is_one_line(name: str):
    shown = escape_path(name)
    assert json.loads(json.dumps(shown).encode("utf-8")) == shown
    assert len(shown.splitlines()) == 1


@given(PATHS)
def test_an_unmistakable_name_is_meant_by_itself_and_by_nothing_else(name: str):
    sure = escape_ambiguous(name)
    assert (unescape_path(sure) or sure) == name
    assert sure == name or "\\" in name
