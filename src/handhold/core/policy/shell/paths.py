"""Classify paths by their spelling alone, as a command names them. The sandbox deals with links."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from handhold.core.policy.protected_names import READ_ONLY_MOUNTS, find_protection_reason
from handhold.core.policy.shell.placeholders import ELLIPSIS, UNKNOWN, UNKNOWN_NAME, UNKNOWN_NUMBER

Region = Literal["inside", "root", "temporary", "nothing", "system", "home", "network", "private", "outside", "unknown"]

SYSTEM_FOLDERS = ("/usr", "/etc", "/var", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/sys", "/proc")
TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
RESULTS_FOLDER = "/large_tool_results"  # where long output is kept for reading
SYSTEM_BIN_FOLDERS = (
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/run/current-system/sw/bin",
)

_HARMLESS_DEVICE = re.compile(
    r"/dev/(?:null|zero|full|u?random|tty|stdin|stdout|stderr|fd(?:/[\d\0-\2]*)?)|/proc/self/fd/[012]"
)
_NETWORK_DEVICE = re.compile(r"/dev/(?:tcp|udp)(?:/.*)?")
_PRIVATE_PATH = re.compile(
    r"/dev(?:/.*)?"
    r"|/proc/(?:kcore|kmem|sysrq-trigger|[^/]+/(?:task/[^/]+/)?(?:environ|mem|root|cwd|fd|exe|map_files|auxv)(?:/.*)?)"
    r"|/etc/(?:g?shadow-?|sudoers(?:\.d)?|ssl/private|ssh/ssh_host.*|krb5\.keytab|kubernetes)(?:/.*)?"
    r"|/var/(?:run|spool/cron|lib/docker|lib/kubelet|lib/cloud)(?:/.*)?"
)
_PATH_LIKE = re.compile(r"[/~]|\.\.?(?:/|$)|.*/\.\.(?:/|$)", re.DOTALL)
_PROTECTED_TOP_NAMES = tuple(dict.fromkeys(name.split("/")[0] for name in READ_ONLY_MOUNTS))


@dataclass(frozen=True)
class ShellContext:
    """Where a command runs: the roots of the workspace, the working directory and the user's home."""

    roots: tuple[str, ...]
    cwd: str
    home: str


@dataclass(frozen=True)
class ClassifiedPath:
    path: str
    region: Region
    protection_reason: str = ""  # why changing it needs approval


def looks_like_path(text: str) -> bool:
    return "://" not in text and "\n" not in text and _PATH_LIKE.match(text) is not None


def classify_path(text: str, cwd: str, context: ShellContext) -> ClassifiedPath:
    """Classify the place that a word names, relative to `cwd`; both may contain placeholders."""
    if text == "~" or text.startswith("~/"):
        text = context.home + text[1:]
    if text.startswith((UNKNOWN, ELLIPSIS)) or (cwd == UNKNOWN and not text.startswith("/")):
        return ClassifiedPath(text, "unknown")
    path = normalize_path(text if text.startswith("/") else f"{cwd}/{text}")
    roots = [normalize_path(root) for root in context.roots]
    if path in roots:
        return ClassifiedPath(path, "root")
    if root := next((root for root in roots if is_below(path, root)), None):
        return ClassifiedPath(path, "inside", find_glob_protection_reason(path[len(root) :].lstrip("/")))
    return ClassifiedPath(path, _find_region(path, context))


def _find_region(path: str, context: ShellContext) -> Region:
    if _HARMLESS_DEVICE.fullmatch(path):
        return "nothing"
    if any(path == each or is_below(path, each) for each in TEMPORARY_FOLDERS):
        return "temporary"
    if _NETWORK_DEVICE.fullmatch(path):
        return "network"
    if _PRIVATE_PATH.fullmatch(path):
        return "private"
    if path in ("/", RESULTS_FOLDER) or is_below(path, RESULTS_FOLDER):
        return "system"
    if context.home and (path == context.home or is_below(path, context.home)):
        return "home"
    return "system" if any(path == each or is_below(path, each) for each in SYSTEM_FOLDERS) else "outside"


def find_glob_protection_reason(relative_path: str) -> str:
    """Why a path below a root is protected. A path with a glob is protected if it could expand to one that is."""
    if because := find_protection_reason(relative_path):
        return because
    parts = relative_path.split("/")
    for at, part in enumerate(parts):
        if part.startswith(".") and re.search(r"[*?\[\0-\2]", part):
            for name in _PROTECTED_TOP_NAMES:
                if can_expand_to(part, name):
                    return find_protection_reason("/".join((*parts[:at], name)))
    if ".git" in parts and re.search(r"[*?\[\0-\2]", relative_path):
        return find_protection_reason(".git/config")
    return ""


def can_expand_to(pattern: str, name: str) -> bool:
    """Whether the shell could expand a glob to this name."""
    pieces = re.split(r"([*\0-\2]|\?|\[[^\]]*\]?)", pattern)
    expression = "".join(
        ".*"
        if each in ("*", UNKNOWN, UNKNOWN_NAME, UNKNOWN_NUMBER)
        else "."
        if each == "?" or each.startswith("[")
        else re.escape(each)
        for each in pieces
        if each
    )
    return re.fullmatch(expression, name, re.IGNORECASE | re.DOTALL) is not None


def normalize_path(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def is_below(path: str, top: str) -> bool:
    return path.startswith(top.rstrip("/") + "/") and path != top


def is_in_system_bin(path: str) -> bool:
    return path.rpartition("/")[0] in SYSTEM_BIN_FOLDERS


def pick_most_severe(paths: Iterable[ClassifiedPath]) -> ClassifiedPath:
    """The path to report."""
    return max(paths, key=lambda each: (bool(each.protection_reason), REGIONS_BY_SEVERITY.index(each.region)))


REGIONS_BY_SEVERITY: tuple[Region, ...] = (
    *("nothing", "temporary", "inside", "system", "root"),
    *("unknown", "outside", "home", "private", "network"),
)
