"""Patterns for paths, with the meaning that ripgrep gives them.

`*` and `?` stay in one directory, `**` as a whole name crosses any number of them, `[a-z]` and `[!a]` are one byte,
`{a,b}` is either, and a backslash takes the meaning from what follows. A pattern becomes a regular expression over
the bytes of a path; the commonest ones become a look into a dictionary, since a tree is asked a million times.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import prod

from handhold.core.errors import BadGlob
from handhold.core.text.automaton import Automaton, Either, Many, One, Token, expression

NAME = Many(b"[^/]")
SLASH = One(b"/")
ANYTHING = Many(b".")
ANY_FOLDERS = Either(((), (SLASH,), (ANYTHING, SLASH)))  # `**/` at the start
FOLDERS_BETWEEN = Either(((SLASH,), (SLASH, ANYTHING, SLASH)))
ALL_BELOW = Either(((SLASH, ANYTHING),))
MAGIC = frozenset("*?[]{}\\")
BLANK = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
MOST_NESTED = 50  # braces within braces
SAFE_STARS = 2  # of which a regular expression may try every combination
SAFE_WAYS = 200

Matches = Callable[[bytes], object]


def checked(pattern: str) -> str:
    """The pattern itself; BadGlob if it is none."""
    tokens(pattern)
    return pattern


@lru_cache(maxsize=4096)
def tokens(pattern: str, *, lenient: bool = False) -> tuple[Token, ...]:
    """What a pattern asks of a whole path. A `lenient` one may leave a bracket open."""
    return Translation(pattern, lenient=lenient).whole()


class Translation:
    """One pass over a pattern."""

    def __init__(self, pattern: str, *, lenient: bool) -> None:
        self.pattern = pattern
        self.lenient = lenient
        self.at = 0
        self.groups: list[list[list[Token]]] = [[[]]]  # the braces that are open: of each its branches so far

    def whole(self) -> tuple[Token, ...]:
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 1
            match char:
                case "?":
                    self.push(One(b"[^/]"))
                case "*":
                    self.star()
                case "[":
                    self.bracket()
                case "{":
                    if len(self.groups) > MOST_NESTED:
                        raise self.bad("its braces are nested too deep")
                    self.groups.append([[]])
                case "}":
                    self.close()
                case "," if len(self.groups) > 1:
                    self.groups[-1].append([])
                case "\\":
                    if self.at == len(self.pattern):
                        raise self.bad("it ends with a backslash")
                    self.push(*map(One, literal(self.pattern[self.at])))
                    self.at += 1
                case _:
                    self.push(*map(One, literal(char)))
        if len(self.groups) > 1:
            raise self.bad("a '{' is not closed")
        return (ANYTHING,) if self.branch == [ANY_FOLDERS] else tuple(self.branch)

    @property
    def branch(self) -> list[Token]:
        return self.groups[-1][-1]

    def push(self, *tokens: Token) -> None:
        self.branch.extend(tokens)

    def peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def bad(self, because: str) -> BadGlob:
        return BadGlob(self.pattern, because)

    def close(self) -> None:
        if len(self.groups) == 1:
            raise self.bad("a '}' closes nothing")
        filled = tuple(tuple(branch) for branch in self.groups.pop() if branch)
        self.push(Either(filled or ((),)))

    def star(self) -> None:
        """`*`, or `**`: that one crosses directories where it is a whole name, and else is a `*` said twice."""
        before = self.pattern[self.at - 2 : self.at - 1] if self.at > 1 else ""
        if self.peek() != "*":
            return self.push(NAME)
        self.at += 1
        after = self.peek()
        if not self.branch:
            if after not in ("", "/"):
                return self.push(NAME)
            self.at += len(after)
            return self.push(ANY_FOLDERS)
        in_braces = len(self.groups) > 1
        last = not after or (in_braces and after in (",", "}"))
        if before != "/" or not (last or after == "/"):
            return self.push(NAME)
        if not last:
            self.at += 1
        replaced = self.branch.pop()  # the slash in front
        if replaced in (ANY_FOLDERS, ALL_BELOW):
            return self.push(replaced)
        return self.push(ALL_BELOW if last else FOLDERS_BETWEEN)

    def bracket(self) -> None:
        start = self.at
        negated = self.peek() in ("!", "^") and bool(self.peek())
        self.at += negated
        ranges: list[tuple[str, str]] = []
        in_range = False
        first = True
        while True:
            char = self.peek()
            self.at += 1
            if not char:
                if not self.lenient:
                    raise self.bad("a '[' is not closed")
                self.at = start
                return self.push(*map(One, literal("[")))
            if char == "]" and not first:
                break
            if in_range:
                ranges[-1] = (ranges[-1][0], char)
                if char < ranges[-1][0]:
                    raise self.bad(f"'{ranges[-1][0]}-{char}' is no range")
                in_range = False
            elif char == "-" and not first:
                in_range = True
            else:
                ranges.append((char, char))
            first = False
        if in_range:
            ranges.append(("-", "-"))
        spans = b"".join(
            b"".join(literal(low)) + (b"-" + b"".join(literal(high)) if high != low else b"") for low, high in ranges
        )
        return self.push(One(b"[" + (b"^" if negated else b"") + spans + b"]"))


def literal(char: str) -> list[bytes]:
    """A character as the bytes that stand for it in a name."""
    return [rb"\x%02x" % byte for byte in char.encode("utf-8", "surrogateescape")]


def matcher(tokens: Sequence[Token]) -> Matches:
    """Whether a whole path is as asked, in time that grows with its length and no faster."""
    if is_safe(tokens):
        return re.compile(expression(tokens), re.DOTALL).fullmatch
    return Automaton(tokens).matches


def is_safe(tokens: Sequence[Token]) -> bool:
    """Whether a regular expression may be let loose on it."""
    return sum(map(stars, tokens)) <= SAFE_STARS and ways(tokens) <= SAFE_WAYS


def ways(tokens: Sequence[Token]) -> int:
    """How many ways there are through its braces: an expression may try them all."""
    return prod(sum(map(ways, token.branches)) for token in tokens if isinstance(token, Either))


def stars(token: Token) -> int:
    match token:
        case One():
            return 0
        case Many():
            return 1
        case Either(branches):
            return sum(stars(each) for branch in branches for each in branch)


# --- one line of an ignore file, or one -g of ripgrep


@dataclass(frozen=True)
class Line:
    """A glob as ignore files have them: what it matches, whether only directories, and whether it takes back."""

    text: str  # as written
    number: int
    glob: str  # from the folder of the file on
    negated: bool = False
    only_directories: bool = False


def line_of(text: str, number: int = 0) -> Line | None:
    """None for a comment and a blank line."""
    if text.startswith("#"):
        return None
    if not text.endswith("\\ "):
        text = text.rstrip(BLANK)
    if not text:
        return None
    rest, anchored, negated = text, False, False
    if rest.startswith(("\\!", "\\#")):
        rest = rest[1:]
    else:
        if negated := rest.startswith("!"):
            rest = rest[1:]
        if anchored := rest.startswith("/"):
            rest = rest[1:]
    if only_directories := rest.endswith("/"):
        rest = rest[:-1].removesuffix("\\")
    if not anchored and "/" not in rest and rest != "**":
        rest = f"**/{rest}"
    if rest.endswith("/**"):
        rest += "/*"  # what is in the folder, and not the folder
    return Line(text, number, rest, negated, only_directories)


class GlobSet:
    """Lines that are asked together: the last one that matches a path decides."""

    def __init__(self, lines: Iterable[Line], *, lenient: bool) -> None:
        self.lines: list[Line] = []
        self._names: dict[bytes, list[int]] = {}
        self._endings: dict[bytes, list[int]] = {}
        self._paths: dict[bytes, list[int]] = {}
        of_names: list[tuple[int, tuple[Token, ...]]] = []
        of_paths: list[tuple[int, tuple[Token, ...]]] = []
        for line in lines:
            index = len(self.lines)
            in_name = line.glob.startswith("**/") and "/" not in line.glob[3:]
            name = line.glob[3:] if in_name else line.glob
            if name and not MAGIC & set(name):
                known = self._names if in_name else self._paths
                known.setdefault(name.encode("utf-8", "surrogateescape"), []).append(index)
            elif in_name and name[:2] == "*." and not (MAGIC | {"."}) & set(name[2:]):
                self._endings.setdefault(name[1:].encode("utf-8", "surrogateescape"), []).append(index)
            else:
                try:
                    asked = tokens(line.glob, lenient=lenient)
                except BadGlob:
                    if not lenient:
                        raise
                    continue
                if in_name and name and "[" not in name:  # a class may hold the slash itself
                    of_names.append((index, asked[1:]))
                else:
                    of_paths.append((index, asked))
            self.lines.append(line)
        self._name_matchers = Alternation(of_names)
        self._path_matchers = Alternation(of_paths)

    def holds(self, path: bytes, name: bytes) -> bool:
        """Whether any line matches a path; which one, nobody asks."""
        if name in self._names or path in self._paths or name[name.rfind(b".") :] in self._endings:
            return True
        return self._name_matchers.holds(name) or self._path_matchers.holds(path)

    def match(self, path: bytes, name: bytes, *, directory: bool) -> Line | None:
        """The line that decides about a path, which is relative to the folder of these lines; `name` is its last."""
        found: list[int] = []
        if name in self._names:
            found += self._names[name]
        if self._endings and (dot := name.rfind(b".")) >= 0 and (ending := name[dot:]) in self._endings:
            found += self._endings[ending]
        if path in self._paths:
            found += self._paths[path]
        if self._name_matchers.any:
            found += self._name_matchers.found(name)
        if self._path_matchers.any:
            found += self._path_matchers.found(path)
        if not found:
            return None
        found.sort(reverse=True)
        for index in found:
            line = self.lines[index]
            if directory or not line.only_directories:
                return line
        return None


class Alternation:
    """Patterns that are tried one by one only where any of them matches."""

    def __init__(self, patterns: Sequence[tuple[int, Sequence[Token]]]) -> None:
        self.any = bool(patterns)
        self._plain = [(index, asked) for index, asked in patterns if is_safe(asked)]
        self._others = [(index, matcher(asked)) for index, asked in patterns if not is_safe(asked)]
        self._together = re.compile(b"|".join(expression(asked) for _, asked in self._plain), re.DOTALL).fullmatch

    @cached_property
    def _safe(self) -> list[tuple[int, Matches]]:
        return [(index, matcher(asked)) for index, asked in self._plain]

    def found(self, text: bytes) -> list[int]:
        tried = [*self._safe, *self._others] if self._plain and self._together(text) else self._others
        return [index for index, matches in tried if matches(text)]

    def holds(self, text: bytes) -> bool:
        return bool(self._plain and self._together(text)) or any(matches(text) for _, matches in self._others)


@dataclass
class Overrides:
    """Patterns of the caller's, which go before every ignore file: what one picks is in, whatever those say.

    Where any of them picks, a file that none picks is out. Folders are out only where one says so.
    """

    globs: tuple[str, ...] = ()
    set: GlobSet = field(init=False)
    picks: bool = field(init=False)

    def __post_init__(self) -> None:
        lines = [line for glob in self.globs if (line := line_of(glob))]
        self.set = GlobSet(lines, lenient=False)
        self.picks = any(not line.negated for line in lines)

    def verdict(self, path: bytes, name: bytes, *, directory: bool) -> bool | None:
        """True: in; False: out; None: these patterns have nothing to say."""
        line = self.set.match(path, name, directory=directory)
        if line is not None:
            return not line.negated
        return False if self.picks and not directory else None
