"""Ten short texts in each of many languages, and the encodings that they were once written in."""

from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "languages"
WESTERN, CENTRAL, CYRILLIC = ("fr", "de", "es", "pt", "sv"), ("pl", "cs", "hu"), ("ru", "uk", "bg")
ENCODINGS: dict[str, tuple[str, ...]] = {
    "cp1252": WESTERN,
    "iso8859-15": WESTERN,
    "mac-roman": WESTERN,
    "cp850": WESTERN,
    "cp1250": CENTRAL,
    "iso8859-2": CENTRAL,
    "cp852": CENTRAL,
    "cp1251": CYRILLIC,
    "koi8-r": ("ru", "bg"),
    "koi8-u": ("uk",),
    "cp866": ("ru", "bg"),
    "cp1253": ("el",),
    "iso8859-7": ("el",),
    "cp1254": ("tr",),
    "cp1255": ("he",),
    "cp1256": ("ar",),
    "cp1257": ("lt", "lv"),
    "tis-620": ("th",),
    "gbk": ("zh",),
    "gb18030": ("zh",),
    "big5": ("zht",),
    "cp932": ("ja",),
    "euc_jp": ("ja",),
    "iso2022_jp": ("ja",),
    "cp949": ("ko",),
}
PLAIN = str.maketrans({"’": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "–": "-", "—": "-"})


def texts(language: str) -> dict[str, str]:
    """By kind: prose, code, a single word."""
    parts = (FOLDER / f"{language}.txt").read_text(encoding="utf-8").split("== ")[1:]
    return {kind: body for kind, _, body in (part.partition("\n") for part in parts)}


def stored(text: str, encoding: str) -> bytes:
    """Where an encoding has no typographic marks, people wrote plain ones."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(PLAIN).encode(encoding)


def samples() -> Iterator[tuple[str, str, str, bytes]]:
    """Encoding, language, kind, bytes: of every encoding ten in each of its languages."""
    for encoding, languages in ENCODINGS.items():
        for language in languages:
            for kind, text in texts(language).items():
                yield encoding, language, kind, stored(text, encoding)


def cuts(size: int) -> Iterator[tuple[str, str, bytes]]:
    """Encoding, language, bytes: as many as fit, from ten places of all texts of a language."""
    for encoding, languages in ENCODINGS.items():
        for language in languages:
            whole = "".join(texts(language).values())
            for n in range(10):
                at = n * len(whole) // 10
                text = (whole * (size // len(whole) + 2))[at : at + size]
                while len(data := stored(text, encoding)) > size:
                    text = text[: len(text) - max(1, (len(data) - size) // 4)]
                if not data.isascii() or encoding == "iso2022_jp":
                    yield encoding, language, data
