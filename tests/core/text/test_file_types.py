import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.errors import BrokenFile
from handhold.core.text.file_types import PROBE_BYTES, detect_medium, is_text, medium_from_name

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
JPEG = b"\xff\xd8\xff\xe0\0\x10JFIF\0"
GIF = b"GIF89a\1\0\1\0\x80\0\0"
WEBP = b"RIFF\x24\0\0\0WEBPVP8 "
PDF = b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n"


@pytest.mark.parametrize(
    ("head", "medium"), [(PNG, "png"), (JPEG, "jpeg"), (GIF, "gif"), (WEBP, "webp"), (PDF, "pdf"), (b"\0\1\2", None)]
)
@pytest.mark.parametrize("name", ["a.txt", "a", "a.py"])
def test_c27_content_tells_what_a_file_is_whatever_its_name(head: bytes, medium: str | None, name: str):
    assert detect_medium(head, name) == medium


@pytest.mark.parametrize("name", ["a.png", "A.PNG", "a.gif", "folder.pdf/a.jpg"])
def test_c27_a_name_that_lies_does_not_count(name: str):
    assert detect_medium(WEBP, name) == "webp"


@pytest.mark.parametrize("text", [b"GIF89a is a format\n", b"%PDF-1.7 is how a PDF begins\n", b"RIFF1234WEBP\n"])
def test_a_text_that_begins_like_an_image_is_a_text(text: bytes):
    assert detect_medium(text, "notes.md") is None


def test_a_name_decides_where_the_content_could_be_a_text():
    assert detect_medium(b"%PDF-1.4\n1 0 obj\n", "a.pdf") == "pdf"
    assert detect_medium(b"a mail before it\n%PDF-1.4\n", "a.pdf") == "pdf"


def test_a_text_under_the_name_of_an_image_is_a_text():
    assert detect_medium(b"version 1\noid sha256:00\nsize 12\n", "photo.png") is None
    assert detect_medium(b"", "photo.png") is None
    assert detect_medium("<svg>…</svg>".encode("utf-16"), "drawing.png") is None


def test_a_binary_file_under_the_name_of_an_image_is_a_broken_one():
    with pytest.raises(BrokenFile) as broken:
        detect_medium(b"\0\1\2\3", "photo.png")
    assert broken.value.medium == "png"


def test_an_svg_is_a_text():
    assert medium_from_name("a.svg") is None
    assert detect_medium(b'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY a "&b;&b;">]><svg/>', "a.svg") is None


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])), st.integers(0, 3))
def test_a_text_is_always_one_wherever_its_beginning_ends(text: str, cut: int):
    data = text.encode()
    head = data[: max(0, len(data) - cut)]
    assert is_text(head)
    assert detect_medium(head, "a.txt") is None


@given(st.binary(max_size=PROBE_BYTES), st.sampled_from(["a.png", "a.pdf", "a.txt", "a"]))
def test_any_bytes_are_something(head: bytes, name: str):
    try:
        assert detect_medium(head, name) in ("png", "jpeg", "gif", "webp", "pdf", None)
    except BrokenFile:
        assert medium_from_name(name)
