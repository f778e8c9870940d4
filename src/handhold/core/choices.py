"""The names that a user may say. Apart from what they mean: a command line is read before anything is loaded."""

from typing import Literal, get_args

DIALECTS = ("handhold", "claude", "deepagents", "codex", "tiny", "hello", "mycode", "anthropic", "gemini")

SETTINGS_FILE = "handhold.toml"  # the user's in their configuration folder, a project's at the top of its root

Mode = Literal["read-only", "ask", "edit", "open"]
MODES: tuple[Mode, ...] = get_args(Mode)

# What commands may do with files that the built-in secret rules name: read and move them, or nothing.
Secrets = Literal["usable", "strict"]
SECRETS: tuple[Secrets, ...] = get_args(Secrets)

Confinement = Literal["contained", "external", "unconfined"]  # by us, by whatever we run in, by nothing
CONFINEMENTS: tuple[Confinement, ...] = get_args(Confinement)

Matching = Literal["exact", "safe", "bold"]  # how far an edit may go to find its place
