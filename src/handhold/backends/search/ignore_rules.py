"""The ignore files that apply in a folder: its own, and those of its parents."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from handhold.backends.files.directory_tree import JUJUTSU_FOLDER, RULE_MARKERS, DirectoryTree, DiskTree, TreeEntry
from handhold.core.text.ignore import GIT_EXCLUDE_FILE, GIT_FOLDER, IGNORE_FILES, IgnoreRules
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import log_swallowed

if TYPE_CHECKING:  # not needed for a workspace in memory
    from handhold.backends.files.workspace import Workspace

MAX_IGNORE_FILE_BYTES = 1 << 20  # the rest of a longer file is not read


def load_folder_rules(
    tree: DirectoryTree, place: str, rel_path: bytes, entries: Iterable[TreeEntry], rules: IgnoreRules
) -> IgnoreRules:
    """The rules for the folder `place` with these entries; `rules` are those of its parent."""
    markers = {entry.name: entry.kind for entry in entries if entry.name in RULE_MARKERS}
    if not markers:
        return rules
    git = markers.get(GIT_FOLDER.encode())
    is_top = git in ("file", "directory") or markers.get(JUJUTSU_FOLDER.encode()) == "directory"
    is_top = is_top or (git == "link" and tree.has_link_target(rel_path, GIT_FOLDER.encode()))
    names = [name for name in IGNORE_FILES if name.encode() in markers]
    found = {name: data for name in names if (data := tree.read_file(rel_path, name, MAX_IGNORE_FILE_BYTES))}
    if git == "directory" and (data := tree.read_file(rel_path, GIT_EXCLUDE_FILE, MAX_IGNORE_FILE_BYTES)):
        found[GIT_EXCLUDE_FILE] = data
    return rules.enter_folder(place, found, is_repository_root=is_top)


def load_parent_rules(
    workspace: "Workspace", place: str, may_read: Callable[[str, os.stat_result], bool]
) -> IgnoreRules:
    """The rules from the folders above a place, up to the top of the file system: those above the root apply too.

    `may_read` tells whether a file in the workspace may be read.
    """
    rules = IgnoreRules()
    root = workspace.find_root(escape_ambiguous(place))
    for folder in _parent_folders(root.real):
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            log_swallowed()
            continue
        try:
            with DiskTree(fd) as tree:
                rules = load_folder_rules(tree, folder, b"", tree.list_markers(b""), rules)
        finally:
            os.close(fd)

    def may_read_below(name: bytes, status: os.stat_result) -> bool:
        return may_read(root.prefix + os.fsdecode(name), status)

    with workspace.open_parent(root.prefix + "x") as (fd, _), DiskTree(fd, may_read_below) as tree:
        for folder in _parent_folders(place)[len(_parent_folders(root.real)) :]:
            rel_path = os.fsencode(folder.removeprefix(root.prefix) + "/") if folder != root.real else b""
            try:
                rules = load_folder_rules(tree, folder, rel_path, tree.list_markers(rel_path), rules)
            except OSError:
                log_swallowed()
                continue
    return rules


def _parent_folders(place: str) -> list[str]:
    names = place.strip("/").split("/") if place != "/" else []
    return ["/" + "/".join(names[:depth]) for depth in range(len(names))]
