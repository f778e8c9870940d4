"""Values as JSON and back, by their declared types: how our processes speak to each other.

The type is the schema. Decoding makes only what a type names, with every field checked, so that whoever writes to a
process of ours cannot make it import, call or reach anything. A dataclass in a union carries its name.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

CLASS_KEY = "$"  # the name of a dataclass, among its fields


class NotOfType(ValueError):
    """The JSON is not of the type that was declared."""


def to_json(value: Any) -> Any:
    """A value of declared types as JSON. TypeError for anything that is not data."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    if is_dataclass(value) and not isinstance(value, type):
        kept = {each.name: to_json(getattr(value, each.name)) for each in fields(value) if each.init}
        return {CLASS_KEY: type(value).__name__, **kept}
    if isinstance(value, Mapping):
        return _object_to_json(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple | frozenset | set):
        return [to_json(each) for each in cast("Sequence[Any]", value)]
    raise TypeError(f"{type(value).__name__} is not data")


def _object_to_json(value: Mapping[Any, Any]) -> dict[str, Any]:
    if not all(isinstance(name, str) for name in value):
        raise TypeError("the names of an object are strings")
    return {name: to_json(each) for name, each in value.items()}


def from_json(kind: Any, value: Any) -> Any:
    """The value of a type that this JSON stands for. Raises NotOfType."""
    try:
        return _decode(kind, value)
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise NotOfType(f"expected {getattr(kind, '__name__', kind)}: {error}") from None


def _decode(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        return _decode(_choose(arguments, value), value)
    if origin is Literal:
        if value not in arguments or isinstance(value, bool) not in {isinstance(each, bool) for each in arguments}:
            raise NotOfType(f"{value!r} is none of {arguments}")
        return value
    if kind is NoneType or kind is None:
        return _require(value, NoneType)
    if kind is float:
        return float(_require(value, (int, float)))
    if kind in (str, int, bool):
        return _require(value, kind)
    if kind is bytes:
        return b64decode(_require(value, str), validate=True)
    if origin in (tuple, list, Sequence, frozenset):
        return _decode_items(origin, arguments, _require(value, list))
    if origin in (dict, Mapping):
        items = cast("dict[str, Any]", _require(value, dict)).items()
        return {name: _decode(arguments[1], each) for name, each in items}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(kind, type) and is_dataclass(kind):
        return _decode_dataclass(kind, _require(value, dict))
    if isinstance(kind, type) and issubclass(kind, tuple):  # a NamedTuple
        hints = get_type_hints(cast("type[Any]", kind))
        items = _require(value, list)
        if len(items) != len(hints):
            raise NotOfType(f"{kind.__name__} has {len(hints)} fields")
        return cast(Any, kind)(*(_decode(each, item) for each, item in zip(hints.values(), items, strict=True)))
    raise NotOfType(f"{kind} is no type of messages")


def _require(value: Any, kind: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise NotOfType(f"{type(value).__name__} instead of {kind}")
    return value


def _decode_items(origin: Any, arguments: tuple[Any, ...], items: list[Any]) -> Any:
    if origin is not tuple:
        made = [_decode(arguments[0], each) for each in items]
        return frozenset(made) if origin is frozenset else made
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(_decode(arguments[0], each) for each in items)
    return tuple(_decode(each, item) for each, item in zip(arguments, items, strict=True))


def _decode_dataclass(kind: type, value: dict[str, Any]) -> Any:
    given = dict(value)
    if given.pop(CLASS_KEY, None) != kind.__name__:
        raise NotOfType(f"it is no {kind.__name__}")
    types = field_types(kind)
    if unknown := given.keys() - types.keys():
        raise NotOfType(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**{name: _decode(types[name], each) for name, each in given.items()})


@cache
def field_types(kind: type) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(cast(Any, kind)) if each.init}


def _choose(kinds: Sequence[Any], value: Any) -> Any:
    """The member of a union that the JSON is of: by the name it carries, else the first that it can be."""
    named = cast("dict[str, Any]", value).get(CLASS_KEY) if isinstance(value, dict) else None
    if named is not None:
        for kind in _members(kinds):
            if isinstance(kind, type) and is_dataclass(kind) and kind.__name__ == named:
                return kind
    else:
        for kind in _members(kinds):
            if kind is Any or _fits(kind, value):
                return kind
    raise NotOfType(f"{type(value).__name__} is none of {kinds}")  # pyright: ignore[reportUnknownArgumentType]


def _members(kinds: Sequence[Any]) -> Iterator[Any]:
    for kind in kinds:
        if get_origin(kind) in (Union, UnionType):
            yield from _members(get_args(kind))
        else:
            yield kind


def _fits(kind: Any, value: Any) -> bool:
    if isinstance(kind, type) and is_dataclass(kind):
        return False
    try:
        _decode(kind, value)
    except (TypeError, ValueError):
        return False
    return True
