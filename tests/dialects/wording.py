"""Every error with facts in it, for tests that ask whether a dialect has words for it."""

from collections.abc import Iterator
from typing import Any, get_origin, get_type_hints

from handhold.core.errors import PathError, ToolError

FACTS: dict[Any, Any] = {str: "x", int: 3, float: 2.5, bool: False}


def kinds(base: type[ToolError] = ToolError) -> Iterator[type[ToolError]]:
    for kind in base.__subclasses__():
        if kind is not PathError:
            yield kind
        yield from kinds(kind)


def example(kind: type[ToolError]) -> ToolError:
    def fact(annotation: Any) -> Any:
        if get_origin(annotation) is tuple:
            return ()
        return FACTS.get(annotation)

    hints = get_type_hints(kind)
    return kind(**{name: fact(hints[name]) for name in kind.fields})
