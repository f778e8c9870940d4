"""Match places against path patterns.

A pattern without a slash is a name at any depth below a root. A pattern with a slash, including `./x`, is a path from
a root; `/…` and `~/…` are absolute. `*` does not cross folders, `**` does, as in all globs here. A pattern that covers
a folder covers everything in it. Folders above a root do not matter.

A search checks a hundred thousand places, and a command may have written as many. So results per folder are cached,
and names that no pattern can end with are rejected early.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple
from unicodedata import normalize

from handhold.core.errors import BadGlob
from handhold.core.text.globs import MAGIC_CHARS, GlobLine, GlobSet, validate_glob

MAX_CACHED_FOLDERS = 50_000  # cached folders; then the cache is cleared
MAX_CACHED_PATH_CHARS = 1000  # folders with longer paths are not cached: thousands of nested ones would fill the memory

_GLOB_CHARS = re.compile("[" + re.escape("".join(sorted(MAGIC_CHARS))) + "]")
_COMPOSED_ASCII = frozenset("K;`")  # composed from another character: the sign for kelvin is a K
_LITERAL_SUFFIX = re.compile(r".*[*?\]}]([^*?\[\]{}]+)", re.DOTALL)


class FolderCoverage(NamedTuple):
    """Whether all of a folder is covered, and the path prefixes of its names: relative to each root, and absolute."""

    covered: bool
    relative_prefixes: tuple[bytes, ...] = ()
    absolute_prefix: bytes = b""


class PathPatterns:
    """The patterns of one rule, or of several rules combined."""

    def __init__(
        self, patterns: Iterable[str], roots: Sequence[str], home: str = "", *, ignore_case: bool = False
    ) -> None:
        """Raise ValueError for an invalid pattern. Without `home`, a `~/…` pattern matches nothing."""
        self._relative, self._absolute = PatternGroup(), PatternGroup()
        self._normalize = fold_case if ignore_case else compose_unicode
        for pattern in patterns:
            glob_line = _parse_pattern(self._normalize(pattern), self._normalize(home))
            if glob_line is not None:
                (self._absolute if pattern.startswith(("/", "~")) else self._relative).add(glob_line)
        self._roots = tuple(root.rstrip("/") for root in roots)
        self._ignore_case = ignore_case
        self._folder_cache: dict[str, FolderCoverage] = {}
        self._last_long = "", FolderCoverage(covered=False)  # a walk goes on from the folder that it was in

    @cached_property
    def covers(self) -> Callable[[str], bool]:
        """Whether a canonical place, or a folder above it, matches one of the patterns."""
        exact_names, suffixes, prefixes = self._name_filter
        get_cached, enter_folder, matches_name, ignore_case, normalize_name = (
            self._folder_cache.get,
            self._enter_folder,
            self._matches_name,
            self._ignore_case,
            self._normalize,
        )

        def is_covered(place: str) -> bool:
            above, _, name = place.rpartition("/")
            covered, ways, full = get_cached(above) or enter_folder(above)
            if covered:
                return True
            if not name.isascii():
                name = normalize_name(name)
            elif ignore_case:
                name = name.casefold()
            if name in exact_names or name.endswith(suffixes) or name.startswith(prefixes):
                return matches_name(ways, full, name)
            return False

        return is_covered

    @cached_property
    def _name_filter(self) -> "NameFilter":
        last_parts = [
            line.glob.rpartition("/")[2] for each in (self._relative, self._absolute) for line in each.path_globs
        ]
        return build_name_filter(last_parts)

    def _matches_name(self, relative_prefixes: Sequence[bytes], absolute_prefix: bytes, name: str) -> bool:
        encoded = _encode_name(name)
        if any(self._relative.match(way + encoded, encoded) for way in relative_prefixes):
            return True
        return self._absolute.match(absolute_prefix + encoded, encoded)

    def _enter_folder(self, place: str) -> FolderCoverage:
        """Compute and cache the coverage of a folder and of those above it."""
        if len(self._folder_cache) > MAX_CACHED_FOLDERS:
            self._folder_cache.clear()  # another thread may be reading, so look up each entry only once
        uncached: list[str] = []
        last_long, last_coverage = self._last_long
        folder = self._folder_cache.get(place)
        while folder is None and place:
            if place == last_long:
                folder = last_coverage
                break
            uncached.append(place)
            place = place.rpartition("/")[0]
            folder = self._folder_cache.get(place)
        if folder is None:
            folder = self._folder_cache[""] = FolderCoverage(
                covered=False, relative_prefixes=self._prefixes_at_root("")
            )
        for place in reversed(uncached):
            name = place.rpartition("/")[2]
            folder = self._descend(folder, self._normalize(name), self._prefixes_at_root(place))
            if len(place) <= MAX_CACHED_PATH_CHARS:
                self._folder_cache[place] = folder
            else:
                self._last_long = place, folder
        return folder

    def _descend(self, above: FolderCoverage, name: str, prefixes_here: tuple[bytes, ...]) -> FolderCoverage:
        encoded = _encode_name(name)
        relative_paths, absolute_path = (
            tuple(way + encoded for way in above.relative_prefixes),
            above.absolute_prefix + encoded,
        )
        exact_names, suffixes, prefixes = self._name_filter
        can_match = name in exact_names or name.endswith(suffixes) or name.startswith(prefixes)
        covered = above.covered or (
            can_match and self._matches_name(above.relative_prefixes, above.absolute_prefix, name)
        )
        covered = (
            covered
            or any(map(self._relative.matches_all_in, relative_paths))
            or self._absolute.matches_all_in(absolute_path)
        )
        return FolderCoverage(covered, (*(way + b"/" for way in relative_paths), *prefixes_here), absolute_path + b"/")

    def _prefixes_at_root(self, place: str) -> tuple[bytes, ...]:
        return (b"",) if place in self._roots else ()


class PatternGroup:
    """Patterns with the same starting point. `x/**` matches what is in x, but not x itself."""

    def __init__(self) -> None:
        self.path_globs: list[GlobLine] = []
        self.content_globs: list[GlobLine] = []

    def add(self, line: GlobLine) -> None:
        if line.glob.endswith("/**"):
            self.content_globs.append(GlobLine(line.text, 0, line.glob[:-3]))
        else:
            self.path_globs.append(line)

    def match(self, path: bytes, name: bytes) -> bool:
        return bool(self.path_globs) and self._path_set.matches_any(path, name)

    def matches_all_in(self, folder: bytes) -> bool:
        return bool(self.content_globs) and self._content_set.matches_any(folder, folder.rpartition(b"/")[2])

    @cached_property
    def _path_set(self) -> GlobSet:
        return GlobSet(self.path_globs, lenient=False)

    @cached_property
    def _content_set(self) -> GlobSet:
        return GlobSet(self.content_globs, lenient=False)


class NameFilter(NamedTuple):
    """What the last component of a pattern can be, start with or end with. Any name, if one pattern allows that."""

    exact_names: frozenset[str]
    suffixes: tuple[str, ...]
    prefixes: tuple[str, ...]


MATCH_ANY_NAME = NameFilter(frozenset(), (), ("",))


def build_name_filter(last_parts: Iterable[str]) -> NameFilter:
    """Build a filter that may accept a name no pattern matches, but never rejects one that a pattern matches."""
    exact_names: set[str] = set()
    suffixes: set[str] = set()
    prefixes: set[str] = set()
    for last in last_parts:
        prefix = _GLOB_CHARS.split(last, maxsplit=1)[0]
        if "\\" in last or last.count("{") != last.count("}") or last.count("[") != last.count("]"):
            return MATCH_ANY_NAME  # a slash inside braces, or an escape
        if prefix == last:
            exact_names.add(last)
        elif prefix:
            prefixes.add(prefix)
        elif suffix := _LITERAL_SUFFIX.fullmatch(last):
            suffixes.add(suffix[1])
        else:
            return MATCH_ANY_NAME
    return NameFilter(frozenset(exact_names), tuple(suffixes), tuple(prefixes))


def find_fixed_tops(
    patterns: Iterable[str], roots: Sequence[str], home: str = "", *, ignore_case: bool = False
) -> tuple[str, ...] | None:
    """Places that contain everything that the patterns cover; None if that may be anywhere below a root."""
    tops: dict[str, None] = {}
    for pattern in patterns:
        line = _parse_pattern(pattern, home)
        if line is None:
            continue
        fixed = list(takewhile(lambda name: _has_one_spelling(name, ignore_case=ignore_case), line.glob.split("/")))
        if not fixed:
            return None
        starts = ("",) if pattern.startswith(("/", "~")) else roots
        tops |= {"/".join((start.rstrip("/"), *fixed)): None for start in starts}
    return tuple(tops)


def _has_one_spelling(name: str, *, ignore_case: bool) -> bool:
    """Whether a part of a pattern covers just one name on disk."""
    if not name.isascii() or _COMPOSED_ASCII & {*name} or _GLOB_CHARS.search(name):
        return False
    return not ignore_case or name.upper() == name.lower()


def fold_case(name: str) -> str:
    """A name as a case-insensitive file system compares it."""
    return name.casefold() if name.isascii() else normalize("NFC", normalize("NFC", name).casefold())


def compose_unicode(name: str) -> str:
    """A name in composed Unicode form (NFC): people do not see the difference."""
    return name if name.isascii() else normalize("NFC", name)


def escape_glob(path: str) -> str:
    """A pattern that matches exactly this path."""
    return _GLOB_CHARS.sub(r"\\\g<0>", path)


def _encode_name(name: str) -> bytes:
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # no file can have this name
        return name.encode("utf-8", "replace")


def _parse_pattern(pattern: str, home: str) -> GlobLine | None:
    """Parse a pattern; None for a `~/…` pattern without a home. Raise ValueError if it is invalid."""
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    if not parts or "\0" in pattern or ".." in parts:
        raise ValueError(f"{pattern!r} is not a valid path pattern: it is empty, contains '..' or contains a NUL")
    if pattern.startswith("~"):
        if parts[0] != "~" or len(parts) < 2:
            raise ValueError(f"{pattern!r} is not a valid path pattern: '~' is only supported as '~/…'")
        if not home:
            return None
        parts[0] = escape_glob(home.strip("/"))
    glob = "/".join(parts)
    if "/" not in pattern.rstrip("/") and glob != "**":
        glob = f"**/{glob}"
    try:
        return GlobLine(pattern, 0, validate_glob(glob) if _GLOB_CHARS.search(pattern) else glob)
    except BadGlob as bad:
        raise ValueError(f"{pattern!r} is not a valid path pattern: {bad.because}") from None
