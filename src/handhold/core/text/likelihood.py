"""The encoding in which bytes read most like a language, if one stands out.

Each hypothesis is an encoding with a language. It says how surprising the bytes beyond ASCII are, in bits: which letter
follows which, or how common an East Asian character is. All explain the same bytes, so their sums can be compared. The
least surprising one is taken only where every other reading is clearly worse, and where little of it is strange to the
language. What is left is unknown: nobody is harmed by that, and a wrong guess would put wrong bytes into a file.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from handhold.core.text.letters import COMMON, PAIRS

Pairs = dict[tuple[int, int], int]  # neighbouring bytes, and how often they stand so

SAMPLE = 64 * 1024
BEFORE = 8 * 1024  # bytes before the first strange one that belong to the sample

# --- what is surprising, in bits

BITS_OF_PAIRS = (1.0, 3.0, 5.0, 7.0, 9.0, 11.0)
BITS_OF_COMMON = (7.0, 8.5, 9.5, 11.0)
UNLISTED = 13.0  # a pair that the language hardly has; from here on a reading is strange
FOREIGN = 16.0  # a letter that it does not have
SYMBOL = 14.0  # one that no prose needs
CAPITAL_INSIDE = 7.0  # after a small letter
LONE = 6.0  # a letter of another script than Latin that has no neighbour of its own
LONE_CHARACTER = 4.0
BROKEN = 20.0  # a byte that is no UTF-8
WHOLE = 6.0  # a character that is

# --- when it is enough

MARGIN = 7.0  # bits by which every other reading must be worse, and
PART = 12  # one more for so many bits of what they read differently
MOST_STRANGE = 1 / 3  # of the pairs
MOST_RARE = 0.4  # of the characters

OPENING = "“‘«„‚¿¡•©€£§№°µ"
CLOSING = "”’»…™®²³¹ºª½¼¾“‘€،؛؟"
DASHES = "–—\xa0"
APART = "×±·"
MARKS = frozenset(OPENING + CLOSING + DASHES + APART)
EAST_ASIAN_MARKS = (
    "\u3000、。，．・：；？！“”‘’（）［］｛｝「」『』【】〈〉《》〔〕…—～〜·‥％＋－＝／ー々０１２３４５６７８９"
)


@dataclass(frozen=True)
class Alphabet:
    """An encoding of one byte a character, and the languages it was made for. `rarity` is in bits, beside cp1252."""

    name: str
    languages: tuple[str, ...]
    rarity: float = 0.0


WESTERN = ("french", "iberian", "german", "nordic", "icelandic")
CENTRAL = ("polish", "czech", "hungarian", "romanian", "croatian")
CYRILLIC = ("russian", "ukrainian", "bulgarian", "serbian")
BALTIC = ("lithuanian", "latvian")
LATIN = frozenset((*WESTERN, *CENTRAL, *BALTIC, "turkish"))

ALPHABETS = (
    Alphabet("cp1252", WESTERN),
    Alphabet("cp1251", CYRILLIC, 4),
    Alphabet("cp1250", CENTRAL, 5),
    Alphabet("iso8859-15", WESTERN, 6),
    Alphabet("koi8-r", CYRILLIC[:3], 5),
    Alphabet("cp866", CYRILLIC[:3], 6),
    Alphabet("cp1253", ("greek",), 6),
    Alphabet("cp1254", ("turkish",), 6),
    Alphabet("cp1255", ("hebrew",), 6),
    Alphabet("cp1256", ("arabic", "persian"), 6),
    Alphabet("cp1257", BALTIC, 6),
    Alphabet("cp874", ("thai",), 6),
    Alphabet("iso8859-2", CENTRAL, 6),
    Alphabet("koi8-u", ("ukrainian",), 7),
    Alphabet("mac-roman", WESTERN, 8),
    Alphabet("iso8859-7", ("greek",), 8),
    Alphabet("iso8859-5", CYRILLIC, 9),
    Alphabet("iso8859-6", ("arabic", "persian"), 9),
    Alphabet("cp850", WESTERN, 9),
    Alphabet("cp437", WESTERN[:4], 10),
    Alphabet("cp852", CENTRAL, 10),
    Alphabet("cp857", ("turkish",), 10),
    Alphabet("cp737", ("greek",), 10),
    Alphabet("cp862", ("hebrew",), 10),
    Alphabet("cp775", BALTIC, 12),
    Alphabet("cp1125", ("ukrainian",), 10),
    Alphabet("mac-cyrillic", CYRILLIC, 10),
    Alphabet("mac-greek", ("greek",), 10),
)


def _simplified(char: str) -> float:
    first, *rest = char.encode("gb18030")
    if len(rest) != 1:
        return BROKEN
    if rest[0] < 0xA1:
        return 18.0
    return 13.5 if 0xB0 <= first <= 0xD7 else 15.0


def _traditional(char: str) -> float:
    return 13.5 if 0xA4 <= char.encode("cp950")[0] <= 0xC6 else 17.0


def _japanese(char: str) -> float:
    if "\u3041" <= char <= "\u3093":
        return 6.5
    if "\u30a1" <= char <= "\u30f6":
        return 7.5
    if "\uff61" <= char <= "\uff9f":  # half-width kana: what noise decodes to
        return UNLISTED
    try:
        first, *rest = char.encode("euc_jp")
    except UnicodeEncodeError:
        return 18.0
    return 13.0 if len(rest) == 1 and 0xB0 <= first <= 0xCF else 17.0


def _korean(char: str) -> float:
    first, second, *_ = *char.encode("cp949"), 0
    if first < 0xA1 or second < 0xA1:
        return 17.0
    return 12.0 if 0xB0 <= first <= 0xC8 else 15.0


@dataclass(frozen=True)
class Characters:
    """An encoding of several bytes a character; `bits` is for one that is not in the language's list."""

    name: str
    language: str
    bits: Callable[[str], float]
    rarity: float = 2.0


CHARACTERS = (
    Characters("gbk", "simplified", _simplified, 1.0),
    Characters("cp950", "traditional", _traditional, 2.5),
    Characters("cp932", "japanese", _japanese),
    Characters("euc_jp", "japanese", _japanese, 3.0),
    Characters("cp949", "korean", _korean, 2.5),
    Characters("gb18030", "simplified", _simplified, 12.0),
)


@dataclass(frozen=True)
class Reading:
    """How one hypothesis reads a sample."""

    name: str
    bits: float
    strange: bool  # too much of it is not as its language is
    text: str
    letters: str = ""  # what each byte stands for, where one byte is one character


def likely(data: bytes, *, whole: bool = True) -> str | None:
    """The encoding of these bytes, as far as one can be told; they may end inside a character unless they are `whole`.

    What it gives need not decode all of them: only a sample is looked at, from where something beyond ASCII begins.
    """
    first = _STRANGE.search(data)
    if first is None:
        return None
    start = max(0, first.start() - BEFORE)
    sample = data[start : start + SAMPLE]
    pairs = _pairs(sample)
    readings = _readings(sample, pairs, whole=whole and start + SAMPLE >= len(data))
    best, *others = sorted(readings, key=lambda each: each.bits)
    if best.strange or any(_comes_near(best, other, pairs) for other in others):
        return None
    return best.name


def _comes_near(best: Reading, other: Reading, pairs: Pairs) -> bool:
    """Whether this may be what the bytes mean: it reads them otherwise, and not much worse."""
    gap = other.bits - best.bits
    if gap >= MARGIN + best.bits / PART or other.text == best.text:
        return False
    if not (best.letters and other.letters):
        return True
    differs = {byte for byte in range(256) if best.letters[byte] != other.letters[byte]}
    concerned = sum(n for (first, second), n in pairs.items() if first in differs or second in differs)
    return gap < MARGIN + best.bits * concerned / sum(pairs.values()) / PART


def _readings(sample: bytes, pairs: Pairs, *, whole: bool) -> Iterator[Reading]:
    yield _as_utf8(sample)
    for each in CHARACTERS:
        if reading := _as_characters(sample, each, whole=whole):
            yield reading
    yield from _as_letters(sample, pairs)


def _as_utf8(sample: bytes) -> Reading:
    """UTF-8 in which some bytes are broken: never a guess, but better than every guess where most of it is whole."""
    text = sample.decode("utf-8", "surrogateescape")
    broken = sum("\udc80" <= char <= "\udcff" for char in text)
    strange = len(text) - sum(map(str.isascii, text))
    return Reading("utf-8", BROKEN * broken + WHOLE * (strange - broken), strange=True, text=text)


# --- several bytes a character


def _as_characters(sample: bytes, hypothesis: Characters, *, whole: bool) -> Reading | None:
    text = _decoded(sample, hypothesis.name, whole=whole)
    if text is None:
        return None
    common = _common(hypothesis.language)
    counts = {char: n for char, n in Counter(text).items() if not char.isascii()}
    bits = {char: common.get(char) or hypothesis.bits(char) for char in counts}
    lone = sum(len(run) == 1 for run in _STRANGE_RUN.findall(text))
    rare = sum(n for char, n in counts.items() if bits[char] > 12)
    return Reading(
        hypothesis.name,
        hypothesis.rarity + sum(bits[char] * n for char, n in counts.items()) + LONE_CHARACTER * lone,
        strange=rare > MOST_RARE * sum(counts.values()),
        text=text,
    )


def _decoded(sample: bytes, name: str, *, whole: bool) -> str | None:
    for cut in range(1 if whole else 4):  # the sample may end inside a character
        try:
            return sample[: len(sample) - cut].decode(name)
        except UnicodeDecodeError:
            continue
    return None


@cache
def _common(language: str) -> dict[str, float]:
    tiers = zip(BITS_OF_COMMON, COMMON[language], strict=True)
    return {char: BITS_OF_COMMON[0] for char in EAST_ASIAN_MARKS} | {
        char: bits for bits, chars in tiers for char in chars
    }


# --- one byte a character


def _as_letters(sample: bytes, pairs: Pairs) -> Iterator[Reading]:
    used = {byte for pair in pairs for byte in pair if byte > 0x7F}
    total = sum(pairs.values())
    lone = [run[0] for run in _STRANGE_BYTES.findall(sample) if len(run) == 1]
    for alphabet in ALPHABETS:
        letters = _letters(alphabet.name)
        if any(letters[byte] in UNUSED for byte in used):
            continue
        alone = LONE * sum(_folded(letters[byte]) != "." for byte in lone)
        best, strange = min(
            (bits + (0.0 if language in LATIN else alone), strange)
            for language in alphabet.languages
            for bits, strange in [_surprise(pairs, letters, language)]
        )
        yield Reading(
            alphabet.name, best + alphabet.rarity, strange > MOST_STRANGE * total, _text(sample, letters), letters
        )


def _pairs(sample: bytes) -> Pairs:
    """The neighbours of which at least one is not ASCII, and how often."""
    counts = Counter(zip(b"\n" + sample, sample + b"\n", strict=True))
    return {pair: n for pair, n in counts.items() if pair[0] > 0x7F or pair[1] > 0x7F}


@cache
def _letters(name: str) -> str:
    return bytes(range(256)).decode(name, "replace")


def _text(sample: bytes, letters: str) -> str:
    """Which characters beyond ASCII there are: enough to tell one reading from another."""
    return "".join(letters[byte] for byte in sorted(set(sample)) if byte > 0x7F)


def _surprise(pairs: Pairs, letters: str, language: str) -> tuple[float, int]:
    """The bits of all pairs, and how many of them are strange to the language."""
    total, strange = 0.0, 0
    for (first, second), n in pairs.items():
        bits = _bits(letters[first], letters[second], language)
        total += bits * n
        if bits >= UNLISTED:
            strange += n
    return total, strange


@lru_cache(maxsize=1 << 17)
def _bits(before: str, char: str, language: str) -> float:
    """How surprising a character is after another. One of the two is not ASCII."""
    known, alphabet = _language(language)
    first, second = _folded(before), _folded(char)
    if second == "." and not char.isascii():
        return _bits_of_mark(first, char)
    if first == "." and not before.isascii():
        return _bits_after_mark(before, second, known, alphabet)
    pair = first + second
    if pair in known:
        bits = known[pair]
    elif all(each == "." or each in alphabet for each in pair):
        bits = UNLISTED
    else:
        bits = FOREIGN
    return bits + (CAPITAL_INSIDE if char.isupper() and before.islower() else 0.0)


def _bits_of_mark(first: str, mark: str) -> float:
    if mark not in MARKS:
        return SYMBOL
    if first == "." or mark in CLOSING:
        return 7.0
    return 10.0 if mark in DASHES else UNLISTED


def _bits_after_mark(mark: str, second: str, known: dict[str, float], alphabet: frozenset[str]) -> float:
    if second == ".":
        return 2.0 if mark in MARKS else 8.0
    if not second.isascii() and second not in alphabet:
        return FOREIGN
    if mark not in OPENING and mark not in DASHES and mark != "’":
        return UNLISTED
    bits = 5.0 if mark in DASHES else 3.0
    return bits if second.isascii() else bits + min(9.0, known.get("." + second, UNLISTED))


@cache
def _language(name: str) -> tuple[dict[str, float], frozenset[str]]:
    """The bits of the pairs it has, and its letters: those of ASCII belong to it if it is written in them."""
    _, order, *lines = PAIRS[name].split("\n")
    known = {
        letter + follower: BITS_OF_PAIRS[int(step)]
        for letter, line in zip(order, lines, strict=False)
        for follower, step in zip(order, line, strict=False)
        if step != " "
    }
    letters = {letter for pair in known for letter in pair if letter != "."}
    return known, frozenset(letters | (set(map(chr, range(ord("a"), ord("z") + 1))) if name in LATIN else set()))


@cache
def _folded(char: str) -> str:
    """A letter in its small form; a full stop for all that is no letter."""
    if char.isascii():
        return char.lower() if char.isalpha() else "."
    if char in "ªºµ":
        return "."
    if char.isalpha() or _BELONGS.match(char):
        return char.lower() if len(char.lower()) == 1 else char
    return "."


UNUSED: Sequence[str] = ("\ufffd", *map(chr, range(0x80, 0xA0)))
_STRANGE = re.compile(rb"[\x80-\xff]")
_STRANGE_BYTES = re.compile(rb"[\x80-\xff]+")
_STRANGE_RUN = re.compile(r"[^\x00-\x7f]+")
_BELONGS = re.compile(
    "[\u0591-\u05c7\u064b-\u0652\u0e30-\u0e4e]"
)  # points and vowels that stand above and below letters
