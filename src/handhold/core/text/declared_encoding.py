"""Declared encodings of files: from the settings of a toolbox, and from .editorconfig files."""

import re
from codecs import lookup
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from handhold.core.errors import BadGlob
from handhold.core.facts import DeclarationSource, DeclaredEncoding
from handhold.core.text.automaton import GlobToken
from handhold.core.text.encoding import BOMS
from handhold.core.text.globs import (
    ANY_NAME,
    ANYTHING,
    BytesMatcher,
    GlobLine,
    GlobParser,
    GlobSet,
    compile_matcher,
    parse_glob_line,
)

MAX_BRACE_NUMBERS = 500  # the most that a range like {1..500} may cover

# Encodings that can be edited line by line: they carry no state across newlines.
CODEC_NAMES = """
ascii utf-8 utf-16-le utf-16-be utf-32-le utf-32-be
cp1250 cp1251 cp1252 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258
iso8859-1 iso8859-2 iso8859-3 iso8859-4 iso8859-5 iso8859-6 iso8859-7 iso8859-8
iso8859-9 iso8859-10 iso8859-11 iso8859-13 iso8859-14 iso8859-15 iso8859-16
koi8-r koi8-t koi8-u kz1048 ptcp154 tis-620 hp-roman8
cp437 cp720 cp737 cp775 cp850 cp852 cp855 cp857 cp858 cp860 cp861 cp862 cp863 cp865 cp866 cp869 cp874 cp1125
mac-croatian mac-cyrillic mac-greek mac-iceland mac-latin2 mac-roman mac-romanian mac-turkish
gb2312 gbk gb18030 big5 cp950 shift_jis cp932 euc_jp euc_kr cp949 iso2022_jp
"""
EDITABLE_ENCODINGS = frozenset(CODEC_NAMES.split())
BOM_ALIASES = {"utf-8-bom": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
EDITORCONFIG_CHARSETS = {
    "latin1": "iso8859-1",
    "utf-8": "utf-8",
    "utf-8-bom": "utf-8-bom",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
}


def resolve_encoding(name: str, by: DeclarationSource) -> DeclaredEncoding:
    """Raise ValueError for an unknown encoding, or one in which files cannot be edited.

    A new file gets a BOM if the name asks for one, and in UTF-16, which would be taken for binary without it.
    """
    plain = name.strip().lower().replace("_", "-")
    has_bom = plain in BOM_ALIASES
    try:
        codec = lookup(BOM_ALIASES.get(plain, plain)).name
    except LookupError:
        codec = ""
    if codec not in EDITABLE_ENCODINGS:
        raise ValueError(f"the encoding {name!r} is not supported")
    is_wide = codec.startswith(("utf-16", "utf-32"))
    return DeclaredEncoding(codec, next(bom for bom, each in BOMS if each == codec) if has_bom or is_wide else b"", by)


class EncodingSettings:
    """Encodings by ripgrep glob: `*.txt` in any folder, `/a/*.txt` in that one. The last match wins."""

    def __init__(self, encodings: Mapping[str, str]) -> None:
        self._encodings = [resolve_encoding(name, "settings") for name in encodings.values()]
        try:
            self._globs = GlobSet([_parse_file_glob(glob, n) for n, glob in enumerate(encodings)], lenient=False)
        except BadGlob as bad:
            raise ValueError(f"{bad.pattern!r} is not a valid pattern: {bad.because}") from None

    def find_encoding(self, relative_path: str) -> DeclaredEncoding | None:
        """The declared encoding of a root-relative path."""
        path = relative_path.encode("utf-8", "surrogateescape")
        line = self._globs.match(path, path.rpartition(b"/")[2], directory=False)
        return self._encodings[line.number] if line else None


def _parse_file_glob(glob: str, number: int) -> GlobLine:
    line = parse_glob_line(glob, number)
    if line is None or line.is_negated or line.is_directory_only:
        raise ValueError(f"{glob!r} is not a valid pattern for files")
    return line


# --- .editorconfig


@dataclass(frozen=True)
class EditorConfigSection:
    pattern: str
    charset: str

    def applies_to(self, path: str) -> bool:
        """Whether the section applies to a path relative to the configuration's folder."""
        subject = path if "/" in self.pattern else path.rpartition("/")[2]
        return bool(self._matcher and self._matcher(subject.encode("utf-8", "surrogateescape")))

    @cached_property
    def _matcher(self) -> BytesMatcher | None:
        try:
            return compile_matcher(SectionPatternParser(_expand_braces(self.pattern.removeprefix("/"))).parse())
        except BadGlob:
            return None


@dataclass(frozen=True)
class EditorConfig:
    """The encodings that one .editorconfig file declares."""

    is_root: bool = False  # configurations above do not apply
    sections: tuple[EditorConfigSection, ...] = ()

    def find_charset(self, path: str) -> str | None:
        """The charset from the last matching section; None if there is none."""
        return next((section.charset for section in reversed(self.sections) if section.applies_to(path)), None)


def parse_editorconfig(data: bytes) -> EditorConfig:
    """Parse leniently, as editors do: lines that make no sense are skipped."""
    is_root, pattern = False, None
    sections: list[EditorConfigSection] = []
    for line in data.decode("utf-8-sig", "surrogateescape").splitlines():
        line = line.strip()
        if not line or line[0] in "#;":
            continue
        if line[0] == "[" and line[-1] == "]":
            pattern = line[1:-1]
            continue
        key, equals, value = line.partition("=")
        key, value = key.strip().lower(), value.strip().lower()
        if not equals:
            continue
        if pattern is None:
            is_root = value == "true" if key == "root" else is_root
        elif key == "charset":
            sections.append(EditorConfigSection(pattern, value))
    return EditorConfig(is_root, tuple(sections))


def find_declared_encoding(configs: Iterable[tuple[EditorConfig, str]]) -> DeclaredEncoding | None:
    """The encoding that these configurations declare, nearest first, each with the file's path relative to its folder.

    An unknown charset counts as none, and still overrides configurations above it.
    """
    for config, path in configs:
        charset = config.find_charset(path)
        if charset is not None:
            return (
                resolve_encoding(EDITORCONFIG_CHARSETS[charset], ".editorconfig")
                if charset in EDITORCONFIG_CHARSETS
                else None
            )
        if config.is_root:
            break
    return None


class SectionPatternParser(GlobParser):
    """The pattern of a section: like ripgrep's, but `**` matches any string, wherever it is."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern, lenient=True)

    def parse_star(self) -> None:
        stars: GlobToken = ANY_NAME
        while self.peek() == "*":
            self.position += 1
            stars = ANYTHING
        self.push(stars)


def _expand_braces(pattern: str) -> str:
    """Braces around a single item are literal; around `1..5` they stand for all numbers in the range."""

    def expand(found: re.Match[str]) -> str:
        numbers = _NUMBER_RANGE.fullmatch(found[1])
        if numbers is None:
            return f"\\{{{found[1]}\\}}"
        low, high = sorted((int(numbers[1]), int(numbers[2])))
        if high - low >= MAX_BRACE_NUMBERS:
            raise BadGlob(pattern, "it expands to too many numbers")
        return "{" + ",".join(map(str, range(low, high + 1))) + "}"

    return _SINGLE_BRACE_ITEM.sub(expand, pattern)


_SINGLE_BRACE_ITEM = re.compile(r"(?<!\\)\{([^{},\\]*)\}")
_NUMBER_RANGE = re.compile(r"([+-]?\d{1,9})\.\.([+-]?\d{1,9})")
