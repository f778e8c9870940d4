"""A model of the sentence about names in the threat model. It goes from the rules to the files, through the disk.

`must_be_covered` is what the sentence promises; `may_be_covered` is the most that it can mean: some path, through any
links, that a rule covers leads to the file. Rules are names at any depth, or paths from the root if they have a slash.
"""

import os
from collections.abc import Iterator
from pathlib import Path


def covers(rule: str, path: str) -> bool:
    """Whether a rule covers a path from the root, by its spelling."""
    parts, wanted = path.split("/"), rule.split("/")
    return wanted[0] in parts if len(wanted) == 1 else parts[: len(wanted)] == wanted


def plain(root: Path, path: str) -> str:
    """A path without `..`: after a link, it means the folder above the one that the link leads to."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == ".." and os.path.islink(root.joinpath(*parts)):
            parts = below(root, root.joinpath(*parts).resolve().parent).split("/")
        elif part == "..":
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


def below(root: Path, path: str | Path) -> str:
    found = os.path.relpath(path, root)
    return "" if found == "." else found


def reached_names(root: Path, asked: str) -> Iterator[str]:
    """The path as asked, after each link on the way, and at last where it leads."""
    for _ in range(40):
        path = plain(root, asked)
        yield path
        parts = path.split("/")
        link = next((n for n in range(1, len(parts) + 1) if os.path.islink(root.joinpath(*parts[:n]))), None)
        if link is None:
            return
        target = os.path.join("/".join(parts[: link - 1]), os.readlink(root.joinpath(*parts[:link])))
        asked = "/".join((below(root, target) if target.startswith("/") else target, *parts[link:]))


def leads_to(path: Path, place: Path) -> bool:
    """Whether a path leads to a place or to a folder above it."""
    real = Path(os.path.realpath(path))
    return os.path.lexists(real) and (real == place or real in place.parents)


def spelled_by(root: Path, rule: str, place: Path) -> Iterator[Path]:
    """The paths that a rule stands for: what it spells out, or its name in each folder above the place."""
    if "/" in rule:
        yield root / rule
    else:
        yield from (folder / rule for folder in place.parents if folder == root or root in folder.parents)


def must_be_covered(root: Path, rule: str, asked: str) -> bool:
    names = list(reached_names(root, asked))
    place = root / names[-1]
    if any(covers(rule, name) for name in names):
        return True
    for folder in place.parents:
        if folder == root or root in folder.parents:
            for link in filter(Path.is_symlink, folder.iterdir()):
                real = Path(os.path.realpath(link))
                if leads_to(link, place) and covers(rule, below(root, link / place.relative_to(real))):
                    return True
    for path in spelled_by(root, rule, place):
        if leads_to(path, place):
            return True
        inside = (Path(top) / name for top, folders, files in os.walk(path) for name in (*folders, *files))
        if any(each.is_symlink() and leads_to(each, place) for each in inside):
            return True
    return False


def may_be_covered(root: Path, rule: str, asked: str, *, hard_links: bool = False) -> bool:
    *others, name = reached_names(root, asked)
    if any(covers(rule, each) for each in (*others, name)):
        return True
    place = root / name

    def lead_there(folder: Path, used: frozenset[Path]) -> bool:
        for entry in folder.iterdir():
            links = used
            real = Path(os.path.realpath(entry.parent)) / entry.name
            if entry.is_symlink():
                if real in used:
                    continue
                links = used | {real}
            is_place = Path(os.path.realpath(entry)) == place or (
                hard_links and entry.is_file() and place.is_file() and entry.samefile(place)
            )
            if is_place and covers(rule, below(root, entry)):
                return True
            if leads_to(entry, place) and covers(rule, below(root, entry)):
                return True
            if entry.is_dir() and root in (resolved := entry.resolve(), *resolved.parents) and lead_there(entry, links):
                return True
        return False

    return lead_there(root, frozenset())


def hard_links(root: Path, place: Path) -> Iterator[str]:
    """The places of a file."""
    for top, _, files in os.walk(root):
        for name in files:
            path = Path(top) / name
            if not path.is_symlink() and place.is_file() and path.samefile(place):
                yield below(root, path)
