"""What is said about the encodings of files: by the settings of a toolbox, and by files called .editorconfig."""

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

MAX_BRACE_NUMBERS = 500  # that {1..500} may stand for

# Those in which a character is the same bytes wherever it stands, and a line ends with its own newline.
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
    """ValueError for a name that is none, or of an encoding that files cannot be edited in.

    A new file gets a mark where the name asks for one, and in UTF-16, which would be taken for binary without it.
    """
    plain = name.strip().lower().replace("_", "-")
    has_bom = plain in BOM_ALIASES
    try:
        codec = lookup(BOM_ALIASES.get(plain, plain)).name
    except LookupError:
        codec = ""
    if codec not in EDITABLE_ENCODINGS:
        raise ValueError(f"files cannot be edited in an encoding called {name!r}")
    is_wide = codec.startswith(("utf-16", "utf-32"))
    return DeclaredEncoding(codec, next(bom for bom, each in BOMS if each == codec) if has_bom or is_wide else b"", by)


class EncodingSettings:
    """Encodings by pattern, as ripgrep has them: `*.txt` in any folder, `/a/*.txt` in that one. The last one counts."""

    def __init__(self, encodings: Mapping[str, str]) -> None:
        self._encodings = [resolve_encoding(name, "settings") for name in encodings.values()]
        try:
            self._globs = GlobSet([_parse_file_glob(glob, n) for n, glob in enumerate(encodings)], lenient=False)
        except BadGlob as bad:
            raise ValueError(f"{bad.pattern!r} is no pattern: {bad.because}") from None

    def find_encoding(self, relative_path: str) -> DeclaredEncoding | None:
        """What is said about a file, by its way from the root."""
        path = relative_path.encode("utf-8", "surrogateescape")
        line = self._globs.match(path, path.rpartition(b"/")[2], directory=False)
        return self._encodings[line.number] if line else None


def _parse_file_glob(glob: str, number: int) -> GlobLine:
    line = parse_glob_line(glob, number)
    if line is None or line.is_negated or line.is_directory_only:
        raise ValueError(f"{glob!r} is no pattern for files")
    return line


# --- .editorconfig


@dataclass(frozen=True)
class EditorConfigSection:
    pattern: str
    charset: str

    def applies_to(self, path: str) -> bool:
        """Whether it is about a file, by its way from the folder of the configuration."""
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
    """One such file, as far as it is about encodings."""

    is_root: bool = False  # what lies above does not count
    sections: tuple[EditorConfigSection, ...] = ()

    def find_charset(self, path: str) -> str | None:
        """The last word on a file; None if nothing is said."""
        return next((section.charset for section in reversed(self.sections) if section.applies_to(path)), None)


def parse_editorconfig(data: bytes) -> EditorConfig:
    """Lenient, as editors are: a line that means nothing is passed over."""
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
    """What configurations say about a file, the nearest first, each with the file's way from its folder.

    A word that none of us knows is as good as none, and hides what lies above it.
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
    """The pattern of a section: like those of ripgrep, but `**` is any string, wherever it stands."""

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern, lenient=True)

    def parse_star(self) -> None:
        stars: GlobToken = ANY_NAME
        while self.peek() == "*":
            self.position += 1
            stars = ANYTHING
        self.push(stars)


def _expand_braces(pattern: str) -> str:
    """Braces around one thing are letters; around two numbers with dots between they are all that lie between those."""

    def expand(found: re.Match[str]) -> str:
        numbers = _NUMBER_RANGE.fullmatch(found[1])
        if numbers is None:
            return f"\\{{{found[1]}\\}}"
        low, high = sorted((int(numbers[1]), int(numbers[2])))
        if high - low >= MAX_BRACE_NUMBERS:
            raise BadGlob(pattern, "it stands for too many numbers")
        return "{" + ",".join(map(str, range(low, high + 1))) + "}"

    return _SINGLE_BRACE_ITEM.sub(expand, pattern)


_SINGLE_BRACE_ITEM = re.compile(r"(?<!\\)\{([^{},\\]*)\}")
_NUMBER_RANGE = re.compile(r"([+-]?\d{1,9})\.\.([+-]?\d{1,9})")
