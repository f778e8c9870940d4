"""Images for tests, and the images in a reply."""

import base64
from io import BytesIO
from typing import Any

from PIL import Image, ImageDraw

from handhold import Reply, Toolbox


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def quartered(width: int = 400, height: int = 200, mode: str = "RGB") -> Image.Image:
    """Red in the upper left quarter and white elsewhere, so that its orientation is visible."""
    image = Image.new("RGB", (width, height), "white")
    ImageDraw.Draw(image).rectangle((0, 0, width // 2 - 1, height // 2 - 1), fill="red")
    return image.convert(mode)


def read(name: str, data: bytes, **arguments: Any) -> Reply:
    return Toolbox.in_memory({name: data}).call("read_file", {"path": name, **arguments})


def sent(reply: Reply) -> Image.Image:
    """The only image in a reply."""
    assert reply.status != "error", reply.text
    (block,) = reply.images
    image = Image.open(BytesIO(base64.b64decode(block.base64)))
    assert block.mime == Image.MIME[image.format or ""]
    image.load()
    return image


def near(colour: Any, wanted: tuple[int, ...]) -> bool:
    return all(abs(one - other) < 24 for one, other in zip(colour, wanted, strict=True))


RED, WHITE = (255, 0, 0), (255, 255, 255)


def is_upright(image: Image.Image) -> bool:
    """Whether the red quarter is still at the upper left."""
    plain = image.convert("RGB")
    width, height = plain.size
    return near(plain.getpixel((width // 4, height // 4)), RED) and all(
        near(plain.getpixel(place), WHITE)
        for place in ((width * 3 // 4, height // 4), (width // 4, height * 3 // 4), (width * 3 // 4, height * 3 // 4))
    )
