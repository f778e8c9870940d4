"""One file of settings: read with care, since anybody may have put it there, and taken as a whole or not at all."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, cast

from handhold.core.choices import MODES, SECRETS, Mode, Secrets
from handhold.core.errors import SettingsBroken
from handhold.core.policy.rules import Rule
from handhold.core.text.alike import suggest

MOST = 1024 * 1024  # bytes
# A project's file is read before anybody has looked at it. Parsing a dotted key and matching a pattern with its
# examples take time and memory by the square of their length.
MOST_OF_PROJECT = 64 * 1024  # bytes
MOST_DOTS = 200  # in a line
LONGEST_TEXT = 500  # characters of a text in a rule
KEYS = tuple(field.name for field in fields(Rule) if field.name != "folds")
TOP_KEYS = ("mode", "secrets", "undo_bytes", "rule")
LISTS = ("verbs", "paths", "but", "commands", "hosts", "covers", "spares")


@dataclass(frozen=True)
class Said:
    """What a file says."""

    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()
    undo_bytes: int | None = None
    secrets: Secrets | None = None


def read(file: str, *, follow: bool, most: int = MOST) -> bytes | None:
    """Its bytes; None if it is not there, SettingsBroken if it is no file or cannot be read."""
    # A FIFO must not keep us waiting, and a link in somebody's project leads to what they did not write.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(file, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsBroken(file, f"it cannot be read ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SettingsBroken(file, "it is not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as opened:
            data = opened.read(most + 1)
    except OSError as error:
        raise SettingsBroken(file, f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(fd)
    if len(data) > most:
        raise SettingsBroken(file, f"it is larger than {most} bytes")
    return data


def said_in(data: bytes, file: str, *, of_project: bool = False) -> Said:
    """SettingsBroken, naming the rule and the example, if any of it is wrong."""
    import tomllib  # few sessions have such a file

    try:
        if of_project and max(line.count(b".") for line in data.split(b"\n")) > MOST_DOTS:
            raise ValueError(f"a line has more than {MOST_DOTS} dots")
        return _said(tomllib.loads(data.decode()), of_project=of_project)
    except RecursionError:
        raise SettingsBroken(file, "it is nested too deep") from None
    except ValueError as error:  # also what is no text, and what is no TOML
        raise SettingsBroken(file, str(error)) from None


def _said(table: Mapping[str, Any], *, of_project: bool) -> Said:
    if unknown := sorted(table.keys() - set(TOP_KEYS)):
        raise ValueError(f"unknown key {unknown[0]!r}. {suggest(unknown[0], TOP_KEYS)}")
    mode = table.get("mode")
    if mode is not None and mode not in MODES:
        raise ValueError(f"no mode is called {mode!r}; there are {', '.join(MODES)}")
    secrets = table.get("secrets")
    if secrets is not None and secrets not in SECRETS:
        raise ValueError(f"secrets must be one of {', '.join(SECRETS)} (got {secrets!r})")
    tables: Any = table.get("rule", [])
    if not isinstance(tables, list):
        raise ValueError("a rule begins with [[rule]]")
    longest = LONGEST_TEXT if of_project else MOST
    rules = tuple(_rule(each, longest) for each in cast(list[Any], tables))
    names = [rule.name for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two rules are called {twice!r}")
    if of_project:
        for rule in rules:
            if elsewhere := next((each for each in (*rule.paths, *rule.but) if each.startswith(("/", "~"))), None):
                raise ValueError(f"rule {rule.name!r}: {elsewhere!r} is not a path of this project")
    return Said(mode, rules, _undo_bytes(table, of_project=of_project), secrets)


def _undo_bytes(table: Mapping[str, Any], *, of_project: bool) -> int | None:
    value = table.get("undo_bytes")
    if value is not None and of_project:
        raise ValueError("undo_bytes counts only in the user's own settings")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value <= 0):
        raise ValueError(f"undo_bytes must be a whole number above 0 (got {value!r})")
    return value


def _rule(table: Any, longest: int) -> Rule:
    if not isinstance(table, dict):
        raise ValueError("a rule begins with [[rule]]")
    given = cast(dict[str, Any], table)
    name = given.get("name")
    if not isinstance(name, str):
        raise ValueError("a rule needs a name")
    if unknown := sorted(given.keys() - set(KEYS)):
        raise ValueError(f"rule {name!r}: unknown key {unknown[0]!r}. {suggest(unknown[0], KEYS)}")
    for key in ("verdict", "verbs", "because", "covers", "spares"):
        if key not in given:
            raise ValueError(f"rule {name!r}: it has no {key}")
    for key, value in given.items():
        if key in LISTS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):  # pyright: ignore[reportUnknownVariableType]
            raise ValueError(f"rule {name!r}: {key} is a list of texts")
        if key not in LISTS and not isinstance(value, str):
            raise ValueError(f"rule {name!r}: {key} is a text")
        if any(len(text) > longest for text in ([value] if isinstance(value, str) else cast(list[str], value))):
            raise ValueError(f"rule {name[:longest]!r}: {key} has a text of more than {longest} characters")
    return Rule(**given)
