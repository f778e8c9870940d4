from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.clip import MAX_SHIFT_CHARS, clip

LINES = st.one_of(
    st.text(alphabet="ab é日🙂", max_size=200),
    st.text(alphabet="ae\u0301\u0308\u200d👩🔬\ufe0f\U0001f3fd", max_size=200),
)


@st.composite
def matches(draw: st.DrawFn) -> tuple[str, int, int, int]:
    text = draw(LINES)
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, len(text)))
    return text, start, end, draw(st.integers(1, 60))


@given(matches())
def test_a_line_is_cut_to_its_width_around_its_match(case: tuple[str, int, int, int]):
    text, start, end, width = case
    shown, first, past, (before, after) = clip(text, start, end, width)
    assert len(shown) <= max(width, 0)
    assert before + len(shown) + after == len(text)
    assert shown == text[before : len(text) - after]
    assert 0 <= first <= past <= len(shown)
    assert shown[first:past] == text[start:end][: past - first]
    assert first + before == start
    if end - start <= width - 2 * MAX_SHIFT_CHARS:
        assert shown[first:past] == text[start:end]


@given(matches())
def test_a_line_that_fits_is_left_alone(case: tuple[str, int, int, int]):
    text, start, end, _ = case
    assert clip(text, start, end, max(1, len(text))) == (text, start, end, (0, 0))


def test_a_match_stands_in_the_middle_of_what_is_shown():
    text = "." * 1000 + "needle" + "." * 1000
    shown, first, past, cut = clip(text, 1000, 1006, 106)
    assert shown == "." * 50 + "needle" + "." * 50
    assert (first, past, cut) == (50, 56, (950, 950))


def test_a_match_that_is_longer_is_shown_from_its_start():
    shown, first, past, cut = clip("x" * 10 + "n" * 100, 10, 110, 20)
    assert (shown, first, past, cut) == ("n" * 20, 0, 20, (10, 80))


def test_an_accent_stays_on_its_letter():
    text = "e\u0301" * 100
    shown, _, _, (before, after) = clip(text, 100, 102, 21)
    assert before % 2 == 0
    assert after % 2 == 0
    assert shown.startswith("e")


def test_a_family_is_not_torn_apart():
    family = "👩\u200d👧\u200d👦"
    shown, _, _, _ = clip(family * 20, 50, 55, 12)
    assert not shown.startswith("\u200d")
    assert not shown.endswith("\u200d")


def test_a_thousand_accents_on_one_letter_are_cut_after_all():
    shown, _, _, _ = clip("e" + "\u0301" * 1000, 0, 1, 50)
    assert 40 <= len(shown) <= 50
