"""The keywords of a toolbox, checked before anything is opened: an unknown name or a wrong value is refused.

To add a keyword, add a line to `ToolboxConfig` and a parameter to `Toolbox.open`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import signature
from math import isfinite
from os import PathLike, fspath
from os.path import abspath
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast, get_args

from handhold.core.choices import (
    BREAKAGES,
    CONFINEMENTS,
    DIALECTS,
    DURABILITIES,
    MODES,
    SECRETS,
    Breakage,
    Confinement,
    Durability,
    Matching,
    Mode,
    Secrets,
)
from handhold.core.text.suggestions import suggest

if TYPE_CHECKING:
    from handhold.core.checkers import Checker
    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Approver
    from handhold.core.ports.conversion import Converter
    from handhold.core.ports.dialect import Dialect
    from handhold.core.ports.policy import Policy
    from handhold.core.ports.search import Searcher

P = ParamSpec("P")
T = TypeVar("T")
Place = str | PathLike[str]

OptionCheck = Callable[[Any], Any]  # returns the normalized value; TypeError or ValueError says what it must be
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
POLICY_MEMBERS = ("name", "decide", "decide_command", "allows_hosts", "has_rule_for")
DIALECT_MEMBERS = ("name", "options", "specs", "instructions", "decode_and_repair", "encode", "refuse", "frame")


def suggest_keywords(function: Callable[P, T]) -> Callable[P, T]:
    """The same function; its TypeError for an unknown keyword names the nearest known one."""
    known = [name for name in signature(function).parameters if name != "cls"]

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        refuse_unknown(kwargs, known)
        return function(*args, **kwargs)

    return checked


def refuse_unknown(given: Mapping[str, object], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"unknown option {name!r}. {suggest(name, known)}")


# --- what a value may be


def _instance(kind: type | tuple[type, ...], expected: str) -> OptionCheck:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(expected)
        return value

    return check


def _choice(names: Sequence[str]) -> OptionCheck:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            raise TypeError(f"one of {', '.join(names)}")
        if value not in names:
            raise ValueError(f"one of {', '.join(names)}")
        return value

    return check


def _with_members(attributes: Sequence[str], kind: str) -> OptionCheck:
    def check(value: Any) -> Any:
        missing = [name for name in attributes if not _has(value, name)]
        if missing:
            raise TypeError(f"{kind}; this object has no {', '.join(missing)}")
        return value

    return check


def _has(value: Any, name: str) -> bool:
    try:
        return hasattr(value, name)
    except Exception:  # noqa: BLE001 — a property that fails: its use reports that
        return True


def _either(texts: OptionCheck, objects: OptionCheck) -> OptionCheck:
    return lambda value: (texts if isinstance(value, str) else objects)(value)


def _or_none(check: OptionCheck) -> OptionCheck:
    return lambda value: None if value is None else check(value)


def _path(value: Any) -> Any:
    given = cast(object, fspath(value)) if isinstance(value, str | PathLike) else None  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(given, str):
        raise TypeError("a path, as a str or a pathlib.Path")
    if not given:
        raise ValueError("a path that is not empty")
    return cast(Any, value)


def _paths(value: Any) -> tuple[Any, ...]:
    return _each(value, _path, "a path or a list of paths", (str, PathLike))


def _each(value: Any, check: OptionCheck, expected: str, single: type | tuple[type, ...]) -> tuple[Any, ...]:
    """A list, or one item: a string is one item, not its letters."""
    if isinstance(value, single):
        return (check(value),)
    if isinstance(value, bytes | Mapping) or not hasattr(value, "__iter__"):
        raise TypeError(expected)
    return tuple(map(check, value))  # pyright: ignore[reportUnknownArgumentType]


def _roots(value: Any) -> tuple[Any, ...]:
    roots = _paths(value)
    if not roots:
        raise ValueError("at least one folder")
    return roots


def _network(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _each(value, _host, "True, False, or host names", str)


def _host(value: Any) -> str:
    from handhold.core.policy.hosts import BadHost, HostPattern

    if not isinstance(value, str):
        raise TypeError("True, False, or host names")
    try:
        HostPattern.parse(value)
    except BadHost as bad:
        raise ValueError(f"True, False, or host names such as example.org; {value!r} is not one: {bad}") from None
    return value


def _credentials(value: Any) -> tuple[str, ...]:
    return _each(value, _credential_host, "a list of hosts", str)


def _credential_host(value: Any) -> str:
    from handhold.core.policy.hosts import parse_credential_host

    if not isinstance(value, str):
        raise TypeError("a list of hosts")
    parse_credential_host(value)
    return value


def _rules(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple and not value:  # a server checks this before its first answer: import nothing for it
        return ()
    from handhold.core.policy.rules import Rule

    return _each(value, _instance(Rule, "a list of handhold.Rule"), "a list of handhold.Rule", Rule)


def _checkers(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple and not value:
        return ()
    from handhold.core.checkers import Checker

    return _each(value, _instance(Checker, "a list of handhold.Checker"), "a list of handhold.Checker", Checker)


def _rule_names(value: Any) -> tuple[str, ...]:
    if type(value) is tuple and not value:
        return ()
    from handhold.core.text.token_rules import RULE_NAMES

    return _each(value, _choice(RULE_NAMES), "a list of rules of redaction", str)


def _encodings(value: Any) -> Any:
    pairs = cast(Mapping[Any, Any], value).items() if isinstance(value, Mapping) else [(None, None)]
    if not all(isinstance(each, str) for pair in pairs for each in pair):
        raise TypeError('encodings by pattern, such as {"*.txt": "cp1251"}')
    return cast(Any, value)


def _hub(value: Any) -> str:
    from urllib.parse import urlsplit

    expected = "the https:// address of a hub; http:// is for this machine only"
    if not isinstance(value, str):
        raise TypeError(expected)
    parts = urlsplit(value)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK_NAMES)
    if not (is_safe and parts.hostname) or parts.query or parts.fragment or parts.username:
        raise ValueError(expected)
    return value.rstrip("/")


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError("a whole number above 0")
    if value <= 0:
        raise ValueError("a whole number above 0")
    return value


def _seconds(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError("a number of seconds above 0")
    if not (isfinite(value) and value > 0):
        raise ValueError("a number of seconds above 0")
    return value


def _settings(value: Any) -> Any:
    return value is None or (value if isinstance(value, bool) else _path(value))


def _callable(value: Any) -> Any:
    if not callable(value):
        raise TypeError("a function that takes a Question")
    return value


def _option(check: OptionCheck, default: Any = None) -> Any:
    return field(default=default, metadata={"check": check})


@dataclass(frozen=True, init=False)
class ToolboxConfig:
    """The keywords of `Toolbox.open`, which describes them. Every value that is given is checked and normalized."""

    root: tuple[Place, ...] = _option(_roots, ())
    state: Place | None = _option(_or_none(_path))
    read_only: tuple[Place, ...] = _option(_paths, ())
    encodings: Mapping[str, str] | None = _option(_or_none(_encodings))
    undo_bytes: int | None = _option(_or_none(_count))
    dialect: "str | Dialect" = _option(
        _either(_choice((*DIALECTS, "auto")), _with_members(DIALECT_MEMBERS, "the name of a dialect or a Dialect")),
        "handhold",
    )
    model: str = _option(_instance(str, "the name of a model"), "")
    session: str = _option(_instance(str, "a string"), "")
    policy: "Mode | Policy | None" = _option(
        _or_none(_either(_choice(MODES), _with_members(POLICY_MEMBERS, "a mode or a Policy")))
    )
    rules: "tuple[Rule, ...]" = _option(_rules, ())
    settings: bool | Place = _option(_settings, default=True)
    approver: "Approver | None" = _option(_or_none(_callable))
    matching: Matching | None = _option(_or_none(_choice(get_args(Matching))))
    hints: bool | None = _option(_or_none(_instance(bool, "True or False")))
    check_syntax: bool = _option(_instance(bool, "True or False"), default=True)
    checkers: "tuple[Checker, ...]" = _option(_checkers, ())
    refuse_broken: Breakage | None = _option(_or_none(_choice(BREAKAGES)))
    shell: Confinement = _option(_choice(CONFINEMENTS), "contained")
    network: bool | tuple[str, ...] = _option(_network, default=False)
    credentials: tuple[str, ...] = _option(_credentials, ())
    secrets: Secrets | None = _option(_or_none(_choice(SECRETS)))
    unredacted: tuple[str, ...] = _option(_rule_names, ())
    hidden: tuple[str, ...] = _option(lambda value: tuple(abspath(place) for place in _paths(value)), ())
    memory: int | None = _option(_or_none(_count))
    processes: int | None = _option(_or_none(_count))
    tracing: bool = _option(_instance(bool, "True or False"), default=False)
    search_seconds: float | None = _option(_or_none(_seconds))
    searcher: "Searcher | None" = _option(_or_none(_with_members(("search",), "a Searcher")))
    converter: "Converter | None" = _option(_or_none(_with_members(("convert",), "a Converter")))
    hub: str | None = _option(_or_none(_hub))
    durable: Durability = _option(_choice(DURABILITIES), "local")

    def __init__(self, **given: Any) -> None:
        """TypeError or ValueError names the first keyword that is unknown or has a wrong value."""
        refuse_unknown(given, OPTION_NAMES)
        for each in fields(self):
            value = _check(each.name, given[each.name], each.metadata["check"]) if each.name in given else each.default
            object.__setattr__(self, each.name, value)
        if self.refuse_broken and not self.check_syntax:
            raise ValueError("refuse_broken needs check_syntax")
        if self.custom_policy is not None and (self.rules or self.secrets or given.get("settings")):
            raise ValueError("a Policy object replaces rules, settings and secrets: give it without them")
        if self.durable == "hub" and not self.hub:
            raise ValueError('durable="hub" needs hub="https://…"')

    @property
    def custom_policy(self) -> "Policy | None":
        """The policy if it is an object; None if it is a mode or not given."""
        return None if self.policy is None or isinstance(self.policy, str) else self.policy

    @property
    def mode(self) -> Mode | None:
        return self.policy if isinstance(self.policy, str) else None


OPTION_NAMES = tuple(each.name for each in fields(ToolboxConfig))


def _check(name: str, value: object, check: OptionCheck) -> Any:
    try:
        return check(value)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        shown = repr(value)
        raise kind(f"{name} must be {error} (got {shown if len(shown) <= 80 else f'{shown[:80]}…'})") from None
