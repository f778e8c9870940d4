"""Request bodies: limits of shape, checked before parsing."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.server.bodies import MAX_JSON_DEPTH, MAX_JSON_TOKENS, parse_json
from handhold.server.http_errors import RequestRejected

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def refused(body: bytes) -> int:
    with pytest.raises(RequestRejected) as caught:
        parse_json(body)
    return caught.value.status


@given(VALUES, st.booleans())
def test_r21_json_within_the_limits_is_parsed_as_it_is(value: Any, plain: bool):
    assert parse_json(json.dumps(value, ensure_ascii=plain).encode("utf-8", "surrogatepass")) == value


@given(st.text('"\\\\[]{},\\n x', max_size=200))
def test_r21_brackets_and_commas_in_strings_never_count(text: str):
    value = {"content": text * 300}
    assert parse_json(json.dumps(value).encode()) == value


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({f"key{n}": n for n in range(MAX_JSON_TOKENS // 2 + 1)}).encode(),
        b"[" + b"{}," * MAX_JSON_TOKENS + b"{}]",
        b"[" + b"1," * MAX_JSON_TOKENS + b"1]",
        b'""' * (MAX_JSON_TOKENS + 1),
        b'"\\\\",' * (MAX_JSON_TOKENS + 1),
    ],
)
def test_r21_json_with_too_many_tokens_is_refused_before_it_is_parsed(body: bytes):
    assert refused(body) == 413


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":', b'["[",', b'["\\"",'])
def test_r21_json_that_is_too_deep_is_refused_before_it_is_parsed(opening: bytes):
    assert refused(opening * (MAX_JSON_DEPTH + 1)) == 400
    assert refused(opening * 9_000) == 400
    assert parse_json(b"[" * MAX_JSON_DEPTH + b"]" * MAX_JSON_DEPTH)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32-be"])
def test_r21_no_other_unicode_hides_the_shape(encoding: str):
    assert refused(json.dumps([{}] * 60).encode(encoding)) == 400


def test_r21_a_byte_order_mark_is_no_harm():
    assert parse_json(b"\xef\xbb\xbf{}") == {}
