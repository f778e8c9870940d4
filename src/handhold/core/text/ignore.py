"""What ignore files leave out, with ripgrep's precedence.

`.rgignore` goes before `.ignore`, that before `.gitignore`, that before `.git/info/exclude`, whatever folder each is
in. Among files of one name the nearest folder decides, and in one file the last line that matches. Git's own files
count only inside a repository, and not beyond its top.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from handhold.core.text.globs import GlobLine, GlobSet, parse_glob_line

GIT_FOLDER = ".git"
GIT_EXCLUDE_FILE = ".git/info/exclude"
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", GIT_EXCLUDE_FILE)  # the strongest first
GIT_IGNORE_FILES = (".gitignore", GIT_EXCLUDE_FILE)
UTF8_BOM = b"\xef\xbb\xbf"


def parse_ignore_file(data: bytes) -> Iterable[GlobLine]:
    """The rules in an ignore file. What is no UTF-8 ends it."""
    for number, raw in enumerate(data.removeprefix(UTF8_BOM).split(b"\n"), 1):
        try:
            text = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            return
        if line := parse_glob_line(text, number):
            yield line


class IgnoreMatch(NamedTuple):
    """The line that decides about a path, and the ignore file that it stands in."""

    source: str
    line: GlobLine


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    source: str
    prefix_bytes: int  # bytes of a place that stand before what is below its folder
    globs: GlobSet


@dataclass(frozen=True)
class IgnoreRules:
    """All that holds in one folder: files by name, strongest name first, of each the nearest folder first."""

    files: tuple[tuple[_IgnoreFile, ...], ...] = ((),) * len(IGNORE_FILES)
    in_repository: bool = False

    def enter_folder(self, folder: str, found: Mapping[str, bytes], *, is_repository_root: bool) -> "IgnoreRules":
        """The rules of a folder further down, which holds these ignore files.

        `is_repository_root` tells whether it is the top of a repository.
        """
        if not found and not is_repository_root:
            return self
        above = len(folder.rstrip("/").encode("utf-8", "surrogateescape")) + 1
        files = list[tuple[_IgnoreFile, ...]]()
        for name, inherited in zip(IGNORE_FILES, self.files, strict=True):
            rest = () if is_repository_root and name in GIT_IGNORE_FILES else inherited
            lines = GlobSet(parse_ignore_file(found.get(name, b"")), lenient=True)
            files.append((_IgnoreFile(f"{folder.rstrip('/')}/{name}", above, lines), *rest) if lines.lines else rest)
        return IgnoreRules(tuple(files), self.in_repository or is_repository_root)

    def decide(self, place: bytes, name: bytes, *, directory: bool) -> IgnoreMatch | None:
        """The line that decides about a place, of which `name` is the last part; None if no line speaks of it."""
        for named, files in zip(IGNORE_FILES, self.files, strict=True):
            if named in GIT_IGNORE_FILES and not self.in_repository:
                break
            for file in files:
                if line := file.globs.match(place[file.prefix_bytes :], name, directory=directory):
                    return IgnoreMatch(file.source, line)
        return None

    @property
    def is_empty(self) -> bool:
        """Whether there is no rule at all."""
        return not any(self.files)
