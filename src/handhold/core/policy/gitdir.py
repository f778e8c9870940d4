"""Decide which changes in a git directory need approval, by file name and content.

Files that only store data may change: objects, refs, the index. Everything else needs approval, including unknown
names, since git and its tools keep adding files that they obey, and names that would be obeyed if a repository were
hidden among the data. Some files are judged by content, so that `git init`, `git remote add` and `git worktree add`
need no approval: the configuration, sample hooks (git runs a hook only under its exact name), the pointers between a
worktree and its repository, branches named like an obeyed file, and the state of a rebase.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from posixpath import dirname, join, normpath
from typing import Literal

from handhold.core.policy import gitconfig

OBEYED_REASON = "git runs the hooks and follows the configuration there"
HOOKS: tuple[str, ...] = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist"),
    *("p4-post-changelist", "p4-pre-submit", "post-index-change"),
)
OBEYED_PATHS: tuple[str, ...] = (
    *("config", "config.worktree", "commondir", "gitdir", "info/attributes", "info/grafts"),
    *("objects/info/alternates", "objects/info/http-alternates"),
    *(f"hooks/{name}" for name in HOOKS),
)
"""Paths that are checked when a plain folder becomes a git directory."""

OBEYED_FOLDERS = ("hooks", "info", "objects", "objects/info", "refs", "branches", "remotes", "modules", "worktrees")
"""Folders that are checked as well: one of them may be a link."""

_DATA_PATH = re.compile(
    r"(?:head|[a-z_]+_head|merge_[a-z_]+|bisect_[a-z_]+|notes_merge_[a-z_]+|auto_merge|squash_msg|[a-z]+_editmsg"
    r"|edit_description|index|sharedindex\.[0-9a-f]+|packed-refs|shallow|gc\.(?:pid|log)|description)(?:\.lock|\.new)?"
    r"|(?:refs|logs|reftable|rr-cache|rebase-apply|rebase-merge|sequencer|lfs/(?:objects|tmp|cache|incomplete|logs))(?:/.+)?"
    r"|objects(?:/(?!info/(?:http-)?alternates).+)?"
    r"|info/(?:exclude|sparse-checkout|refs|commit-graphs?)(?:\.lock)?|hooks/[^/]+\.sample"
)
_KNOWN_FOLDER = re.compile(r"|hooks|info|branches|modules(?:/.+)?|worktrees(?:/[^/]+)?|lfs")
_OBEYED_PATH = re.compile(
    r"config(?:\.worktree)?|commondir|gitdir|hooks/.+|info/(?:attributes|grafts)|objects/info/(?:http-)?alternates"
    r"|(?:branches|remotes)/.+"
    r"|(?:refs|logs|reftable|rr-cache|rebase-apply|rebase-merge|sequencer|lfs|objects)/(?:.+/)?(?:\.git(?:/.+)?"
    r"|config(?:\.worktree)?|commondir|gitdir|hooks/.+|info/(?:attributes|grafts)|objects/info/(?:http-)?alternates)"
)
_REF_PATH = re.compile(r"(refs|logs)/(?:(?!\.git(?:/|$))[^/]+/)*(?!(?:commondir|gitdir|\.git)$)[^/]+")
_REF_CONTENT = {
    "refs": re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64}|ref: refs/[!-~]+)\n?"),
    "logs": re.compile(rb"(?:[0-9a-f]{40,64} [0-9a-f]{40,64} [^\n]*\n)*"),
}
_SEQUENCER_FILE = re.compile(
    r"(?:rebase-merge|rebase-apply|sequencer)/"
    r"((?:git-rebase-)?todo(?:\.backup)?|strategy|strategy_opts|gpg_sign_opt|opts)"
)
_BUILTIN_STRATEGIES = ("ort", "recursive", "resolve", "octopus", "ours", "subtree")  # git runs any other as a program
_SEQUENCER_OPTIONS = (
    *("no-commit", "edit", "allow-empty", "allow-empty-message", "drop-redundant-commits", "keep-redundant-commits"),
    *("signoff", "record-origin", "allow-ff", "mainline", "allow-rerere-auto", "default-msg-cleanup"),
)
_EXEC_LINE = re.compile(rb"^[ \t]*(?:exec|x)(?:[ \t]|$)", re.MULTILINE)
_WORKTREE_POINTER = re.compile(r"(?:.+/)?worktrees/[^/]+/(commondir|gitdir)")
_LINKED_GITDIR = re.compile(r"(?:.+/)?\.git/(?:modules|worktrees)/.+", re.DOTALL)


@dataclass(frozen=True)
class GitEntryState:
    """A file, link or folder before or after a change. `read` returns None if the content is not available."""

    kind: Literal["file", "link", "tree", "other"]
    mode: int | None
    read: Callable[[], bytes | None]


def split_gitdir(relative_path: str) -> tuple[str, str] | None:
    """Split a root-relative path into the folder that holds `.git` and the path inside; None if there is none."""
    parts = relative_path.split("/")
    at = next((n for n, part in enumerate(parts) if part.casefold() == ".git"), None)
    return None if at is None else ("/".join(parts[:at]), "/".join(parts[at + 1 :]))


def is_git_data(relative_path: str) -> bool:
    """Whether git treats a file of this name as data, whatever its content.

    `relative_path` is relative to the git directory.
    """
    names = list(_iter_own_paths(relative_path.casefold()))
    return not any(map(_is_obeyed, names)) and any(
        _DATA_PATH.fullmatch(name) and not _SEQUENCER_FILE.fullmatch(name) for name in names
    )


def is_git_data_path(path: str) -> bool:
    """Whether a path, spelled from anywhere, is in a git directory and data to git."""
    split = split_gitdir(path.rstrip("/"))
    return split is not None and bool(split[1]) and is_git_data(split[1])


def find_objection(
    relative_path: str,
    before: GitEntryState | None,
    after: GitEntryState | None,
    *,
    gitdir: str,
    is_inside: Callable[[str], bool],
) -> str:
    """Why this change in a git directory needs approval; empty if it is harmless.

    `gitdir` is the absolute path of the directory. `is_inside` tells whether an absolute path is inside the workspace.
    """
    folded_path = relative_path.casefold()
    states = [side for side in (before, after) if side]
    if any(side.kind in ("link", "other") for side in states):
        return "a link or special file in a git directory redirects git"
    if not relative_path:
        return _check_pointer_file(before, after, gitdir, is_inside)
    names = list(_iter_own_paths(folded_path))
    if all(side.kind == "tree" for side in states):
        if before and after and not any(map(_DATA_PATH.fullmatch, names)):
            return OBEYED_REASON  # its permissions change
        return (
            "" if any(_DATA_PATH.fullmatch(name) or _KNOWN_FOLDER.fullmatch(name) for name in names) else OBEYED_REASON
        )
    if len({side.kind for side in states}) > 1:
        return OBEYED_REASON
    if is_git_data(relative_path):
        return ""
    data = after.read() if after else None
    obeyed = {name for name in names if _is_obeyed(name)}
    state = None if obeyed else next(filter(None, map(_SEQUENCER_FILE.fullmatch, names)), None)
    if after is None or data is None:  # removing what git obeys is a change as well
        return (
            ""
            if before and after is None and (state or _is_removable(folded_path, before, is_inside))
            else OBEYED_REASON
        )
    if _is_ref(names, after, data):
        return ""
    if obeyed in ({"config"}, {"config.worktree"}):
        return _check_config(before, after, data, is_inside)
    if state:
        return "a rebase would run a command from this file" if _can_run_command(state[1], data) else ""
    return "" if _is_worktree_pointer(folded_path, data, is_inside) else OBEYED_REASON


def _check_config(
    before: GitEntryState | None, after: GitEntryState, data: bytes, is_inside: Callable[[str], bool]
) -> str:
    old = before.read() if before else None
    if before and (old is None or (before.mode is not None and after.mode is not None and before.mode != after.mode)):
        return OBEYED_REASON

    def is_repository(path: str) -> bool:  # not a folder inside a repository, which could hide another one
        in_gitdir = split_gitdir(normpath(path))
        return is_inside(path) and not (in_gitdir and in_gitdir[1])

    return gitconfig.find_objection(old, data, is_repository)


def _can_run_command(name: str, data: bytes) -> bool:
    """Whether the state of a rebase or cherry-pick in this file could run a command when it continues."""
    if "todo" in name:
        return _EXEC_LINE.search(data) is not None
    if name == "strategy":
        return data.decode("utf-8", "replace").removesuffix("\n") not in _BUILTIN_STRATEGIES
    if name != "opts":
        return True
    try:
        settings = gitconfig.parse(data)
    except ValueError:
        return True
    return not all(
        (each.section, each.subsection) == ("options", None)
        and (each.key in _SEQUENCER_OPTIONS or (each.key == "strategy" and each.value in _BUILTIN_STRATEGIES))
        for each in settings
    )


def _is_ref(names: list[str], state: GitEntryState, data: bytes) -> bool:
    """Whether it is a ref or its log, which may be named `config` or `hooks/x`; it must not be executable."""
    found = next(filter(None, map(_REF_PATH.fullmatch, names)), None)
    is_program = state.mode is not None and state.mode & 0o111
    return found is not None and not is_program and _REF_CONTENT[found[1]].fullmatch(data) is not None


def _check_pointer_file(
    before: GitEntryState | None, after: GitEntryState | None, gitdir: str, is_inside: Callable[[str], bool]
) -> str:
    """Check `.git` itself: a new folder, whose entries are checked one by one, or a file that points to one."""
    if after is None:
        return (
            "" if before and before.kind == "file" and _is_pointer_inside(before, gitdir, is_inside) else OBEYED_REASON
        )
    if before is not None:
        return OBEYED_REASON
    if after.kind == "tree":
        return ""
    return "" if _is_pointer_inside(after, gitdir, is_inside) else "git would look for its repository elsewhere"


def _is_pointer_inside(state: GitEntryState, gitdir: str, is_inside: Callable[[str], bool]) -> bool:
    found = re.fullmatch(rb"gitdir: ([!-~][ -~]*)\n?", state.read() or b"")
    if found is None:
        return False
    target = normpath(join(dirname(gitdir), found[1].decode("ascii")))
    return is_inside(target) and _LINKED_GITDIR.fullmatch(target) is not None


def _is_removable(relative_path: str, before: GitEntryState, is_inside: Callable[[str], bool]) -> bool:
    """Whether removing it changes nothing that git obeys: the pointers of a removed worktree, and branches."""
    data = before.read()
    return data is not None and (
        _is_worktree_pointer(relative_path, data, is_inside)
        or _is_ref(list(_iter_own_paths(relative_path)), before, data)
    )


def _is_worktree_pointer(relative_path: str, data: bytes, is_inside: Callable[[str], bool]) -> bool:
    """Whether it is a pointer that `git worktree add` writes."""
    pointer = _WORKTREE_POINTER.fullmatch(relative_path)
    if pointer is None:
        return False
    text = data.decode("utf-8", "surrogateescape").removesuffix("\n")
    if pointer[1] == "commondir":
        return text == "../.."
    return normpath(text) == text and text.endswith("/.git") and is_inside(text)


def _iter_own_paths(relative_path: str) -> Iterator[str]:
    """The path inside the repository, submodule or worktree it belongs to; several if the names are ambiguous."""
    parts = relative_path.split("/")
    seen, pending = set[int](), [0]
    while pending:
        at = pending.pop()
        if at in seen or at > len(parts):
            continue
        seen.add(at)
        first, more = parts[at] if at < len(parts) else "", len(parts) - at
        if first == "worktrees" and more > 1:
            pending.append(at + 2)
        elif first == "modules" and more > 1:
            pending += range(at + 2, len(parts) + 1)
        else:
            yield "/".join(parts[at:])


def _is_obeyed(relative_path: str) -> bool:
    return (
        _OBEYED_PATH.fullmatch(relative_path) is not None
        and re.fullmatch(r"hooks/[^/]+\.sample", relative_path) is None
    )
