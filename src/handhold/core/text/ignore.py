"""What ignore files leave out, with ripgrep's precedence.

`.rgignore` goes before `.ignore`, that before `.gitignore`, that before `.git/info/exclude`, whatever folder each is
in. Among files of one name the nearest folder decides, and in one file the last line that matches. Git's own files
count only inside a repository, and not beyond its top.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from handhold.core.text.globs import GlobSet, Line, line_of

GIT = ".git"
EXCLUDE = ".git/info/exclude"
NAMES = (".rgignore", ".ignore", ".gitignore", EXCLUDE)  # the strongest first
OF_GIT = (".gitignore", EXCLUDE)
BOM = b"\xef\xbb\xbf"


def lines_of(data: bytes) -> Iterable[Line]:
    """The rules in an ignore file. What is no UTF-8 ends it."""
    for number, raw in enumerate(data.removeprefix(BOM).split(b"\n"), 1):
        try:
            text = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            return
        if line := line_of(text, number):
            yield line


class Rule(NamedTuple):
    """The line that decides about a path, and the ignore file that it stands in."""

    source: str
    line: Line


@dataclass(frozen=True, slots=True)
class _File:
    source: str
    above: int  # bytes of a place that stand before what is below its folder
    lines: GlobSet


@dataclass(frozen=True)
class Rules:
    """All that holds in one folder: files by name, strongest name first, of each the nearest folder first."""

    files: tuple[tuple[_File, ...], ...] = ((),) * len(NAMES)
    in_repository: bool = False

    def below(self, folder: str, found: Mapping[str, bytes], *, is_top: bool) -> "Rules":
        """The rules of a folder further down, which holds these ignore files.

        `is_top` tells whether it is the top of a repository.
        """
        if not found and not is_top:
            return self
        above = len(folder.rstrip("/").encode("utf-8", "surrogateescape")) + 1
        files = list[tuple[_File, ...]]()
        for name, inherited in zip(NAMES, self.files, strict=True):
            rest = () if is_top and name in OF_GIT else inherited
            lines = GlobSet(lines_of(found.get(name, b"")), lenient=True)
            files.append((_File(f"{folder.rstrip('/')}/{name}", above, lines), *rest) if lines.lines else rest)
        return Rules(tuple(files), self.in_repository or is_top)

    def decide(self, place: bytes, name: bytes, *, directory: bool) -> Rule | None:
        """The line that decides about a place, of which `name` is the last part; None if no line speaks of it."""
        for named, files in zip(NAMES, self.files, strict=True):
            if named in OF_GIT and not self.in_repository:
                break
            for file in files:
                if line := file.lines.match(place[file.above :], name, directory=directory):
                    return Rule(file.source, line)
        return None

    @property
    def silent(self) -> bool:
        """Whether there is no rule at all."""
        return not any(self.files)
