"""The other names that links give to a place, as far as they are known without a walk through all folders.

Known are the links in each folder above the place, those at and below the paths that rules spell out, and those in
folders above the place that have a protected or restricted name; and in repositories in these folders, the links in
their git directory and the folders that its configuration names. A link is compared by what it leads to now, by device
and inode, so nothing is remembered but which entries of a folder are links, and that only while the folder is the same.
"""

import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from stat import S_ISREG
from threading import local
from time import time_ns

from handhold.backends.files.folder_listing import FileId, FolderStamp
from handhold.backends.files.hidden_files import read_head
from handhold.backends.files.linked_names import drop_nested_roots
from handhold.backends.files.root_scan import RACY_NS
from handhold.backends.files.roots import Root
from handhold.backends.link_way import find_links_on_way
from handhold.backends.quiet_open import open_quietly
from handhold.core.policy import gitconfig
from handhold.logs import log_swallowed

MAX_CACHED_FOLDERS = 10_000
MAX_SEARCHED_FOLDERS = 2_000  # with names of rules; links below further ones are not known
MAX_POINTER_BYTES = 4096  # read of a `.git` file
MAX_NAMES = 1_000  # of one place
_GIT_FILE = re.compile(rb"gitdir: ([^\0\n]+)\n?")
NO_ID: FileId = 0, 0
NO_STAMP: FolderStamp = 0, 0, 0
GITDIR_FOLDERS = ("hooks", "info")  # whose files git obeys


@dataclass(slots=True)
class LinkListing:
    """The entries of a folder that names depend on."""

    stamp: FolderStamp
    is_stable: bool  # whether the stamp would reveal every later change
    links: tuple[str, ...]
    named_folders: tuple[str, ...]  # that a rule or protected name covers
    repositories: tuple[str, ...]  # folders named as bare repositories are
    has_git_file: bool  # one that points to a git directory

    @property
    def has_names(self) -> bool:
        return bool(self.links or self.named_folders or self.repositories or self.has_git_file)


class LinkSet:
    """Names by what they lead to: by device and inode, or by path if nothing exists there. A link on the way, and what
    is missing there, has the name itself: whoever replaces it changes what the name leads to."""

    def __init__(self, above: "LinkSet | None" = None) -> None:
        """With the links of the folder above."""
        self._by_id: dict[FileId, tuple[str, ...]] = dict(above._by_id) if above else {}
        self._by_path: list[tuple[str, str]] = list(above._by_path) if above else []
        self._on_way: list[tuple[str, str]] = list(above._on_way) if above else []
        self.git_directories: list[str] = list(above.git_directories) if above else []  # those with plain names
        self.searched: set[FileId] = set(above.searched) if above else set()

    def add(self, name: str, leads_to: str = "") -> None:
        way = find_links_on_way(leads_to or name)
        self._on_way += [(link, name) for link in way if link != name]
        try:
            found = os.stat(leads_to or name)
        except (FileNotFoundError, NotADirectoryError):
            self._by_path.append((os.path.realpath(leads_to or name), name))
        except OSError:  # a loop, or not accessible
            log_swallowed()
        else:
            file_id = found.st_dev, found.st_ino
            self._by_id[file_id] = (*self._by_id.get(file_id, ()), name)

    def __bool__(self) -> bool:
        return bool(self._by_id or self._by_path)

    def find(self, path: str, file_id: FileId, *, is_whole: bool) -> Iterator[str]:
        """The names that lead to a path, and with `is_whole` those that lead through it."""
        yield from self._by_id.get(file_id, ())
        yield from (name for target, name in self._by_path if target == path)
        yield from (name for link, name in self._on_way if is_whole and link == path)


class Judgement:
    """What was found for places that are judged together."""

    def __init__(self) -> None:
        self.links: dict[str, LinkSet] = {}  # by folder
        self._ids: dict[str, FileId] = {}

    def identify(self, path: str, *, follow: bool) -> FileId:
        key = path if follow else path + "\0"
        if (found := self._ids.get(key)) is None:
            try:
                status = os.stat(path, follow_symlinks=follow)
                found = status.st_dev, status.st_ino
            except (OSError, ValueError):  # nothing there
                log_swallowed()
                found = NO_ID
            self._ids[key] = found
        return found


class KnownLinks:
    """Implements the port LinkNames. Thread-safe."""

    def __init__(
        self,
        roots: Sequence[Root],
        is_named: Callable[[str], bool],
        is_judged: Callable[[str], bool],
        spelled: Sequence[str],
    ) -> None:
        self._roots = [root.real for root in drop_nested_roots(roots)]
        self._is_named = is_named
        self._is_judged = is_judged
        self._spelled = [(path, root) for path in spelled if (root := self._find_root(path))]
        self._listings: dict[str, LinkListing] = {}
        self._settings: dict[str, tuple[FolderStamp, list[gitconfig.Setting]]] = {}  # by configuration file
        self._held = local()

    @contextmanager
    def held(self) -> Generator[None]:
        if getattr(self._held, "judgement", None) is not None:
            yield
            return
        self._held.judgement = Judgement()
        try:
            yield
        finally:
            self._held.judgement = None

    def find(self, place: str) -> Sequence[str]:
        judgement: Judgement = getattr(self._held, "judgement", None) or Judgement()
        folder = place.rpartition("/")[0] or "/"
        links = judgement.links.get(folder)
        if links is None:
            links = self._collect(place, folder, judgement)
        return self._apply(place, links, judgement) if links else (place,)

    def find_spelled(self, is_denied: Callable[[str], bool]) -> Iterator[str]:
        for path, root in self._spelled:
            place = os.path.realpath(path) if _has_link(path, root) else path
            if place == path or not os.path.lexists(place) or not self._find_root(place):
                continue
            if is_denied(path):
                yield place
                continue
            for folder, folders, files in os.walk(place):
                yield from (
                    f"{folder}/{name}"
                    for name in (*folders, *files)
                    if is_denied(f"{path}{folder.removeprefix(place)}/{name}")
                )

    def _find_root(self, place: str) -> str:
        """The root that a place is below; empty if none."""
        return next((root for root in self._roots if place.startswith(root.rstrip("/") + "/")), "")

    # --- which links lead to a place

    def _apply(self, place: str, links: LinkSet, judgement: Judgement) -> Sequence[str]:
        """The names that a rule may cover. Each link is used once, so that a link to a folder above it ends."""
        found: dict[str, frozenset[str]] = {place: frozenset()}
        pending = [place]
        while pending and len(found) < MAX_NAMES:
            name = pending.pop(0)
            above = name
            while self._find_root(above) or above in self._roots:
                file_id = judgement.identify(above, follow=name != place)
                for link in links.find(above, file_id, is_whole=above == name):
                    alias = link + name[len(above) :]
                    if link != above and alias not in found and link not in found[name]:
                        found[alias] = found[name] | {link}
                        pending.append(alias)
                above = above.rpartition("/")[0]
        del found[place]
        in_repositories = tuple(f"{folder}/" for folder in links.git_directories)
        return place, *(name for name in found if name.startswith(in_repositories) or self._is_judged(name))

    # --- which links are known

    def _collect(self, place: str, folder: str, judgement: Judgement) -> LinkSet:
        """The links that are known for what is in a folder: those for the folder above, and those in it."""
        root = self._find_root(place)
        if not root:
            return LinkSet()
        if root not in judgement.links:
            self._collect_shared(judgement)
        below: list[str] = []
        while (links := judgement.links.get(folder)) is None:
            below.append(folder)
            folder = folder.rpartition("/")[0] or "/"
        for name in reversed(below):
            links = judgement.links[name] = self._add_folder(links, name)
        return links

    def _collect_shared(self, judgement: Judgement) -> None:
        """The links at and below the paths that rules spell out, and those at the top of each root."""
        links = LinkSet()
        for path, root in self._spelled:
            if _has_link(path, root):
                links.add(path)
        self._search([path for path, _ in self._spelled if self._find_root(os.path.realpath(path))], links)
        for root in self._roots:
            links = self._add_folder(links, root)
        judgement.links |= dict.fromkeys(self._roots, links)

    def _add_folder(self, above: LinkSet, folder: str) -> LinkSet:
        listing = self._list(folder)
        if listing is None or not listing.has_names:
            return above
        links = LinkSet(above)
        self._search(self._add_listing(folder, listing, links), links)
        return links

    def _search(self, paths: Iterable[str], links: LinkSet) -> None:
        """Add the links in folders that rules or protected names cover, and in what these cover below."""
        pending = list(paths)
        while pending and len(links.searched) < MAX_SEARCHED_FOLDERS:
            path = pending.pop()
            listing = self._list(path)
            if listing is None or listing.stamp[:2] in links.searched:
                continue
            links.searched.add(listing.stamp[:2])
            pending += self._add_listing(path, listing, links)
            if path.endswith("/.git"):
                self._add_configured(path, os.path.dirname(path), links)

    def _add_listing(self, folder: str, listing: LinkListing, links: LinkSet) -> list[str]:
        """Add the links in a folder; return what in it is to be searched as well."""
        prefix = folder.rstrip("/") + "/"
        for name in listing.links:
            links.add(prefix + name)
        for name in listing.repositories:
            self._add_git_directory(prefix + name, links)
        if listing.has_git_file and (found := _GIT_FILE.fullmatch(_read(prefix + ".git", MAX_POINTER_BYTES))):
            self._add_git_directory(os.path.join(folder, os.fsdecode(found[1])), links)
        named = (prefix + name for name in listing.links if self._is_named(prefix + name))
        inside = (path for path in named if self._find_root(os.path.realpath(path)))
        return [*inside, *(prefix + name for name in listing.named_folders)]

    def _add_git_directory(self, path: str, links: LinkSet) -> None:
        """Add the links in a git directory with a plain name, and what its configuration names."""
        folder = os.path.realpath(path)
        if folder in links.git_directories or not self._find_root(folder):
            return
        links.git_directories.append(folder)
        for path in (folder, *(f"{folder}/{name}" for name in GITDIR_FOLDERS)):
            if listing := self._list(path):
                for name in listing.links:
                    links.add(f"{path}/{name}")
        self._add_configured(folder, folder, links)

    def _add_configured(self, folder: str, base: str, links: LinkSet) -> None:
        """Add the folder of hooks and the further files that a configuration names: git obeys them like its own."""
        for each in self._read_settings(f"{folder}/config"):
            if (each.section, each.key) == ("core", "hookspath"):
                links.add(f"{folder}/hooks", os.path.join(base, each.value or ""))
            elif each.section in ("include", "includeif") and each.key == "path":
                links.add(f"{folder}/config", os.path.join(folder, each.value or ""))
            elif each.section == "remote" and each.key in ("url", "pushurl"):
                path = os.path.join(base, (each.value or "").removeprefix("file://"))
                for repository in (path, f"{path}/.git"):
                    if os.path.lexists(f"{repository}/HEAD"):
                        self._add_git_directory(repository, links)

    def _read_settings(self, config: str) -> Sequence[gitconfig.Setting]:
        began = time_ns()
        try:
            found = os.stat(config)
        except FileNotFoundError:
            return ()
        except OSError:
            log_swallowed()
            return ()
        stamp, known = (found.st_dev, found.st_ino, found.st_ctime_ns), self._settings.get(config)
        if known is None or known[0] != stamp:
            settings = _parse_config(_read(config, gitconfig.MAX_CONFIG_BYTES + 1))
            is_stable = found.st_ctime_ns < began - RACY_NS
            known = self._settings[config] = stamp if is_stable else NO_STAMP, settings
        return known[1]

    def _list(self, folder: str) -> LinkListing | None:
        try:
            began, found = time_ns(), os.stat(folder)
            stamp = found.st_dev, found.st_ino, found.st_ctime_ns
            known = self._listings.get(folder)
            if known and known.is_stable and known.stamp == stamp:
                return known
            fd = open_quietly(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                with os.scandir(fd) as entries:
                    links, folders, has_git_file = _sort_entries(entries)
            finally:
                os.close(fd)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:  # not accessible
            log_swallowed()
            return None
        if len(self._listings) >= MAX_CACHED_FOLDERS:
            self._listings.clear()
        is_stable = found.st_ctime_ns < began - RACY_NS
        prefix = folder.rstrip("/") + "/"
        named = tuple(name for name in folders if self._is_named(prefix + name))
        bare = tuple(name for name in folders if name.endswith(".git") and name not in named)
        listing = self._listings[folder] = LinkListing(stamp, is_stable, tuple(links), named, bare, has_git_file)
        return listing


def _sort_entries(entries: Iterable[os.DirEntry[str]]) -> tuple[list[str], list[str], bool]:
    """The links and the folders, and whether there is a file `.git`."""
    links: list[str] = []
    folders: list[str] = []
    has_git_file = False
    for entry in entries:
        if entry.is_symlink():
            links.append(entry.name)
        elif entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
        elif entry.name == ".git":
            has_git_file = True
    return links, folders, has_git_file


def _read(path: str, count: int) -> bytes:
    """The beginning of a regular file; nothing if there is none."""
    try:
        return read_head(path, count) if S_ISREG(os.stat(path).st_mode) else b""
    except OSError:
        log_swallowed()
        return b""


def _parse_config(data: bytes) -> list[gitconfig.Setting]:
    try:
        return gitconfig.parse(data)
    except ValueError:
        log_swallowed()
        return []


def _has_link(path: str, root: str) -> bool:
    """Whether there is a link on the way from a root to a path."""
    at = len(root.rstrip("/"))
    while at >= 0:
        at = path.find("/", at + 1)
        if os.path.islink(path if at < 0 else path[:at]):
            return True
    return False
