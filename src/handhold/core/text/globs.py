"""Path globs with ripgrep's semantics.

`*` and `?` do not cross directories, `**` as a whole component crosses any number of them, `[a-z]` and `[!a]` match one
byte, `{a,b}` matches either, and a backslash escapes the next character. A glob becomes a regular expression over the
bytes of a path. The most common ones become dictionary lookups, since a tree is matched a million times.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

from handhold.core.errors import BadGlob
from handhold.core.text.automaton import Alternatives, Automaton, ByteClass, GlobToken, RepeatedByteClass, to_regex

ANY_NAME = RepeatedByteClass(b"[^/]")
SLASH = ByteClass(b"/")
ANYTHING = RepeatedByteClass(b".")
ANY_FOLDERS = Alternatives(((), (SLASH,), (ANYTHING, SLASH)))  # `**/` at the start
FOLDERS_BETWEEN = Alternatives(((SLASH,), (SLASH, ANYTHING, SLASH)))
ALL_BELOW = Alternatives(((SLASH, ANYTHING),))
MAGIC_CHARS = frozenset("*?[]{}\\")
WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
MAX_BRACE_DEPTH = 50  # nested braces
MAX_REGEX_STARS = 2  # with more stars, a regular expression could backtrack for too long
MAX_REGEX_ALTERNATIVES = 200

BytesMatcher = Callable[[bytes], object]


def validate_glob(pattern: str) -> str:
    """Return the pattern; raise BadGlob if it is invalid."""
    parse_glob(pattern)
    return pattern


@lru_cache(maxsize=4096)
def parse_glob(pattern: str, *, lenient: bool = False) -> tuple[GlobToken, ...]:
    """The tokens of a pattern, which must match a whole path. A `lenient` one may leave a bracket open."""
    return GlobParser(pattern, lenient=lenient).parse()


class GlobParser:
    """Parses a pattern in one pass."""

    def __init__(self, pattern: str, *, lenient: bool) -> None:
        self.pattern = pattern
        self.lenient = lenient
        self.position = 0
        self.groups: list[list[list[GlobToken]]] = [[[]]]  # open braces, each with its branches so far

    def parse(self) -> tuple[GlobToken, ...]:
        while self.position < len(self.pattern):
            char = self.pattern[self.position]
            self.position += 1
            match char:
                case "?":
                    self.push(ByteClass(b"[^/]"))
                case "*":
                    self.parse_star()
                case "[":
                    self.parse_bracket()
                case "{":
                    if len(self.groups) > MAX_BRACE_DEPTH:
                        raise self.error("its braces are nested too deeply")
                    self.groups.append([[]])
                case "}":
                    self.close_group()
                case "," if len(self.groups) > 1:
                    self.groups[-1].append([])
                case "\\":
                    if self.position == len(self.pattern):
                        raise self.error("it ends with a backslash")
                    self.push(*map(ByteClass, encode_literal(self.pattern[self.position])))
                    self.position += 1
                case _:
                    self.push(*map(ByteClass, encode_literal(char)))
        if len(self.groups) > 1:
            raise self.error("a '}' is missing")
        return (ANYTHING,) if self.branch == [ANY_FOLDERS] else tuple(self.branch)

    @property
    def branch(self) -> list[GlobToken]:
        return self.groups[-1][-1]

    def push(self, *tokens: GlobToken) -> None:
        self.branch.extend(tokens)

    def peek(self) -> str:
        return self.pattern[self.position : self.position + 1]

    def error(self, because: str) -> BadGlob:
        return BadGlob(self.pattern, because)

    def close_group(self) -> None:
        if len(self.groups) == 1:
            raise self.error("a '{' is missing")
        branches = tuple(tuple(branch) for branch in self.groups.pop() if branch)
        self.push(Alternatives(branches or ((),)))

    def parse_star(self) -> None:
        """`*` or `**`, which crosses directories as a whole component and is otherwise the same as `*`."""
        before = self.pattern[self.position - 2 : self.position - 1] if self.position > 1 else ""
        if self.peek() != "*":
            return self.push(ANY_NAME)
        self.position += 1
        after = self.peek()
        if not self.branch:
            if after not in ("", "/"):
                return self.push(ANY_NAME)
            self.position += len(after)
            return self.push(ANY_FOLDERS)
        in_braces = len(self.groups) > 1
        last = not after or (in_braces and after in (",", "}"))
        if before != "/" or not (last or after == "/"):
            return self.push(ANY_NAME)
        if not last:
            self.position += 1
        replaced = self.branch.pop()  # the slash before it
        if replaced in (ANY_FOLDERS, ALL_BELOW):
            return self.push(replaced)
        return self.push(ALL_BELOW if last else FOLDERS_BETWEEN)

    def parse_bracket(self) -> None:
        start = self.position
        negated = self.peek() in ("!", "^") and bool(self.peek())
        self.position += negated
        ranges: list[tuple[str, str]] = []
        in_range = False
        first = True
        while True:
            char = self.peek()
            self.position += 1
            if not char:
                if not self.lenient:
                    raise self.error("a ']' is missing")
                self.position = start
                return self.push(*map(ByteClass, encode_literal("[")))
            if char == "]" and not first:
                break
            if in_range:
                ranges[-1] = (ranges[-1][0], char)
                if char < ranges[-1][0]:
                    raise self.error(f"'{ranges[-1][0]}-{char}' is not a valid range")
                in_range = False
            elif char == "-" and not first:
                in_range = True
            else:
                ranges.append((char, char))
            first = False
        if in_range:
            ranges.append(("-", "-"))
        spans = b"".join(
            b"".join(encode_literal(low)) + (b"-" + b"".join(encode_literal(high)) if high != low else b"")
            for low, high in ranges
        )
        return self.push(ByteClass(b"[" + (b"^" if negated else b"") + spans + b"]"))


def encode_literal(char: str) -> list[bytes]:
    """The bytes of a character in a name."""
    return [rb"\x%02x" % byte for byte in char.encode("utf-8", "surrogateescape")]


def compile_matcher(tokens: Sequence[GlobToken]) -> BytesMatcher:
    """Compile to a function that matches a whole path in linear time."""
    if is_regex_safe(tokens):
        return re.compile(to_regex(tokens), re.DOTALL).fullmatch
    return Automaton(tokens).matches


def is_regex_safe(tokens: Sequence[GlobToken]) -> bool:
    """Whether a regular expression cannot backtrack for long on it."""
    return sum(map(count_stars, tokens)) <= MAX_REGEX_STARS and count_alternatives(tokens) <= MAX_REGEX_ALTERNATIVES


def count_alternatives(tokens: Sequence[GlobToken]) -> int:
    """How many alternatives its braces have: a regular expression may try them all."""
    return prod(sum(map(count_alternatives, token.branches)) for token in tokens if isinstance(token, Alternatives))


def count_stars(token: GlobToken) -> int:
    match token:
        case ByteClass():
            return 0
        case RepeatedByteClass():
            return 1
        case Alternatives(branches):
            return sum(count_stars(each) for branch in branches for each in branch)


# --- one line of an ignore file, or one -g of ripgrep


@dataclass(frozen=True)
class GlobLine:
    """A glob of an ignore file: what it matches, whether only directories, and whether it is negated."""

    text: str  # as written
    number: int
    glob: str  # relative to the folder of the file
    is_negated: bool = False
    is_directory_only: bool = False


def parse_glob_line(text: str, number: int = 0) -> GlobLine | None:
    """None for a comment or a blank line."""
    if text.startswith("#"):
        return None
    if not text.endswith("\\ "):
        text = text.rstrip(WHITESPACE)
    if not text:
        return None
    rest, is_anchored, negated = text, False, False
    if rest.startswith(("\\!", "\\#")):
        rest = rest[1:]
    else:
        if negated := rest.startswith("!"):
            rest = rest[1:]
        if is_anchored := rest.startswith("/"):
            rest = rest[1:]
    if only_directories := rest.endswith("/"):
        rest = rest[:-1].removesuffix("\\")
    if not is_anchored and "/" not in rest and rest != "**":
        rest = f"**/{rest}"
    if rest.endswith("/**"):
        rest += "/*"  # what is in the folder, but not the folder
    return GlobLine(text, number, rest, negated, only_directories)


class GlobSet:
    """Globs that are matched together: the last one that matches decides."""

    def __init__(self, lines: Iterable[GlobLine], *, lenient: bool) -> None:
        self.lines: list[GlobLine] = []
        self._names: dict[bytes, list[int]] = {}
        self._suffixes: dict[bytes, list[int]] = {}
        self._paths: dict[bytes, list[int]] = {}
        name_patterns: list[tuple[int, tuple[GlobToken, ...]]] = []
        path_patterns: list[tuple[int, tuple[GlobToken, ...]]] = []
        for line in lines:
            index = len(self.lines)
            in_name = line.glob.startswith("**/") and "/" not in line.glob[3:]
            name = line.glob[3:] if in_name else line.glob
            if name and not MAGIC_CHARS & set(name):
                known = self._names if in_name else self._paths
                known.setdefault(name.encode("utf-8", "surrogateescape"), []).append(index)
            elif in_name and name[:2] == "*." and not (MAGIC_CHARS | {"."}) & set(name[2:]):
                self._suffixes.setdefault(name[1:].encode("utf-8", "surrogateescape"), []).append(index)
            else:
                try:
                    parsed = parse_glob(line.glob, lenient=lenient)
                except BadGlob:
                    if not lenient:
                        raise
                    continue
                if in_name and name and "[" not in name:  # a class may match the slash itself
                    name_patterns.append((index, parsed[1:]))
                else:
                    path_patterns.append((index, parsed))
            self.lines.append(line)
        self._name_matchers = Alternation(name_patterns)
        self._path_matchers = Alternation(path_patterns)

    def matches_any(self, path: bytes, name: bytes) -> bool:
        """Whether any glob matches, without determining which."""
        if name in self._names or path in self._paths or name[name.rfind(b".") :] in self._suffixes:
            return True
        return self._name_matchers.matches_any(name) or self._path_matchers.matches_any(path)

    def match(self, path: bytes, name: bytes, *, directory: bool) -> GlobLine | None:
        """The glob that decides about a path, relative to their folder; `name` is its last component."""
        found: list[int] = []
        if name in self._names:
            found += self._names[name]
        if self._suffixes and (dot := name.rfind(b".")) >= 0 and (suffix := name[dot:]) in self._suffixes:
            found += self._suffixes[suffix]
        if path in self._paths:
            found += self._paths[path]
        if self._name_matchers.has_patterns:
            found += self._name_matchers.find_matches(name)
        if self._path_matchers.has_patterns:
            found += self._path_matchers.find_matches(path)
        if not found:
            return None
        found.sort(reverse=True)
        for index in found:
            line = self.lines[index]
            if directory or not line.is_directory_only:
                return line
        return None


class Alternation:
    """Patterns that are tried one by one only if any of them matches."""

    def __init__(self, patterns: Sequence[tuple[int, Sequence[GlobToken]]]) -> None:
        self.has_patterns = bool(patterns)
        self._safe_patterns = [(index, asked) for index, asked in patterns if is_regex_safe(asked)]
        self._unsafe_matchers = [
            (index, compile_matcher(asked)) for index, asked in patterns if not is_regex_safe(asked)
        ]
        self._match_any_safe = re.compile(
            b"|".join(to_regex(asked) for _, asked in self._safe_patterns), re.DOTALL
        ).fullmatch

    @cached_property
    def _safe_matchers(self) -> list[tuple[int, BytesMatcher]]:
        return [(index, compile_matcher(asked)) for index, asked in self._safe_patterns]

    def find_matches(self, text: bytes) -> list[int]:
        tried = (
            [*self._safe_matchers, *self._unsafe_matchers]
            if self._safe_patterns and self._match_any_safe(text)
            else self._unsafe_matchers
        )
        return [index for index, matches in tried if matches(text)]

    def matches_any(self, text: bytes) -> bool:
        return bool(self._safe_patterns and self._match_any_safe(text)) or any(
            matches(text) for _, matches in self._unsafe_matchers
        )


@dataclass
class Overrides:
    """The caller's globs, which take precedence over ignore files: a file that one includes is always searched.

    If there are including globs, a file that none includes is left out. Folders are left out only by an excluding glob.
    """

    globs: tuple[str, ...] = ()
    glob_set: GlobSet = field(init=False)
    has_includes: bool = field(init=False)

    def __post_init__(self) -> None:
        lines = [line for glob in self.globs if (line := parse_glob_line(glob))]
        self.glob_set = GlobSet(lines, lenient=False)
        self.has_includes = any(not line.is_negated for line in lines)

    def decide(self, path: bytes, name: bytes, *, directory: bool) -> bool | None:
        """True: include; False: leave out; None: undecided."""
        line = self.glob_set.match(path, name, directory=directory)
        if line is not None:
            return not line.is_negated
        return False if self.has_includes and not directory else None
