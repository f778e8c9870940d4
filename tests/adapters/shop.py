"""A small repository with a fault, what a model does about it, and a picture."""

import base64
import io
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from PIL import Image

from handhold import Block, Question, Reply, Toolbox
from tests.adapters.scripted import Turn, Use

CART = "RATE = 91\n\n\ndef total(prices):\n    return sum(prices) * (100 - RATE) // 100\n"
FIXED = "RATE = 19\n\n\ndef total(prices):\n    return sum(prices) * (100 + RATE) // 100\n"
TEST = """import unittest

from cart import total


class TestTotal(unittest.TestCase):
    def test_total(self):
        self.assertEqual(total([100, 200]), 357)
"""

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PICTURE = Block("image", mime="image/png", base64=base64.b64encode(PIXEL).decode())
PICTURE_URL = f"data:image/png;base64,{PICTURE.base64}"


def is_the_picture(url: str, mime: str = "image/png") -> bool:
    """Whether this is the picture, as the engine encodes it anew: the same size, the same pixel."""
    head, _, data = url.partition(",")
    seen, there = (Image.open(io.BytesIO(each)) for each in (base64.b64decode(data), PIXEL))
    pixels = [image.convert("RGBA").getpixel((0, 0)) for image in (seen, there)]
    return head == f"data:{mime};base64" and seen.size == there.size and pixels[0] == pixels[1]


TASK = "The tests fail. Mend it."
DONE = "The tests pass."


def edit(old: str, new: str, path: str = "cart.py") -> Use:
    return Use("edit_file", {"path": path, "old_string": old, "new_string": new})


# Two looks at once; then two edits of one file and the tests, which only make sense in this order.
MENDING: tuple[Turn, ...] = (
    ["I look first.", Use("read_file", {"path": "cart.py"}), Use("read_file", {"path": "test_cart.py"})],
    [
        edit("RATE = 91", "RATE = 19"),
        edit("100 - RATE", "100 + RATE"),
        Use("bash", {"command": "python3 -B -m unittest -q"}),
    ],
    DONE,
)

EDITOR = "str_replace_based_edit_tool"
# The same in the dialect of the vendor's own tool types.
MENDING_BY_TYPES: tuple[Turn, ...] = (
    [Use(EDITOR, {"command": "view", "path": "cart.py"}), Use(EDITOR, {"command": "view", "path": "test_cart.py"})],
    [
        Use(EDITOR, {"command": "str_replace", "path": "cart.py", "old_str": "RATE = 91", "new_str": "RATE = 19"}),
        Use(EDITOR, {"command": "str_replace", "path": "cart.py", "old_str": "100 - RATE", "new_str": "100 + RATE"}),
        Use("bash", {"command": "python3 -B -m unittest -q"}),
    ],
    DONE,
)

# A change of one file that was read: what an approval is asked for.
CHANGING: tuple[Turn, ...] = (Use("read_file", {"path": "cart.py"}), edit("RATE = 91", "RATE = 19"), DONE)

# Prints, and would go on for longer than any test: only somebody who hears of it in time can end it.
ENDLESS: tuple[Turn, ...] = (Use("bash", {"command": "echo first; sleep 1000"}), DONE)


class Shop:
    """Where the repository is, and how to open a toolbox on it."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "shop"
        self.root.mkdir()
        self._state = folder / "state"
        (self.root / "cart.py").write_text(CART)
        (self.root / "test_cart.py").write_text(TEST)
        (self.root / "pixel.png").write_bytes(PIXEL)

    @property
    def cart(self) -> str:
        return (self.root / "cart.py").read_text()

    @contextmanager
    def open(self, kind: type[Toolbox] = Toolbox, **options: Any) -> Generator[Toolbox]:
        with kind.open(self.root, state=self._state, **options) as box:
            yield box


# --- by whole paths


def read_at(shop: Shop, name: str, **more: Any) -> Use:
    return Use("read_file", {"file_path": str(shop.root / name), **more})


def edit_at(shop: Shop, old: str, new: str) -> Use:
    return Use("edit_file", {"file_path": str(shop.root / "cart.py"), "old_string": old, "new_string": new})


def mending_by_paths(shop: Shop, *, at_once: bool = True) -> list[Turn]:
    """The same for deepagents, which names files by their whole paths, and in one turn changes none of them twice."""
    look = [Use("ls", {"path": "/"}), Use("glob", {"pattern": "*.py"}), Use("grep", {"pattern": "RATE"})]
    reads = [read_at(shop, "cart.py"), read_at(shop, "test_cart.py")]
    last = [edit_at(shop, "100 - RATE", "100 + RATE"), Use("execute", {"command": "python3 -B -m unittest -q"})]
    return [look, reads, edit_at(shop, "RATE = 91", "RATE = 19"), *([last] if at_once else last), DONE]


class Picturing(Toolbox):
    """Adds a picture to every reply, so that its way to the model can be followed whatever was read."""

    def _execute(self, tool: str, arguments: Mapping[str, Any] | str, *rest: Any) -> Reply:
        return replace(super()._execute(tool, arguments, *rest), images=(PICTURE,))


class Person:
    """Who is asked, and what they were shown."""

    def __init__(self, *, says: bool) -> None:
        self.says = says
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> bool:
        self.asked.append(question)
        return self.says
