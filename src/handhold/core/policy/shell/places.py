"""Where a path leads, by its spelling alone. Links are for the sandbox; this is about what a command says it does."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from handhold.core.policy.protected import MOUNTED, why_protected
from handhold.core.policy.shell.marks import HOLE, NAME, NUMBER, SHOWN

Region = Literal["inside", "root", "temporary", "nothing", "system", "home", "network", "private", "outside", "unknown"]

SYSTEM = ("/usr", "/etc", "/var", "/opt", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix", "/sys", "/proc")
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")
RESULTS = "/large_tool_results"  # where long output is kept, to be read
BINS = ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/run/current-system/sw/bin")

_NOTHING = re.compile(
    r"/dev/(?:null|zero|full|u?random|tty|stdin|stdout|stderr|fd(?:/[\d\0-\2]*)?)|/proc/self/fd/[012]"
)
_NETWORK = re.compile(r"/dev/(?:tcp|udp)(?:/.*)?")
_PRIVATE = re.compile(
    r"/dev(?:/.*)?"
    r"|/proc/(?:kcore|kmem|sysrq-trigger|[^/]+/(?:task/[^/]+/)?(?:environ|mem|root|cwd|fd|exe|map_files|auxv)(?:/.*)?)"
    r"|/etc/(?:g?shadow-?|sudoers(?:\.d)?|ssl/private|ssh/ssh_host.*|krb5\.keytab|kubernetes)(?:/.*)?"
    r"|/var/(?:run|spool/cron|lib/docker|lib/kubelet|lib/cloud)(?:/.*)?"
)
_PATH_LIKE = re.compile(r"[/~]|\.\.?(?:/|$)|.*/\.\.(?:/|$)", re.DOTALL)
_DOTTED = tuple(dict.fromkeys(name.split("/")[0] for name in MOUNTED))


@dataclass(frozen=True)
class Standing:
    """Where a command stands: the roots of the workspace, the folder it starts in, and the user's home."""

    roots: tuple[str, ...]
    folder: str
    home: str


@dataclass(frozen=True)
class Place:
    path: str
    region: Region
    protected: str = ""  # why nobody changes it unasked


def looks_like_path(text: str) -> bool:
    return "://" not in text and "\n" not in text and _PATH_LIKE.match(text) is not None


def place(text: str, folder: str, standing: Standing) -> Place:
    """The place that a word names, seen from a folder; either may have holes."""
    if text == "~" or text.startswith("~/"):
        text = standing.home + text[1:]
    if text.startswith((HOLE, SHOWN)) or (folder == HOLE and not text.startswith("/")):
        return Place(text, "unknown")
    path = normal(text if text.startswith("/") else f"{folder}/{text}")
    roots = [normal(root) for root in standing.roots]
    if path in roots:
        return Place(path, "root")
    if root := next((root for root in roots if below(path, root)), None):
        return Place(path, "inside", protects(path[len(root) :].lstrip("/")))
    return Place(path, _region(path, standing))


def _region(path: str, standing: Standing) -> Region:
    if _NOTHING.fullmatch(path):
        return "nothing"
    if any(path == each or below(path, each) for each in TEMPORARY):
        return "temporary"
    if _NETWORK.fullmatch(path):
        return "network"
    if _PRIVATE.fullmatch(path):
        return "private"
    if path in ("/", RESULTS) or below(path, RESULTS):
        return "system"
    if standing.home and (path == standing.home or below(path, standing.home)):
        return "home"
    return "system" if any(path == each or below(path, each) for each in SYSTEM) else "outside"


def protects(way: str) -> str:
    """Why a path below a root is protected. One with a pattern in it is, if it could be completed to one that is."""
    if because := why_protected(way):
        return because
    parts = way.split("/")
    for at, part in enumerate(parts):
        if part.startswith(".") and re.search(r"[*?\[\0-\2]", part):
            for name in _DOTTED:
                if could_be(part, name):
                    return why_protected("/".join((*parts[:at], name)))
    if ".git" in parts and re.search(r"[*?\[\0-\2]", way):
        return why_protected(".git/config")
    return ""


def could_be(pattern: str, name: str) -> bool:
    """Whether the shell could complete a pattern to this name."""
    pieces = re.split(r"([*\0-\2]|\?|\[[^\]]*\]?)", pattern)
    expression = "".join(
        ".*" if each in ("*", HOLE, NAME, NUMBER) else "." if each == "?" or each.startswith("[") else re.escape(each)
        for each in pieces
        if each
    )
    return re.fullmatch(expression, name, re.IGNORECASE | re.DOTALL) is not None


def normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def below(path: str, top: str) -> bool:
    return path.startswith(top.rstrip("/") + "/") and path != top


def in_a_bin(path: str) -> bool:
    return path.rpartition("/")[0] in BINS


def worst(places: Iterable[Place]) -> Place:
    """The one to speak of."""
    return max(places, key=lambda each: (bool(each.protected), ORDER.index(each.region)))


ORDER: tuple[Region, ...] = (
    *("nothing", "temporary", "inside", "system", "root"),
    *("unknown", "outside", "home", "private", "network"),
)
