"""What a person is shown: no character in it can hide, nor hide another."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.policy.shell.invisible import find_invisible
from handhold.core.text.display_text import UNESCAPED_CHARS, escape_invisible
from handhold.core.text.path_escaping import escape_path, unescape_path

# Default_Ignorable_Code_Point, as DerivedCoreProperties.txt of Unicode 16.0 lists it.
DEFAULT_IGNORABLE = """
00AD 034F 061C 115F..1160 17B4..17B5 180B..180F 200B..200F 202A..202E 2060..206F 3164 FE00..FE0F FEFF FFA0 FFF0..FFF8
1BCA0..1BCA3 1D173..1D17A E0000..E0FFF
"""
BLANK = "\u2800\U00016fe4\U0001d159\U00013441\U00013442"  # not default-ignorable, and drawn as nothing
NAMED = re.compile(
    "VARIATION SELECTOR|HANGUL.* FILLER|KHITAN.* FILLER|NULL NOTEHEAD|PATTERN BLANK|ZERO WIDTH|INVISIBLE"
)


def code_points() -> list[int]:
    ends = (each.split("..") for each in DEFAULT_IGNORABLE.split())
    return [code for each in ends for code in range(int(each[0], 16), int(each[-1], 16) + 1)]


IGNORABLE = st.sampled_from([*map(chr, code_points()), *BLANK])


@pytest.mark.parametrize("char", ["\ufe00", "\ufe0f", "\U000e0100", "\U000e01ef", "\U00016fe4", "\U0001d159"])
def test_r22_characters_that_were_reported_as_invisible_are_spelled_out(char: str):
    assert escape_invisible(f"a{char}b") == f"a{spelling(char)}b"


def test_r22_every_default_ignorable_code_point_is_spelled_out():
    assert [hex(code) for code in code_points() if escape_invisible(chr(code)) == chr(code)] == []


def test_r22_every_character_that_unicode_names_as_invisible_is_spelled_out():
    named = [chr(code) for code in range(0x110000) if NAMED.search(unicodedata.name(chr(code), ""))]
    assert len(named) > 250
    assert [f"U+{ord(char):04X}" for char in named if escape_invisible(char) == char] == []


@given(st.text(), IGNORABLE, st.text())
def test_r22_whatever_is_around_it_an_ignorable_character_is_never_shown_as_itself(before: str, char: str, after: str):
    text = before + char + after
    assert char not in escape_invisible(text)
    assert char not in escape_path(text)
    assert unescape_path(escape_path(text.replace("/", "").replace("\0", ""))) is not None


@given(st.text(), IGNORABLE.filter(lambda char: char not in "\u200d\ufe0f"))
def test_r22_a_command_that_holds_one_is_refused_by_its_code_point(before: str, char: str):
    assert find_invisible(char + before).startswith(f"U+{ord(char):04X}")


@given(st.text())
def test_whatever_is_shown_is_printable_or_a_line_or_a_tab(text: str):
    assert all(char.isprintable() or char in UNESCAPED_CHARS for char in escape_invisible(text))


@pytest.mark.parametrize("text", ["naïve", "日本語", "✅ 👍🏽", "„schön“ …", "هنا", "हिन्दी", "a\tb\nc"])
def test_letters_and_signs_that_can_be_seen_stay(text: str):
    assert escape_invisible(text) == text


def spelling(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
