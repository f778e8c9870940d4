"""What is not plain text, in the words of the dialects that have no tool for it but the one that reads."""

import json

import pytest

from handhold import Reply, Toolbox
from tests.backends.convert.papers import plain
from tests.backends.convert.pictures import quartered, saved
from tests.suites.notebooks import book, cells

READERS = {
    "deepagents": ("read_file", "file_path"),
    "gemini": ("read_file", "file_path"),
    "anthropic": ("str_replace_based_edit_tool", "path"),
    "tiny": ("read_file", "path"),
    "hello": ("read_file", "file_path"),
    "mycode": ("Read", "path"),
}
CHINESE = ("tiny", "hello", "mycode")


def read(dialect: str, name: str, data: bytes | str) -> Reply:
    tool, path = READERS[dialect]
    box = Toolbox.in_memory({name: data}, dialect=dialect, root="/ws")
    view = {"command": "view"} if dialect == "anthropic" else {}
    reply = box.call(tool, {path: f"/ws/{name}", **view})
    assert reply.code is None, reply.text
    return reply


def words(dialect: str, reply: Reply) -> str:
    return json.loads(reply.text)["data"]["content"] if dialect == "mycode" else reply.text


@pytest.mark.parametrize("dialect", READERS)
def test_c27_an_image_comes_with_its_kind_and_size(dialect: str):
    reply = read(dialect, "a.png", saved(quartered(), "PNG"))
    english, chinese = "[/ws/a.png: PNG image, 400 x 200 pixels.]", "[/ws/a.png: PNG 图片,400 x 200 像素]"
    assert words(dialect, reply) == (chinese if dialect in CHINESE else english)
    assert [block.mime for block in reply.images] == ["image/png"]


@pytest.mark.parametrize("dialect", READERS)
def test_c28_a_pdf_shows_20_pages_and_says_which_are_left(dialect: str):
    text = words(dialect, read(dialect, "a.pdf", plain(*[f"text {n}" for n in range(1, 31)])))
    pages, left = (("=== 第 2 页\ntext 2", "[未显示: 第 21-30 页,每次最多 20 页]") if dialect in CHINESE
                   else ("=== Page 2\ntext 2", "[Not shown: pages 21-30, because one call shows at most 20 pages."))  # fmt: skip
    assert pages in text
    assert left in text
    assert ('Continue with pages="21-30".' in text) is (dialect == "deepagents")


@pytest.mark.parametrize("dialect", READERS)
def test_c29_a_notebook_shows_its_cells_and_says_that_an_edit_quotes_its_text(dialect: str):
    reply = read(dialect, "a.ipynb", json.dumps(book(5, *cells())))
    text = words(dialect, reply)
    assert "     1→import math\n     2→\n     3→print(math.pi)" in text
    assert "      | ValueError: no" in text
    assert [block.type for block in reply.images] == ["image"]
    assert ("文件本身是 JSON" if dialect in CHINESE else "The file itself is JSON") in text
