"""Protected names: what other programs obey. A change to one never counts without a question.

A hook, a setting or a task that a command leaves in the workspace is run later by git, an editor or an agent, outside
every sandbox and in the name of whoever opens the folder. So these are asked about in every mode, whether they were
there before or not, and whichever tool changes them. With nobody to ask, the change does not happen.

Not among them is what people edit every day and what runs only when somebody builds or pushes: README, AGENTS.md and
CLAUDE.md (text that is read, and seen in the diff), package.json, Makefile, .github/ (it runs elsewhere, after a push),
.gitmodules and .gitattributes (git takes no command from them), .pre-commit-config.yaml. Folders that a package manager
fills are left alone: packages ship such files, and nobody opens them there.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Name:
    """Names at any depth below a root, and everything in them. `pattern` is matched without regard to case."""

    pattern: str
    because: str
    covers: tuple[str, ...]
    spares: tuple[str, ...]
    fixed: tuple[str, ...] = ()  # those that can be told without a pattern: mounted read-only where there is no shadow

    def __post_init__(self) -> None:
        for way in (*self.covers, *self.fixed):
            if not self.matches(way):
                raise ValueError(f"{self.pattern} should cover {way}, and does not")
        for way in self.spares:
            if self.matches(way):
                raise ValueError(f"{self.pattern} should spare {way}, and does not")

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(rf"(?:.*/)?(?:{self.pattern})(?:/.*)?", re.DOTALL)

    def matches(self, way: str) -> bool:
        return self._expression.fullmatch(way.casefold()) is not None


DEPENDENCIES = re.compile(r"(?:.*/)?(?:node_modules|\.venv|site-packages)/.*", re.DOTALL)

NAMES: tuple[Name, ...] = (
    Name(
        r"\.git(?:/(?:(?:modules|worktrees)/.+/)?(?:hooks(?:/.*)?|config|config\.worktree))?$",
        because="git runs the hooks and obeys the configuration that stand there",
        covers=(
            ".git",  # made, a link or a file that leads elsewhere, or gone: all of it
            ".git/config",
            ".git/hooks",
            ".git/hooks/pre-commit",
            ".GIT/Config",
            "vendor/lib/.git/hooks/post-checkout",
            ".git/modules/lib/hooks/pre-commit",
            ".git/modules/deep/lib/config",
            ".git/worktrees/w/config.worktree",
        ),
        spares=(
            ".git/index",
            ".git/HEAD",
            ".git/objects/ab/cd",
            ".git/refs/heads/config",
            ".git/info/attributes",
            ".git/modules/lib/index",
            ".gitignore",
            ".gitmodules",
            ".gitattributes",
            "src/config",
            "hooks/pre-commit",
        ),
        fixed=(".git/config", ".git/hooks"),
    ),
    Name(
        r"\.claude|\.cursor|\.codex|\.gemini|\.opencode|\.windsurf|\.continue|\.mcp\.json|\.aider\.conf\.yml",
        because="coding agents take their permissions, hooks and servers from there",
        covers=(
            ".claude/settings.json",
            ".Cursor/mcp.json",
            ".mcp.json",
            "app/.claude/hooks/x.sh",
            ".codex/config.toml",
        ),
        spares=("CLAUDE.md", "AGENTS.md", ".cursorrules", "docs/claude/settings.json", "mcp.json"),
        fixed=(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".continue", ".mcp.json"),
    ),
    Name(
        r"\.vscode|\.idea|\.zed|\.fleet|\.devcontainer|\.devcontainer\.json",
        because="editors run tasks and programs that are named there",
        covers=(".vscode/tasks.json", "web/.idea/workspace.xml", ".devcontainer.json", ".devcontainer/Dockerfile"),
        spares=(".editorconfig", "vscode/tasks.json", "idea.md", "Dockerfile"),
        fixed=(".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".devcontainer.json"),
    ),
    Name(
        r"\.envrc|\.husky|\.direnv",
        because="it is run when somebody enters the folder or commits",
        covers=(".envrc", "api/.envrc", ".husky/pre-commit"),
        spares=(".env", "envrc.md", ".pre-commit-config.yaml", "husky/readme.md"),
        fixed=(".envrc", ".husky", ".direnv"),
    ),
    Name(
        r"handhold\.toml",
        because="it says what Handhold's tools may do here",
        covers=("handhold.toml", "Handhold.TOML", "service/handhold.toml"),
        spares=("docs/handhold.md", "handhold.toml.example", "my-handhold.toml", "pyproject.toml"),
        fixed=("handhold.toml",),
    ),
)

MOUNTED: tuple[str, ...] = tuple(fixed for name in NAMES for fixed in name.fixed)


def why_protected(way: str) -> str:
    """Why nobody changes this path unasked; empty if it is like any other. `way` is spelled from its root."""
    if "/." not in f"/{way}" and "handhold.toml" not in way.casefold():  # most paths need no second look
        return ""
    if DEPENDENCIES.fullmatch(way.casefold()):
        return ""
    return next((name.because for name in NAMES if name.matches(way)), "")


@dataclass(frozen=True)
class Protection:
    """The protected names of a workspace. What stands above its roots does not matter."""

    roots: Sequence[str]

    @cached_property
    def _above(self) -> list[str]:
        return sorted((root.rstrip("/") + "/" for root in self.roots), key=len, reverse=True)

    def because(self, place: str) -> str:
        """Why a place, spelled really, is protected; empty if it is not."""
        above = next((above for above in self._above if place.startswith(above)), None)
        return why_protected(place[len(above) :]) if above else ""

    def covers(self, place: str) -> bool:
        return bool(self.because(place))
