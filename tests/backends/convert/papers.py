"""Hand-made PDFs for tests: valid ones and malformed ones."""

import zlib
from collections.abc import Sequence

Words = Sequence[tuple[float, float, str]]  # x and y from the lower left corner, and the text there


def document(objects: Sequence[bytes], *, root: int = 1, trailer: bytes = b"") -> bytes:
    """Objects numbered from 1, with the cross-reference table."""
    out = bytearray(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    for place in places:
        out += b"%010d 00000 n \n" % place
    out += b"trailer\n<</Size %d/Root %d 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, root, trailer, start)
    return bytes(out)


def stream(data: bytes, entries: bytes = b"", *, packed: bool = False) -> bytes:
    if packed:
        data, entries = zlib.compress(data), entries + b"/Filter/FlateDecode"
    return b"<</Length %d%s>>\nstream\n%s\nendstream" % (len(data), entries, data)


def written(words: Words, size: float = 10) -> bytes:
    """The content stream for some words."""
    shown = (
        b"BT /F %g Tf 1 0 0 1 %g %g Tm (%s) Tj ET"
        % (size, x, y, text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)").encode("cp1252"))
        for x, y, text in words
    )
    return b"\n".join(shown)


def paper(
    *contents: bytes,
    box: bytes = b"[0 0 595 842]",
    page: bytes = b"",
    resources: bytes = b"",
    more: Sequence[bytes] = (),
    trailer: bytes = b"",
) -> bytes:
    """Pages with these content streams. `more` are objects that `resources` may name, numbered from 4 + 2 × pages."""
    count = len(contents)
    kids = b" ".join(b"%d 0 R" % (4 + 2 * n) for n in range(count))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    ]
    for n, content in enumerate(contents):
        entries = b"/MediaBox%s/Resources<</Font<</F 3 0 R>>%s>>%s" % (box, resources, page)
        objects.append(b"<</Type/Page/Parent 2 0 R/Contents %d 0 R%s>>" % (5 + 2 * n, entries))
        objects.append(stream(content))
    return document([*objects, *more], trailer=trailer)


def plain(*texts: str) -> bytes:
    """One page per text, one line per line of it."""
    return paper(*(written([(72, 770 - 14 * n, line) for n, line in enumerate(text.split("\n"))]) for text in texts))


def scanned(image: bytes, width: int, height: int, **entries: bytes) -> bytes:
    """One page that is a single greyscale picture, one byte per pixel."""
    kind = b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 8" % (width, height)
    return paper(
        b"q 500 0 0 700 40 40 cm /I Do Q", resources=b"/XObject<</I 6 0 R>>", more=[stream(image, kind, packed=True)]
    )
