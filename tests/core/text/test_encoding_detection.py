"""A guess is right or it is not made."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BinaryFile
from handhold.core.text.encoding import Text
from handhold.core.text.encoding_detection import guess_codec
from tests.core.text.languages import ENCODINGS, cuts, samples, stored, texts
from tests.scale import sampled


def judged(data: bytes, encoding: str) -> str:
    text = Text.decode(data)
    if text.encoding.is_unknown:
        return "unknown"
    return "right" if text.body == data.decode(encoding) else "wrong"


@pytest.mark.parametrize("encoding", sampled(list(ENCODINGS), 10))
def test_u4_none_of_ten_texts_a_language_is_misread(encoding: str):
    seen = Counter(judged(data, name) for name, _, _, data in samples() if name == encoding)
    assert not seen["wrong"]
    assert seen["right"] >= 0.8 * seen.total()


@pytest.mark.parametrize("encoding", sampled(list(ENCODINGS), 10))
def test_u4_two_hundred_bytes_are_nearly_always_enough(encoding: str):
    seen = Counter(judged(data, name) for name, _, data in cuts(200) if name == encoding)
    assert not seen["wrong"]
    assert seen["right"] >= 0.9 * seen.total()


@pytest.mark.parametrize(("encoding", "language"), [("cp1251", "ru"), ("gbk", "zh"), ("cp1252", "fr")])
def test_u4_the_end_of_a_sample_may_cut_a_character(encoding: str, language: str):
    data = stored("".join(texts(language).values()), encoding) * 90
    assert [guess_codec(data[: 64 * 1024 - cut], complete=False) for cut in range(4)] == [encoding] * 4


@given(st.binary(max_size=200))
def test_u4_a_guess_from_any_bytes_gives_them_back(data: bytes):
    try:
        assert Text.decode(data).encode() == data
    except BinaryFile:
        assert b"\0" in data


@pytest.mark.parametrize("encoding", ["cp869", "cp720", "hp-roman8", "johab", "utf-7"])
def test_u4_of_encodings_that_nobody_looks_for_hardly_any_text_is_misread(encoding: str):
    """An exact `never` cannot be had here: what is taken for something else must stay rare."""
    languages = {"cp869": "el", "cp720": "ar", "hp-roman8": "fr", "johab": "ko", "utf-7": "fr"}
    whole = [text.encode(encoding, "ignore") for text in texts(languages[encoding]).values()]
    seen = Counter(judged(data, encoding) for data in whole if not data.isascii())
    assert seen["wrong"] <= 2
