"""One settings file: read with care, since anybody may have written it, and applied as a whole or not at all."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, cast

from handhold.backends.descriptor_pool import EXHAUSTED_ERRNOS, to_exhausted_error
from handhold.core.checkers import DEFAULT_TIMEOUT_SECONDS, Checker
from handhold.core.choices import MODES, SECRETS, Mode, Secrets
from handhold.core.errors import SettingsBroken
from handhold.core.policy.rules import Rule
from handhold.core.text.suggestions import suggest

MAX_FILE_BYTES = 1024 * 1024
# A project's file is read before anybody has reviewed it. Parsing a dotted key, and matching a pattern with its
# examples, take time and memory quadratic in their length.
MAX_PROJECT_FILE_BYTES = 64 * 1024
MAX_DOTS_PER_LINE = 200
MAX_TEXT_CHARACTERS = 500  # of a text in a rule
RULE_KEYS = tuple(field.name for field in fields(Rule) if field.name != "ignore_case")
NUMBER_KEYS = ("undo_bytes", "undo_days", "baseline_bytes")  # only in the user's own settings
TOP_KEYS = ("mode", "secrets", *NUMBER_KEYS, "rule", "checker")
CHECKER_KEYS = tuple(field.name for field in fields(Checker))
RENAMED_KEYS = {"but": "exclude", "spares": "does_not_cover"}  # old names stay valid
LIST_KEYS = ("verbs", "paths", "exclude", "commands", "hosts", "covers", "does_not_cover", *RENAMED_KEYS)


@dataclass(frozen=True)
class FileSettings:
    """The contents of a settings file."""

    mode: Mode | None = None
    rules: tuple[Rule, ...] = ()
    undo_bytes: int | None = None
    undo_days: int | None = None
    baseline_bytes: int | None = None
    secrets: Secrets | None = None
    checkers: tuple[Checker, ...] = ()  # only in the user's own settings: they are programs to run


def read_regular_file(file: str, *, follow_links: bool, max_bytes: int = MAX_FILE_BYTES) -> bytes | None:
    """Its bytes; None if it does not exist. Raise SettingsBroken if it is not a file, or cannot be read."""
    # A FIFO must not block us, and a link in a project may lead to anything.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | (0 if follow_links else os.O_NOFOLLOW)
    try:
        fd = os.open(file, flags)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in EXHAUSTED_ERRNOS:  # nothing is wrong with the file
            raise to_exhausted_error(error, file) from error
        raise SettingsBroken(file, f"it cannot be read ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SettingsBroken(file, "it is not a regular file")
        with os.fdopen(fd, "rb", closefd=False) as opened:
            data = opened.read(max_bytes + 1)
    except OSError as error:
        raise SettingsBroken(file, f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(fd)
    if len(data) > max_bytes:
        raise SettingsBroken(file, f"it is larger than {max_bytes} bytes")
    return data


@lru_cache(maxsize=16)  # every toolbox reads the files; few of them have changed
def parse_settings(data: bytes, file: str, *, is_project: bool = False) -> FileSettings:
    """Raise SettingsBroken, naming the rule and the example, if anything is wrong."""
    import tomllib  # few sessions have such a file

    try:
        if is_project and max(line.count(b".") for line in data.split(b"\n")) > MAX_DOTS_PER_LINE:
            raise ValueError(f"a line has more than {MAX_DOTS_PER_LINE} dots")
        return _parse_table(tomllib.loads(data.decode()), is_project=is_project)
    except RecursionError:
        raise SettingsBroken(file, "it is nested too deeply") from None
    except ValueError as error:  # also for what is not text, and not TOML
        raise SettingsBroken(file, str(error)) from None


def _parse_table(table: Mapping[str, Any], *, is_project: bool) -> FileSettings:
    if unknown := sorted(table.keys() - set(TOP_KEYS)):
        raise ValueError(f"unknown key {unknown[0]!r}. {suggest(unknown[0], TOP_KEYS)}")
    mode = table.get("mode")
    if mode is not None and mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)} (got {mode!r})")
    secrets = table.get("secrets")
    if secrets is not None and secrets not in SECRETS:
        raise ValueError(f"secrets must be one of {', '.join(SECRETS)} (got {secrets!r})")
    tables: Any = table.get("rule", [])
    if not isinstance(tables, list):
        raise ValueError("each rule must be a [[rule]] table")
    max_characters = MAX_TEXT_CHARACTERS if is_project else MAX_FILE_BYTES
    rules = tuple(_parse_rule(each, max_characters) for each in cast(list[Any], tables))
    names = [rule.name for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ValueError(f"two rules have the name {twice!r}")
    if is_project:
        for rule in rules:
            if elsewhere := next((each for each in (*rule.paths, *rule.exclude) if each.startswith(("/", "~"))), None):
                raise ValueError(f"rule {rule.name!r}: {elsewhere!r} is not a path of this project")
    numbers = {key: _parse_number(table, key, is_project=is_project) for key in NUMBER_KEYS}
    checkers = _parse_checkers(table.get("checker", []), is_project=is_project)
    return FileSettings(mode, rules, secrets=secrets, checkers=checkers, **numbers)


def _parse_checkers(tables: Any, *, is_project: bool) -> tuple[Checker, ...]:
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in cast(list[Any], tables)):
        raise ValueError("each checker must be a [[checker]] table")
    if tables and is_project:
        raise ValueError("checker is only allowed in the user's own settings")
    return tuple(map(_parse_checker, cast(list[dict[str, Any]], tables)))


def _parse_checker(table: dict[str, Any]) -> Checker:
    if unknown := sorted(table.keys() - set(CHECKER_KEYS)):
        raise ValueError(f"checker: unknown key {unknown[0]!r}. {suggest(unknown[0], CHECKER_KEYS)}")
    name, globs, command = table.get("name", ""), table.get("globs", []), table.get("command", "")
    seconds = table.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS)
    are_texts = isinstance(globs, list) and all(
        isinstance(each, str) for each in (name, command, *cast(list[Any], globs))
    )
    if not are_texts or not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise ValueError("checker: name and command must be strings, globs a list of strings, timeout_seconds a number")
    return Checker(name, tuple(cast(list[str], globs)), command, seconds)


def _parse_number(table: Mapping[str, Any], key: str, *, is_project: bool) -> int | None:
    value = table.get(key)
    if value is not None and is_project:
        raise ValueError(f"{key} is only allowed in the user's own settings")
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value <= 0):
        raise ValueError(f"{key} must be a whole number above 0 (got {value!r})")
    return value


def _parse_rule(table: Any, max_characters: int) -> Rule:
    if not isinstance(table, dict):
        raise ValueError("each rule must be a [[rule]] table")
    given = cast(dict[str, Any], table)
    name = given.get("name")
    if not isinstance(name, str):
        raise ValueError("a rule needs a name")
    if unknown := sorted(given.keys() - set(RULE_KEYS) - set(RENAMED_KEYS)):
        raise ValueError(f"rule {name!r}: unknown key {unknown[0]!r}. {suggest(unknown[0], RULE_KEYS)}")
    for old, new in RENAMED_KEYS.items():
        if old in given and new in given:  # whichever won, the rule might cover more than it says
            raise ValueError(f"rule {name!r}: {old} and {new} are the same key; give only one")
    renamed = {RENAMED_KEYS.get(key, key): value for key, value in given.items()}
    for key in ("verdict", "verbs", "because", "covers", "does_not_cover"):
        if key not in renamed:
            raise ValueError(f"rule {name!r}: {key} is missing")
    for key, value in given.items():
        if key in LIST_KEYS and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):  # pyright: ignore[reportUnknownVariableType]
            raise ValueError(f"rule {name!r}: {key} must be a list of strings")
        if key not in LIST_KEYS and not isinstance(value, str):
            raise ValueError(f"rule {name!r}: {key} must be a string")
        if any(len(text) > max_characters for text in ([value] if isinstance(value, str) else cast(list[str], value))):
            raise ValueError(
                f"rule {name[:max_characters]!r}: {key} has a string of more than {max_characters} characters"
            )
    return Rule(**renamed)
