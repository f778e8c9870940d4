"""Protected names: what other programs obey. A change to one never counts without a question.

A hook, a setting or a task that a command leaves in the workspace is run later by git, an editor or an agent, outside
every sandbox and in the name of whoever opens the folder. So these are asked about in every mode, whether they were
there before or not, and whichever tool changes them. With nobody to ask, the change does not happen.

Not among them is what people edit every day and what runs only when somebody builds or pushes: README, AGENTS.md and
CLAUDE.md (text that is read, and seen in the diff), package.json, Makefile, .github/ (it runs elsewhere, after a push),
.gitmodules and .gitattributes (git takes no command from them), .pre-commit-config.yaml and lefthook.yml (they are part
of the project like a Makefile: reviewed with it, and run by a tool that somebody installed for them). Folders that a
package manager fills are left alone: packages ship such files, and nobody opens them there. Only git does: a repository
is protected there, too.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from handhold.core.policy import gitdir


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


_UNDOTTED = re.compile(r"handhold\.toml|opencode\.json|\.code-workspace", re.IGNORECASE)  # protected, without a dot
DEPENDENCIES = re.compile(r"(?:.*/)?(?:node_modules|\.venv|site-packages)/.*", re.DOTALL)

NAMES: tuple[Name, ...] = (
    Name(
        r"\.claude|\.cursor|\.codex|\.gemini|\.opencode|opencode\.jsonc?|\.windsurf|\.continue|\.mcp\.json"
        r"|\.aider\.conf\.yml|\.kiro|\.roo|\.roomodes|\.cline|\.clinerules|\.amp|\.qwen",
        because="coding agents take their permissions, hooks and servers from there",
        covers=(
            ".claude/settings.json",
            ".Cursor/mcp.json",
            ".mcp.json",
            "app/.claude/hooks/x.sh",
            ".codex/config.toml",
            "opencode.json",
            "app/OpenCode.jsonc",
            ".opencode/plugin/x.ts",
            ".kiro/hooks/x.json",
            ".roo/mcp.json",
            ".clinerules/hooks/PreToolUse",
            ".qwen/settings.json",
        ),
        spares=(
            "my-opencode.json",
            "opencode/x.ts",
            "kiro/a",
            "CLAUDE.md",
            "AGENTS.md",
            ".cursorrules",
            "docs/claude/settings.json",
            "mcp.json",
        ),
        fixed=(
            *(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".continue", ".mcp.json", ".kiro"),
            *(".roo", ".roomodes", ".cline", ".clinerules", ".amp", ".qwen", "opencode.json", "opencode.jsonc"),
        ),
    ),
    Name(
        r"\.vscode|[^/]*\.code-workspace|\.idea|\.zed|\.helix|\.fleet|\.devcontainer|\.devcontainer\.json",
        because="editors run tasks and programs that are named there",
        covers=(
            *(".vscode/tasks.json", "web/.idea/workspace.xml", ".devcontainer.json", ".devcontainer/Dockerfile"),
            *(".helix/languages.toml", "app.code-workspace", "web/My App.Code-Workspace"),
        ),
        spares=(
            "code-workspace",
            "app.code-workspace.md",
            ".editorconfig",
            "vscode/tasks.json",
            "idea.md",
            "Dockerfile",
        ),
        fixed=(".vscode", ".idea", ".zed", ".helix", ".fleet", ".devcontainer", ".devcontainer.json"),
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

MOUNTED: tuple[str, ...] = (".git/config", ".git/hooks", *(fixed for name in NAMES for fixed in name.fixed))


def why_protected(way: str) -> str:
    """Why nobody changes this path unasked; empty if it is like any other. `way` is spelled from its root.

    By the name alone: what `.git` holds under an obeyed name may still be harmless, which `repositories` decides.
    """
    if "/." not in f"/{way}" and not _UNDOTTED.search(way):  # most paths need no second look
        return ""
    if named := gitdir.split(way):
        return "" if gitdir.is_stored(named[1]) else gitdir.BECAUSE
    if is_brought_along(way):
        return ""
    return next((name.because for name in NAMES if name.matches(way)), "")


def is_brought_along(way: str) -> bool:
    """Whether a package manager put it there."""
    return DEPENDENCIES.fullmatch(way.casefold()) is not None


@dataclass(frozen=True)
class Protection:
    """The protected names of a workspace. What stands above its roots does not matter."""

    roots: Sequence[str]

    @cached_property
    def _above(self) -> list[str]:
        return sorted((root.rstrip("/") + "/" for root in self.roots), key=len, reverse=True)

    def way(self, place: str) -> str | None:
        """A place, spelled really, as the way from its root; None outside all roots."""
        above = next((above for above in self._above if place.startswith(above)), None)
        return place[len(above) :] if above else None

    def root_of(self, place: str) -> str:
        """The root that a place lies in; itself if it lies in none."""
        way = self.way(place)
        return place if way is None else place[: len(place) - len(way)].rstrip("/") or "/"

    def applies(self, place: str) -> bool:
        """Whether plain names are protected there: below a root, and not in what a package manager fills."""
        way = self.way(place)
        return way is not None and not is_brought_along(way)

    def because(self, place: str) -> str:
        """Why a place, spelled really, is protected by its name; empty if it is not."""
        way = self.way(place)
        return "" if way is None else why_protected(way)

    def covers(self, place: str) -> bool:
        return bool(self.because(place))
