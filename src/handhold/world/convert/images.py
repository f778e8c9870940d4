"""In the worker: an image as models take it, upright, not too large, and with nothing of the file but what is seen."""

import signal
from io import BytesIO
from typing import Any, BinaryIO

from PIL import GifImagePlugin, Image, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin

from handhold.world.convert.worker import Say

PLUGINS = (GifImagePlugin, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin)
"""Imported here, because later nothing can be: the last but two for EXIF, and for what cameras hide in a JPEG."""

MOST_PIXELS = 100_000_000  # that an image may declare: four bytes each is what a worker can hold
MOST_PIXELS_WEBP = 30_000_000  # to open one is to get room for it three times over
MOST_SIDE = 1568  # pixels; models scale down what is longer
MOST_BYTES = 3_750_000  # of an image, five million in base64
LOSSLESS_BYTES = 1_000_000  # up to which an image without loss stays one
STRIP = 1 << 20  # pixels of a large image that are made smaller at a time
QUALITIES = (85, 70, 50, 30)
ORIENTATION = 0x0112
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
ON_ITS_SIDE = (5, 6, 7, 8)
WEBP_HEAD = 30  # bytes
MOST_FRAMES = 1_000_000
COUNTING = 1.0  # seconds for the frames of an animation

Image.MAX_IMAGE_PIXELS = None  # what an image declares is looked at below, before it is decoded
Image.preinit()


class Enough(Exception):
    """Counting takes too long."""


def work(job: dict[str, Any], file: BinaryIO, say: Say) -> None:
    medium: str = job["medium"]
    file.seek(0)
    if medium == "webp":
        width, height = webp_size(file.read(WEBP_HEAD))
        if too_many(width, height, say, MOST_PIXELS_WEBP):
            return
    count = frames(file, medium)
    file.seek(0)
    with Image.open(file, formats=[medium.upper()]) as image:
        width, height = image.size
        if too_many(width, height, say):
            return
        if medium == "jpeg":
            image.draft(image.mode, (2 * MOST_SIDE, 2 * MOST_SIDE))  # decode no more of it than will be seen
        turn = orientation(image)
        image.load()
        small = fitted(image)
        if turn in UPRIGHT:
            small = small.transpose(UPRIGHT[turn])
        if turn in ON_ITS_SIDE:
            width, height = height, width
    mime, data = encoded(small, lossless=medium in ("png", "gif"))
    facts = {"width": width, "height": height, "turned": turn in UPRIGHT, "frames": count}
    say({**facts, "mime": mime, "size": small.size}, data)


def rehearse(medium: str) -> None:
    """All of it once, with an image of our own: what a decoder imports when it first needs it is then there."""
    for mode, form in (("L", medium.upper()), ("RGBA", "PNG")):
        sample = BytesIO()
        Image.new(mode, (2, 2)).save(sample, form)
        work({"medium": form.lower()}, sample, lambda *_: None)
    saved(Image.new("RGB", (2, 2)), "JPEG")


def too_many(width: int, height: int, say: Say, most: int = MOST_PIXELS) -> bool:
    if width * height > most:
        say({"too_many_pixels": [width, height, most]})
        return True
    return False


def webp_size(head: bytes) -> tuple[int, int]:
    """What the first chunk declares, in one of its three forms; nothing that is none of them is a WebP for long."""
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def orientation(image: Image.Image) -> int:
    """As a camera held it: 1 is upright. What cannot be read counts for nothing."""
    try:
        found: Any = image.getexif().get(ORIENTATION, 1)
    except (ValueError, TypeError, KeyError, IndexError, OSError, SyntaxError, OverflowError, ArithmeticError):
        return 1
    return found if isinstance(found, int) else 1


def fitted(image: Image.Image) -> Image.Image:
    """The same picture in plain colours, its long side at most MOST_SIDE.

    A large one is made smaller strip by strip, so that there is never a second one of its size.
    """
    mode = plain_mode(image)
    factor = max(image.size) // (2 * MOST_SIDE)
    if factor < 2:
        small = plain(image, mode)
    else:
        width, height = image.size
        small = Image.new(mode, (-(-width // factor), -(-height // factor)))
        strip = factor * max(1, STRIP // (width * factor))
        for top in range(0, height, strip):
            part = image.crop((0, top, width, min(top + strip, height)))
            small.paste(plain(part, mode).reduce(factor), (0, top // factor))
    image.close()  # and its memory is free
    scale = MOST_SIDE / max(small.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in small.size)
        small = small.resize((width, height), Image.Resampling.LANCZOS)
    return small


def plain_mode(image: Image.Image) -> str:
    if image.mode.startswith("I"):
        return "L"
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


def plain(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # sixteen bits of grey
        image = image.convert("I").point(lambda value: value * (1 / 256))
    return image.convert(mode)


def encoded(image: Image.Image, *, lossless: bool) -> tuple[str, bytes]:
    """As PNG where that keeps something and is not too large, else as JPEG. Neither carries anything along."""
    image.info.clear()
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    seen_through = image.mode == "RGBA"
    if seen_through or lossless:
        data = saved(image, "PNG")
        if len(data) <= (MOST_BYTES if seen_through else LOSSLESS_BYTES):
            return "image/png", data
    if seen_through:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    # A picture of noise is the largest there is: at its long side, the second quality would do for it.
    tries = (saved(image, "JPEG", quality=quality) for quality in QUALITIES)
    return "image/jpeg", next(data for data in tries if len(data) <= MOST_BYTES)


def saved(image: Image.Image, form: str, **options: int) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def frames(file: BinaryIO, medium: str) -> int | None:
    """How many pictures the file holds; None if it holds several, and too many to be counted, or broken ones."""

    def enough(*_: object) -> None:
        raise Enough

    signal.signal(signal.SIGVTALRM, enough)
    signal.setitimer(signal.ITIMER_VIRTUAL, COUNTING)
    try:
        file.seek(0)
        count = int(getattr(Image.open(file, formats=[medium.upper()]), "n_frames", 1))
        return count if 0 < count <= MOST_FRAMES else None
    except (Enough, ValueError, TypeError, KeyError, IndexError, OSError, SyntaxError, EOFError):
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
