"""Names that users may give in options. Kept apart from their meaning, so that the command line parses quickly."""

from typing import Literal, get_args

DIALECTS = ("handhold", "claude", "deepagents", "codex", "tiny", "hello", "mycode", "anthropic", "gemini")

SETTINGS_FILE = "handhold.toml"  # in the user's configuration folder, or at the top of a project's root

Mode = Literal["read-only", "ask", "edit", "open"]
MODES: tuple[Mode, ...] = get_args(Mode)

# What commands may do with files that match the built-in secret rules: read and move them, or nothing.
Secrets = Literal["usable", "strict"]
SECRETS: tuple[Secrets, ...] = get_args(Secrets)

# By Handhold, by its broker even if an overlay is possible, by the environment around it, not at all.
Confinement = Literal["contained", "brokered", "external", "unconfined"]
CONFINEMENTS: tuple[Confinement, ...] = get_args(Confinement)

Breakage = Literal["syntax"]  # what a change may not break, if it is refused for it
BREAKAGES: tuple[Breakage, ...] = get_args(Breakage)

Matching = Literal["exact", "safe", "bold"]  # how far an edit may deviate from an exact match

FOREIGN = "foreign"  # the session and tool of changes that belong to no call

# Who must have a change before it is acknowledged.
Durability = Literal["local", "hub"]
DURABILITIES: tuple[Durability, ...] = get_args(Durability)

# What an undo does where the same lines, or what cannot be merged, changed since: the old version; what is there now;
# what is there now, and the old version beside it; nothing at such a path.
Resolution = Literal["old", "mine", "save", "skip"]
RESOLUTIONS: tuple[Resolution, ...] = get_args(Resolution)
