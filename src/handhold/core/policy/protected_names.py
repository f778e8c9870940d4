"""Protected names: files that other programs obey. Changing one always needs approval.

A hook, a setting or a task that a command leaves in the workspace is run later by git, an editor or an agent, outside
any sandbox and with the rights of the person who opens the folder. So a change needs approval in every mode, whether
the file existed before or not, and whichever tool makes it. If nobody can be asked, the change is refused.

Files that people edit every day, or that run only in a build or after a push, are not protected: README, AGENTS.md and
CLAUDE.md (text, visible in the diff), package.json, Makefile, .github/ (runs elsewhere, after a push), .gitmodules and
.gitattributes (git runs no command from them), .pre-commit-config.yaml and lefthook.yml (part of the project like a
Makefile: reviewed with it, and run by a tool that somebody installed for them). Folders that a package manager fills
are exempt, since packages ship such files and nobody opens them there. Git repositories are protected even there.

Our own code is protected wherever it is: it runs outside the sandbox.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from handhold.core.policy import gitdir
from handhold.core.text.path_escaping import unescape_ambiguous


@dataclass(frozen=True)
class ProtectedName:
    """Names at any depth below a root, and everything in them. `pattern` is matched case-insensitively."""

    pattern: str
    because: str
    covers: tuple[str, ...]
    does_not_cover: tuple[str, ...]
    literal_names: tuple[str, ...] = ()  # names that need no pattern: mounted read-only if there is no overlay

    def __post_init__(self) -> None:
        for relative_path in (*self.covers, *self.literal_names):
            if not self.matches(relative_path):
                raise ValueError(f"{self.pattern} should cover {relative_path}, but does not")
        for relative_path in self.does_not_cover:
            if self.matches(relative_path):
                raise ValueError(f"{self.pattern} should not cover {relative_path}, but does")

    @cached_property
    def _expression(self) -> re.Pattern[str]:
        return re.compile(rf"(?:.*/)?(?:{self.pattern})(?:/.*)?", re.DOTALL)

    def matches(self, relative_path: str) -> bool:
        return self._expression.fullmatch(relative_path.casefold()) is not None


_UNDOTTED_NAMES = re.compile(
    r"handhold\.toml|opencode\.json|\.code-workspace", re.IGNORECASE
)  # protected names without a leading dot
DEPENDENCY_PATH = re.compile(r"(?:.*/)?(?:node_modules|\.venv|site-packages)/.*", re.DOTALL)

PROTECTED_NAMES: tuple[ProtectedName, ...] = (
    ProtectedName(
        r"\.claude|\.cursor|\.codex|\.gemini|\.opencode|opencode\.jsonc?|\.windsurf|\.continue|\.mcp\.json"
        r"|\.aider\.conf\.yml|\.kiro|\.roo|\.roomodes|\.cline|\.clinerules|\.amp|\.qwen",
        because="coding agents read their permissions, hooks and servers from there",
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
        does_not_cover=(
            "my-opencode.json",
            "opencode/x.ts",
            "kiro/a",
            "CLAUDE.md",
            "AGENTS.md",
            ".cursorrules",
            "docs/claude/settings.json",
            "mcp.json",
        ),
        literal_names=(
            *(".claude", ".cursor", ".codex", ".gemini", ".opencode", ".windsurf", ".continue", ".mcp.json", ".kiro"),
            *(".roo", ".roomodes", ".cline", ".clinerules", ".amp", ".qwen", "opencode.json", "opencode.jsonc"),
        ),
    ),
    ProtectedName(
        r"\.vscode|[^/]*\.code-workspace|\.idea|\.zed|\.helix|\.fleet|\.devcontainer|\.devcontainer\.json",
        because="editors run the tasks and programs named there",
        covers=(
            *(".vscode/tasks.json", "web/.idea/workspace.xml", ".devcontainer.json", ".devcontainer/Dockerfile"),
            *(".helix/languages.toml", "app.code-workspace", "web/My App.Code-Workspace"),
        ),
        does_not_cover=(
            "code-workspace",
            "app.code-workspace.md",
            ".editorconfig",
            "vscode/tasks.json",
            "idea.md",
            "Dockerfile",
        ),
        literal_names=(".vscode", ".idea", ".zed", ".helix", ".fleet", ".devcontainer", ".devcontainer.json"),
    ),
    ProtectedName(
        r"\.envrc|\.husky|\.direnv",
        because="it runs when someone enters the folder or commits",
        covers=(".envrc", "api/.envrc", ".husky/pre-commit"),
        does_not_cover=(".env", "envrc.md", ".pre-commit-config.yaml", "husky/readme.md"),
        literal_names=(".envrc", ".husky", ".direnv"),
    ),
    ProtectedName(
        r"handhold\.toml",
        because="it controls what Handhold's tools may do here",
        covers=("handhold.toml", "Handhold.TOML", "service/handhold.toml"),
        does_not_cover=("docs/handhold.md", "handhold.toml.example", "my-handhold.toml", "pyproject.toml"),
        literal_names=("handhold.toml",),
    ),
)

OWN_CODE_REASON = "Handhold itself runs from there, outside the sandbox; install it elsewhere, by pipx or uv tool"

READ_ONLY_MOUNTS: tuple[str, ...] = (
    ".git/config",
    ".git/hooks",
    *(fixed for name in PROTECTED_NAMES for fixed in name.literal_names),
)


def find_protection_reason(relative_path: str) -> str:
    """Why changing this path needs approval; empty if it does not. `relative_path` is relative to its root.

    Judged by name only: a file in `.git` with an obeyed name may still be harmless, which `repositories` decides.
    """
    if "/." not in f"/{relative_path}" and not _UNDOTTED_NAMES.search(relative_path):  # fast path for most names
        return ""
    if in_gitdir := gitdir.split_gitdir(relative_path):
        return "" if gitdir.is_git_data(in_gitdir[1]) else gitdir.OBEYED_REASON
    if is_dependency(relative_path):
        return ""
    return next((name.because for name in PROTECTED_NAMES if name.matches(relative_path)), "")


def is_dependency(relative_path: str) -> bool:
    """Whether it is in a folder that a package manager fills."""
    return DEPENDENCY_PATH.fullmatch(relative_path.casefold()) is not None


@dataclass(frozen=True)
class Protection:
    """The protected names of a workspace, and the places in it where our own code is. Folders above do not matter."""

    roots: Sequence[str]
    own_code: Sequence[str] = ()
    find_names: Callable[[str], Sequence[str]] = field(default=lambda place: (place,), compare=False)
    """By which names a place is judged."""

    @cached_property
    def _root_prefixes(self) -> list[str]:
        return sorted((root.rstrip("/") + "/" for root in self.roots), key=len, reverse=True)

    def relative_to_root(self, place: str) -> str | None:
        """A canonical place relative to its root; None outside all roots."""
        root_prefix = next((root_prefix for root_prefix in self._root_prefixes if place.startswith(root_prefix)), None)
        return place[len(root_prefix) :] if root_prefix else None

    def find_root(self, place: str) -> str:
        """The root that contains a place; the place itself if none does."""
        relative_path = self.relative_to_root(place)
        return place if relative_path is None else place[: len(place) - len(relative_path)].rstrip("/") or "/"

    def is_applicable(self, place: str) -> bool:
        """Whether plain names are protected there: below a root, outside folders that a package manager fills."""
        relative_path = self.relative_to_root(place)
        return relative_path is not None and not is_dependency(relative_path)

    def find_reason(self, place: str) -> str:
        """Why a canonical place is protected by one of its names; empty if it is not."""
        reasons = map(self.find_reason_by_name, self.find_names(unescape_ambiguous(place)))
        return next((because for because in reasons if because), "")

    def find_reason_by_name(self, place: str) -> str:
        if any(place == own or place.startswith(f"{own}/") for own in self.own_code):
            return OWN_CODE_REASON
        relative_path = self.relative_to_root(place)
        return "" if relative_path is None else find_protection_reason(relative_path)

    def covers(self, place: str) -> bool:
        return bool(self.find_reason(place))

    def covers_name(self, place: str) -> bool:
        return bool(self.find_reason_by_name(place))
