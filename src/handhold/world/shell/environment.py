"""The variables that a command gets: a list of those that are harmless, not of those that are not.

Tokens lie in variables, under any name.
"""

import os
import subprocess
from collections.abc import Mapping
from functools import cache

from handhold.world.shell import places

KEPT = frozenset(
    (
        *("PATH", "LANG", "LANGUAGE", "TZ", "USER", "LOGNAME", "SHELL", "CI", "SOURCE_DATE_EPOCH"),
        *("VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "JAVA_HOME", "GOROOT", "NVM_BIN", "PYENV_VERSION"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONUTF8", "NIX_PATH", "LOCALE_ARCHIVE"),
    )
)
# Where a network is open: how to reach it, unless that holds a password.
NETWORK = (
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "npm_config_registry", "GOPROXY"),
)
LOOKING_IS_NO_CHANGE = {
    "GIT_OPTIONAL_LOCKS": "0",  # `git status` would write its index, and have to be asked about
    # A repository may name programs that git runs whenever somebody looks at it. Hooks are for those who change it.
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "core.fsmonitor",
    "GIT_CONFIG_VALUE_0": "false",
    "GIT_PAGER": "cat",
}
# What we run ourselves is looked for here only: PATH may lead through the workspace, where commands write.
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"


def environment(given: Mapping[str, str], *, home: str, tmp: str, network: bool) -> dict[str, str]:
    """What is kept of ours, then what is always so, then what was given for this command."""
    ours = os.environ
    kept = {name: ours[name] for name in ours if name in KEPT or name.startswith("LC_")}
    if network:
        kept |= {name: ours[name] for name in NETWORK if name in ours and "@" not in ours[name]}
    kept |= _installations()
    kept["PATH"] = f"{kept.get('PATH') or SYSTEM_PATH}:{home}/.local/bin"
    return kept | {"HOME": home, "TMPDIR": tmp, "TERM": "dumb", **LOOKING_IS_NO_CHANGE} | dict(given)


@cache
def systems(name: str) -> str:
    """The path of a program of the system's; the bare name if it has none."""
    paths = (f"{folder}/{name}" for folder in SYSTEM_PATH.split(":"))
    return next((path for path in paths if os.access(path, os.X_OK)), name)


@cache
def _installations() -> dict[str, str]:
    """Where programs that are installed in the real home find themselves, now that HOME is another."""
    found = {name: os.environ[name] for name in places.INSTALLED.values() if name in os.environ}
    for home in places.homes():
        for name, variable in places.INSTALLED.items():
            if variable and os.path.isdir(place := os.path.join(home, name)):
                found.setdefault(variable, place)
    return found


@cache
def git_settings() -> bytes:
    """The user's name for commits, without the rest of their settings: those hold tokens and run programs.

    A folder of the workspace may belong to somebody whom the sandbox has no number for; git shall not mind.
    """
    lines = ["[safe]", "\tdirectory = *", "[include]", "\tpath = /etc/gitconfig"]
    asked = ["git", "config", "--global", "--null", "--get-regexp", r"^user\.(name|email)$"]
    variables = {**os.environ, "PATH": SYSTEM_PATH}
    try:
        done = subprocess.run(
            asked, env=variables, cwd="/", capture_output=True, stdin=subprocess.DEVNULL, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        done = None
    for setting in (done.stdout if done else b"").decode("utf-8", "replace").split("\0"):
        name, _, value = setting.partition("\n")
        if name in ("user.name", "user.email"):
            quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
            lines += ["[user]", f'\t{name.removeprefix("user.")} = "{quoted}"']
    return ("\n".join(lines) + "\n").encode()
