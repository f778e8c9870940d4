"""The options of a toolbox, checked before anything is opened: an unknown name or a wrong value is refused.

One table says of each option what it may be. To add an option, add a line.
"""

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from os import PathLike, fspath
from os.path import abspath
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, cast, get_args

from handhold.core.choices import CONFINEMENTS, DIALECTS, MODES, SECRETS, Confinement, Matching, Mode, Secrets
from handhold.core.text.suggestions import suggest

if TYPE_CHECKING:
    from handhold.core.policy.rules import Rule
    from handhold.core.ports.approvals import Approver
    from handhold.core.ports.conversion import Converter
    from handhold.core.ports.dialect import Dialect
    from handhold.core.ports.policy import Policy
    from handhold.core.ports.search import Searcher

Place = str | PathLike[str]

OptionCheck = Callable[[Any], Any]  # the value as it is used; TypeError or ValueError says what it must be
POLICY_MEMBERS = ("name", "decide", "decide_command", "allows_hosts", "has_rule_for")
DIALECT_MEMBERS = ("name", "options", "specs", "instructions", "decode_and_repair", "encode", "refuse", "frame")


class Options(TypedDict, total=False):
    """What a user may say about a toolbox besides where it works."""

    dialect: "str | Dialect"  # by name, "auto" for the one that `model` knows best, or one of your own
    model: str
    session: str
    policy: "Mode | Policy | None"
    rules: "Rule | Sequence[Rule]"
    settings: bool | Place  # whether to read the user's file and the roots' own, or which file instead of the user's
    approver: "Approver | None"
    matching: Matching | None
    hints: bool | None
    shell: Confinement
    network: bool | str | Sequence[str]  # whether commands have one, or the hosts that they may reach
    secrets: Secrets | None  # whether commands may use files that the built-in secret rules name
    hidden: Place | Sequence[Place]  # folders besides the usual ones that commands do not see
    memory: int | None  # bytes that a command may take
    processes: int | None  # that a command may have at once
    tracing: bool  # whether a command may trace its own processes: strace, gdb
    search_seconds: float | None
    searcher: "Searcher | None"
    converter: "Converter | None"


def check_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The same options, each as it is used. TypeError or ValueError names the first one that cannot be taken."""
    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in CHECKS:
            raise TypeError(f"unknown option {name!r}. {suggest(name, CHECKS)}")
        try:
            checked[name] = CHECKS[name](value)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{name} must be {error} (got {_shorten(value)})") from None
    return checked


def _shorten(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"


# --- what a value may be


def _instance(kind: type | tuple[type, ...], wanted: str) -> OptionCheck:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(wanted)
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
    except Exception:  # noqa: BLE001 — it has one that fails; whoever uses it says so
        return True


def _either(texts: OptionCheck, objects: OptionCheck) -> OptionCheck:
    return lambda value: (texts if isinstance(value, str) else objects)(value)


def _or_none(check: OptionCheck) -> OptionCheck:
    return lambda value: None if value is None else check(value)


def _path(value: Any) -> Any:
    given = cast(object, fspath(value)) if isinstance(value, str | PathLike) else None  # pyright: ignore[reportUnknownArgumentType]
    if not isinstance(given, str):
        raise TypeError("a path, as a text or a pathlib.Path")
    if not given:
        raise ValueError("a path that is not empty")
    return cast(Any, value)


def _paths(value: Any) -> tuple[Any, ...]:
    return _each(value, _path, "a path or a list of paths", (str, PathLike))


def _each(value: Any, check: OptionCheck, wanted: str, single: type | tuple[type, ...]) -> tuple[Any, ...]:
    """A list, or one alone: a text is never taken letter by letter."""
    if isinstance(value, single):
        return (check(value),)
    if isinstance(value, bytes | Mapping) or not hasattr(value, "__iter__"):
        raise TypeError(wanted)
    return tuple(map(check, value))  # pyright: ignore[reportUnknownArgumentType]


def _roots(value: Any) -> tuple[Any, ...]:
    roots = _paths(value)
    if not roots:
        raise ValueError("one folder at least")
    return roots


def _network(value: Any) -> bool | tuple[str, ...]:
    return value if isinstance(value, bool) else _each(value, _host, "True, False, or names of hosts", str)


def _host(value: Any) -> str:
    from handhold.core.policy.hosts import BadHost, HostPattern

    if not isinstance(value, str):
        raise TypeError("True, False, or names of hosts")
    try:
        HostPattern.parse(value)
    except BadHost as bad:
        raise ValueError(f"True, False, or names of hosts such as example.org; {value!r} is not one: {bad}") from None
    return value


def _rules(value: Any) -> tuple[Any, ...]:
    if type(value) is tuple and not value:  # a server checks this before it answers: import nothing for it
        return ()
    from handhold.core.policy.rules import Rule

    return _each(value, _instance(Rule, "a list of handhold.Rule"), "a list of handhold.Rule", Rule)


def _encodings(value: Any) -> Any:
    pairs = cast(Mapping[Any, Any], value).items() if isinstance(value, Mapping) else [(None, None)]
    if not all(isinstance(each, str) for pair in pairs for each in pair):
        raise TypeError('encodings by pattern, such as {"*.txt": "cp1251"}')
    return cast(Any, value)


def _refuse(wanted: str) -> NoReturn:
    raise TypeError(wanted)


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


def _callable(value: Any) -> Any:
    return value if callable(value) else _refuse("a function that takes a Question")


CHECKS: dict[str, OptionCheck] = {
    "root": _roots,
    "state": _or_none(_path),
    "read_only": _paths,
    "encodings": _or_none(_encodings),
    "undo_bytes": _or_none(_count),
    "dialect": _either(
        _choice((*DIALECTS, "auto")), _with_members(DIALECT_MEMBERS, "the name of a dialect or a Dialect")
    ),
    "model": _instance(str, "the name of a model"),
    "session": _instance(str, "a text"),
    "policy": _or_none(_either(_choice(MODES), _with_members(POLICY_MEMBERS, "a mode or a Policy"))),
    "rules": _rules,
    "settings": lambda value: value if isinstance(value, bool) else _path(value),
    "approver": _or_none(_callable),
    "matching": _or_none(_choice(get_args(Matching))),
    "hints": _or_none(_instance(bool, "True or False")),
    "shell": _choice(CONFINEMENTS),
    "network": _network,
    "secrets": _or_none(_choice(SECRETS)),
    "hidden": lambda value: tuple(abspath(place) for place in _paths(value)),
    "memory": _or_none(_count),
    "processes": _or_none(_count),
    "tracing": _instance(bool, "True or False"),
    "search_seconds": _or_none(_seconds),
    "searcher": _or_none(_with_members(("search",), "a Searcher")),
    "converter": _or_none(_with_members(("convert",), "a Converter")),
}
