from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.text.cell_outputs import EXCERPT_CHARS, MAX_IMAGES, ReplyImages, render_outputs
from handhold.core.text.image_headers import read_image_size
from tests.suites.notebooks import PICTURE, png

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000") + bytes.fromhex("ffc0000b08000600080101011100ffd9")


def put(*outputs: Any, pictures: ReplyImages | None = None):
    return list(render_outputs({"outputs": list(outputs)}, pictures or ReplyImages()))


def shown(**forms: Any) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {name.replace("_", "/"): value for name, value in forms.items()}}


def stream(text: Any, name: str = "stdout") -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": text}


def test_pieces_of_one_stream_are_one_output():
    found = put(stream("a\n"), stream(["b\n", "c\n"]), stream("d", "stderr"), stream("e"))
    assert [(each.kind, each.text) for each in found] == [("stdout", "a\nb\nc"), ("stderr", "d"), ("stdout", "e")]


def test_colours_and_progress_bars_are_left_out():
    found = put(
        stream("10%\r50%\r100%\n"),
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["\x1b[0;31mE\x1b[0m: v"]},
    )
    assert [each.text for each in found] == ["100%", "E: v"]
    assert put({"output_type": "error", "ename": "E", "evalue": "v", "traceback": 3})[0].text == "E: v"


def test_of_a_long_text_both_ends_are_shown_and_the_rest_is_counted():
    (found,) = put(stream("a" * EXCERPT_CHARS + "b" * 7 + "c" * EXCERPT_CHARS))
    assert (found.text, found.omitted_chars, found.tail) == ("a" * EXCERPT_CHARS, 7, "c" * EXCERPT_CHARS)


def test_html_is_not_shown_where_text_is():
    (found,) = put(shown(text_plain="4", text_html="<b>4</b>"))
    assert (found.text, found.other_formats) == ("4", ("text/html",))
    (found,) = put(shown(text_html=["<b>", "4</b>"]))
    assert (found.text, found.other_formats) == ("<b>4</b>", ())
    (found,) = put(shown(application_json={"a": [1]}))
    assert found.text == '{"a": [1]}'


def test_a_picture_is_a_block_and_has_a_number():
    pictures = ReplyImages()
    found = put(
        shown(image_png=PICTURE + "\n", text_plain="<Figure>"),
        shown(image_jpeg=b64encode(JPEG).decode()),
        pictures=pictures,
    )
    assert [(each.picture_number, each.mime, each.size, each.text) for each in found] == [
        (1, "image/png", (8, 6), "<Figure>"),
        (2, "image/jpeg", (8, 6), ""),
    ]
    assert (pictures.blocks[0].mime, pictures.blocks[0].base64) == ("image/png", PICTURE)


@pytest.mark.parametrize(
    ("data", "because"),
    [
        (b64encode(b"no picture").decode(), "not a valid image/png"),
        ("not base64!", "not a valid image/png"),
        ("é", "not a valid image/png"),
        (b64encode(JPEG).decode(), "not a valid image/png"),
        (b64encode(png(2001, 1)).decode(), "2001x1"),
        (PICTURE + "A" * 5_000_000, "too large"),
    ],
)
def test_a_picture_that_models_do_not_take_is_left_out_with_the_reason(data, because):
    pictures = ReplyImages()
    (found,) = put(shown(image_png=data, text_plain="x"), pictures=pictures)
    assert because in found.omitted_reason
    assert (found.picture_number, found.text, pictures.blocks) == (0, "x", [])


def test_a_reply_has_only_so_many_pictures():
    pictures = ReplyImages()
    found = put(*[shown(image_png=PICTURE)] * (MAX_IMAGES + 1), pictures=pictures)
    assert [each.picture_number for each in found] == [*range(1, MAX_IMAGES + 1), 0]
    assert len(pictures.blocks) == MAX_IMAGES


def test_outputs_of_old_notebooks_are_read():
    found = put(
        {"output_type": "stream", "stream": "stderr", "text": "a"},
        {"output_type": "pyout", "text": ["7"], "html": "<b>7</b>", "prompt_number": 1},
        {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["E: v"]},
        {"output_type": "display_data", "png": PICTURE},
    )
    assert [(each.kind, each.text, each.picture_number) for each in found] == [
        ("stderr", "a", 0),
        ("result", "7", 0),
        ("error", "E: v", 0),
        ("display", "", 1),
    ]


ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["output_type", "name", "text", "data", "traceback", "image/png", "text/plain", "png", "x"]
            ),
            inner | st.sampled_from(["stream", "error", "pyout", "display_data"]),
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(ANY)
def test_whatever_stands_there_is_shown_somehow(outputs):
    for each in render_outputs({"outputs": outputs}, ReplyImages()):
        assert isinstance(each.text, str)


@given(st.binary(max_size=40), st.sampled_from(["png", "jpeg", "gif"]))
def test_a_header_says_a_size_or_none(data, medium):
    for start in (b"", b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", b"GIF89a", b"\xff\xd8\xff"):
        size = read_image_size(start + data, medium)
        assert size is None or min(size) > 0


def test_what_is_nested_too_deeply_is_not_shown():
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert put(shown(application_json=deep))[0].text == "nested too deeply to be shown"
