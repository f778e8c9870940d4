"""Who may come in: bearer tokens, each bound to the roots and the manners it is served with.

The file holds hashes and no tokens: whoever reads it can say who is served, and cannot come in. A token is 32 random
bytes, so a plain hash of it is as good as a slow one.

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

from handhold.core.choices import CONFINEMENTS, DIALECTS, MODES
from handhold.core.errors import SettingsBroken
from handhold.core.text.alike import suggest
from handhold.server.serving import Serving
from handhold.world.settings.reading import read
from handhold.world.state.folder import default_state

PREFIX, SCHEME = "hh_", "sha256:"
NAME = re.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
LISTS = ("roots", "read_only")
CHOICES = {"dialect": (*DIALECTS, "auto"), "policy": MODES, "shell": CONFINEMENTS}
KEYS = ("hash", *LISTS, *CHOICES, "model", "network", "structured")


@dataclass(frozen=True)
class Token:
    """One that was given out: what it hashes to, and what whoever brings it is served."""

    hash: str
    serving: Serving

    @property
    def name(self) -> str:
        return self.serving.name


@dataclass(frozen=True)
class Tokens:
    """All that were given out. With `open_to`, whoever brings none is served that."""

    tokens: tuple[Token, ...] = ()
    open_to: Serving | None = None

    @property
    def servings(self) -> tuple[Serving, ...]:
        return (*(token.serving for token in self.tokens), *([self.open_to] if self.open_to else []))

    def bearer(self, header: str | None) -> Serving | None:
        """Whom an Authorization header lets in. How long it takes to find out does not tell how near a guess was."""
        if self.open_to:
            return self.open_to
        scheme, _, given = (header or "").partition(" ")
        hashed, found = hash_of(given.strip()), None
        for token in self.tokens:
            if compare_digest(token.hash.encode(), hashed.encode()) and scheme.lower() == "bearer":
                found = token.serving
        return found


def minted() -> str:
    return PREFIX + token_urlsafe(32)


def hash_of(token: str) -> str:
    return SCHEME + sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def load(file: str, otherwise: Serving) -> Tokens:
    """Those of a file, each with what it does not say taken from `otherwise`. SettingsBroken if any of it is wrong."""
    import tomllib

    data = read(file, follow=True)
    if data is None:
        raise SettingsBroken(file, "it is not there")
    told = os.stat(file)
    if stat.S_IMODE(told.st_mode) & 0o077:
        raise SettingsBroken(file, "others may read or write it; it needs mode 0600")
    if told.st_uid not in (os.geteuid(), 0):
        raise SettingsBroken(file, "it belongs to somebody else")
    try:
        tokens = tuple(_tokens(tomllib.loads(data.decode()), otherwise))
    except RecursionError:
        raise SettingsBroken(file, "it is nested too deep") from None
    except ValueError as error:
        raise SettingsBroken(file, str(error)) from None
    return Tokens(apart(tokens, file, otherwise.state or str(default_state())))


def apart(tokens: Sequence[Token], file: str, state: str) -> tuple[Token, ...]:
    """The same, with what belongs to the others hidden from each one's commands. SettingsBroken if it cannot be."""
    for token in tokens:
        if len(tokens) > 1 and token.serving.shell != "contained":
            raise SettingsBroken(
                file, f"commands of {token.name!r} would run uncontained, and reach what others are for"
            )
        # A tool that could write these could let itself in anywhere. In the user's own state, none can write.
        for place in (file, *([state] if state != str(default_state()) else [])):
            if root := next((root for root in token.serving.all_roots if within(place, root)), ""):
                raise SettingsBroken(file, f"{place} lies in {root}, which is {token.name!r}'s; put it elsewhere")
    return tuple(
        replace(token, serving=replace(token.serving, hidden=unseen(token, tokens, file, state))) for token in tokens
    )


def unseen(token: Token, tokens: Sequence[Token], file: str, state: str) -> tuple[str, ...]:
    roots = [root for each in tokens if each is not token for root in each.serving.all_roots]
    # Beside a root that is on a disk of its own lies what was replaced in it.
    beside = [os.path.join(os.path.dirname(root), f".{os.path.basename(root)}.handhold") for root in roots]
    own = token.serving.all_roots
    return (state, file, *(place for place in (*roots, *beside) if not any(within(place, root) for root in own)))


def within(place: str, root: str) -> bool:
    return f"{os.path.realpath(place)}/".startswith(os.path.realpath(root).rstrip("/") + "/")


def _tokens(table: Mapping[str, Any], otherwise: Serving) -> Sequence[Token]:
    if unknown := sorted(table.keys() - {"tokens"}):
        raise ValueError(f"unknown key {unknown[0]!r}; there is [tokens.NAME]")
    given: Any = table.get("tokens", {})
    if not isinstance(given, dict):
        raise ValueError("a token begins with [tokens.NAME]")
    tokens = [_token(name, each, otherwise) for name, each in cast(dict[str, Any], given).items()]
    hashes = [token.hash for token in tokens]
    if twice := next((token.name for token in tokens if hashes.count(token.hash) > 1), None):
        raise ValueError(f"the token of {twice!r} is somebody else's too")
    return tokens


def _token(name: str, given: Any, otherwise: Serving) -> Token:
    if not isinstance(given, dict):
        raise ValueError("a token begins with [tokens.NAME]")
    said = cast(dict[str, Any], given)
    if unknown := sorted(said.keys() - set(KEYS)):
        raise ValueError(f"token {name!r}: unknown key {unknown[0]!r}. {suggest(unknown[0], KEYS)}")
    hash = said.pop("hash", "")
    if not (isinstance(hash, str) and hash.startswith(SCHEME) and len(hash) == len(SCHEME) + 64):
        raise ValueError(f"token {name!r}: its hash is {SCHEME} and 64 letters and digits")
    for key, value in said.items():
        listed = isinstance(value, list) and all(isinstance(each, str) for each in cast(list[Any], value))
        if key in LISTS and not listed:
            raise ValueError(f"token {name!r}: {key} is a list of texts")
        if key in CHOICES and value not in CHOICES[key]:
            raise ValueError(f"token {name!r}: no {key} is called {value!r}; there are {', '.join(CHOICES[key])}")
        if key == "model" and not isinstance(value, str):
            raise ValueError(f"token {name!r}: model is a text")
        if key == "structured" and not isinstance(value, bool):
            raise ValueError(f"token {name!r}: structured is true or false")
        if key == "network" and not (listed or isinstance(value, bool)):
            raise ValueError(f"token {name!r}: network is true, false or a list of hosts")
        if isinstance(value, list):
            said[key] = tuple(cast(list[str], value))
    for root in said.get("roots", ()):
        if not os.path.isabs(root):
            raise ValueError(f"token {name!r}: {root!r} is not an absolute path")
    # Real paths, as on the command line: beside them lies what was deleted, and a link may be changed later.
    said |= {key: tuple(map(os.path.realpath, said[key])) for key in LISTS if key in said}
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a token; letters, digits, dots, dashes and underscores can")
    if not said.get("roots"):
        raise ValueError(f"token {name!r}: it has no roots")
    # A journal, approvals, long outputs and keys of its own, even where two tokens have a root in common.
    state = os.path.join(otherwise.state or default_state(), "tokens", name)
    return Token(hash, replace(otherwise, name=name, state=state, **said))


def added(file: str, serving: Serving, said: Sequence[str]) -> str:
    """A new token in a file, which is made if it was not there: the one time that it is seen.

    Of what it is served with, `said` are the things to write down; the rest is as the server is started.
    """
    known = load(file, serving).tokens if os.path.lexists(file) else ()
    if any(token.name == serving.name for token in known):
        raise SettingsBroken(file, f"there is a token for {serving.name!r} already; take it out first")
    if not NAME.fullmatch(serving.name):
        raise SettingsBroken(file, f"{serving.name!r} cannot be the name of a token")
    token = minted()
    lines = [f"[tokens.{quoted(serving.name)}]", f"hash = {quoted(hash_of(token))}"]
    lines += [f"{key} = {written(getattr(serving, key))}" for key in said]
    text = "\n".join(lines) + "\n"
    fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, ("\n" + text if os.fstat(fd).st_size else text).encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    return token


def written(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return f"[{', '.join(map(written, cast(Sequence[Any], value)))}]"
        case _:
            return quoted(str(value))


def quoted(text: str) -> str:
    """A text as TOML has it. ValueError if it is not one."""
    from json import dumps

    text.encode()  # a name of bytes that are no text cannot be written down
    return dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
