"""Folders that searches leave out by default."""

DEFAULT_IGNORED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj"),
        *("node_modules", "bower_components", ".yarn", ".pnpm-store", ".next", ".nuxt", ".svelte-kit", ".turbo"),
        *("__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs"),
        *("dist", "build", "target", ".gradle", ".terraform", ".cache", "Pods", "DerivedData"),
    )
)
"""Folders that tools generate and nobody reads: left out unless requested."""
