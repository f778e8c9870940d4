"""Folders that nobody means when they say everything."""

DEFAULT_IGNORED_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj"),
        *("node_modules", "bower_components", ".yarn", ".pnpm-store", ".next", ".nuxt", ".svelte-kit", ".turbo"),
        *("__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".eggs"),
        *("dist", "build", "target", ".gradle", ".terraform", ".cache", "Pods", "DerivedData"),
    )
)
"""Folders that tools fill and nobody reads: left out unless they are asked for."""
