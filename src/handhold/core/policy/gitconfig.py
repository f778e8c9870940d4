"""Git's configuration files: a strict parser, and which changes to one are harmless.

The parser accepts less than git does. A person decides about anything that it rejects, so it never has to guess how
git would read a line.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

MAX_CONFIG_BYTES = 256 * 1024  # a larger file is rejected

_HEADER = re.compile(r'\[([A-Za-z0-9-]+)(?:[ \t]+"((?:[^"\\\n]|\\["\\])*)")?\][ \t]*(?:[#;].*)?')
_KEY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*|(?=[#;]|$))")
_CONTROL_CHARS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}


class Setting(NamedTuple):
    """One value. Section and key are in lower case; a value of None is a key without `=`, which means true."""

    section: str
    subsection: str | None
    key: str
    value: str | None


def parse(data: bytes) -> list[Setting]:
    """The settings of a file, in order. Raise ValueError for anything that this parser does not accept."""
    text = data.decode("utf-8", "surrogateescape")
    if len(data) > MAX_CONFIG_BYTES or _CONTROL_CHARS.search(text):
        raise ValueError("it is too large, or has control characters")
    settings: list[Setting] = []
    section: tuple[str, str | None] | None = None
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at].strip(" \t")
        at += 1
        if not line or line[0] in "#;":
            continue
        if header := _HEADER.fullmatch(line):
            name = header[2]
            section = header[1].lower(), None if name is None else re.sub(r"\\(.)", r"\1", name)
            continue
        key = _KEY.match(line)
        if key is None or section is None:
            raise ValueError(f"line {at} is neither a section nor a setting")
        value = None
        if "=" in key[0]:
            value, at = _parse_value(line[key.end() :], lines, at)
        settings.append(Setting(*section, key[1].lower(), value))
    return settings


def _parse_value(rest: str, lines: Sequence[str], at: int) -> tuple[str, int]:
    """The value that begins with `rest`, and the line after it. A trailing backslash continues the line."""
    value, kept_length, quoted = "", 0, False  # trailing space up to `kept_length` belongs to the value
    while True:
        chars = iter(rest)
        for char in chars:
            if char == "\\":
                escaped = next(chars, "")
                if not escaped:
                    if at == len(lines):
                        raise ValueError("a backslash ends the file")
                    rest, at = lines[at], at + 1
                    break
                if escaped not in _ESCAPES:
                    raise ValueError(f"the escape {escaped!r} is not valid")
                value += _ESCAPES[escaped]
                kept_length = len(value)
            elif char == '"':
                quoted = not quoted
                kept_length = len(value)
            elif char in "#;" and not quoted:
                return value[: max(kept_length, len(value.rstrip(" \t")))], at
            else:
                value += char
                if quoted:
                    kept_length = len(value)
        else:
            if quoted:
                raise ValueError("a quotation mark is not closed")
            return value[: max(kept_length, len(value.rstrip(" \t")))], at


# --- harmless changes

_WORD = r"[A-Za-z0-9_+-]*"  # true, false, 1, input, sha256 …
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]*"
_REF = r"refs/[A-Za-z0-9_][A-Za-z0-9_./+@#=-]*"
_REFSPEC = r"[+^]?refs/[A-Za-z0-9_./*@#=-]+(?::refs/[A-Za-z0-9_./*@#=-]+)?"
_ANY = r"[^\n]*"
_URL = "url"  # checked by `is_ordinary_url`

_HARMLESS_SETTINGS: dict[tuple[str, str], str] = {
    **{
        ("core", key): _WORD
        for key in (
            *("repositoryformatversion", "filemode", "bare", "logallrefupdates", "symlinks", "ignorecase"),
            *("precomposeunicode", "autocrlf", "eol", "safecrlf", "quotepath", "sparsecheckout", "sparsecheckoutcone"),
        )
    },
    **{("extensions", key): _WORD for key in ("objectformat", "refstorage", "worktreeconfig")},
    ("index", "sparse"): _WORD,
    ("init", "defaultbranch"): _NAME,
    ("user", "name"): _ANY,
    ("user", "email"): _ANY,
    **{("pull", key): _WORD for key in ("rebase", "ff")},
    **{("push", key): _WORD for key in ("default", "autosetupremote", "followtags")},
    ("fetch", "prune"): _WORD,
    ("rebase", "autostash"): _WORD,
    ("branch.", "remote"): rf"\.|{_NAME}",
    ("branch.", "pushremote"): rf"\.|{_NAME}",
    ("branch.", "merge"): _REF,
    ("branch.", "rebase"): _WORD,
    ("branch.", "description"): _ANY,
    ("remote.", "url"): _URL,
    ("remote.", "pushurl"): _URL,
    ("remote.", "fetch"): _REFSPEC,
    ("remote.", "tagopt"): "--(?:no-)?tags",
    ("remote.", "prune"): _WORD,
    ("remote.", "gh-resolved"): rf"{_NAME}(?:/{_NAME})?",
    ("submodule.", "url"): _URL,
    ("submodule.", "active"): _WORD,
}
"""By section and key, the pattern that the whole value must match. A section ending in a dot takes any subsection."""

_URL_WITH_SCHEME = re.compile(
    r"(?:https?|ssh|git|git\+ssh|ssh\+git)://(?:[A-Za-z0-9_][^@/\s]*@)?(?:[A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::\d*)?(?:/[!-~]*)?"
)
_SCP_URL = re.compile(r"(?:[A-Za-z0-9_][\w.+-]*@)?[A-Za-z0-9][\w.-]*:(?!:)[A-Za-z0-9_~./][!-~]*")


def is_ordinary_url(url: str, is_inside: Callable[[str], bool]) -> bool:
    """Whether fetching from it runs only git, ssh and a web client. A path must be inside the workspace."""
    if url.startswith("/"):
        return _CONTROL_CHARS.search(url) is None and is_inside(url)
    return "::" not in url.partition("/")[0] and bool(
        _URL_WITH_SCHEME.fullmatch(url) or ("://" not in url and _SCP_URL.fullmatch(url))
    )


def is_harmless(setting: Setting, is_inside: Callable[[str], bool]) -> bool:
    section = setting.section if setting.subsection is None else f"{setting.section}."
    allowed = _HARMLESS_SETTINGS.get((section, setting.key))
    if allowed is None:
        return False
    value = "true" if setting.value is None else setting.value
    if allowed == _URL:
        return is_ordinary_url(value, is_inside)
    return re.fullmatch(allowed, value) is not None


def find_objection(before: bytes | None, after: bytes, is_inside: Callable[[str], bool]) -> str:
    """Why this change of a configuration needs approval; empty if only harmless settings differ.

    `is_inside` tells whether an absolute path is inside the workspace.
    """
    try:
        old, new = (
            [setting for setting in parse(data) if not is_harmless(setting, is_inside)]
            for data in (before or b"", after)
        )
    except ValueError as error:
        return f"git's configuration cannot be parsed: {error}"
    if old == new:
        return ""
    changed = next((mine or yours for mine, yours in _pair_settings(old, new) if mine != yours), None)
    return f"it would change {_format_key(changed)} in git's configuration, which git follows" if changed else ""


def _pair_settings(old: Sequence[Setting], new: Sequence[Setting]) -> list[tuple[Setting | None, Setting | None]]:
    longest = max(len(old), len(new))
    return [(new[n] if n < len(new) else None, old[n] if n < len(old) else None) for n in range(longest)]


def _format_key(setting: Setting) -> str:
    return ".".join(part for part in (setting.section, setting.subsection, setting.key) if part)
