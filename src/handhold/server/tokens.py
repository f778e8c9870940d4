"""Bearer tokens, each bound to its roots and options.

The token file stores hashes, so reading it does not give access. A token is 32 random bytes, so a plain hash is as
secure as a slow one.

    [tokens.alice]
    hash = "sha256:…"
    roots = ["/srv/shop"]
    dialect = "claude"
"""

import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any, cast

from handhold.backends.settings.settings_file import read_regular_file
from handhold.backends.state.state_folder import default_state_root
from handhold.core.choices import CONFINEMENTS, DIALECTS, MODES
from handhold.core.errors import SettingsBroken
from handhold.core.text.suggestions import suggest
from handhold.server.server_config import ServerConfig

TOKEN_PREFIX, HASH_PREFIX = "hh_", "sha256:"
NAME_PATTERN = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
LIST_KEYS = ("roots", "read_only")
KEY_CHOICES = {"dialect": (*DIALECTS, "auto"), "policy": MODES, "shell": CONFINEMENTS}
TOKEN_KEYS = ("hash", *LIST_KEYS, *KEY_CHOICES, "model", "network", "structured")


@dataclass(frozen=True)
class AccessToken:
    """The hash of a token, and the configuration for its clients."""

    hash: str
    config: ServerConfig

    @property
    def name(self) -> str:
        return self.config.name


@dataclass(frozen=True)
class AccessTokens:
    """All valid tokens. With `anonymous_config`, requests need no token and get that configuration."""

    tokens: tuple[AccessToken, ...] = ()
    anonymous_config: ServerConfig | None = None

    @property
    def configs(self) -> tuple[ServerConfig, ...]:
        return (*(token.config for token in self.tokens), *([self.anonymous_config] if self.anonymous_config else []))

    def authenticate(self, header: str | None) -> ServerConfig | None:
        """The configuration for an Authorization header, or None. The comparison takes constant time."""
        if self.anonymous_config:
            return self.anonymous_config
        scheme, _, given = (header or "").partition(" ")
        hashed, found = hash_token(given.strip()), None
        for token in self.tokens:
            if compare_digest(token.hash.encode(), hashed.encode()) and scheme.lower() == "bearer":
                found = token.config
        return found


def generate_token() -> str:
    return TOKEN_PREFIX + token_urlsafe(32)


def hash_token(token: str) -> str:
    return HASH_PREFIX + sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def load_tokens(file: str, defaults: ServerConfig) -> AccessTokens:
    """Load a token file. Missing options come from `defaults`. Raises SettingsBroken if the file is invalid."""
    import tomllib

    data = read_regular_file(file, follow_links=True)
    if data is None:
        raise SettingsBroken(file, "it does not exist")
    status = os.stat(file)
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise SettingsBroken(file, "other users can access it; set its mode to 0600")
    if status.st_uid not in (os.geteuid(), 0):
        raise SettingsBroken(file, "it belongs to another user")
    try:
        tokens = tuple(_parse_tokens(tomllib.loads(data.decode()), defaults))
    except RecursionError:
        raise SettingsBroken(file, "it is nested too deeply") from None
    except ValueError as error:
        raise SettingsBroken(file, str(error)) from None
    return AccessTokens(isolate_tokens(tokens, file, defaults.state or str(default_state_root())))


def isolate_tokens(tokens: Sequence[AccessToken], file: str, state: str) -> tuple[AccessToken, ...]:
    """Hide the roots of all other tokens from each token's commands. Raises SettingsBroken if that is impossible."""
    for token in tokens:
        if len(tokens) > 1 and token.config.shell != "contained":
            raise SettingsBroken(
                file,
                f"commands of {token.name!r} would run without a sandbox and reach the roots of other tokens;"
                ' use shell = "contained"',
            )
        # A tool that can write these files could grant itself access. The user's own state folder is never writable.
        for place in (file, *([state] if state != str(default_state_root()) else [])):
            if root := next((root for root in token.config.all_roots if is_within(place, root)), ""):
                raise SettingsBroken(file, f"{place} is inside {root}, a root of {token.name!r}; move it elsewhere")
    return tuple(
        replace(token, config=replace(token.config, hidden=find_hidden_paths(token, tokens, file, state)))
        for token in tokens
    )


def find_hidden_paths(token: AccessToken, tokens: Sequence[AccessToken], file: str, state: str) -> tuple[str, ...]:
    roots = [root for each in tokens if each is not token for root in each.config.all_roots]
    # Replaced files of a root on a separate file system are kept in a folder next to it.
    replaced_folders = [os.path.join(os.path.dirname(root), f".{os.path.basename(root)}.handhold") for root in roots]
    own = token.config.all_roots
    return (
        state,
        file,
        *(place for place in (*roots, *replaced_folders) if not any(is_within(place, root) for root in own)),
    )


def is_within(place: str, root: str) -> bool:
    return f"{os.path.realpath(place)}/".startswith(os.path.realpath(root).rstrip("/") + "/")


def _parse_tokens(table: Mapping[str, Any], defaults: ServerConfig) -> Sequence[AccessToken]:
    if unknown := sorted(table.keys() - {"tokens"}):
        raise ValueError(f"unknown key {unknown[0]!r}; expected [tokens.NAME]")
    given: Any = table.get("tokens", {})
    if not isinstance(given, dict):
        raise ValueError("a token begins with [tokens.NAME]")
    tokens = [_parse_token(name, each, defaults) for name, each in cast(dict[str, Any], given).items()]
    hashes = [token.hash for token in tokens]
    if duplicate := next((token.name for token in tokens if hashes.count(token.hash) > 1), None):
        raise ValueError(f"token {duplicate!r}: another token has the same hash")
    return tokens


def _parse_token(name: str, given: Any, defaults: ServerConfig) -> AccessToken:
    if not isinstance(given, dict):
        raise ValueError("a token begins with [tokens.NAME]")
    options = cast(dict[str, Any], given)
    if unknown := sorted(options.keys() - set(TOKEN_KEYS)):
        raise ValueError(f"token {name!r}: unknown key {unknown[0]!r}. {suggest(unknown[0], TOKEN_KEYS)}")
    hash = options.pop("hash", "")
    if not (isinstance(hash, str) and hash.startswith(HASH_PREFIX) and len(hash) == len(HASH_PREFIX) + 64):
        raise ValueError(f"token {name!r}: hash must be {HASH_PREFIX} followed by 64 hexadecimal digits")
    for key, value in options.items():
        is_text_list = isinstance(value, list) and all(isinstance(each, str) for each in cast(list[Any], value))
        if key in LIST_KEYS and not is_text_list:
            raise ValueError(f"token {name!r}: {key} must be a list of strings")
        if key in KEY_CHOICES and value not in KEY_CHOICES[key]:
            raise ValueError(f"token {name!r}: {key} must be one of {', '.join(KEY_CHOICES[key])}, not {value!r}")
        if key == "model" and not isinstance(value, str):
            raise ValueError(f"token {name!r}: model must be a string")
        if key == "structured" and not isinstance(value, bool):
            raise ValueError(f"token {name!r}: structured must be true or false")
        if key == "network" and not (is_text_list or isinstance(value, bool)):
            raise ValueError(f"token {name!r}: network must be true, false or a list of hosts")
        if isinstance(value, list):
            options[key] = tuple(cast(list[str], value))
    for root in options.get("roots", ()):
        if not os.path.isabs(root):
            raise ValueError(f"token {name!r}: {root!r} must be an absolute path")
    # Resolve links, as on the command line: they could change later, and deleted files are kept next to the real path.
    options |= {key: tuple(map(os.path.realpath, options[key])) for key in LIST_KEYS if key in options}
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError(f"invalid token name {name!r}: use letters, digits, dots, dashes and underscores")
    if not options.get("roots"):
        raise ValueError(f"token {name!r}: roots are missing")
    # Each token has its own journal, approvals, outputs and keys, even if two tokens share a root.
    state = os.path.join(defaults.state or default_state_root(), "tokens", name)
    return AccessToken(hash, replace(defaults, name=name, state=state, **options))


def add_token(file: str, config: ServerConfig, keys: Sequence[str]) -> str:
    """Add a token to a file, which is created if necessary. Returns the token, which is not stored.

    `keys` are the options to write; the others come from the server's command line.
    """
    known = load_tokens(file, config).tokens if os.path.lexists(file) else ()
    if any(token.name == config.name for token in known):
        raise SettingsBroken(file, f"token {config.name!r} already exists; remove it first")
    if not NAME_PATTERN.fullmatch(config.name):
        raise SettingsBroken(
            file, f"invalid token name {config.name!r}: use letters, digits, dots, dashes and underscores"
        )
    token = generate_token()
    lines = [f"[tokens.{quote_toml(config.name)}]", f"hash = {quote_toml(hash_token(token))}"]
    lines += [f"{key} = {format_toml_value(getattr(config, key))}" for key in keys]
    text = "\n".join(lines) + "\n"
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, ("\n" + text if os.fstat(fd).st_size else text).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    return token


def format_toml_value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(map(format_toml_value, cast(Sequence[Any], value)))}]"
        case _:
            return quote_toml(str(value))


def quote_toml(text: str) -> str:
    """A TOML string. Raises ValueError if the text is not valid Unicode."""
    from json import dumps

    text.encode()  # a path with invalid bytes cannot be written
    return dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
