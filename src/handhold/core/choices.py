"""The names that a user may say. Apart from what they mean: a command line is read before anything is loaded."""

from typing import Literal, get_args

DIALECTS = ("handhold", "claude", "deepagents", "codex", "tiny", "hello", "mycode", "anthropic", "gemini")

Mode = Literal["read-only", "ask", "edit", "open"]
MODES: tuple[Mode, ...] = get_args(Mode)

Confinement = Literal["contained", "external", "unconfined"]  # by us, by whatever we run in, by nothing
CONFINEMENTS: tuple[Confinement, ...] = get_args(Confinement)
