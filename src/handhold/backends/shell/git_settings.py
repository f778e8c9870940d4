"""The user's git settings that commands may use: those about the appearance of commits and files.

All others stay outside: credentials, helpers, hooks, and programs for signing, editing and comparing.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from handhold.backends.program_search import SYSTEM_PATH, find_program
from handhold.backends.programs import TimeoutExpired, build_user_environment, run_program
from handhold.logs import log_swallowed

# git prints names of sections and keys in lower case
SAFE_SETTINGS = re.compile(
    r"user\.(name|email)|init\.defaultbranch|alias\..+|core\.(autocrlf|eol|safecrlf|quotepath|whitespace|abbrev|symlinks)"
    r"|core\.(checkstat|trustctime)"
    r"|pull\.(rebase|ff)|push\.(default|autosetupremote)|fetch\.(prune|prunetags)|merge\.(conflictstyle|ff|renames)"
    r"|rebase\.(autosquash|autostash|updaterefs|missingcommitscheck)|rerere\.(enabled|autoupdate)"
    r"|diff\.(algorithm|renames|mnemonicprefix|noprefix|context|colormoved|indentheuristic)"
    r"|branch\.(autosetupmerge|autosetuprebase|sort)|tag\.sort|column\..+|color\..+|log\.(date|decorate|abbrevcommit|follow)"
    r"|status\.[a-z]+|commit\.(verbose|cleanup)|advice\..+|format\.pretty|pretty\..+|blame\.[a-z]+",
)
FILTER_SETTING = re.compile(r"filter\.(.+)\.(clean|smudge|process|required)")
EXCLUDES_KEY = "core.excludesfile"
SYSTEM_CONFIG = Path("/etc/gitconfig")
MAX_EXCLUDES_BYTES = 256 * 1024
GIT_TIMEOUT_SECONDS = 5.0

GitSetting = tuple[str, str]


def build_git_settings(excludes: str, *, in_place: bool) -> bytes:
    """The system configuration: the machine's, then the user's; `in_place` if it replaces the machine's file."""
    try:
        system_settings = SYSTEM_CONFIG.read_bytes() if in_place else f"[include]\n\tpath = {SYSTEM_CONFIG}".encode()
    except OSError:
        log_swallowed()
        system_settings = b""
    return system_settings + b"\n" + build_user_settings(excludes)


@cache
def build_user_settings(excludes: str) -> bytes:
    """`excludes` is where a command finds the user's global ignore file.

    A folder of the workspace may belong to a user id that the sandbox does not map; git must accept that. Git must not
    compare inodes and ctimes either: what one command wrote has different ones for the next.
    """
    lines = ["[safe]", "\tdirectory = *", "[core]", f"\texcludesFile = {excludes}", "\tcheckStat = minimal"]
    lines += (
        line for setting in filter_safe_settings(read_user_settings(), _is_on_path) for line in format_setting(*setting)
    )
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


@cache
def read_git_excludes() -> bytes:
    """The user's global ignore file; empty if there is none."""
    named = dict(read_user_settings()).get(EXCLUDES_KEY, "")
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = Path(os.path.expanduser(named) if named else os.path.join(folder, "git/ignore"))
    try:
        with path.open("rb") as file:  # not in a workspace
            return file.read(MAX_EXCLUDES_BYTES)
    except (OSError, ValueError):
        log_swallowed()
        return b""


@cache
def read_user_settings() -> tuple[GitSetting, ...]:
    argv = [find_program("git"), "config", "--global", "--includes", "--null", "--list"]
    try:
        done = run_program(argv, env=build_user_environment(PATH=SYSTEM_PATH), timeout=GIT_TIMEOUT_SECONDS)
    except (OSError, TimeoutExpired):
        log_swallowed()
        return ()
    records = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    # A key without a value means true.
    return tuple(
        (name, value if split else "true") for name, split, value in (each.partition("\n") for each in records) if name
    )


def filter_safe_settings(settings: tuple[GitSetting, ...], is_on_path: Callable[[str], bool]) -> Iterator[GitSetting]:
    """The safe settings, in order. Filters are kept if their programs are installed."""
    missing = {
        match[1]
        for name, value in settings
        if (match := FILTER_SETTING.fullmatch(name)) and match[2] != "required" and not _is_installed(value, is_on_path)
    }
    for name, value in settings:
        match = FILTER_SETTING.fullmatch(name)
        if SAFE_SETTINGS.fullmatch(name) or (match and match[1] not in missing):
            yield name, value


def _is_installed(command: str, is_on_path: Callable[[str], bool]) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    return bool(words) and is_on_path(words[0])


def _is_on_path(program: str) -> bool:
    folders = os.environ.get("PATH", SYSTEM_PATH).split(":")
    return any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders)


def format_setting(name: str, value: str) -> Iterator[str]:
    section, _, key = name.partition(".")
    subsection, dot, last = key.rpartition(".")
    yield f'[{section} "{_escape(subsection)}"]' if dot else f"[{section}]"
    quoted = _escape(value).replace("\n", "\\n").replace("\t", "\\t")
    yield f'\t{last} = "{quoted}"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
