"""Hundreds of images and PDFs made to break the program that opens them: bombs, loops, false claims, truncated files.

python -m tests.faults.hostile_media FOLDER     writes them there; `hostile_shown` shows them to a toolbox
"""

import random
import struct
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import islice
from pathlib import Path

from PIL import Image

from tests.backends.convert.papers import document, paper, plain, stream, written

SEED = 7
FLIPPED = 13  # per valid file: copies with some bytes changed
MIB = 1 << 20
Case = tuple[str, bytes]  # the file name and its content


def hostile(seed: int = SEED) -> Iterator[Case]:
    """The same files for the same seed; names are unique."""
    rng = random.Random(seed)
    names = Counter[str]()
    for make in (pngs, jpegs, gifs, webps, lies, pdfs):
        for name, data in make(rng):
            stem, _, kind = name.rpartition(".")
            names[name] += 1
            yield f"{stem}-{names[name]}.{kind}", data


# --- building blocks


def picture(width: int = 64, height: int = 48, mode: str = "RGB") -> Image.Image:
    return Image.linear_gradient("L").resize((width, height)).convert(mode)


def saved(image: Image.Image, form: str, **options: object) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def flipped(name: str, whole: bytes, rng: random.Random, *, spared: int = 8) -> Iterator[Case]:
    for _ in range(FLIPPED):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 12)):
            data[rng.randrange(spared, len(data))] = rng.randrange(256)
        yield name, bytes(data)


def cut(name: str, whole: bytes, places: Iterable[int]) -> Iterator[Case]:
    for at in places:
        yield name, whole[:at]


def spread(whole: bytes, count: int) -> list[int]:
    return [len(whole) * n // (count + 1) for n in range(1, count + 1)]


# --- PNG


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(*chunks: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def header(width: int, height: int, bits: int = 8, colour: int = 2, interlaced: int = 0) -> bytes:
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, interlaced))


def zeros(count: int) -> bytes:
    """This many zeros, compressed to a thousandth of their size. One piece is repeated, so it takes no time."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)
    rest = zlib.compressobj(9, zlib.DEFLATED, -15)
    last = rest.compress(bytes(count % MIB)) + rest.flush()
    return b"\x78\xda" + piece * (count // MIB) + last + struct.pack(">HH", count % 65_521, 1)


def chunks_of(whole: bytes) -> list[tuple[int, int]]:
    at, found = 8, list[tuple[int, int]]()
    while at < len(whole):
        (size,) = struct.unpack_from(">I", whole, at)
        found.append((at, at + size + 12))
        at += size + 12
    return found


def pngs(rng: random.Random) -> Iterator[Case]:
    whole = saved(picture(), "PNG")
    palette = saved(picture(mode="P"), "PNG", transparency=3)
    end = chunk(b"IEND", b"")
    yield from flipped("flipped.png", whole, rng)
    yield from flipped("flipped-palette.png", palette, rng)
    for start, past in chunks_of(palette):
        yield from cut("cut.png", palette, [start, start + 4, start + 9, past - 4])
        yield "sum.png", palette[: past - 4] + b"\0\0\0\0" + palette[past:]
        yield "length.png", palette[:start] + b"\xff\xff\xff\xff" + palette[start + 4 :]
        yield "gone.png", palette[:start] + palette[past:]
        yield "twice.png", palette[:past] + palette[start:past] + palette[past:]
    for width, height in ((50_000, 50_000), (0, 0), (0, 7), (2**31 - 1, 1), (2**31 - 1,) * 2, (2**32 - 1,) * 2):
        yield "declared.png", png(header(width, height), chunk(b"IDAT", zlib.compress(b"")), end)
    for bits, colour in ((8, 0), (8, 2), (8, 6), (16, 6), (16, 0), (1, 0), (8, 3)):
        wide = (10_000, 9_990)
        per_row = 1 + (wide[0] * bits * {0: 1, 2: 3, 3: 1, 6: 4}[colour] + 7) // 8
        colours = chunk(b"PLTE", bytes(768)) if colour == 3 else b""
        data = chunk(b"IDAT", zeros(per_row * wide[1]))
        yield "bomb.png", png(header(*wide, bits, colour), colours, data, end)
        yield "woven-bomb.png", png(header(*wide, bits, colour, 1), colours, data, end)
    yield "long.png", png(header(99_999_999, 1), chunk(b"IDAT", zeros(300_000_000)), end)
    yield "tall.png", png(header(1, 99_999_999, 8, 0), chunk(b"IDAT", zeros(200_000_000)), end)
    for kind in (b"zTXt", b"iTXt", b"iCCP"):
        inner = b"x\0\1\0\0\0" if kind == b"iTXt" else b"x\0\0"
        bomb = chunk(kind, inner + zeros(400 * MIB))
        yield "text-bomb.png", whole[:33] + bomb + whole[33:]
        yield "text-bombs.png", whole[:33] + bomb * 20 + whole[33:]
    yield "many-chunks.png", whole[:33] + chunk(b"tEXt", b"a\0b") * 300_000 + whole[33:]
    exif = b"MM\0*\0\0\0\x08" + struct.pack(">H", 65535) + struct.pack(">HHII", 0x112, 3, 2**32 - 1, 8) * 3000
    yield "exif.png", whole[:33] + chunk(b"eXIf", exif) + whole[33:]
    frames = [picture() for _ in range(3)]
    yield "frames.png", saved(frames[0], "PNG", save_all=True, append_images=frames[1:])
    yield "claimed-frames.png", whole[:33] + chunk(b"acTL", struct.pack(">II", 2**31 - 1, 0)) + whole[33:]
    yield "colours.png", png(header(8, 8, 8, 3), chunk(b"IDAT", zlib.compress(bytes([0, *[255] * 8]) * 8)), end)
    yield "many-data.png", png(header(64, 48), *[chunk(b"IDAT", b"")] * 100_000, end)


# --- JPEG


def markers(whole: bytes) -> list[int]:
    return [at for at in range(len(whole) - 1) if whole[at] == 0xFF and whole[at + 1] not in (0, 0xFF)]


def jpegs(rng: random.Random) -> Iterator[Case]:
    whole = saved(picture(), "JPEG")
    slow = saved(picture(200, 150), "JPEG", progressive=True)
    ink = saved(picture(mode="CMYK"), "JPEG")
    for name, data in (("flipped.jpg", whole), ("flipped-progressive.jpg", slow), ("flipped-cmyk.jpg", ink)):
        yield from flipped(name, data, rng, spared=3)
    yield from cut("cut.jpg", slow, [at for place in markers(slow) for at in (place, place + 3)])
    frame = slow.index(b"\xff\xc2") + 5
    for height, width in ((65_500, 65_500), (0, 0), (0, 9), (65_535, 1), (10_000, 9_900)):
        yield "declared.jpg", slow[:frame] + struct.pack(">HH", height, width) + slow[frame + 4 :]
    large = saved(picture(9_900, 10_000, "L"), "JPEG", quality=5, progressive=True)
    yield "large.jpg", large
    scans = large[large.index(b"\xff\xda") : -2]
    first = scans[: scans.index(b"\xff\xda", 2)] if b"\xff\xda" in scans[2:] else scans
    yield "scans.jpg", large[:-2] + first * 40 + large[-2:]
    small = slow[slow.index(b"\xff\xda") : -2]
    yield "many-scans.jpg", slow[:-2] + small * 3_000 + slow[-2:]
    for entries in (1, 65_535):
        loop = b"II*\0\x08\0\0\0" + struct.pack("<H", entries) + struct.pack("<HHII", 0x8769, 4, 1, 8) * 200
        body = b"Exif\0\0" + loop + struct.pack("<I", 8)
        yield "exif-loop.jpg", whole[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + whole[2:]
    for turn in (0, 9, 65_535):
        exif = Image.Exif()
        exif[0x112] = turn
        yield "turned.jpg", saved(picture(), "JPEG", exif=exif)
    pictures = b"MPF\0" + b"II*\0\x08\0\0\0" + struct.pack("<H", 3)
    pictures += struct.pack("<HHI4s", 0xB000, 7, 4, b"0100") + struct.pack("<HHII", 0xB001, 4, 1, 2**31)
    pictures += struct.pack("<HHII", 0xB002, 7, 2**31, 60)
    yield "pictures.jpg", whole[:2] + b"\xff\xe2" + struct.pack(">H", len(pictures) + 2) + pictures + whole[2:]
    yield "profiles.jpg", whole[:2] + (b"\xff\xe2\xff\xff" + b"ICC_PROFILE\0\1\1" + bytes(65_519)) * 300 + whole[2:]
    yield "comments.jpg", whole[:2] + b"\xff\xfe\0\2" * 500_000 + whole[2:]
    yield "fill.jpg", whole[:2] + b"\xff" * 5_000_000 + whole[2:]
    yield "only-start.jpg", b"\xff\xd8\xff" + bytes(100)


# --- GIF


def gif(width: int, height: int, *blocks: bytes) -> bytes:
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0x80, 0, 0) + bytes(6) + b"".join(blocks) + b";"


def frame(width: int, height: int, data: bytes = b"\x02\x02\x44\x01\x00", *, left: int = 0, top: int = 0) -> bytes:
    return b"," + struct.pack("<HHHHB", left, top, width, height, 0) + data


def gifs(rng: random.Random) -> Iterator[Case]:
    whole = saved(picture(mode="P"), "GIF")
    moving = saved(picture(mode="P"), "GIF", save_all=True, append_images=[picture(9 * n, 48, "P") for n in (2, 3, 5)])
    yield from flipped("flipped.gif", whole, rng, spared=6)
    yield from flipped("flipped-moving.gif", moving, rng, spared=6)
    yield from cut("cut.gif", moving, spread(moving, 20))
    yield "frames.gif", gif(1, 1, frame(1, 1) * 10_000)
    yield "frames-changing.gif", gif(300, 300, (b"!\xf9\x04\x0c\1\0\0\0" + frame(1, 1)) * 10_000)
    yield "million-frames.gif", gif(1, 1, frame(1, 1) * 1_500_000)
    yield "screen.gif", gif(65_535, 65_535, frame(1, 1))
    yield "frame-outside.gif", gif(1, 1, frame(65_535, 65_535))
    yield "frame-far.gif", gif(1, 1, frame(1, 1, left=65_535, top=65_535))
    yield "later-frame.gif", gif(1, 1, frame(1, 1), frame(65_535, 65_535))
    yield "large.gif", gif(9_999, 9_999, frame(9_999, 9_999, b"\x08" + b"\xff" + b"\xaa" * 255 + b"\0"))
    yield "no-frame.gif", gif(9, 9)
    yield "code-size.gif", gif(9, 9, frame(9, 9, b"\xff\x01\0\0"))
    yield "comments.gif", gif(9, 9, (b"!\xfe" + (b"\xff" + b"c" * 255) * 4 + b"\0") * 20_000, frame(9, 9))
    yield "endless-block.gif", gif(9, 9, frame(9, 9, b"\x02" + (b"\xff" + bytes(255)) * 40_000))


# --- WebP


def webps(rng: random.Random) -> Iterator[Case]:
    lossy = saved(picture(), "WEBP")
    lossless = saved(picture(mode="RGBA"), "WEBP", lossless=True)
    moving = saved(picture(), "WEBP", save_all=True, append_images=[picture(64, 48, "L").convert("RGB").rotate(9)] * 3)
    for name, data in (("flipped.webp", lossy), ("flipped-lossless.webp", lossless), ("flipped-moving.webp", moving)):
        yield from flipped(name, data, rng, spared=16)
        yield from cut("cut.webp", data, spread(data, 8))
    yield "flat.webp", saved(Image.new("RGB", (10_000, 9_990)), "WEBP", lossless=True, quality=0, method=0)
    at = lossless.index(b"VP8L") + 9
    yield "declared.webp", lossless[:at] + b"\xff\xff\xff\x0f" + lossless[at + 4 :]
    canvas = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + b"\xff\xff\xff" * 2
    yield "canvas.webp", b"RIFF" + struct.pack("<I", len(canvas) + 4) + b"WEBP" + canvas
    wide = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + b"\x0f\x27\0" * 2
    yield "canvas.webp", b"RIFF" + struct.pack("<I", len(moving)) + b"WEBP" + wide + moving[30:]
    yield "size.webp", b"RIFF\xff\xff\xff\xff" + lossy[8:]
    yield "nothing.webp", b"RIFF\0\0\0\0WEBP"


# --- misleading names, and polyglot files


def lies(rng: random.Random) -> Iterator[Case]:
    files = {
        "png": saved(picture(), "PNG"),
        "jpg": saved(picture(), "JPEG"),
        "gif": saved(picture(mode="P"), "GIF"),
        "webp": saved(picture(), "WEBP"),
        "pdf": plain("a page"),
    }
    for is_a, data in files.items():
        for named in (*files, "txt", "py"):
            if named != is_a:
                yield f"{is_a}-as.{named}", data
    for named in files:
        yield f"noise.{named}", rng.randbytes(5000)
        yield f"nothing.{named}", b""
        yield f"nul.{named}", bytes(5000)
        yield f"pointer.{named}", b"version 1\noid sha256:00\nsize 12\n"
    for first, second in (
        ("gif", "pdf"),
        ("jpg", "pdf"),
        ("png", "pdf"),
        ("pdf", "png"),
        ("png", "jpg"),
        ("gif", "jpg"),
    ):
        yield f"both-{second}.{first}", files[first] + files[second]
        yield f"either-{first}.{second}", files[first] + files[second]
    yield "junk.pdf", b"\0" * 900 + files["pdf"]
    yield "far.pdf", b"\0" * 9000 + files["pdf"]
    yield "script.gif", b"GIF89a/*" + bytes(40) + b"*/=1;alert(1)//"


# --- PDF


def pdfs(rng: random.Random) -> Iterator[Case]:
    whole = plain("one page\nof two lines", "another (page)")
    yield from flipped("flipped.pdf", whole, rng)
    yield from flipped("flipped-head.pdf", whole[:700], rng)
    yield from cut("cut.pdf", whole, [at for at in range(9, len(whole)) if whole.startswith(b"endobj", at)])
    yield from cut("cut-anywhere.pdf", whole, spread(whole, 20))
    yield from trees()
    yield from bombs()
    yield from drawings()
    yield from odd_images(rng)
    for box in (
        *(b"[0 0 1e9 1e9]", b"[0 0 1e38 1e38]", b"[0 0 1e400 1]", b"[0 0 0 0]", b"[0 0 -5 -5]", b"[1 2 3]", b"[]"),
        *(b"[0 0 99999999 0.0001]", b"[-1e9 -1e9 1e9 1e9]", b"[nan 0 9 9]", b"[0 0 (a) 9]", b"2 0 R"),
    ):
        yield "box.pdf", paper(written([(9, 9, "x")]), box=box)
        yield "box-no-text.pdf", paper(b"0 0 9 9 re f", box=box)
    for entry in (
        b"/Rotate 1",
        b"/Rotate 2147483647",
        b"/UserUnit 1e30",
        b"/Contents 999 0 R",
        b"/Annots[2 0 R]",
        b"/Group 2 0 R",
    ):
        yield "page.pdf", paper(b"0 0 9 9 re f", page=entry)


def trees() -> Iterator[Case]:
    font, leaf = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>", b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]>>"
    catalog = b"<</Type/Catalog/Pages 2 0 R>>"
    yield "cycle.pdf", document([catalog, b"<</Type/Pages/Kids[2 0 R]/Count 1>>"])
    yield (
        "cycle.pdf",
        document([catalog, b"<</Type/Pages/Kids[3 0 R]/Count 9>>", b"<</Type/Pages/Kids[2 0 R]/Count 9>>"]),
    )
    yield "parents.pdf", document([catalog, b"<</Type/Pages/Parent 2 0 R/Kids[3 0 R]/Count 1>>", leaf])
    for count in (10**6, 2**31 - 1, -1, 2**63):
        yield "count.pdf", document([catalog, b"<</Type/Pages/Kids[3 0 R]/Count %d>>" % count, leaf])
    yield "many-pages.pdf", document([catalog, b"<</Type/Pages/Kids[%s]/Count 100000>>" % (b"3 0 R " * 100_000), leaf])
    for depth in (500, 20_000):
        nodes = [b"<</Type/Pages/Parent %d 0 R/Kids[%d 0 R]/Count 1>>" % (n + 1, n + 3) for n in range(depth)]
        yield "deep.pdf", document([catalog, *nodes, leaf])
    yield "nested.pdf", document([catalog, b"<</Type/Pages/Kids" + b"[" * 200_000 + b"]" * 200_000 + b"/Count 1>>"])
    yield "nested.pdf", document([catalog, b"<</A" * 100_000 + b">>" * 100_000])
    yield "itself.pdf", document([b"1 0 R", font])
    yield (
        "lengths.pdf",
        document([catalog, b"<</Type/Pages/Kids[3 0 R]/Count 1>>", leaf, b"<</Length 4 0 R>>\nstream\nx\nendstream"]),
    )
    good = plain("a")
    at = good.rindex(b"startxref")
    yield "table-loop.pdf", good.replace(b"/Root", b"/Prev %d/Root" % good.index(b"xref\n"))
    yield "table-far.pdf", good[:at] + b"startxref\n99999999999\n%%EOF\n"
    yield "table-itself.pdf", good[:at] + b"startxref\n%d\n%%%%EOF\n" % at
    yield "table-size.pdf", good.replace(b"xref\n0 6", b"xref\n0 2147483647")
    table = stream(b"\x01\0\0\0\0", b"/Type/XRef/W[1 99999999 2]/Size 2147483647/Root 1 0 R")
    yield "table-stream.pdf", b"%%PDF-1.5\n1 0 obj\n%s\nendobj\nstartxref\n9\n%%%%EOF\n" % table
    yield (
        "encrypted.pdf",
        plain("a").replace(
            b"/Root", b"/Encrypt<</Filter/Standard/V 1/R 2/P -4/O(%s)/U(%s)>>/ID[(a)(b)]/Root" % (b"o" * 32, b"u" * 32)
        ),
    )
    yield "encrypted-oddly.pdf", plain("a").replace(b"/Root", b"/Encrypt<</Filter/Standard/V 99/R 99>>/Root")


def bombs() -> Iterator[Case]:
    for size in (100, 300, 900):
        yield "content.pdf", packed_page(zeros(size * MIB))
        drawing = zlib.compress(b"0 0 1 1 re f " * (size * 20_000))
        yield "drawing.pdf", packed_page(drawing)
    twice = zlib.compress(zeros(900 * MIB))
    yield "twice.pdf", packed_page(zlib.compress(twice), b"[/FlateDecode/FlateDecode/FlateDecode]")
    yield "filters.pdf", packed_page(b"x", b"[" + b"/ASCIIHexDecode" * 50_000 + b"]")
    yield "runs.pdf", packed_page(b"\x81 " * 3_000_000, b"/RunLengthDecode")
    yield "letters.pdf", packed_page(zlib.compress(b"BT /F 10 Tf 1 0 0 1 9 9 Tm (" + b"x" * 30_000_000 + b") Tj ET"))
    words = b"".join(b"BT /F 1 Tf 1 0 0 1 %d %d Tm (w) Tj ET\n" % (n * 7 % 590, n * 13 % 840) for n in range(200_000))
    yield "words.pdf", packed_page(zlib.compress(words))
    inner = b"1 0 " * 100 + zeros(10)
    yield (
        "objects.pdf",
        document([b"<</Type/Catalog/Pages 9 0 R>>", stream(inner, b"/Type/ObjStm/N 2147483647/First 400")]),
    )
    yield (
        "objects.pdf",
        document(
            [
                b"<</Type/Catalog/Pages 2 0 R>>",
                stream(zeros(500 * MIB), b"/Type/ObjStm/N 99/First 9/Filter/FlateDecode"),
            ]
        ),
    )


def packed_page(data: bytes, filters: bytes = b"/FlateDecode") -> bytes:
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[4 0 R]/Count 1>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 5 0 R/Resources<</Font<</F 3 0 R>>>>>>",
        stream(data, b"/Filter%s" % filters),
    ]
    return document(objects)


def drawings() -> Iterator[Case]:
    form = b"/Type/XObject/Subtype/Form/BBox[0 0 595 842]/Resources<</XObject<</X 6 0 R/Y 7 0 R>>>>"
    yield "form-loop.pdf", paper(b"/X Do", resources=b"/XObject<</X 6 0 R>>", more=[stream(b"/X Do", form)])
    both = [stream(b"/Y Do " * 20, form), stream(b"/X Do " * 20, form)]
    yield "forms.pdf", paper(b"/X Do", resources=b"/XObject<</X 6 0 R>>", more=both)
    ladder = [
        stream(b"/N Do " * 10, b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]/Resources<</XObject<</N %d 0 R>>>>" % (7 + n))
        for n in range(12)
    ]
    yield (
        "form-ladder.pdf",
        paper(
            b"/N Do",
            resources=b"/XObject<</N 6 0 R>>",
            more=[*ladder, stream(b"0 0 1 1 re f", b"/Type/XObject/Subtype/Form/BBox[0 0 9 9]")],
        ),
    )
    yield "saved.pdf", paper(b"q " * 1_000_000)
    yield "restored.pdf", paper(b"Q " * 1_000_000)
    yield "numbers.pdf", paper(b"9" * 5_000_000 + b" 0 m f")
    yield "operands.pdf", paper(b"1 " * 2_000_000 + b"re f")
    yield (
        "path.pdf",
        paper(b"0 0 m " + b"".join(b"%d %d l " % (n * 17 % 600, n * 31 % 800) for n in range(200_000)) + b"f*"),
    )
    yield "curves.pdf", paper(b"0 0 m " + b"1e5 1e5 -1e5 1e5 0 0 c " * 100_000 + b"S")
    yield "dashes.pdf", paper(b"[0.00001 0.00001] 0 d 1 w 0 0 m 500 800 l S")
    yield "wide-line.pdf", paper(b"1e30 w 0 0 m 500 800 l S")
    yield "matrix.pdf", paper(b"1e30 0 0 1e30 0 0 cm 0 0 1 1 re f")
    tile = b"/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 9 9]/XStep %s/YStep %s/Resources<<>>"
    for step in (b"0", b"0.00001", b"1e-30", b"-1"):
        yield (
            "tiles.pdf",
            paper(
                b"/Pattern cs /P scn 0 0 500 800 re f",
                resources=b"/Pattern<</P 6 0 R>>",
                more=[stream(b"0 0 1 1 re f", tile % (step, step))],
            ),
        )
    shades = (
        b"<</ShadingType 1/ColorSpace/DeviceRGB/Domain[0 1e9 0 1e9]/Function<</FunctionType 2/Domain[0 1]/N 1e30>>>>",
        b"<</ShadingType 3/ColorSpace/DeviceRGB/Coords[0 0 0 1e30 0 1e30]/Extend[true true]/Function<</FunctionType 2/Domain[0 1]/N 1>>>>",
        b"<</ShadingType 2/ColorSpace/DeviceRGB/Coords[0 0 0 0]/Function<</FunctionType 3/Domain[0 1]/Functions[6 0 R]>>>>",
    )
    for shade in shades:
        yield "shade.pdf", paper(b"/S sh", resources=b"/Shading<</S 6 0 R>>", more=[shade])
    sums = b"{" + b"dup mul " * 200_000 + b"}"
    sample = stream(sums, b"/FunctionType 4/Domain[0 1 0 1]/Range[0 1 0 1 0 1]")
    yield (
        "sums.pdf",
        paper(
            b"/S sh", resources=b"/Shading<</S<</ShadingType 1/ColorSpace/DeviceRGB/Function 6 0 R>>>>", more=[sample]
        ),
    )
    glyph = b"<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/FirstChar 65/LastChar 65/Widths[9]/Encoding<</Differences[65/A]>>/CharProcs<</A 7 0 R>>/Resources<</Font<</T 6 0 R>>>>>>"
    yield (
        "glyphs.pdf",
        paper(
            b"BT /T 9 Tf (AAAA) Tj ET",
            resources=b"/XObject<<>>/Font<</T 6 0 R>>",
            more=[glyph, stream(b"9 0 d0 BT /T 9 Tf (AAAA) Tj ET")],
        ),
    )
    yield "far-text.pdf", paper(written([(1e30, -1e30, "far"), (9, 9, "near")]))
    yield "size.pdf", paper(written([(9, 9, "large")], size=1e20), written([(9, 9, "none")], size=0))
    yield "controls.pdf", paper(b"BT /F 9 Tf 9 9 Td (\\000\\001\\033[31m\\177) Tj ET")


def odd_images(rng: random.Random) -> Iterator[Case]:
    for filters in (b"JBIG2Decode", b"JPXDecode", b"CCITTFaxDecode", b"DCTDecode", b"LZWDecode", b"NoSuchDecode"):
        for width, height in ((9, 9), (60_000, 60_000)):
            kind = (
                b"/Type/XObject/Subtype/Image/Width %d/Height %d/ColorSpace/DeviceGray/BitsPerComponent 1/Filter/%s"
                % (
                    *(width, height),
                    filters,
                )
            )
            yield "image.pdf", with_image(stream(rng.randbytes(2000), kind))
    for bits, space in (
        (8, b"/DeviceGray"),
        (16, b"/DeviceCMYK"),
        (1, b"/DeviceGray"),
        (99, b"[/Indexed/DeviceRGB 255(a)]"),
    ):
        kind = (
            b"/Type/XObject/Subtype/Image/Width 20000/Height 20000/ColorSpace%s/BitsPerComponent %d/Filter/FlateDecode"
        )
        yield "image-bomb.pdf", with_image(stream(zeros(400_000_000), kind % (space, bits)))
    kind = b"/Type/XObject/Subtype/Image/Width 9/Height 9/ColorSpace/DeviceGray/BitsPerComponent 8/SMask 6 0 R"
    yield "mask-loop.pdf", with_image(stream(bytes(81), kind))
    tables = b"\0\0\0\0\x30\0\1\0\0\0\x13" + struct.pack(">IIII", 2**31 - 1, 2**31 - 1, 0, 0) + b"\0\0\0"
    kind = b"/Type/XObject/Subtype/Image/Width 9/Height 9/ColorSpace/DeviceGray/BitsPerComponent 1/Filter/JBIG2Decode"
    yield "tables.pdf", with_image(stream(tables, kind))
    inline = b"BI /W 60000 /H 60000 /BPC 8 /CS /G ID " + bytes(100) + b" EI"
    yield "inline.pdf", paper(inline)


def with_image(image: bytes) -> bytes:
    return paper(b"500 0 0 700 40 40 cm /I Do", resources=b"/XObject<</I 6 0 R>>", more=[image])


def main(folder: str, step: str = "1") -> None:
    for name, data in islice(hostile(), 0, None, int(step)):
        (Path(folder) / name).write_bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
