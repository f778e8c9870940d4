"""In the worker: make an image that models accept: upright, not too large, and without metadata."""

import signal
from collections.abc import Callable
from io import BytesIO
from typing import Any, BinaryIO

from PIL import GifImagePlugin, Image, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin

EmitRecord = Callable[..., None]  # of the worker: takes a record and its bytes


PLUGINS = (GifImagePlugin, JpegImagePlugin, MpoImagePlugin, PngImagePlugin, TiffImagePlugin, WebPImagePlugin)
"""Imported now, because imports fail later: TIFF for EXIF, MPO for what cameras embed in a JPEG."""

MAX_PIXELS = 100_000_000  # that an image may declare: at four bytes each, the most a worker can hold
MAX_WEBP_PIXELS = 30_000_000  # opening one allocates three times its size
MAX_SIDE_PIXELS = 1568  # models scale down anything longer
MAX_IMAGE_BYTES = 3_750_000  # five million in base64
MAX_LOSSLESS_BYTES = 1_000_000  # up to which a lossless image stays lossless
STRIP_PIXELS = 1 << 20  # of a large image, scaled down at a time
JPEG_QUALITIES = (85, 70, 50, 30)
EXIF_ORIENTATION = 0x0112
TRANSPOSE_BY_ORIENTATION = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS_ORIENTATIONS = (5, 6, 7, 8)
WEBP_HEADER_BYTES = 30
MAX_FRAMES = 1_000_000
FRAME_COUNT_TIMEOUT_SECONDS = 1.0  # for counting the frames of an animation

Image.MAX_IMAGE_PIXELS = None  # the declared size is checked below, before decoding
Image.preinit()


class FrameCountTimeout(Exception):
    """Counting takes too long."""


def convert_image(job: dict[str, Any], file: BinaryIO, emit: EmitRecord) -> None:
    medium: str = job["medium"]
    file.seek(0)
    if medium == "webp":
        width, height = read_webp_size(file.read(WEBP_HEADER_BYTES))
        if reject_oversized(width, height, emit, MAX_WEBP_PIXELS):
            return
    count = count_frames(file, medium)
    file.seek(0)
    with Image.open(file, formats=[medium.upper()]) as image:
        width, height = image.size
        if reject_oversized(width, height, emit):
            return
        if medium == "jpeg":
            # Decode no more of it than will be seen.
            image.draft(image.mode, (2 * MAX_SIDE_PIXELS, 2 * MAX_SIDE_PIXELS))
        turn = read_orientation(image)
        image.load()
        small = scale_to_fit(image)
        if turn in TRANSPOSE_BY_ORIENTATION:
            small = small.transpose(TRANSPOSE_BY_ORIENTATION[turn])
        if turn in SIDEWAYS_ORIENTATIONS:
            width, height = height, width
    mime, data = encode_image(small, lossless=medium in ("png", "gif"))
    facts = {"width": width, "height": height, "turned": turn in TRANSPOSE_BY_ORIENTATION, "frames": count}
    emit({**facts, "mime": mime, "size": small.size}, data)


def warm_up(medium: str) -> None:
    """Run everything once on an image of our own, so that lazy imports of the decoders have happened."""
    for mode, image_format in (("L", medium.upper()), ("RGBA", "PNG")):
        sample = BytesIO()
        Image.new(mode, (2, 2)).save(sample, image_format)
        convert_image({"medium": image_format.lower()}, sample, lambda *_: None)
    save_image(Image.new("RGB", (2, 2)), "JPEG")


def reject_oversized(width: int, height: int, emit: EmitRecord, max_pixels: int = MAX_PIXELS) -> bool:
    if width * height > max_pixels:
        emit({"too_many_pixels": [width, height, max_pixels]})
        return True
    return False


def read_webp_size(head: bytes) -> tuple[int, int]:
    """The size that the first chunk declares, in one of its three forms."""
    match head[12:16]:
        case b"VP8X":
            return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case _:
            return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF


def read_orientation(image: Image.Image) -> int:
    """The EXIF orientation: 1 is upright. Unreadable data is ignored."""
    try:
        found: Any = image.getexif().get(EXIF_ORIENTATION, 1)
    except (ValueError, TypeError, KeyError, IndexError, OSError, SyntaxError, OverflowError, ArithmeticError):
        return 1  # this process has no logger: it runs confined
    return found if isinstance(found, int) else 1


def scale_to_fit(image: Image.Image) -> Image.Image:
    """The image in a plain color mode, its long side at most MAX_SIDE_PIXELS.

    A large image is scaled strip by strip, so that there is never a second one of its size in memory.
    """
    mode = choose_mode(image)
    factor = max(image.size) // (2 * MAX_SIDE_PIXELS)
    if factor < 2:
        small = convert_mode(image, mode)
    else:
        width, height = image.size
        small = Image.new(mode, (-(-width // factor), -(-height // factor)))
        strip = factor * max(1, STRIP_PIXELS // (width * factor))
        for top in range(0, height, strip):
            part = image.crop((0, top, width, min(top + strip, height)))
            small.paste(convert_mode(part, mode).reduce(factor), (0, top // factor))
    image.close()  # frees its memory
    scale = MAX_SIDE_PIXELS / max(small.size)
    if scale < 1:
        width, height = (max(1, round(side * scale)) for side in small.size)
        small = small.resize((width, height), Image.Resampling.LANCZOS)
    return small


def choose_mode(image: Image.Image) -> str:
    if image.mode.startswith("I"):
        return "L"
    if image.has_transparency_data:
        return "RGBA"
    return "L" if image.mode in ("1", "L") else "RGB"


def convert_mode(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grayscale
        image = image.convert("I").point(lambda value: value * (1 / 256))
    return image.convert(mode)


def encode_image(image: Image.Image, *, lossless: bool) -> tuple[str, bytes]:
    """As PNG if that preserves something and is not too large, otherwise as JPEG. Neither has metadata."""
    image.info.clear()
    if image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255):
        image = image.convert("RGB")
    is_transparent = image.mode == "RGBA"
    if is_transparent or lossless:
        data = save_image(image, "PNG")
        if len(data) <= (MAX_IMAGE_BYTES if is_transparent else MAX_LOSSLESS_BYTES):
            return "image/png", data
    if is_transparent:
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image).convert("RGB")
    # Noise compresses worst: even at the maximum size, the second quality is enough for it.
    tries = (save_image(image, "JPEG", quality=quality) for quality in JPEG_QUALITIES)
    return "image/jpeg", next(data for data in tries if len(data) <= MAX_IMAGE_BYTES)


def save_image(image: Image.Image, image_format: str, **options: int) -> bytes:
    out = BytesIO()
    image.save(out, image_format, **options)
    return out.getvalue()


def count_frames(file: BinaryIO, medium: str) -> int | None:
    """The number of frames; None if there are several, and too many to count, or broken ones."""

    def raise_timeout(*_: object) -> None:
        raise FrameCountTimeout

    signal.signal(signal.SIGVTALRM, raise_timeout)
    signal.setitimer(signal.ITIMER_VIRTUAL, FRAME_COUNT_TIMEOUT_SECONDS)
    try:
        file.seek(0)
        count = int(getattr(Image.open(file, formats=[medium.upper()]), "n_frames", 1))
        return count if 0 < count <= MAX_FRAMES else None
    except (FrameCountTimeout, ValueError, TypeError, KeyError, IndexError, OSError, SyntaxError, EOFError):
        return None  # this process has no logger: it runs confined
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
