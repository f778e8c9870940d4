"""Guess the encoding in which bytes read most like a language, if one stands out.

Each hypothesis is an encoding with a language. It rates how surprising the non-ASCII bytes are, in bits: which letter
follows which, or how common an East Asian character is. All hypotheses explain the same bytes, so their sums can be
compared. The least surprising one is used only if every other reading is clearly worse and little of it is unusual for
the language. Otherwise the encoding is unknown, which is harmless; a wrong guess would put wrong bytes into a file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from handhold.core.text.letter_frequencies import COMMON_CHARACTERS, LETTER_PAIRS

BytePairs = dict[tuple[int, int], int]  # neighboring bytes, and how often they occur

SAMPLE_BYTES = 64 * 1024
CONTEXT_BYTES = 8 * 1024  # bytes before the first non-ASCII byte that belong to the sample

# --- surprise, in bits

PAIR_BITS = (1.0, 3.0, 5.0, 7.0, 9.0, 11.0)
COMMON_CHARACTER_BITS = (7.0, 8.5, 9.5, 11.0)
UNLISTED_PAIR_BITS = 13.0  # a pair that the language hardly has; from here on a reading is strange
FOREIGN_LETTER_BITS = 16.0  # a letter that the language does not have
SYMBOL_BITS = 14.0  # a symbol that prose does not need
INNER_CAPITAL_BITS = 7.0  # a capital after a small letter
LONE_LETTER_BITS = 6.0  # a non-Latin letter without a neighbor of its own script
LONE_CHARACTER_BITS = 4.0
INVALID_UTF8_BITS = 20.0  # a byte that is not valid UTF-8
VALID_UTF8_BITS = 6.0  # a valid non-ASCII character

# --- decision thresholds

MIN_MARGIN_BITS = 7.0  # how much worse every other reading must be, plus
MARGIN_DIVISOR = 12  # one bit for this many bits of what the two read differently
MAX_STRANGE_SHARE = 1 / 3  # of the pairs
MAX_RARE_SHARE = 0.4  # of the characters

OPENING_MARKS = "“‘«„‚¿¡•©€£§№°µ"
CLOSING_MARKS = "”’»…™®²³¹ºª½¼¾“‘€،؛؟"
DASHES = "–—\xa0"
STANDALONE_MARKS = "×±·"
MARKS = frozenset(OPENING_MARKS + CLOSING_MARKS + DASHES + STANDALONE_MARKS)
EAST_ASIAN_MARKS = (
    "\u3000、。，．・：；？！“”‘’（）［］｛｝「」『』【】〈〉《》〔〕…—～〜·‥％＋－＝／ー々０１２３４５６７８９"
)


@dataclass(frozen=True)
class SingleByteCodec:
    """A single-byte encoding and the languages it was made for. `rarity_bits` is relative to cp1252."""

    name: str
    languages: tuple[str, ...]
    rarity_bits: float = 0.0


WESTERN = ("french", "iberian", "german", "nordic", "icelandic")
CENTRAL = ("polish", "czech", "hungarian", "romanian", "croatian")
CYRILLIC = ("russian", "ukrainian", "bulgarian", "serbian")
BALTIC = ("lithuanian", "latvian")
LATIN = frozenset((*WESTERN, *CENTRAL, *BALTIC, "turkish"))

SINGLE_BYTE_CODECS = (
    SingleByteCodec("cp1252", WESTERN),
    SingleByteCodec("cp1251", CYRILLIC, 4),
    SingleByteCodec("cp1250", CENTRAL, 5),
    SingleByteCodec("iso8859-15", WESTERN, 6),
    SingleByteCodec("koi8-r", CYRILLIC[:3], 5),
    SingleByteCodec("cp866", CYRILLIC[:3], 6),
    SingleByteCodec("cp1253", ("greek",), 6),
    SingleByteCodec("cp1254", ("turkish",), 6),
    SingleByteCodec("cp1255", ("hebrew",), 6),
    SingleByteCodec("cp1256", ("arabic", "persian"), 6),
    SingleByteCodec("cp1257", BALTIC, 6),
    SingleByteCodec("cp874", ("thai",), 6),
    SingleByteCodec("iso8859-2", CENTRAL, 6),
    SingleByteCodec("koi8-u", ("ukrainian",), 7),
    SingleByteCodec("mac-roman", WESTERN, 8),
    SingleByteCodec("iso8859-7", ("greek",), 8),
    SingleByteCodec("iso8859-5", CYRILLIC, 9),
    SingleByteCodec("iso8859-6", ("arabic", "persian"), 9),
    SingleByteCodec("cp850", WESTERN, 9),
    SingleByteCodec("cp437", WESTERN[:4], 10),
    SingleByteCodec("cp852", CENTRAL, 10),
    SingleByteCodec("cp857", ("turkish",), 10),
    SingleByteCodec("cp737", ("greek",), 10),
    SingleByteCodec("cp862", ("hebrew",), 10),
    SingleByteCodec("cp775", BALTIC, 12),
    SingleByteCodec("cp1125", ("ukrainian",), 10),
    SingleByteCodec("mac-cyrillic", CYRILLIC, 10),
    SingleByteCodec("mac-greek", ("greek",), 10),
)


def _score_simplified_chinese(char: str) -> float:
    first, *rest = char.encode("gb18030")
    if len(rest) != 1:
        return INVALID_UTF8_BITS
    if rest[0] < 0xA1:
        return 18.0
    return 13.5 if 0xB0 <= first <= 0xD7 else 15.0


def _score_traditional_chinese(char: str) -> float:
    return 13.5 if 0xA4 <= char.encode("cp950")[0] <= 0xC6 else 17.0


def _score_japanese(char: str) -> float:
    if "\u3041" <= char <= "\u3093":
        return 6.5
    if "\u30a1" <= char <= "\u30f6":
        return 7.5
    if "\uff61" <= char <= "\uff9f":  # half-width kana, which noise often decodes to
        return UNLISTED_PAIR_BITS
    try:
        first, *rest = char.encode("euc_jp")
    except UnicodeEncodeError:
        return 18.0
    return 13.0 if len(rest) == 1 and 0xB0 <= first <= 0xCF else 17.0


def _score_korean(char: str) -> float:
    first, second, *_ = *char.encode("cp949"), 0
    if first < 0xA1 or second < 0xA1:
        return 17.0
    return 12.0 if 0xB0 <= first <= 0xC8 else 15.0


@dataclass(frozen=True)
class MultiByteCodec:
    """A multi-byte encoding; `score_unlisted` rates characters that are not in the language's list."""

    name: str
    language: str
    score_unlisted: Callable[[str], float]
    rarity_bits: float = 2.0


MULTI_BYTE_CODECS = (
    MultiByteCodec("gbk", "simplified", _score_simplified_chinese, 1.0),
    MultiByteCodec("cp950", "traditional", _score_traditional_chinese, 2.5),
    MultiByteCodec("cp932", "japanese", _score_japanese),
    MultiByteCodec("euc_jp", "japanese", _score_japanese, 3.0),
    MultiByteCodec("cp949", "korean", _score_korean, 2.5),
    MultiByteCodec("gb18030", "simplified", _score_simplified_chinese, 12.0),
)


@dataclass(frozen=True)
class CodecScore:
    """How one hypothesis reads a sample."""

    name: str
    bits: float
    is_implausible: bool  # too much of it is unusual for its language
    text: str
    letters: str = ""  # the character of each byte, for a single-byte encoding


def guess_codec(data: bytes, *, complete: bool = True) -> str | None:
    """The encoding of these bytes, if one stands out; unless `complete`, they may end inside a character.

    It may not decode all of them: only a sample is scored, starting around the first non-ASCII byte.
    """
    first = _NON_ASCII_BYTE.search(data)
    if first is None:
        return None
    start = max(0, first.start() - CONTEXT_BYTES)
    sample = data[start : start + SAMPLE_BYTES]
    pairs = _count_pairs(sample)
    scores = _score_codecs(sample, pairs, complete=complete and start + SAMPLE_BYTES >= len(data))
    best, *others = sorted(scores, key=lambda each: each.bits)
    if best.is_implausible or any(_is_close(best, other, pairs) for other in others):
        return None
    return best.name


def _is_close(best: CodecScore, other: CodecScore, pairs: BytePairs) -> bool:
    """Whether this is a plausible alternative: it reads the bytes differently, and not much worse."""
    gap = other.bits - best.bits
    if gap >= MIN_MARGIN_BITS + best.bits / MARGIN_DIVISOR or other.text == best.text:
        return False
    if not (best.letters and other.letters):
        return True
    differs = {byte for byte in range(256) if best.letters[byte] != other.letters[byte]}
    affected = sum(n for (first, second), n in pairs.items() if first in differs or second in differs)
    return gap < MIN_MARGIN_BITS + best.bits * affected / sum(pairs.values()) / MARGIN_DIVISOR


def _score_codecs(sample: bytes, pairs: BytePairs, *, complete: bool) -> Iterator[CodecScore]:
    yield _score_utf8(sample)
    for each in MULTI_BYTE_CODECS:
        if score := _score_multi_byte(sample, each, complete=complete):
            yield score
    yield from _score_single_byte(sample, pairs)


def _score_utf8(sample: bytes) -> CodecScore:
    """Score partly broken UTF-8: never a guess, but it beats every guess if most of it is valid."""
    text = sample.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= char <= "\udcff" for char in text)
    strange = len(text) - sum(map(str.isascii, text))
    return CodecScore(
        "utf-8", INVALID_UTF8_BITS * broken + VALID_UTF8_BITS * (strange - broken), is_implausible=True, text=text
    )


# --- multi-byte encodings


def _score_multi_byte(sample: bytes, codec: MultiByteCodec, *, complete: bool) -> CodecScore | None:
    text = _decode_sample(sample, codec.name, complete=complete)
    if text is None:
        return None
    common = _load_common_bits(codec.language)
    counts = {char: n for char, n in Counter(text).items() if not char.isascii()}
    bits = {char: common.get(char) or codec.score_unlisted(char) for char in counts}
    lone = sum(len(run) == 1 for run in _NON_ASCII_CHARACTERS.findall(text))
    rare = sum(n for char, n in counts.items() if bits[char] > 12)
    return CodecScore(
        codec.name,
        codec.rarity_bits + sum(bits[char] * n for char, n in counts.items()) + LONE_CHARACTER_BITS * lone,
        is_implausible=rare > MAX_RARE_SHARE * sum(counts.values()),
        text=text,
    )


def _decode_sample(sample: bytes, name: str, *, complete: bool) -> str | None:
    for cut in range(1 if complete else 4):  # the sample may end inside a character
        try:
            return sample[: len(sample) - cut].decode(name)
        except UnicodeDecodeError:
            continue
    return None


@cache
def _load_common_bits(language: str) -> dict[str, float]:
    tiers = zip(COMMON_CHARACTER_BITS, COMMON_CHARACTERS[language], strict=True)
    return {char: COMMON_CHARACTER_BITS[0] for char in EAST_ASIAN_MARKS} | {
        char: bits for bits, chars in tiers for char in chars
    }


# --- single-byte encodings


def _score_single_byte(sample: bytes, pairs: BytePairs) -> Iterator[CodecScore]:
    used = {byte for pair in pairs for byte in pair if byte > 0x7F}
    total = sum(pairs.values())
    lone = [run[0] for run in _NON_ASCII_BYTES.findall(sample) if len(run) == 1]
    for codec in SINGLE_BYTE_CODECS:
        letters = _build_byte_table(codec.name)
        if any(letters[byte] in UNASSIGNED_CHARACTERS for byte in used):
            continue
        alone = LONE_LETTER_BITS * sum(_fold_letter(letters[byte]) != "." for byte in lone)
        best, strange = min(
            (bits + (0.0 if language in LATIN else alone), strange)
            for language in codec.languages
            for bits, strange in [_score_pairs(pairs, letters, language)]
        )
        yield CodecScore(
            codec.name,
            best + codec.rarity_bits,
            strange > MAX_STRANGE_SHARE * total,
            _list_used_characters(sample, letters),
            letters,
        )


def _count_pairs(sample: bytes) -> BytePairs:
    """Count pairs of neighbors with at least one non-ASCII byte."""
    counts = Counter(zip(b"\n" + sample, sample + b"\n", strict=True))
    return {pair: n for pair, n in counts.items() if pair[0] > 0x7F or pair[1] > 0x7F}


@cache
def _build_byte_table(name: str) -> str:
    return bytes(range(256)).decode(name, "replace")


def _list_used_characters(sample: bytes, letters: str) -> str:
    """The non-ASCII characters that occur: enough to tell one reading from another."""
    return "".join(letters[byte] for byte in sorted(set(sample)) if byte > 0x7F)


def _score_pairs(pairs: BytePairs, letters: str, language: str) -> tuple[float, int]:
    """The bits of all pairs, and how many pairs are strange to the language."""
    total, strange = 0.0, 0
    for (first, second), n in pairs.items():
        bits = _score_pair(letters[first], letters[second], language)
        total += bits * n
        if bits >= UNLISTED_PAIR_BITS:
            strange += n
    return total, strange


@lru_cache(maxsize=1 << 17)
def _score_pair(before: str, char: str, language: str) -> float:
    """How surprising a character is after another; at least one of them is not ASCII."""
    known, alphabet = _load_language(language)
    first, second = _fold_letter(before), _fold_letter(char)
    if second == "." and not char.isascii():
        return _score_mark(first, char)
    if first == "." and not before.isascii():
        return _score_after_mark(before, second, known, alphabet)
    pair = first + second
    if pair in known:
        bits = known[pair]
    elif all(each == "." or each in alphabet for each in pair):
        bits = UNLISTED_PAIR_BITS
    else:
        bits = FOREIGN_LETTER_BITS
    return bits + (INNER_CAPITAL_BITS if char.isupper() and before.islower() else 0.0)


def _score_mark(first: str, mark: str) -> float:
    if mark not in MARKS:
        return SYMBOL_BITS
    if first == "." or mark in CLOSING_MARKS:
        return 7.0
    return 10.0 if mark in DASHES else UNLISTED_PAIR_BITS


def _score_after_mark(mark: str, second: str, known: dict[str, float], alphabet: frozenset[str]) -> float:
    if second == ".":
        return 2.0 if mark in MARKS else 8.0
    if not second.isascii() and second not in alphabet:
        return FOREIGN_LETTER_BITS
    if mark not in OPENING_MARKS and mark not in DASHES and mark != "’":
        return UNLISTED_PAIR_BITS
    bits = 5.0 if mark in DASHES else 3.0
    return bits if second.isascii() else bits + min(9.0, known.get("." + second, UNLISTED_PAIR_BITS))


@cache
def _load_language(name: str) -> tuple[dict[str, float], frozenset[str]]:
    """The bits of the language's pairs, and its letters; ASCII letters belong to it if it uses the Latin script."""
    _, order, *lines = LETTER_PAIRS[name].split("\n")
    known = {
        letter + follower: PAIR_BITS[int(step)]
        for letter, line in zip(order, lines, strict=False)
        for follower, step in zip(order, line, strict=False)
        if step != " "
    }
    letters = {letter for pair in known for letter in pair if letter != "."}
    return known, frozenset(letters | (set(map(chr, range(ord("a"), ord("z") + 1))) if name in LATIN else set()))


@cache
def _fold_letter(char: str) -> str:
    """A letter in lower case; a full stop for anything else."""
    if char.isascii():
        return char.lower() if char.isalpha() else "."
    if char in "ªºµ":
        return "."
    if char.isalpha() or _COMBINING_VOWEL.match(char):
        return char.lower() if len(char.lower()) == 1 else char
    return "."


UNASSIGNED_CHARACTERS: Sequence[str] = ("\ufffd", *map(chr, range(0x80, 0xA0)))
_NON_ASCII_BYTE = re.compile(rb"[\x80-\xff]")
_NON_ASCII_BYTES = re.compile(rb"[\x80-\xff]+")
_NON_ASCII_CHARACTERS = re.compile(r"[^\x00-\x7f]+")
_COMBINING_VOWEL = re.compile("[\u0591-\u05c7\u064b-\u0652\u0e30-\u0e4e]")  # points and vowels above and below letters
