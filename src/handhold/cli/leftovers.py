"""Empty folders that earlier versions left in a workspace.

While a command ran in the background, those versions reserved each missing protected name with an empty folder at the
top of the workspace. A killed process left these folders behind. They cannot be told from an empty folder that a person
created, so they are only listed, and removed on request.
"""

import os
import stat
from collections.abc import Iterator

from handhold.logs import log_swallowed

PLACEHOLDERS = (
    *(".git", ".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".continue", ".mcp.json"),
    *(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json", ".envrc", ".husky", ".direnv"),
    "handhold.toml",
)


def find_leftovers(root: str) -> list[str]:
    return [path for name in PLACEHOLDERS if _is_empty_folder(path := os.path.join(root, name))]


def remove_leftovers(root: str) -> Iterator[tuple[str, str]]:
    """Each path with the reason why it could not be removed, or "" if it was. Folders that are not empty stay."""
    for path in find_leftovers(root):
        try:
            os.rmdir(path)
        except OSError as error:
            yield path, error.strerror or str(error)
        else:
            yield path, ""


def _is_empty_folder(path: str) -> bool:
    try:
        if not stat.S_ISDIR(os.lstat(path).st_mode):
            return False
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except OSError:
        log_swallowed()
        return False
