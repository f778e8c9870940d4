"""In the worker: pages of a PDF as text laid out in lines, and as pictures where they have none or somebody wants them.

Each page is told when it is done, so that what comes after it can only end the rest.
"""

import math
from collections.abc import Iterator
from time import process_time
from typing import Any, BinaryIO

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]

from handhold.core.text.layout import Piece, laid_out
from handhold.world.convert.images import MOST_SIDE, encoded
from handhold.world.convert.worker import Say

raw: Any = pypdfium2.raw

MOST_TIME = 0.7  # of the seconds that there are: after that no page is begun
MOST_SENT = 12_000_000  # bytes of pictures in one reply
MOST_CHARACTERS = 100_000  # of a page: nobody reads more
MOST_ZOOM = 4.0  # a page the size of a stamp stays small
PIXELS_A_TOKEN, CHARACTERS_A_TOKEN = 750, 4
SAMPLED = 200  # letters of a page that are asked how they stand
GAP = 1.2  # of a letter's height: wider than any space, so that what follows stands in another column
HYPHENS = ("\x02", "\ufffe")  # how the library tells a hyphen that ends a line


def work(job: dict[str, Any], file: BinaryIO, say: Say) -> None:
    try:
        document = pypdfium2.PdfDocument(file.read())
    except pypdfium2.PdfiumError:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD:
            say({"encrypted": True})
            return
        raise
    count = len(document)
    say({"count": count})
    room, bytes_left = job["chars"], MOST_SENT
    latest = MOST_TIME * job["seconds"]
    for n, number in enumerate(number for number in job["pages"] if number <= count):
        if n and process_time() > latest:
            say({"ended": "time"})
            return
        try:
            page = document[number - 1]
        except pypdfium2.PdfiumError:
            say({"page": number, "broken": True, "text": "", "cut": 0})
            continue
        text = text_of(page)
        picture = pictured(page) if job["images"] or not text.strip() else None
        price = price_of(picture[2]) if picture else 0
        if n and (len(text) + price > room or (picture and len(picture[1]) > bytes_left)):
            say({"ended": "room"})
            return
        kept = text[: max(0, room - price)]
        facts = {"page": number, "text": kept, "cut": len(text) - len(kept)}
        if picture:
            mime, data, size = picture
            say({**facts, "mime": mime, "size": size}, data)
            bytes_left -= len(data)
        else:
            say(facts)
        room -= len(kept) + price
        page.close()
    say({"ended": ""})


def price_of(size: tuple[int, int]) -> int:
    """What a picture costs, in characters."""
    return math.ceil(size[0] * size[1] / PIXELS_A_TOKEN) * CHARACTERS_A_TOKEN


# --- pictures


def pictured(page: Any) -> tuple[str, bytes, tuple[int, int]] | None:
    """The page as a picture; None if there is nothing on it."""
    width, height = page.get_size()
    if not (0 < width < math.inf and 0 < height < math.inf):
        return None
    image = page.render(scale=min(MOST_SIDE / math.ceil(max(width, height)), MOST_ZOOM)).to_pil().convert("RGB")
    if len(image.getcolors(2) or "many") == 1:
        return None
    mime, data = encoded(image, lossless=True)
    return mime, data, image.size


# --- text


def text_of(page: Any) -> str:
    sheet = page.get_textpage()
    try:
        return laid_out(list(pieces(sheet)))
    finally:
        sheet.close()


Box = tuple[float, float, float, float]


def quarter(sheet: Any) -> int:
    """By how many quarters of a circle most of the letters are turned: a page may stand on its side."""
    count = sheet.count_chars()
    angles = (raw.FPDFText_GetCharAngle(sheet, n) for n in range(0, count, count // SAMPLED + 1))
    quarters = [round(-angle / (math.pi / 2)) % 4 for angle in angles if angle >= 0]  # the library counts clockwise
    return max(range(4), key=quarters.count)


def read_box(left: float, bottom: float, right: float, top: float, turned: int) -> Box:
    """Left, top, right, bottom, as whoever reads it holds the page; y grows downwards."""
    match turned:
        case 1:
            return bottom, left, top, right
        case 2:
            return -right, bottom, -left, top
        case 3:
            return -top, -right, -bottom, -left
        case _:
            return left, -top, right, -bottom


def pieces(sheet: Any) -> Iterator[Piece]:
    """Runs of characters that stand close to each other on one line."""
    text: list[str] = []
    box = (0.0, 0.0, 0.0, 0.0)
    for char, place in characters(sheet):
        ended = char in "\r\n" or (place is not None and bool(text) and apart(box, place))
        if ended and text:
            yield piece(box, text)
            text = []
        if char in "\r\n" or (not text and (place is None or char.isspace())):
            continue
        if place is not None:
            box = place if not text else around(box, place)
        text.append(char)
    if text:
        yield piece(box, text)


def characters(sheet: Any) -> Iterator[tuple[str, Box | None]]:
    """Each character with its box; a blank that the library put in has none."""
    loose = raw.FS_RECTF()
    turned = quarter(sheet)
    for n in range(min(sheet.count_chars(), MOST_CHARACTERS)):
        code: int = raw.FPDFText_GetUnicode(sheet, n)
        char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if char in HYPHENS:
            char = "-"
        if char in "\r\n":
            yield char, None
            continue
        if not char.isprintable() and not char.isspace():
            char = "\ufffd"
        if char.isspace() or not raw.FPDFText_GetLooseCharBox(sheet, n, loose):
            yield " " if char.isspace() else char, None
            continue
        box = read_box(loose.left, loose.bottom, loose.right, loose.top, turned)
        yield char, box if all(map(math.isfinite, box)) else None


def apart(box: Box, place: Box) -> bool:
    """Whether what comes next stands on another line, or in another column."""
    height = max(box[3] - box[1], place[3] - place[1], 0.1)
    beside = min(box[3], place[3]) - max(box[1], place[1]) > 0
    return not beside or not -GAP * height < place[0] - box[2] < GAP * height


def around(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def piece(box: Box, text: list[str]) -> Piece:
    return Piece(*box, "".join(text).strip())
