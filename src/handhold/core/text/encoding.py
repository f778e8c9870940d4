"""Bytes to text and back, without loss.

What a file was encoded in is kept beside its text, and a guess that does not give the same bytes back is
no guess. So an edit changes the bytes of its span and no others, even where the guess was wrong.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from handhold.core.errors import BinaryFile, Unencodable

BOMS = (  # UTF-32 first: its little-endian mark starts like UTF-16's
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
BINARY_PROBE = 8 * 1024
DETECTION_SAMPLE = 64 * 1024
ENOUGH = 0.8  # share of the non-ASCII characters that must look like prose
REPLACEMENT = "\ufffd"
_SHOWN = {code: REPLACEMENT for code in range(0xD800, 0xE000)}


@dataclass(frozen=True)
class Coding:
    """How a file's text is stored: a codec and the mark in front of it."""

    name: str = "utf-8"
    bom: bytes = b""
    unsure: bool = False  # bytes that are no UTF-8 are carried through, and nobody knows what they mean

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
    def newline(self) -> bytes:
        return "\n".encode(self.name)


UTF8 = Coding()
UNKNOWN = Coding(unsure=True)


@dataclass(frozen=True)
class Text:
    """A file's text: every character, line ending and blank as it stands, and how to write it back."""

    body: str
    coding: Coding = UTF8

    @classmethod
    def decode(cls, data: bytes, path: str = "") -> "Text":
        coding = coding_of(data, path)
        return cls(data[len(coding.bom) :].decode(coding.name, coding.errors), coding)

    def encode(self) -> bytes:
        return self.coding.bom + self.body.encode(self.coding.name, self.coding.errors)

    def with_body(self, body: str) -> "Text":
        return replace(self, body=body)


def shown(text: str) -> str:
    """Text as it can be sent: what could not be decoded becomes U+FFFD."""
    try:
        text.encode("utf-8")  # a hundred times faster than to look at every character
    except UnicodeEncodeError:
        return text.translate(_SHOWN)
    return text


def must_fit(text: str, coding: Coding, path: str) -> None:
    """Unencodable if the file cannot hold some of these characters: no bytes for them, or nobody knows which."""
    name = "ascii" if coding.unsure else coding.name
    if "\0" not in text:  # it would make a binary file of a text
        try:
            text.encode(name)
        except UnicodeEncodeError:
            pass
        else:
            return
    bad = "".join(char for char in sorted(set(text)) if char == "\0" or not _fits(char, name))
    raise Unencodable(path, "unknown" if coding.unsure else name, bad)


def _fits(char: str, name: str) -> bool:
    try:
        char.encode(name)
    except UnicodeEncodeError:
        return False
    return True


def coding_of(data: bytes, path: str = "") -> Coding:
    """How these bytes are encoded: by mark, as UTF-8, by likelihood, else as broken UTF-8."""
    for bom, name in BOMS:
        if data.startswith(bom) and _survives(data[len(bom) :], Coding(name, bom)):
            return Coding(name, bom)
    if b"\0" in data[:BINARY_PROBE]:
        raise BinaryFile(path, len(data))
    if is_utf8(data):
        return UTF8
    guess = likely(data)
    return guess if guess and _survives(data, guess) else UNKNOWN


def coding_of_sample(sample: bytes, path: str, size: int) -> Coding:
    """How a file is encoded that is too large to be looked at whole, by its first DETECTION_SAMPLE bytes.

    The sample may end inside a character, and what comes after it may break the rules.
    """
    for bom, name in BOMS:
        if sample.startswith(bom) and _survives(sample[len(bom) : len(sample) - len(sample) % 4], Coding(name, bom)):
            return Coding(name, bom)
    if b"\0" in sample[:BINARY_PROBE]:
        raise BinaryFile(path, size)
    if any(is_utf8(sample[: len(sample) - cut]) for cut in range(4)):
        return UTF8
    return likely(sample) or UNKNOWN


def is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _survives(data: bytes, coding: Coding) -> bool:
    """Whether these bytes come back the same from this codec."""
    try:
        return data.decode(coding.name, coding.errors).encode(coding.name, coding.errors) == data
    except UnicodeError:
        return False


def likely(data: bytes) -> Coding | None:
    """The one-byte or East Asian encoding in which this reads most like prose, if any does."""
    strange = _STRANGE.search(data)
    start = max(0, strange.start() - BINARY_PROBE) if strange else 0
    sample = data[start : start + DETECTION_SAMPLE]  # plain ASCII tells nothing: judge where something begins
    scored = [
        (score, name) for name, looks_right in CANDIDATES if (score := _score(sample, name, looks_right)) >= ENOUGH
    ]
    return Coding(max(scored, key=lambda pair: pair[0])[1]) if scored else None


def _score(sample: bytes, name: str, looks_right: Callable[[str], float]) -> float:
    for cut in range(4):  # the sample may end inside a character
        try:
            return looks_right(sample[: len(sample) - cut].decode(name))
        except UnicodeDecodeError as error:
            if error.start < len(sample) - 4:
                return 0.0
    return 0.0


def _chinese(text: str) -> float:
    """The share of characters that GB 2312 lists as common (its first level, its marks) and that do not stand alone."""

    def common(char: str) -> bool:
        first, second = char.encode("gbk")
        return second >= 0xA1 and (0xB0 <= first <= 0xD7 or 0xA1 <= first <= 0xA3)

    return _share(text, common)


def _japanese(text: str) -> float:
    """The share of kana, marks and kanji of the first level. Half-width kana are what noise decodes to."""

    def common(char: str) -> bool:
        first = char.encode("cp932")[0]
        return not "\uff61" <= char <= "\uff9f" and (0x81 <= first <= 0x84 or 0x88 <= first <= 0x98)

    kana = any("\u3041" <= char <= "\u30ff" for char in text)
    return _share(text, common) + (0.2 if kana else -0.2)


def _share(text: str, common: Callable[[str], bool]) -> float:
    """The share of the strange characters that are common. One that stands alone is no East Asian text."""
    runs = _STRANGE_RUN.findall(text)
    strange = sum(map(len, runs))
    return sum(sum(map(common, run)) for run in runs if len(run) > 1) / strange if strange else 0.0


def _western(text: str) -> float:
    """The share of accented letters that stand in a word or alone, and of marks that stand beside a plain character."""

    def good(at: int) -> bool:
        before, after = text[at - 1 : at] if at else " ", text[at + 1 : at + 2] or " "
        if text[at].isalpha() and text[at] not in "ªºµ":
            alone = before in " '’(" and after == " "
            return alone or any(near.isascii() and near.isalpha() for near in (before, after))
        return text[at] in MARKS and any(near.isascii() and near.isprintable() for near in (before, after))

    strange = [at for at, char in enumerate(text) if not char.isascii()]
    return (
        0.95 * sum(map(good, strange)) / len(strange) if strange else 0.0
    )  # fits almost any bytes, so others go first


MARKS = "‘’‚“”„–—…•€£¥¢§©®™°±²³¹½¼¾«»·×÷ªºµ¡¿\xa0"
_STRANGE = re.compile(rb"[\x80-\xff]")
_STRANGE_RUN = re.compile(r"[^\x00-\x7f]+")
CANDIDATES: tuple[tuple[str, Callable[[str], float]], ...] = (
    ("gbk", _chinese),
    ("cp932", _japanese),
    ("cp1252", _western),
)
