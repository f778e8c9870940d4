"""Ignore files, with ripgrep's precedence.

`.rgignore` takes precedence over `.ignore`, then `.gitignore`, then `.git/info/exclude`, whatever folder each is in.
Among files of the same name the nearest folder decides, and within a file the last matching line. Git's own files apply
only inside a repository, and not above its top.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from handhold.core.text.globs import GlobLine, GlobSet, parse_glob_line

GIT_FOLDER = ".git"
GIT_EXCLUDE_FILE = ".git/info/exclude"
IGNORE_FILES = (".rgignore", ".ignore", ".gitignore", GIT_EXCLUDE_FILE)  # strongest first
GIT_IGNORE_FILES = (".gitignore", GIT_EXCLUDE_FILE)
UTF8_BOM = b"\xef\xbb\xbf"


def parse_ignore_file(data: bytes) -> Iterable[GlobLine]:
    """The rules in an ignore file, up to the first line that is not UTF-8."""
    for number, raw in enumerate(data.removeprefix(UTF8_BOM).split(b"\n"), 1):
        try:
            text = raw.removesuffix(b"\r").decode()
        except UnicodeDecodeError:
            return
        if line := parse_glob_line(text, number):
            yield line


class IgnoreMatch(NamedTuple):
    """The line that decides about a path, and its ignore file."""

    source: str
    line: GlobLine


@dataclass(frozen=True, slots=True)
class _IgnoreFile:
    source: str
    prefix_bytes: int  # length of the folder's path, to make places relative
    globs: GlobSet


@dataclass(frozen=True)
class IgnoreRules:
    """The ignore files that apply in one folder: by name, strongest first, and for each name the nearest first."""

    files: tuple[tuple[_IgnoreFile, ...], ...] = ((),) * len(IGNORE_FILES)
    in_repository: bool = False

    def enter_folder(self, folder: str, found: Mapping[str, bytes], *, is_repository_root: bool) -> "IgnoreRules":
        """The rules for a subfolder that contains these ignore files.

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
        """The line that decides about a place, whose last component is `name`; None if no line matches."""
        for named, files in zip(IGNORE_FILES, self.files, strict=True):
            if named in GIT_IGNORE_FILES and not self.in_repository:
                break
            for file in files:
                if line := file.globs.match(place[file.prefix_bytes :], name, directory=directory):
                    return IgnoreMatch(file.source, line)
        return None

    @property
    def is_empty(self) -> bool:
        """Whether there are no rules."""
        return not any(self.files)
