"""What searches leave out by default: hidden entries, and folders that tools generate."""

from handhold.core.facts import SkipReason

DEFAULT_IGNORED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj"),
        *("node_modules", "bower_components", ".yarn", ".pnpm-store", ".next", ".nuxt", ".svelte-kit", ".turbo"),
        *("__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs"),
        *("dist", "build", "target", ".gradle", ".terraform", ".cache", "Pods", "DerivedData"),
    )
)
"""Folders that tools generate and nobody reads: left out unless requested."""


def find_default_skip_reason(name: str, *, is_directory: bool, hidden: bool, ignored: bool) -> SkipReason | None:
    """Why an entry is left out by its name; `hidden` and `ignored` tell what was requested. None if it is not."""
    if is_directory and not ignored and name in DEFAULT_IGNORED_FOLDERS:
        return "heavy folder"
    return "hidden" if not hidden and name.startswith(".") else None
