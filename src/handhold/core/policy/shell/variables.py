"""Variables that decide what runs: setting one can run code."""

import re
from collections.abc import Callable

from handhold.core.policy.shell.paths import SYSTEM_BIN_FOLDERS
from handhold.core.policy.shell.words import UNKNOWN, Word

_HARMLESS_NAMES = re.compile(
    r"GIT_(?:(?:AUTHOR|COMMITTER)_(?:NAME|EMAIL|DATE)|TERMINAL_PROMPT|OPTIONAL_LOCKS|TRACE|CURL_VERBOSE|MERGE_AUTOEDIT"
    r"|ADVICE|LITERAL_PATHSPECS|REFLOG_ACTION)"
)
_RISKY_NAMES = re.compile(
    r"PATH|CDPATH|IFS|ENV|BASH_.*|SHELLOPTS|BASHOPTS|PROMPT_COMMAND|PS[0-4]|GLOBIGNORE|HOME|SHELL|EXECIGNORE"
    r"|LD_.*|DYLD_.*|GIT_.*|MALLOC_.*|GCONV_PATH|LOCPATH|HOSTALIASES|RES_OPTIONS|GETCONF_DIR|NLSPATH|TERMINFO"
    r"|.*PAGER|.*EDITOR|VISUAL|BROWSER|LESS|LESSOPEN|LESSCLOSE|LESSKEY.*|LESSEDIT|MORE|LV|MANOPT|VIMINIT|EXINIT|SSH_ASKPASS|SUDO_ASKPASS|.*_ASKPASS"
    r"|PYTHON(?:PATH|HOME|STARTUP|INSPECT|USERBASE|PLATLIBDIR|BREAKPOINT|WARNINGS|EXECUTABLE)"
    r"|NODE_(?:OPTIONS|PATH|REPL.*)|PERL5.*|PERLLIB|PERL5LIB|RUBYOPT|RUBYLIB|RUBYSHELL|GEM_(?:HOME|PATH)|BUNDLE_GEMFILE"
    r"|JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|CLASSPATH|MAVEN_OPTS|GRADLE_OPTS|LUA_(?:INIT|PATH|CPATH).*"
    r"|PHP_INI_SCAN_DIR|PHPRC|R_(?:PROFILE|ENVIRON).*|RUSTC_WRAPPER|RUSTC_WORKSPACE_WRAPPER|RUSTC|CARGO_.*RUNNER"
    r"|CARGO_BUILD_.*WRAPPER|GOFLAGS|GOTOOLDIR|MAKEFLAGS|MAKEFILES|GCC_EXEC_PREFIX|COMPILER_PATH|TAR_OPTIONS|ZIPOPT"
    r"|RIPGREP_CONFIG_PATH|GREP_OPTIONS|FZF_DEFAULT_.*|AWKPATH|AWKLIBPATH|INPUTRC|TMOUT|XDG_CONFIG_.*|npm_config_.*"
    r"|http_proxy|https_proxy|all_proxy|HTTPS?_PROXY|ALL_PROXY|DOCKER_HOST|KUBECONFIG"
)
_HARMLESS_PROGRAM = re.compile(r"|cat|less|more|true|false|:|/bin/(?:cat|true)|less -[A-Za-z]+")
_RELATIVE_FOLDER = re.compile(r"(?:\.?\.?/?[\w.@-]+(?:/[\w.@-]+)*/?|\.)?")
_TOOL_FOLDER = re.compile(
    r".*/(?:node_modules/\.bin|\.?venv/bin|env/bin|\.cargo/bin|\.local/bin|go/bin|\.bun/bin|shims)/?"
)
_NODE_OPTIONS = re.compile(
    r"(?:--(?:max-old-space-size=\d+|no-warnings|no-deprecation|experimental-[\w-]+|trace-\w+)\s*)*"
)
_JAVA_OPTIONS = re.compile(r"(?:-X(?:m[xsn]|ss)\d+[kmgKMG]?\s*|-D[\w.]+=[\w./-]*\s*)*")


def _is_safe_path(value: str) -> bool:
    return all(entry in SYSTEM_BIN_FOLDERS or _TOOL_FOLDER.fullmatch(f"/{entry}") for entry in value.split(":"))


def _is_below_workspace(value: str) -> bool:
    """Whether all relative entries are folders of the workspace, whose code may run anyway."""
    return ".." not in value and all(
        _RELATIVE_FOLDER.fullmatch(entry) for entry in value.split(":") if not entry.startswith("/")
    )


HARMLESS_VALUES: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = (
    (re.compile("PATH"), _is_safe_path),
    (
        re.compile(r".*PAGER|.*EDITOR|VISUAL|LESS|MORE"),
        _HARMLESS_PROGRAM.fullmatch,
    ),
    (re.compile("LESS"), re.compile(r"-?[A-Za-z]*").fullmatch),
    (re.compile("PYTHONPATH|NODE_PATH|CLASSPATH|RUBYLIB|PERL5LIB"), _is_below_workspace),
    (re.compile("PYTHONBREAKPOINT"), re.compile("0?").fullmatch),
    (re.compile("PYTHONWARNINGS"), re.compile(r"[\w:,.]*").fullmatch),
    (re.compile("PYTHONINSPECT"), re.compile("0?").fullmatch),
    (re.compile("NODE_OPTIONS"), _NODE_OPTIONS.fullmatch),
    (re.compile("MAVEN_OPTS|GRADLE_OPTS"), _JAVA_OPTIONS.fullmatch),
    (re.compile("MAKEFLAGS"), re.compile(r"-?j?\s*\d*[ksw]*").fullmatch),
    (re.compile("GOFLAGS"), re.compile(r"(?:-(?:mod|count|v|race|tags)(?:=[\w,]+)?\s*)*").fullmatch),
    (re.compile("IFS"), re.compile(r"[\n\t ,:;|]*").fullmatch),
    (re.compile("PS4"), re.compile(r"[\w+: .\[\]-]*").fullmatch),
    (re.compile("TERMINFO|TMOUT"), re.compile(r"\d*").fullmatch),
    (
        re.compile(r"npm_config_(?:loglevel|yes|fund|audit|color|progress|cache|offline|prefer_offline)"),
        re.compile(r"[\w./-]*").fullmatch,
    ),
)
"""Everyday values that are harmless for some of these variables."""


def find_assignment_risk(name: str, value: Word) -> str:
    """Why setting this variable is a risk; empty if it is not."""
    if _HARMLESS_NAMES.fullmatch(name) or not _RISKY_NAMES.fullmatch(name):
        return ""
    if UNKNOWN not in value.text and any(names.fullmatch(name) and test(value.text) for names, test in HARMLESS_VALUES):
        return ""
    return f"the variable {name} decides which programs run or how they run"
