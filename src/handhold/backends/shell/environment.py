"""The environment of a command: an allowlist of harmless variables, and its HOME.

Tokens are kept in variables of any name, so a denylist would not do.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from handhold.backends.program_search import SYSTEM_PATH
from handhold.backends.shell import host_paths

KEPT_VARIABLES = frozenset(
    (
        *("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "CI", "SOURCE_DATE_EPOCH"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "JAVA_HOME", "GOROOT", "NVM_BIN", "PYENV_VERSION"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8", "NIX_PATH", "LOCALE_ARCHIVE"),
    )
)
# How to reach the network, unless that contains a password.
NETWORK_VARIABLES = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry", "GOPROXY"),
)
# While no host is allowed, package managers use their caches. pip and npm then try a host once, which the proxy refuses
# and names; the others would not look into their caches if they could try.
OFFLINE_VARIABLES = {
    "npm_config_prefer_offline": "true",
    "npm_config_fetch_retries": "0",
    "npm_config_update_notifier": "false",
    "npm_config_audit": "false",
    "YARN_ENABLE_NETWORK": "0",
    "PIP_RETRIES": "0",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "UV_OFFLINE": "1",
    "CARGO_NET_OFFLINE": "true",
    "GOPROXY": "off",
    "GOTOOLCHAIN": "local",
    "COMPOSER_DISABLE_NETWORK": "1",
    "CONDA_OFFLINE": "true",
    "HF_HUB_OFFLINE": "1",
}
READ_ONLY_GIT_VARIABLES = {
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` would write its index, which would need approval
    "GIT_CONFIG_COUNT": "3",
    # A repository may configure a program that git runs on every status. Hooks run only for changes.
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    # What git starts in the background ends with its command, and would leave its lock: it runs in the foreground.
    "GIT_CONFIG_KEY_1": "gc.autoDetach",
    "GIT_CONFIG_VALUE_1": "false",
    "GIT_CONFIG_KEY_2": "maintenance.autoDetach",
    "GIT_CONFIG_VALUE_2": "false",
    "GIT_PAGER": "cat",
    "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",  # a root below the top of a repository is a mount
}


def build_environment(overrides: Mapping[str, str], *, home: str, tmp: str, network: bool) -> dict[str, str]:
    """Allowed variables of our own, then fixed ones, then those given for this command."""
    ours = os.environ
    kept = {name: ours[name] for name in ours if name in KEPT_VARIABLES or name.startswith("LC_")}
    kept |= {name: ours[name] for name in NETWORK_VARIABLES if name in ours and "@" not in ours[name]}
    if not network:
        kept |= OFFLINE_VARIABLES
    kept |= _find_installations()
    kept["PATH"] = f"{kept.get('PATH') or SYSTEM_PATH}:{home}/.local/bin"
    return kept | {"HOME": home, "TMPDIR": tmp, "TERM": "dumb", **READ_ONLY_GIT_VARIABLES} | dict(overrides)


@cache
def find_system_program(name: str) -> str:
    """The path of a system program; the bare name if it is not found."""
    paths = (f"{folder}/{name}" for folder in SYSTEM_PATH.split(":"))
    return next((path for path in paths if os.access(path, os.X_OK)), name)


@cache
def _find_installations() -> dict[str, str]:
    """Variables that let programs installed in the real home find their files although HOME differs."""
    found = {name: os.environ[name] for name in host_paths.INSTALLATION_VARIABLES.values() if name in os.environ}
    for home in host_paths.find_homes():
        for name, variable in host_paths.INSTALLATION_VARIABLES.items():
            if variable and os.path.isdir(place := os.path.join(home, name)):
                found.setdefault(variable, place)
    return found


def choose_inner_home() -> str:
    """HOME as a command sees it: next to the real homes but none of them, so that it is empty."""
    names = (os.path.join(os.path.realpath("/home"), name) for name in ("handhold", "handhold-layer"))
    return next(name for name in names if name not in host_paths.find_homes())


@cache
def build_passwd(home: str) -> bytes:
    """The machine's passwd with our home replaced: some programs read it instead of HOME."""
    uid = str(os.getuid()).encode()
    lines = [line.split(b":") for line in Path("/etc/passwd").read_bytes().splitlines()]
    ours = next((line for line in lines if line[2:3] == [uid] and len(line) == 7), None)
    if ours is None:  # a network user, or unknown
        ours = [b"user", b"x", uid, str(os.getgid()).encode(), b"", b"", b"/bin/bash"]
        lines.append(ours)
    ours[5] = os.fsencode(home)
    return b"".join(b":".join(line) + b"\n" for line in lines)
