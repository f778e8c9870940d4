"""What a command sees of the machine outside its workspace.

The system is visible read-only. Homes are not: they contain credentials, under more names than a list can cover.
Programs installed in a home (interpreters, compilers) are made visible again, read-only, piece by piece.
"""

import os
import pwd
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from handhold.backends.mounts import MOUNTINFO_PATH, unescape_field
from handhold.core.ports.files import RESULTS_PATH
from handhold.logs import log_swallowed

HANDHOLD_FOLDER = "/.handhold"  # launcher, shim and git settings, in the sandbox only
TMP, VAR_TMP = "/tmp", "/var/tmp"
SANDBOX_FOLDERS = ("/dev", "/proc", TMP)  # the sandbox has its own
SYSTEM_FOLDERS = ("/usr", "/etc", "/var", "/opt", "/bin", "/sbin", "/lib", "/lib64", "/nix", "/sys")  # never a home
MAX_LOOSE_FILE_BYTES = 64 * 1024

# Secrets of the machine, and sockets that obey anybody who can reach them.
SECRET_PATHS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/krb5.keytab", "/etc/kubernetes", "/etc/docker", "/etc/rancher"),
    *("/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/cloud"),
    *("/var/lib/lxd", "/var/lib/incus", "/var/snap/lxd/common/lxd", "/var/lib/libvirt", "/var/spool/cron"),
)
# Masked in a home that is itself the workspace and so cannot be hidden.
CREDENTIAL_PATHS = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".docker", ".kube", ".password-store", ".netrc", ".npmrc", ".pypirc"),
    *(".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".terraform.d", ".oci", ".fly", ".pulumi"),
    *(
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".gem/credentials",
        ".m2/settings.xml",
        ".gradle/gradle.properties",
    ),
    *(".config/gcloud", ".config/gh", ".config/git/credentials", ".config/hub", ".config/op", ".config/glab-cli"),
    *(".local/share/keyrings", ".local/share/uv/credentials", ".local/state/handhold", ".claude", ".codex"),
    *(".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium"),
)
# What people install in their home, and the variable that says where it is if HOME differs.
INSTALLATION_VARIABLES = {
    ".pyenv": "PYENV_ROOT",
    ".rbenv": "RBENV_ROOT",
    ".nodenv": "NODENV_ROOT",
    ".goenv": "GOENV_ROOT",
    ".jenv": "JENV_ROOT",
    ".nvm": "NVM_DIR",
    ".volta": "VOLTA_HOME",
    ".asdf": "ASDF_DATA_DIR",
    ".rustup": "RUSTUP_HOME",
    ".sdkman": "SDKMAN_DIR",
    ".opam": "OPAMROOT",
    ".ghcup": "",
    ".elan": "ELAN_HOME",
    ".local/share/uv/python": "",
    ".local/share/uv/tools": "",
    ".local/share/mise": "",
    ".local/share/fnm": "",
    ".local/share/pnpm": "",
    ".local/share/pipx": "",
    ".local/pipx": "",
    "miniconda3": "",
    "anaconda3": "",
    "miniforge3": "",
}
INSTALLATION_ENTRIES = (
    "lib",
    "lib64",
    "libexec",
    "include",
    "share",
    "pyvenv.cfg",
    "conf",
    "release",
    "pkg",
    "src",
    "go.env",
)
PROGRAM_FOLDERS = ("bin", "sbin", "libexec", "shims")
PYTHON_NAME = re.compile(r"(python|pypy)[0-9.]*")
VIRTUALENV_NAMES = (".venv", "venv")  # of a root, whose python is a link that may lead to a hidden folder


def is_inside(path: str, top: str) -> bool:
    return path == top or path.startswith(top.rstrip("/") + "/")


def is_inside_any(path: str, tops: Iterable[str]) -> bool:
    return any(is_inside(path, top) for top in tops)


@cache
def find_homes() -> tuple[str, ...]:
    """The user's homes, from the environment and from passwd."""
    try:
        listed = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        listed = ""
    named = (os.environ.get("HOME", ""), listed)
    return tuple(dict.fromkeys(os.path.realpath(home) for home in named if os.path.isabs(home)))


@cache
def list_hidden_folders() -> tuple[str, ...]:
    """Folders whose contents are hidden from commands."""
    names = [
        *find_homes(),
        *(os.path.realpath(place) for place in ("/home", "/root", "/run", "/var/run", "/lost+found")),
    ]
    return tuple(name for name in dict.fromkeys(names) if not any(is_inside(place, name) for place in SYSTEM_FOLDERS))


@cache
def list_top_level() -> tuple[str, ...]:
    """Entries of / that are visible unchanged."""
    gone = {*SANDBOX_FOLDERS, *list_hidden_folders(), HANDHOLD_FOLDER, RESULTS_PATH}
    return tuple(sorted(entry.path for entry in os.scandir("/") if entry.path not in gone))


@cache
def list_loose_files() -> tuple[tuple[str, str], ...]:
    """Small files in /, and their modes: a container's marker, or files that somebody put there."""
    found = ((place, os.lstat(place)) for place in list_top_level() if _has_access(place, os.R_OK))
    return tuple(
        (place, f"{seen.st_mode & 0o555:04o}")
        for place, seen in found
        if stat.S_ISREG(seen.st_mode) and seen.st_size <= MAX_LOOSE_FILE_BYTES
    )


def list_accessible_secrets() -> list[str]:
    """The system's secrets that we could access ourselves; a sandboxed command can do no more."""
    return [place for place in _find_secrets() if _is_accessible(place)]


@cache
def _find_secrets() -> tuple[str, ...]:
    """Real paths: nothing can be mounted on a link, and its target may be visible elsewhere."""
    found = (os.path.realpath(place) for place in SECRET_PATHS if os.path.exists(place))
    return tuple(
        place
        for place in dict.fromkeys(found)
        if not is_inside_any(place, (*list_hidden_folders(), *SANDBOX_FOLDERS, VAR_TMP))
    )


def _is_accessible(place: str) -> bool:
    """Whether we own it or have access: an owner could change the mode."""
    try:
        owner = os.lstat(place).st_uid
    except OSError:
        log_swallowed()
        return False
    return owner == os.geteuid() or any(_has_access(place, mode) for mode in (os.R_OK, os.W_OK, os.X_OK))


def _has_access(place: str, mode: int) -> bool:
    return os.access(place, mode, effective_ids=os.access in os.supports_effective_ids)


def find_other_mounts(roots: Sequence[str]) -> list[str]:
    """Other mount points that show a root or part of it: a folder may be bind-mounted in several places."""
    lines = Path(MOUNTINFO_PATH).read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    fields = [line.split(" ", 5) for line in lines]
    mounts = [(device, unescape_field(source), unescape_field(point)) for _, _, device, source, point, *_ in fields]
    found: list[str] = []
    for root in roots:
        device, source, point = max(
            (each for each in mounts if is_inside(root, each[2])), key=lambda each: len(each[2])
        )
        within = _rebase_path(source, root, point)  # the root's path on that file system
        for other_device, other_source, other_point in mounts:
            if other_device != device or is_inside(other_point, root):
                continue
            if is_inside(within, other_source):
                found.append(_rebase_path(other_point, within, other_source))
            elif is_inside(other_source, within):
                found.append(other_point)
    return [place for place in dict.fromkeys(found) if not any(is_inside(root, place) for root in roots)]


def _rebase_path(top: str, path: str, above: str) -> str:
    """Rebase `path` from `above` to `top`."""
    rel_path = os.path.relpath(path, above)
    return top if rel_path == "." else os.path.join(top, rel_path)


def find_credentials(home: str) -> Iterator[str]:
    """Existing credentials in a visible home, with links resolved."""
    for name in CREDENTIAL_PATHS:
        place = os.path.realpath(os.path.join(home, name))
        if is_inside(place, home) and os.path.lexists(place):
            yield place


def find_installed_programs(path: str) -> tuple[str, ...]:
    """Hidden folders and files to make visible again: PATH entries, targets of their links, common installations."""
    return tuple(place for place in _find_program_paths(path) if os.path.exists(place))


@cache
def _find_program_paths(path: str) -> tuple[str, ...]:
    """Where programs would be; whether they exist may change at any time."""
    named = [os.environ.get(variable, "") for variable in INSTALLATION_VARIABLES.values() if variable]
    usual = [os.path.join(home, name) for home in find_homes() for name in INSTALLATION_VARIABLES]
    found = [place for place in (*usual, *named) if _is_hidden(place)]
    waiting = [os.path.normpath(entry) for entry in path.split(":") if os.path.isabs(entry)]
    seen: set[str] = set()
    while waiting:
        folder = waiting.pop(0)
        if folder in seen or not _is_hidden(folder):
            continue
        seen.add(folder)
        if not is_inside_any(folder, found):
            found += [folder, *_find_installation_entries(folder)]
        for target in _list_link_targets(folder):
            if os.path.basename(os.path.dirname(target)) in PROGRAM_FOLDERS:
                waiting.append(os.path.dirname(target))
            elif _is_hidden(target):
                found.append(target)  # the file only: its folder may contain anything
    return tuple(dict.fromkeys(found))


def _is_hidden(place: str) -> bool:
    """Whether it is inside a home or a temporary folder, without containing a home."""
    tops = (*list_hidden_folders(), TMP, VAR_TMP)
    return is_inside_any(place, tops) and place not in tops and not any(is_inside(home, place) for home in find_homes())


def _find_installation_entries(folder: str) -> list[str]:
    """The parts of an installation next to its programs. The `bin` of a home has none: the home is next to it."""
    prefix = os.path.dirname(folder)
    shared = {
        place for home in find_homes() for place in (home, os.path.join(home, ".local"), os.path.join(home, ".cargo"))
    }
    if os.path.basename(folder) not in ("bin", "sbin") or prefix in shared or not _is_hidden(prefix):
        return []
    return [place for name in INSTALLATION_ENTRIES if os.path.lexists(place := os.path.join(prefix, name))]


def _list_link_targets(folder: str) -> list[str]:
    """The targets of the links in a folder of programs."""
    try:
        return [os.path.realpath(entry.path) for entry in os.scandir(folder) if entry.is_symlink()]
    except OSError:
        log_swallowed()
        return []


def find_interpreters(root: str) -> list[str]:
    """The folders of the Pythons that a root's virtual environments link to.

    Commands may have created the links, so they are followed only to a Python.
    """
    links = [os.path.join(root, name, "bin", "python") for name in VIRTUALENV_NAMES]
    targets = [os.path.realpath(link) for link in links if os.path.islink(link)]
    return [os.path.dirname(target) for target in targets if _is_python(target)]


def _is_python(path: str) -> bool:
    folder, name = os.path.split(path)
    named = PYTHON_NAME.fullmatch(name) is not None and os.path.basename(folder) == "bin"
    return named and os.path.isfile(path) and os.access(path, os.X_OK)
