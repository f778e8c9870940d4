"""Bytes to text and back, without loss.

What a file was encoded in is kept beside its text, and a guess that does not give the same bytes back is
no guess. So an edit changes the bytes of its span and no others, even where the guess was wrong.
"""

from codecs import getincrementaldecoder
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from handhold.core.errors import BinaryFile, Unencodable
from handhold.core.facts import DeclaredEncoding

BOMS = (  # UTF-32 first: its little-endian mark starts like UTF-16's
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
BINARY_PROBE_BYTES = 8 * 1024
DETECTION_SAMPLE_BYTES = 64 * 1024
CHUNK_BYTES = 1024 * 1024
ISO_2022_JP = "iso2022_jp"  # all of its bytes are ASCII; sequences that begin with ESC $ say how to read them
REPLACEMENT_CHAR = "\ufffd"
BOM_CHAR = "\ufeff"
_SURROGATE_REPLACEMENTS = {code: REPLACEMENT_CHAR for code in range(0xD800, 0xE000)}

EncodingBasis = Literal[
    "", "mark", "likelihood", "settings", ".editorconfig"
]  # nothing: the bytes themselves leave no choice


@dataclass(frozen=True)
class TextEncoding:
    """How a file's text is stored: a codec and the mark in front of it. How that is known makes no difference to it."""

    name: str = "utf-8"
    bom: bytes = b""
    is_unknown: bool = False  # bytes that are no UTF-8 are carried through, and nobody knows what they mean
    detected_by: EncodingBasis = field(default="", compare=False)
    conflicting_declaration: str = field(default="", compare=False)  # what was declared, where the bytes say otherwise

    @property
    def errors(self) -> str:
        """Codecs of Unicode carry broken bytes through; the others are taken only where nothing is broken."""
        if self.name == "utf-8":
            return "surrogateescape"
        return "surrogatepass" if self.name.startswith("utf-") else "strict"

    @property
    def label(self) -> str:
        return f"{self.name} with a mark" if self.bom else self.name

    @property
    def basis(self) -> str:
        """What this rests on, in a word."""
        return "unknown" if self.is_unknown else self.detected_by or "content"

    @property
    def newline(self) -> bytes:
        return "\n".encode(self.name)


UTF8 = TextEncoding()
UNKNOWN_ENCODING = TextEncoding(is_unknown=True)


@dataclass(frozen=True)
class Text:
    """A file's text: every character, line ending and blank as it stands, and how to write it back."""

    body: str
    encoding: TextEncoding = UTF8

    @classmethod
    def decode(cls, data: bytes, path: str = "", declared: DeclaredEncoding | None = None) -> "Text":
        encoding = detect_encoding(data, path, declared)
        return cls(data[len(encoding.bom) :].decode(encoding.name, encoding.errors), encoding)

    @classmethod
    def new(cls, body: str, declared: DeclaredEncoding | None) -> "Text":
        """The text of a file that is not there yet. A mark that the text brings along is the one that is asked for."""
        if declared is None:
            return cls(body)
        encoding = TextEncoding(declared.name, declared.bom, detected_by=declared.source)
        return cls(body.removeprefix(BOM_CHAR) if declared.bom else body, encoding)

    def encode(self) -> bytes:
        return self.encoding.bom + self.body.encode(self.encoding.name, self.encoding.errors)

    def with_body(self, body: str) -> "Text":
        return replace(self, body=body)


def replace_undecodable(text: str) -> str:
    """Text as it can be sent: what could not be decoded becomes U+FFFD."""
    try:
        text.encode("utf-8")  # a hundred times faster than to look at every character
    except UnicodeEncodeError:
        return text.translate(_SURROGATE_REPLACEMENTS)
    return text


def check_encodable(text: str, encoding: TextEncoding, path: str) -> None:
    """Unencodable if the file cannot hold some of these characters: no bytes for them, or nobody knows which."""
    name = "ascii" if encoding.is_unknown else encoding.name
    if "\0" not in text and _is_encodable(text, name):  # a NUL would make a binary file of a text
        return
    unencodable = "".join(char for char in sorted(set(text)) if char == "\0" or not _is_encodable(char, name))
    raise Unencodable(path, "unknown" if encoding.is_unknown else name, unencodable)


def _is_encodable(text: str, codec: str) -> bool:
    """Whether it comes back as it was: some codecs have the same bytes for the yen sign and for the backslash."""
    try:
        return text.encode(codec).decode(codec) == text
    except UnicodeError:
        return False


def detect_encoding(data: bytes, path: str = "", declared: DeclaredEncoding | None = None) -> TextEncoding:
    """How these bytes are encoded: by mark, as declared, as UTF-8, by likelihood, else as broken UTF-8."""
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
    """How a file is encoded that is too large to be looked at whole, by its first DETECTION_SAMPLE_BYTES.

    The sample may end inside a character, and what comes after it may break the rules.
    """
    even = sample[: len(sample) - len(sample) % 4]
    if from_bom := _detect_by_bom(sample, even):
        return _with_declaration(from_bom, declared)
    lines = even[: even.rfind(b"\n") + 1] or even  # in a line's end no character of one or several bytes is cut
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
    """With what was declared, if that is something else."""
    if declared is None or (declared.name == encoding.name and not encoding.is_unknown):
        return encoding
    return replace(encoding, conflicting_declaration=declared.name)


def _try_declared(data: bytes, declared: DeclaredEncoding) -> TextEncoding | None:
    """As somebody says, unless the bytes say otherwise."""
    encoding = TextEncoding(declared.name, detected_by=declared.source)
    if declared.name == "utf-8":
        return None  # which is looked for anyway
    if declared.name.startswith("utf-"):  # a text of any length has line ends, and those have a zero byte
        return encoding if (b"\0" in data or not data) and _is_strictly_valid(data, encoding) else None
    if b"\0" in data[:BINARY_PROBE_BYTES]:
        return None
    if declared.source == ".editorconfig" and not data.isascii() and is_utf8(data):
        return None  # it speaks of a whole folder, and hardly any other text is UTF-8 by chance
    if declared.name.startswith("iso8859") and any(byte in data for byte in C1_CONTROLS):
        return None
    return encoding if _can_round_trip(data, encoding) else None


def _is_strictly_valid(data: bytes, encoding: TextEncoding) -> bool:
    """Whether nothing in these bytes is broken."""
    try:
        return data.decode(encoding.name).encode(encoding.name) == data
    except UnicodeError:
        return False


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_iso_2022_jp(data: bytes) -> bool:
    """Whether this is Japanese mail. What must come back is every byte, so a line begins as it would by itself."""
    return (
        b"\x1b" in data and b"\x1b$" in data and data.isascii() and _is_strictly_valid(data, TextEncoding(ISO_2022_JP))
    )


def _can_round_trip(data: bytes, encoding: TextEncoding) -> bool:
    """Whether these bytes come back the same from this codec."""
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
    """Some lines at a time: a large file is not held three times over."""
    start = 0
    while len(data) - start > CHUNK_BYTES:
        end = data.rfind(b"\n", start, start + CHUNK_BYTES) + 1 or start + CHUNK_BYTES
        yield data[start:end]
        start = end
    yield data[start:] if start else data


def guess_encoding(data: bytes, *, complete: bool = True) -> TextEncoding | None:
    """By what a language is like, if one can be told."""
    from handhold.core.text.encoding_detection import guess_codec  # most sessions never meet such a file

    name = guess_codec(data, complete=complete)
    return TextEncoding(name, detected_by="likelihood") if name else None


C1_CONTROLS = bytes(range(0x80, 0xA0))  # ISO 8859 has no characters there, whatever the codecs say
