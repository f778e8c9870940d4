"""The workspace: the current files below its roots.

Every path goes through one resolver, chosen when the workspace is opened. Every read uses one descriptor, checked
before and after.
"""

import os
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from stat import S_IMODE
from typing import Literal, TypeVar

from handhold.backends.files import openat2
from handhold.backends.files.commit import Committer
from handhold.backends.files.commit.content_staging import stage_changes
from handhold.backends.files.encoding_declarations import MAX_CONFIG_BYTES, EncodingDeclarations
from handhold.backends.files.file_kinds import identity_of, is_virtual, kind_of, special_kind_of
from handhold.backends.files.hidden_files import OpenHiddenFiles
from handhold.backends.files.known_links import KnownLinks
from handhold.backends.files.line_index import LineIndexCache
from handhold.backends.files.line_pages import (
    CHUNK_BYTES,
    WHOLE_READ_BYTES,
    FileTruncated,
    build_page,
    count_lines,
    read_chunks,
)
from handhold.backends.files.linked_names import LinkedNames
from handhold.backends.files.name_search import find_by_name, list_entries, list_folder
from handhold.backends.files.os_errors import to_tool_error, translate_os_errors
from handhold.backends.files.path_trace import trace_names
from handhold.backends.files.root_scan import DenyCheck
from handhold.backends.files.roots import Root, RootedPath, Roots, split_names, unescape_existing_names
from handhold.backends.files.staged_files import StagedFiles
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.files.walk_resolver import OpenedPath
from handhold.backends.mounts import RemoteMounts
from handhold.backends.state.state_folder import ensure_private_folder
from handhold.core.errors import (
    BadPath,
    ChangedDuringRead,
    IsDirectory,
    NotFound,
    NotRegularFile,
    OutsideWorkspace,
    TooLarge,
    ToolError,
)
from handhold.core.facts import DeclaredEncoding, FileHead, FileIdentity, FileSnapshot, FileStat, FolderEntry, Page
from handhold.core.plans import Content, FileChange, FolderMtime, StagedContent, digest
from handhold.core.ports.contents import ContentStore
from handhold.core.ports.files import MAX_EDITABLE_BYTES, RESULTS_PATH, HiddenPaths, LinkNames, Transaction
from handhold.core.ports.journal import IncompleteTransaction
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.core.text.suggestions import find_similar_paths
from handhold.logs import log_swallowed

TAIL_READ_BYTES = 4096  # read after the end: a larger buffer takes longer to allocate than to fill
MAX_SIBLING_NAMES = 2_000  # names in a directory that are compared with a missing one
MAX_UNKNOWN_SIZE_BYTES = 8 * 1024 * 1024  # for a file that does not report its size

T = TypeVar("T")


class Workspace:
    """Implements the port Files. Relative paths refer to the first root."""

    def __init__(
        self,
        roots: Sequence[str | os.PathLike[str]],
        contents: ContentStore,
        resolver: Literal["openat2", "walk"] | None = None,
        *,
        read_only: Sequence[str | os.PathLike[str]] = (),
        state: Path | None = None,
        encodings: Mapping[str, str] | None = None,
    ) -> None:
        """With a state folder there are staging areas, and kept outputs can be read."""
        given = [(root, True) for root in roots] + [(root, False) for root in read_only]
        self._roots = Roots.open(given, {RESULTS_PATH: ensure_private_folder(state / "results")} if state else {})
        try:
            self._resolver = openat2.choose_resolver(resolver, self._roots)
        except BaseException:
            self._roots.close()
            raise
        self._staged = StagedFiles(self._roots, contents, state, self.open_parent)
        self._indexes = LineIndexCache()
        self._declarations = EncodingDeclarations(encodings, self._read_identity, self._read_config)
        self._committer = Committer(self, contents)
        self._remote_mounts = RemoteMounts(self._roots.paths)
        self._linked_names, self._hidden_files = LinkedNames(self._roots.all), OpenHiddenFiles(self._roots.all)

    @property
    def roots(self) -> tuple[str, ...]:
        return self._roots.paths

    @property
    def open_roots(self) -> tuple[Root, ...]:
        return self._roots.all

    @property
    def resolver_name(self) -> str:
        return self._resolver.name

    def close(self) -> None:
        """A later use opens its roots again, if the same folders are still there."""
        self._staged.close()
        self._hidden_files.close()
        self._remote_mounts.close()
        self._roots.close()

    # --- metadata

    def resolve(self, path: str) -> str:
        with self._open_path(path, os.O_PATH) as opened:
            return opened.place

    def stat(self, path: str) -> FileStat | None:
        with self._open_path(path, os.O_PATH) as opened:
            if opened.fd is None:
                return None
            status = self._fstat(opened.fd, path)
            kind = kind_of(status.st_mode)
            links = 1 if kind == "directory" else status.st_nlink
            return FileStat(opened.place, kind, identity_of(status), S_IMODE(status.st_mode), links)

    def trace(self, path: str) -> Sequence[str]:
        rooted = self._roots.parse_path(unescape_existing_names(path, self._exists))
        return tuple(map(escape_ambiguous, trace_names(self._roots, rooted)))

    def is_writable(self, path: str) -> bool:
        return self.find_root(self.resolve(path)).writable

    def suggest_paths(self, path: str) -> tuple[str, ...]:
        root, rel_path = self._roots.locate(self.resolve(path))
        *above, name = split_names(rel_path) or [""]
        wanted = "/".join([*above, name])
        while (siblings := self._list_names(root, above)) is None and above:
            above = above[:-1]
        elsewhere = find_by_name(name, partial(self._resolver.open_directory, root))
        found = find_similar_paths(wanted, "/".join(above), siblings or (), elsewhere)
        return tuple(other if root is self._roots.first else root.prefix + other for other in found)

    def list_folder(self, path: str) -> Sequence[FolderEntry]:
        root, rel_path = self._roots.locate(self.resolve(path))
        with translate_os_errors(path):
            return list_entries(self._resolver.open_directory(root, split_names(rel_path)))

    def has_outside_link(self, path: str) -> bool:
        status = self.stat(path)
        return status is not None and self._linked_names.has_outside_name(status)

    def list_hard_links(self, path: str) -> Sequence[str]:
        status = self.stat(path)
        if status is None or status.link_count == 1:
            return ()
        return tuple(map(escape_ambiguous, self._linked_names.find(status)))

    def link_names(
        self, is_named: Callable[[str], bool], is_judged: Callable[[str], bool], spelled: Sequence[str]
    ) -> LinkNames:
        return KnownLinks(self._roots.all, is_named, is_judged, spelled)

    def hidden_paths(
        self, is_denied: DenyCheck, *, tops: Sequence[str] | None = None, local_only: bool = False
    ) -> HiddenPaths:
        return self._hidden_files.open(is_denied, tops, self._remote_mounts.list_below_roots if local_only else list)

    # --- contents

    def read(self, path: str) -> FileSnapshot:
        return self._read_consistently(path, lambda fd, place, identity: self._read_snapshot(fd, place, identity, path))

    def read_head(self, path: str, count: int) -> FileHead:
        def read(fd: int, place: str, identity: FileIdentity) -> FileHead:
            if identity.size > WHOLE_READ_BYTES:
                return FileHead(place, os.read(fd, count), identity, None)
            whole = self._read_snapshot(fd, place, identity, path)
            return FileHead(place, whole.data[:count], identity, whole)

        return self._read_consistently(path, read)

    def read_page(
        self, path: str, offset: int, limit: int, width: int, *, snapshot: FileSnapshot | None = None
    ) -> Page:
        if snapshot is not None:
            return build_page(snapshot, path, offset, limit, width, self._find_declared_encoding(snapshot.path))

        def read_fd_page(fd: int, place: str, identity: FileIdentity) -> Page:
            declared = self._find_declared_encoding(place)
            if identity.size <= WHOLE_READ_BYTES:
                return build_page(self._read_snapshot(fd, place, identity, path), path, offset, limit, width, declared)
            return self._indexes.read_page(fd, place, identity, path, offset, limit, width, declared)

        return self._read_consistently(path, read_fd_page)

    def count_lines(self, path: str) -> int:
        def count_fd_lines(fd: int, place: str, identity: FileIdentity) -> int:
            declared = self._find_declared_encoding(place)
            if identity.size <= WHOLE_READ_BYTES:
                return count_lines(self._read_snapshot(fd, place, identity, path), path, declared)
            return self._indexes.count_lines(fd, identity, path, declared)

        return self._read_consistently(path, count_fd_lines)

    def declared_encoding(self, path: str) -> DeclaredEncoding | None:
        try:
            return self._find_declared_encoding(self.resolve(path))
        except ToolError:  # reported when the file is opened
            return None

    def _find_declared_encoding(self, place: str) -> DeclaredEncoding | None:
        root, rel_path = self._roots.locate(place)
        return self._declarations.find(root.prefix, rel_path) if root in self._roots.all else None

    def _read_identity(self, place: str) -> FileIdentity | None:
        """Without the resolver, which takes ten times as long: this only decides whether to read, and that uses it."""
        try:
            return identity_of(os.stat(place))
        except (OSError, ValueError):
            log_swallowed()
            return None

    def _read_config(self, place: str) -> bytes:
        try:
            return self._read_consistently(escape_ambiguous(place), lambda fd, _, __: os.read(fd, MAX_CONFIG_BYTES))
        except ToolError:
            log_swallowed()
            return b""

    def fingerprint(self, path: str) -> tuple[FileIdentity, str]:
        def hash_fd(fd: int, _: str, identity: FileIdentity) -> tuple[FileIdentity, str]:
            hash = sha256()
            for chunk in read_chunks(fd):
                hash.update(chunk)
            return identity, hash.hexdigest()

        return self._read_consistently(path, hash_fd)

    def with_io_timeout(self, work: Callable[[], T], raise_if_cancelled: Callable[[], None]) -> T:
        return self._remote_mounts.with_io_timeout(work, raise_if_cancelled)

    # --- for the commit

    def find_root(self, place: str) -> Root:
        return self._roots.locate(place)[0]

    @contextmanager
    def open_parent(self, place: str) -> Generator[tuple[int, str]]:
        """The directory that contains a place, open for listing and syncing, and the name in it.

        No link is followed: a place contains none, so a link that is there now was added since.
        """
        root, rel_path = self._roots.locate(place)
        *above, name = split_names(rel_path) or [""]
        if not name or ".." in above or name == "..":
            raise BadPath(place, "it is not in a directory of the workspace")
        with translate_os_errors(place):
            fd = self._resolver.open_directory(root, above)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def transaction(
        self, changes: Sequence[FileChange], times: Sequence[FolderMtime] = ()
    ) -> AbstractContextManager[Transaction]:
        return self._committer.transaction(changes, times)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._committer.exclusive()

    def recover(self, incomplete: IncompleteTransaction) -> tuple[str, ...]:
        return self._committer.recover(incomplete)

    # --- staged contents

    def get_staging_area(self, root: Root) -> StagingArea | None:
        """The staging area for entries of this root; None if there is none."""
        return self._staged.get_staging_area(root)

    @property
    def staging_areas(self) -> Collection[StagingArea]:
        return self._staged.staging_areas

    def find_staging_area(self, place: str) -> StagingArea | None:
        return self.get_staging_area(self.find_root(place))

    def is_current(self, path: str, content: Content) -> bool:
        return self._staged.is_current(path, content)

    def describe(self, path: str) -> StagedContent | None:
        return self._staged.describe(path)

    def stage(self, changes: Sequence[FileChange]) -> AbstractContextManager[Sequence[FileChange]]:
        return stage_changes(self, changes)

    def read_staged(self, content: StagedContent, path: str) -> bytes | None:
        return self._staged.read(content, path)

    def list_staged_tree(self, content: StagedContent, path: str, limit: int) -> Sequence[tuple[str, StagedContent]]:
        return self._staged.list_tree(content, path, limit)

    def exact_hash(self, content: StagedContent, path: str) -> str | None:
        return self._staged.exact_hash(content, path)

    def is_staged(self, content: StagedContent) -> bool:
        return self._staged.is_staged(content)

    # --- descriptors

    def _open_path(self, path: str, flags: int) -> OpenedPath:
        if "\\" not in path:
            return self._resolver.open(self._roots.parse_path(path), flags)
        rooted = self._roots.parse_path(unescape_existing_names(path, self._exists))
        opened = self._resolver.open(RootedPath(path, rooted.root, rooted.rel_path), flags)
        opened.place = escape_ambiguous(opened.place)
        return opened

    def _exists(self, path: str) -> bool:
        """Whether a path, taken literally, exists."""
        try:
            with self._resolver.open(self._roots.parse_path(path), os.O_PATH) as opened:
                return opened.fd is not None
        except ToolError:
            log_swallowed()
            return False

    def _fstat(self, fd: int, path: str) -> os.stat_result:
        try:
            status = os.fstat(fd)
        except OSError as error:  # fails even here on a disconnected mount
            raise to_tool_error(error, path) from error
        if status.st_dev not in self._roots.devices and is_virtual(fd):
            raise OutsideWorkspace(path, self.roots)
        return status

    def _read_consistently(self, path: str, read: Callable[[int, str, FileIdentity], T]) -> T:
        """Apply `read` to a regular file that does not change meanwhile; tried twice."""
        for _ in range(2):
            with self._open_path(path, os.O_RDONLY) as opened:
                if opened.fd is None:
                    raise NotFound(path)
                status = self._fstat(opened.fd, path)
                kind = kind_of(status.st_mode)
                if kind == "directory":
                    raise IsDirectory(path)
                if kind == "other":
                    raise NotRegularFile(path, special_kind_of(status.st_mode))
                identity = identity_of(status)
                try:
                    result = read(opened.fd, opened.place, identity)
                    if identity_of(os.fstat(opened.fd)) == identity:
                        return result
                except FileTruncated:
                    pass
                except OSError as error:
                    raise to_tool_error(error, path) from error
        raise ChangedDuringRead(path)

    def _read_snapshot(self, fd: int, place: str, identity: FileIdentity, path: str) -> FileSnapshot:
        if identity.size > MAX_EDITABLE_BYTES:
            raise TooLarge(path, identity.size, MAX_EDITABLE_BYTES)
        # To the end, not to st_size, which some file systems report as 0; but bounded, for files that never end.
        parts: list[bytes] = []
        size, max_bytes = 0, max(identity.size, MAX_UNKNOWN_SIZE_BYTES)
        more = TAIL_READ_BYTES if identity.size else CHUNK_BYTES
        while part := os.read(fd, max(identity.size - size + 1, more)):
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                raise TooLarge(path, size, max_bytes)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        return FileSnapshot(place, data, digest(data), identity)

    def _list_names(self, root: Root, parts: list[str]) -> list[str] | None:
        """Some names in a directory; None if it cannot be listed."""
        try:
            fd = self._resolver.open_directory(root, parts)
            os.close(fd)
        except OSError:
            log_swallowed()
            return None
        found = islice(list_folder(parts, partial(self._resolver.open_directory, root)), MAX_SIBLING_NAMES)
        return [name for name, _ in found]
