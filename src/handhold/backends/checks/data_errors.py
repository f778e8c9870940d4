"""Syntax errors in JSON, TOML and YAML, by their parsers."""

import re
import tomllib
from importlib.util import find_spec
from json import JSONDecodeError, loads
from typing import Any, cast

from handhold.core.ports.checks import TextError
from handhold.core.text.json_spans import BadJson
from handhold.core.text.jsonc import parse_jsonc

_TOML_POSITION = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)\Z")


def find_json_errors(text: str) -> list[TextError]:
    try:
        loads(text)
    except JSONDecodeError as error:
        return [TextError(error.lineno, error.colno, error.msg)]
    except (RecursionError, ValueError):  # nested too deeply, or a number with too many digits
        return []
    return []


def find_jsonc_errors(text: str) -> list[TextError]:
    """JSON with comments and trailing commas, as editors and compilers allow it in their settings."""
    try:
        parse_jsonc(text)
    except BadJson as error:
        return [TextError(error.line, 0, error.because)]
    except RecursionError:
        return []
    return []


def find_toml_errors(text: str) -> list[TextError]:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = _TOML_POSITION.search(str(error))
        line, column = (int(found[1]), int(found[2])) if found and found[1] else (text.count("\n") + 1, 0)
        return [TextError(line, column, _TOML_POSITION.sub("", str(error)))]
    except RecursionError:
        return []
    return []


def has_yaml_parser() -> bool:
    return find_spec("yaml") is not None


def find_yaml_errors(text: str) -> list[TextError]:
    """Several documents and any tags are allowed: only what cannot be parsed is an error."""
    import yaml

    parse = cast(Any, yaml.parse)  # pyright: ignore[reportUnknownMemberType]
    try:
        for _ in parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            pass
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 0)
        return [TextError(line, column, error.problem or "not valid YAML")]
    except yaml.YAMLError as error:
        return [TextError(1, 0, str(error).partition("\n")[0])]
    except RecursionError:
        return []
    return []
