"""Decode bytes to text and encode it again without loss.

The encoding of a file is kept with its text, and a guess is used only if it reproduces the same bytes. So an edit
changes only the bytes of its own span, even if the guess was wrong.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.errors import BinaryFile, Unencodable
from handhold.core.facts import DeclaredEncoding

BOMS = (  # UTF-32 first: its little-endian BOM starts like UTF-16's
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
BINARY_PROBE_BYTES = 8 * 1024
DETECTION_SAMPLE_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
ISO_2022_JP = "iso2022_jp"  # all its bytes are ASCII; sequences starting with ESC $ switch character sets
REPLACEMENT_CHAR = "\ufffd"
BOM_CHAR = "\ufeff"
_SURROGATE_REPLACEMENTS = {code: REPLACEMENT_CHAR for code in range(0xD800, 0xE000)}

EncodingBasis = Literal[
    "", "mark", "likelihood", "settings", ".editorconfig"
]  # empty: the bytes themselves leave no choice


@dataclass(frozen=True)
class TextEncoding:
    """How a file's text is stored: a codec and a BOM. How it was detected does not affect equality."""

    name: str = "utf-8"
    bom: bytes = b""
    is_unknown: bool = False  # not valid UTF-8; the undecodable bytes are preserved
    detected_by: EncodingBasis = field(default="", compare=False)
    conflicting_declaration: str = field(default="", compare=False)  # the declared encoding, if the bytes contradict it

    @property
    def errors(self) -> str:
        """Unicode codecs preserve broken bytes; others are used only if nothing is broken."""
        if self.name == "utf-8":
            return "surrogateescape"
        return "surrogatepass" if self.name.startswith("utf-") else "strict"

    @property
    def label(self) -> str:
        return f"{self.name} with a mark" if self.bom else self.name

    @property
    def basis(self) -> str:
        """How the encoding was determined, in one word."""
        return "unknown" if self.is_unknown else self.detected_by or "content"

    @property
    def newline(self) -> bytes:
        return "\n".encode(self.name)


UTF8 = TextEncoding()
UNKNOWN_ENCODING = TextEncoding(is_unknown=True)


@dataclass(frozen=True)
class Text:
    """A file's text, with every character, line ending and blank preserved, and its encoding."""

    body: str
    encoding: TextEncoding = UTF8

    @classmethod
    def decode(cls, data: bytes, path: str = "", declared: DeclaredEncoding | None = None) -> "Text":
        encoding = detect_encoding(data, path, declared)
        return cls(data[len(encoding.bom) :].decode(encoding.name, encoding.errors), encoding)

    @classmethod
    def new(cls, body: str, declared: DeclaredEncoding | None) -> "Text":
        """The text of a new file. If a BOM is declared, one at the start of the text is not repeated."""
        if declared is None:
            return cls(body)
        encoding = TextEncoding(declared.name, declared.bom, detected_by=declared.source)
        return cls(body.removeprefix(BOM_CHAR) if declared.bom else body, encoding)

    def encode(self) -> bytes:
        return self.encoding.bom + self.body.encode(self.encoding.name, self.encoding.errors)

    def with_body(self, body: str) -> "Text":
        return replace(self, body=body)


def replace_undecodable(text: str) -> str:
    """Text that can be sent: undecodable bytes become U+FFFD."""
    try:
        text.encode("utf-8")  # a hundred times faster than checking every character
    except UnicodeEncodeError:
        return text.translate(_SURROGATE_REPLACEMENTS)
    return text


def check_encodable(text: str, encoding: TextEncoding, path: str) -> None:
    """Raise Unencodable if the file's encoding cannot represent the text, or is unknown and the text is not ASCII."""
    name = "ascii" if encoding.is_unknown else encoding.name
    if "\0" not in text and _is_encodable(text, name):  # a NUL would make the file binary
        return
    unencodable = "".join(char for char in sorted(set(text)) if char == "\0" or not _is_encodable(char, name))
    raise Unencodable(path, "unknown" if encoding.is_unknown else name, unencodable)


def _is_encodable(text: str, codec: str) -> bool:
    """Whether the text round-trips: some codecs use the same byte for the yen sign and the backslash."""
    try:
        return text.encode(codec).decode(codec) == text
    except UnicodeError:
        return False


def detect_encoding(data: bytes, path: str = "", declared: DeclaredEncoding | None = None) -> TextEncoding:
    """Detect the encoding: by BOM, as declared, as UTF-8, by likelihood, else as broken UTF-8."""
    if from_bom := _detect_by_bom(data, data):
        return _with_declaration(from_bom, declared)
    if declared and (encoding := _try_declared(data, declared)):
        return encoding
    return _with_declaration(_detect_by_content(data, path), declared)


def _detect_by_content(data: bytes, path: str) -> TextEncoding:
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        raise BinaryFile(path, len(data))
    if _is_iso_2022_jp(data):
        return TextEncoding(ISO_2022_JP, detected_by="likelihood")
    if is_utf8(data):
        return UTF8
    guess = guess_encoding(data)
    return guess if guess and _can_round_trip(data, guess) else UNKNOWN_ENCODING


def detect_sample_encoding(
    sample: bytes, path: str, size: int, declared: DeclaredEncoding | None = None
) -> TextEncoding:
    """Detect the encoding of a large file by its first DETECTION_SAMPLE_BYTES.

    The sample may end inside a character, and the rest of the file may be invalid.
    """
    even = sample[: len(sample) - len(sample) % 4]
    if from_bom := _detect_by_bom(sample, even):
        return _with_declaration(from_bom, declared)
    lines = even[: even.rfind(b"\n") + 1] or even  # cutting after a newline splits no character
    if declared and (encoding := _try_declared(even if declared.name.startswith("utf-") else lines, declared)):
        return encoding
    if b"\0" in sample[:BINARY_PROBE_BYTES]:
        raise BinaryFile(path, size)
    if _is_iso_2022_jp(lines):
        return _with_declaration(TextEncoding(ISO_2022_JP, detected_by="likelihood"), declared)
    if any(is_utf8(sample[: len(sample) - cut]) for cut in range(4)):
        return _with_declaration(UTF8, declared)
    return _with_declaration(guess_encoding(sample, complete=False) or UNKNOWN_ENCODING, declared)


def _detect_by_bom(data: bytes, tried: bytes) -> TextEncoding | None:
    for bom, name in BOMS:
        if data.startswith(bom) and _can_round_trip(tried[len(bom) :], TextEncoding(name, bom)):
            return TextEncoding(name, bom, detected_by="mark")
    return None


def _with_declaration(encoding: TextEncoding, declared: DeclaredEncoding | None) -> TextEncoding:
    """Note the declared encoding if it differs."""
    if declared is None or (declared.name == encoding.name and not encoding.is_unknown):
        return encoding
    return replace(encoding, conflicting_declaration=declared.name)


def _try_declared(data: bytes, declared: DeclaredEncoding) -> TextEncoding | None:
    """The declared encoding, unless the bytes contradict it."""
    encoding = TextEncoding(declared.name, detected_by=declared.source)
    if declared.name == "utf-8":
        return None  # UTF-8 is tried anyway
    if declared.name.startswith("utf-"):  # any real text has line endings, which contain a zero byte
        return encoding if (b"\0" in data or not data) and _is_strictly_valid(data, encoding) else None
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        return None
    if declared.source == ".editorconfig" and not data.isascii() and is_utf8(data):
        return None  # the declaration is for a whole folder, and other text is hardly ever valid UTF-8
    if declared.name.startswith("iso8859") and any(byte in data for byte in C1_CONTROLS):
        return None
    return encoding if _can_round_trip(data, encoding) else None


def _is_strictly_valid(data: bytes, encoding: TextEncoding) -> bool:
    """Whether these bytes are valid in the encoding and round-trip."""
    try:
        return data.decode(encoding.name).encode(encoding.name) == data
    except UnicodeError:
        return False


def is_utf8(data: bytes) -> bool:
    if data.isascii():  # many times faster
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_iso_2022_jp(data: bytes) -> bool:
    """Whether this is ISO-2022-JP, as in Japanese mail. Requires that every byte round-trips."""
    return (
        b"\x1b" in data and b"\x1b$" in data and data.isascii() and _is_strictly_valid(data, TextEncoding(ISO_2022_JP))
    )


def _can_round_trip(data: bytes, encoding: TextEncoding) -> bool:
    """Whether decoding and encoding reproduces these bytes."""
    decoder = getincrementaldecoder(encoding.name)(encoding.errors)
    pending = b""
    try:
        for piece in _iter_chunks(data):
            back = decoder.decode(piece).encode(encoding.name, encoding.errors)
            pending += piece
            if not pending.startswith(back):
                return False
            pending = pending[len(back) :]
        return decoder.decode(b"", final=True).encode(encoding.name, encoding.errors) == pending
    except UnicodeError:
        return False


def _iter_chunks(data: bytes) -> Iterator[bytes]:
    """Split into chunks at line ends, so that a large file is not held in memory three times."""
    start = 0
    while len(data) - start > CHUNK_BYTES:
        end = data.rfind(b"\n", start, start + CHUNK_BYTES) + 1 or start + CHUNK_BYTES
        yield data[start:end]
        start = end
    yield data[start:] if start else data


def guess_encoding(data: bytes, *, complete: bool = True) -> TextEncoding | None:
    """Guess the encoding by language statistics, if one stands out."""
    from handhold.core.text.encoding_detection import guess_codec  # most sessions never need it

    name = guess_codec(data, complete=complete)
    return TextEncoding(name, detected_by="likelihood") if name else None


C1_CONTROLS = bytes(range(0x80, 0xA0))  # ISO 8859 has no characters there, although the codecs accept them
