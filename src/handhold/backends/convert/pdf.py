"""In the worker: pages of a PDF as text laid out in lines, and as images if they have no text or if requested.

Each page is emitted when it is done, so that a later failure loses only the rest.
"""

import math
from collections.abc import Iterator
from time import process_time
from typing import Any, BinaryIO

import pypdfium2  # pyright: ignore[reportMissingTypeStubs]

from handhold.backends.convert.images import MAX_SIDE_PIXELS, EmitRecord, encode_image
from handhold.core.text.page_layout import TextPiece, lay_out

raw: Any = pypdfium2.raw

MAX_TIME_SHARE = 0.7  # of the available seconds; after that, no page is started
MAX_PICTURE_BYTES = 12_000_000  # in one reply
MAX_PAGE_CHARACTERS = 100_000  # more is not useful
MAX_ZOOM = 4.0  # a tiny page stays small
PIXELS_PER_TOKEN, CHARACTERS_PER_TOKEN = 750, 4
MAX_SAMPLED_CHARACTERS = 200  # characters of a page checked for their rotation
COLUMN_GAP = 1.2  # in character heights: wider than any space, so that what follows is in another column
HYPHENS = ("\x02", "\ufffe")  # how the library marks a hyphen at the end of a line


def convert_pdf(job: dict[str, Any], file: BinaryIO, emit: EmitRecord) -> None:
    try:
        document = pypdfium2.PdfDocument(file.read())
    except pypdfium2.PdfiumError:
        if raw.FPDF_GetLastError() == raw.FPDF_ERR_PASSWORD:
            emit({"encrypted": True})
            return
        raise
    count = len(document)
    emit({"count": count})
    characters_left, bytes_left = job["chars"], MAX_PICTURE_BYTES
    latest = MAX_TIME_SHARE * job["seconds"]
    for n, number in enumerate(number for number in job["pages"] if number <= count):
        if n and process_time() > latest:
            emit({"ended": "time"})
            return
        try:
            page = document[number - 1]
        except pypdfium2.PdfiumError:
            emit({"page": number, "broken": True, "text": "", "cut": 0})
            continue
        text = extract_text(page)
        picture = render_page(page) if job["images"] or not text.strip() else None
        picture_cost = estimate_picture_cost(picture[2]) if picture else 0
        if n and (len(text) + picture_cost > characters_left or (picture and len(picture[1]) > bytes_left)):
            emit({"ended": "room"})
            return
        kept = text[: max(0, characters_left - picture_cost)]
        facts = {"page": number, "text": kept, "cut": len(text) - len(kept)}
        if picture:
            mime, data, size = picture
            emit({**facts, "mime": mime, "size": size}, data)
            bytes_left -= len(data)
        else:
            emit(facts)
        characters_left -= len(kept) + picture_cost
        page.close()
    emit({"ended": ""})


def estimate_picture_cost(size: tuple[int, int]) -> int:
    """The cost of an image, in characters."""
    return math.ceil(size[0] * size[1] / PIXELS_PER_TOKEN) * CHARACTERS_PER_TOKEN


# --- images


def render_page(page: Any) -> tuple[str, bytes, tuple[int, int]] | None:
    """The page as an image; None if it is empty."""
    width, height = page.get_size()
    if not (0 < width < math.inf and 0 < height < math.inf):
        return None
    image = page.render(scale=min(MAX_SIDE_PIXELS / math.ceil(max(width, height)), MAX_ZOOM)).to_pil().convert("RGB")
    if len(image.getcolors(2) or "many") == 1:
        return None
    mime, data = encode_image(image, lossless=True)
    return mime, data, image.size


# --- text


def extract_text(page: Any) -> str:
    text_page = page.get_textpage()
    try:
        return lay_out(list(iter_pieces(text_page)))
    finally:
        text_page.close()


CharBox = tuple[float, float, float, float]


def detect_quarter_turns(text_page: Any) -> int:
    """By how many quarter turns most characters are rotated: a page may be on its side."""
    count = text_page.count_chars()
    angles = (raw.FPDFText_GetCharAngle(text_page, n) for n in range(0, count, count // MAX_SAMPLED_CHARACTERS + 1))
    quarters = [round(-angle / (math.pi / 2)) % 4 for angle in angles if angle >= 0]  # the library counts clockwise
    return max(range(4), key=quarters.count)


def rotate_box(left: float, bottom: float, right: float, top: float, quarter_turns: int) -> CharBox:
    """Left, top, right, bottom, as read; y grows downwards."""
    match quarter_turns:
        case 1:
            return bottom, left, top, right
        case 2:
            return -right, bottom, -left, top
        case 3:
            return -top, -right, -bottom, -left
        case _:
            return left, -top, right, -bottom


def iter_pieces(text_page: Any) -> Iterator[TextPiece]:
    """Runs of characters that are close together on one line."""
    text: list[str] = []
    box = (0.0, 0.0, 0.0, 0.0)
    for char, char_box in iter_characters(text_page):
        ended = char in "\r\n" or (char_box is not None and bool(text) and is_apart(box, char_box))
        if ended and text:
            yield make_piece(box, text)
            text = []
        if char in "\r\n" or (not text and (char_box is None or char.isspace())):
            continue
        if char_box is not None:
            box = char_box if not text else merge_boxes(box, char_box)
        text.append(char)
    if text:
        yield make_piece(box, text)


def iter_characters(text_page: Any) -> Iterator[tuple[str, CharBox | None]]:
    """Each character with its box; a blank that the library inserted has none."""
    loose = raw.FS_RECTF()
    quarter_turns = detect_quarter_turns(text_page)
    for n in range(min(text_page.count_chars(), MAX_PAGE_CHARACTERS)):
        code: int = raw.FPDFText_GetUnicode(text_page, n)
        char = chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if char in HYPHENS:
            char = "-"
        if char in "\r\n":
            yield char, None
            continue
        if not char.isprintable() and not char.isspace():
            char = "\ufffd"
        if char.isspace() or not raw.FPDFText_GetLooseCharBox(text_page, n, loose):
            yield " " if char.isspace() else char, None
            continue
        box = rotate_box(loose.left, loose.bottom, loose.right, loose.top, quarter_turns)
        yield char, box if all(map(math.isfinite, box)) else None


def is_apart(box: CharBox, other: CharBox) -> bool:
    """Whether the next character is on another line, or in another column."""
    height = max(box[3] - box[1], other[3] - other[1], 0.1)
    beside = min(box[3], other[3]) - max(box[1], other[1]) > 0
    return not beside or not -COLUMN_GAP * height < other[0] - box[2] < COLUMN_GAP * height


def merge_boxes(one: CharBox, other: CharBox) -> CharBox:
    return min(one[0], other[0]), min(one[1], other[1]), max(one[2], other[2]), max(one[3], other[3])


def make_piece(box: CharBox, text: list[str]) -> TextPiece:
    return TextPiece(*box, "".join(text).strip())
