"""Check whether an entry on disk is the one in a plan: by content where others work, else by inode and mtime first."""

import os
import stat
from contextlib import suppress
from typing import Literal

from handhold.backends.files.commit.directory_metadata import is_before_or_after, open_proc_path_at
from handhold.backends.files.commit.file_metadata import file_id, fingerprint, lstat_at
from handhold.backends.files.content_hash import is_placeholder, is_whole, placeholder_hash
from handhold.backends.files.manifest import EntryState, other_owner_of, read_entry_state
from handhold.core.plans import Content, ContentRef, Directory, DirectoryMetadata, InlineContent, StagedContent

StagedKind = Literal["file", "link", "tree", "other"]
KIND_BY_FILE_TYPE: dict[int, StagedKind] = {stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFDIR: "tree"}
OWNER_RWX = 0o700  # a directory must be writable to be moved; its mode is restored afterwards


def staged_kind_of(status: os.stat_result) -> StagedKind:
    return KIND_BY_FILE_TYPE.get(stat.S_IFMT(status.st_mode), "other")


def is_same_entry(status: os.stat_result | None, expected: StagedContent) -> bool:
    """Whether it is this very entry, and unchanged as far as stat shows."""
    if status is None or file_id(status) != expected.inode or staged_kind_of(status) != expected.kind:
        return False
    mode = stat.S_IMODE(status.st_mode)
    if expected.kind == "tree":
        return mode in (expected.mode, expected.mode | OWNER_RWX)
    if expected.kind == "file" and status.st_size != expected.size:
        return False
    return status.st_mtime_ns == expected.mtime_ns and (expected.kind == "link" or mode == expected.mode)


def has_same_content(directory: int, name: str, expected: StagedContent) -> bool:
    """Whether content and mode are the same, whatever the inode. Reads everything, for a tree as well."""
    return _is_same_state(read_entry_state(name, dir_fd=directory, whole=is_whole(expected.hash)), expected)


def _is_same_state(found: EntryState | None, expected: StagedContent) -> bool:
    if found is None or (found.kind, found.hash) != (expected.kind, expected.hash):
        return False
    return expected.kind == "link" or found.mode == expected.mode


def is_unchanged(directory: int, name: str, expected: StagedContent) -> bool:
    """Whether the entry is unchanged; for a tree, with everything in it. Times prove nothing, for anybody can set them;
    only of a file that we may not read, they have to do. Raises PermissionError if its folder is closed to us."""
    status = lstat_at(directory, name)
    try:
        found = read_entry_state(name, dir_fd=directory, whole=is_whole(expected.hash))
    except (FileNotFoundError, PermissionError):  # it just disappeared, or is no longer readable
        return False
    if _is_same_state(found, expected):
        return True
    is_unread = found is not None and (is_placeholder(found.hash) or is_placeholder(expected.hash))
    return is_unread and expected.kind == "file" and is_same_entry(status, expected)


def is_intact(directory: int, name: str, expected: StagedContent) -> bool:
    """Whether the entry is in our own folder, where nobody else works."""
    return is_same_entry(lstat_at(directory, name), expected) or is_unchanged(directory, name, expected)


def is_current(directory: int, name: str, content: Content) -> bool:
    """Whether this content is what exists under a name."""
    found = lstat_at(directory, name)
    match content:
        case StagedContent():
            return is_unchanged(directory, name, content)
        case DirectoryMetadata():
            if found is None or not stat.S_ISDIR(found.st_mode):
                return False
            with open_proc_path_at(directory, name) as place:
                return is_before_or_after(place, content, content)
        case Directory():
            return found is not None and stat.S_ISDIR(found.st_mode)
        case InlineContent() | ContentRef():
            return fingerprint(directory, name)[1] == content.hash


def list_tree_entries(directory: int, name: str, slot: str, limit: int) -> list[tuple[str, StagedContent]]:
    """The entries of a tree, folder by folder, at most `limit`, described by stat only."""
    entries: list[tuple[str, StagedContent]] = []
    with suppress(PermissionError):  # stops at a folder that is not accessible
        for folder, folders, files, fd in os.fwalk(name, dir_fd=directory, follow_symlinks=False):
            folders.sort()
            rel_folder = folder.removeprefix(name).lstrip("/")
            for each in sorted((*folders, *files)):
                if len(entries) == limit:
                    return entries
                if found := lstat_at(fd, each):
                    rel_path = f"{rel_folder}/{each}" if rel_folder else each
                    mode, inode = stat.S_IMODE(found.st_mode), file_id(found)
                    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
                    kind = staged_kind_of(found)
                    time, owner = found.st_mtime_ns, other_owner_of(found)
                    staged = StagedContent(
                        f"{slot}/{rel_path}", kind, placeholder_hash(found), size, mode, inode, time, owner=owner
                    )
                    entries.append((rel_path, staged))
    return entries
