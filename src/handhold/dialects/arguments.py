"""Arguments as models send them, made to fit the schema of their tool.

A clear intention is repaired: a number in quotes, an array sent as JSON, a name that another tool family
uses. What could mean two things is refused, with what was expected.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from handhold.core.errors import BadArguments, UnknownTool
from handhold.core.results import ToolSpec
from handhold.core.text.lines import merge_ranges
from handhold.dialects.formatting import pluralize

SYNONYMS: tuple[frozenset[str], ...] = (
    frozenset({"filepath", "path", "file", "filename", "absolutepath", "targetfile", "directory", "dir", "folder"})
    | {"dirpath", "directorypath", "notebookpath"},
    frozenset({"oldstring", "oldstr", "oldtext", "old", "search"}),
    frozenset({"newstring", "newstr", "newtext", "new", "replace", "replacement"}),
    frozenset({"replaceall", "all", "every", "global"}),
    frozenset({"content", "contents", "text", "filetext", "filecontent"}),
    frozenset({"offset", "startline", "line", "start"}),
    frozenset({"limit", "maxlines", "numlines", "linecount", "headlimit", "maxresults", "maxcount"}),
    frozenset({"edits", "changes", "operations", "replacements"}),
    frozenset({"cell", "cellid"}),
    frozenset({"source", "newsource"}),
    frozenset({"kind", "celltype"}),
    frozenset({"patch", "input", "patchtext", "diff"}),
    frozenset({"command", "cmd"}),
    frozenset({"workdir", "cwd", "workingdirectory"}),
    frozenset({"pattern", "query", "searchpattern", "globpattern"}),
    frozenset({"glob", "include", "includepattern", "filepattern"}),
    frozenset({"mode", "outputmode"}),
    frozenset({"ignorecase", "caseinsensitive", "i"}),
    frozenset({"before", "beforecontext", "contextbefore", "b"}),
    frozenset({"after", "aftercontext", "contextafter", "a"}),
    frozenset({"c", "context", "contextlines"}),
    frozenset({"depth", "maxdepth"}),
    frozenset({"hidden", "includehidden", "showhidden"}),
    frozenset({"ignored", "includeignored", "noignore"}),
    frozenset({"viewrange", "linerange", "range"}),
    frozenset({"insertline", "afterline"}),
    frozenset({"inserttext", "insertion"}),
)
"""Names that tool families give to the same argument, without case and underscores."""

MISSING, UNKNOWN_ARGUMENT = "missing", "not an argument of this tool"  # what is got where there is no value

_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*")|,(\s*[\]}])', re.DOTALL)
_INTEGER = re.compile(r"[+-]?\d{1,18}(\.0*)?")
_PAGE_RANGE = re.compile(r"(\d{1,9})(?:\s*[-–]\s*(\d{1,9}))?")
_DECIMAL = re.compile(r"[+-]?\d{1,18}(\.\d*)?")


def parse_lenient_json(text: str) -> Any:
    """Parse JSON as models write it: with commas before a closing bracket and bare newlines in strings. ValueError if it is not JSON."""
    try:
        return json.loads(text, strict=False)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except ValueError:
        return json.loads(_TRAILING_COMMA.sub(lambda found: found[1] or found[2], text), strict=False)


# --- one value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_array(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _coerce_nothing(value: Any) -> None:  # noqa: ARG001 - nothing else is turned into a string
    return None


def _coerce_integer(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        return int(value.strip().partition(".")[0])
    return None


def _coerce_number(value: Any) -> int | float | None:
    whole = _coerce_integer(value)
    if whole is None and isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        return float(value)
    return whole


def _coerce_boolean(value: Any) -> bool | None:
    return {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None


def _coerce_object(value: Any) -> Any:
    return _from_json(value, Mapping)


def _coerce_array(value: Any) -> Any:
    if isinstance(value, Mapping):
        return [value]  # the only item, sent without its array
    return _from_json(value, list)


def _from_json(value: Any, kind: type) -> Any:
    if not isinstance(value, str):
        return None
    try:
        inner = parse_lenient_json(value)
    except (ValueError, RecursionError):
        return None
    return inner if isinstance(inner, kind) else None


@dataclass(frozen=True)
class JsonType:
    """A JSON type: its name, which values are one, and which can be converted (None: it cannot)."""

    label: str
    matches: Callable[[Any], bool]
    coerce: Callable[[Any], Any]


JSON_TYPES: dict[str, JsonType] = {
    "string": JsonType("a string", lambda value: isinstance(value, str), _coerce_nothing),
    "number": JsonType("a number", _is_number, _coerce_number),
    "integer": JsonType("a whole number", lambda value: _is_number(value) and isinstance(value, int), _coerce_integer),
    "boolean": JsonType("true or false", lambda value: isinstance(value, bool), _coerce_boolean),
    "array": JsonType("an array", is_array, _coerce_array),
    "object": JsonType("an object", lambda value: isinstance(value, Mapping), _coerce_object),
}


def describe_value(value: Any) -> str:
    """A value in a few words, as JSON where it is short."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case str():
            return f'"{value}"' if len(value) <= 60 else f'a string that starts with "{value[:60]}"'
        case _:
            return next(
                (kind.label for kind in JSON_TYPES.values() if kind.matches(value)), f"a {type(value).__name__}"
            )


# --- the whole of them


@dataclass(frozen=True)
class FittedArguments:
    """Arguments that fit their schema, defaults filled in, and what had to be repaired."""

    values: dict[str, Any]
    repairs: tuple[str, ...]


def fit(tool: str, arguments: Any, schema: Mapping[str, Any]) -> FittedArguments:
    fitter = _ArgumentFitter(tool)
    values = fitter.fit_value(arguments, {"type": "object", **schema}, "arguments")
    return FittedArguments(values, tuple(fitter.repairs))


class _ArgumentFitter:
    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.repairs: list[str] = []

    def fit_value(self, value: Any, schema: Mapping[str, Any], name: str) -> Any:
        kind = JSON_TYPES.get(schema.get("type", ""))
        if kind and not kind.matches(value):
            coerced = kind.coerce(value)
            if coerced is None:
                raise BadArguments(self.tool, name, describe_value(value), kind.label)
            self.repairs.append(f"{name}: {describe_value(value)} was taken as {describe_value(coerced)}")
            value = coerced
        if "enum" in schema and value not in schema["enum"]:
            raise BadArguments(self.tool, name, describe_value(value), f"one of {', '.join(map(str, schema['enum']))}")
        if isinstance(value, Mapping):
            return self.fit_object(cast("Mapping[str, Any]", value), schema, name)
        if is_array(value):
            return self.fit_array(value, schema, name)
        return value

    def fit_object(self, given: Mapping[str, Any], schema: Mapping[str, Any], name: str) -> dict[str, Any]:
        known: Mapping[str, Any] = schema.get("properties", {})
        prefix = "" if name == "arguments" else f"{name}."
        required: Sequence[str] = schema.get("required", ())
        out: dict[str, Any] = {}
        for key, value in self.rename_members(given, known, prefix).items():
            if key in known:
                if value is None and key not in required:
                    continue  # many models send null for what they leave out
                out[key] = self.fit_value(value, known[key], prefix + key)
            elif schema.get("additionalProperties", True) is False:
                raise BadArguments(self.tool, prefix + key, UNKNOWN_ARGUMENT, f"one of {', '.join(known)}")
            else:
                out[key] = value
        for key in required:
            if key not in out:
                raise BadArguments(self.tool, prefix + key, MISSING, _describe_expected(known.get(key, {})))
        return {key: part["default"] for key, part in known.items() if "default" in part} | out

    def rename_members(self, given: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> dict[str, Any]:
        """The same members, under the names that the schema uses."""
        out = {str(key): value for key, value in given.items()}
        unknown = [key for key in out if key not in known]
        names = _expand_synonyms(known) if unknown else set[str]()
        for key in unknown:
            if normalize_name(key) not in names:  # one lookup each: there may be many thousands
                continue
            candidates = [own for own in known if _is_same_name(own, key)]
            if len(candidates) == 1 and candidates[0] not in out:
                out[candidates[0]] = out.pop(key)
                self.repairs.append(f"{prefix}{key} was taken as {candidates[0]}")
        return out

    def fit_array(self, given: Sequence[Any], schema: Mapping[str, Any], name: str) -> list[Any]:
        min_items = schema.get("minItems", 0)
        if len(given) < min_items:
            raise BadArguments(
                self.tool, name, pluralize(len(given), "item"), f"an array of at least {pluralize(min_items, 'item')}"
            )
        return [self.fit_value(item, schema.get("items", {}), f"{name}[{n}]") for n, item in enumerate(given)]


def _describe_expected(schema: Mapping[str, Any]) -> str:
    kind = JSON_TYPES.get(schema.get("type", ""))
    return kind.label if kind else "a value"


def _expand_synonyms(known: Iterable[str]) -> set[str]:
    """All names that `_is_same_name` takes for one of them, normalized."""
    own = {normalize_name(name) for name in known}
    return own.union(*(names for names in SYNONYMS if not own.isdisjoint(names)))


def _is_same_name(own: str, sent: str) -> bool:
    mine, theirs = normalize_name(own), normalize_name(sent)
    return mine == theirs or any(mine in names and theirs in names for names in SYNONYMS)


def normalize_name(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def get_count(
    tool: str, values: Mapping[str, Any], name: str, *, minimum: int = 1, maximum: int | None = None
) -> int | None:
    """A number of lines or files, None if it was not given. BadArguments outside `minimum` and `maximum`."""
    value = values.get(name)
    if value is None:
        return None
    whole = _coerce_integer(value) if isinstance(value, float) else value
    if whole is None or whole < minimum or (maximum is not None and whole > maximum):
        wanted = f"of at least {minimum}" if maximum is None else f"from {minimum} to {maximum}"
        raise BadArguments(tool, name, describe_value(value), f"a whole number {wanted}")
    return whole


def get_first_line(tool: str, values: Mapping[str, Any]) -> int | None:
    """The line to start at, None if it was not given. 0 means the first line too: some families count from there."""
    offset = get_count(tool, values, "offset", minimum=0)
    return 1 if offset == 0 else offset


def get_page_ranges(tool: str, values: Mapping[str, Any], name: str, *, max_pages: int) -> tuple[tuple[int, int], ...]:
    """Pages as people write them, "2-4,7": the first and last page of each run, sorted and merged. BadArguments over `max_pages`."""
    text = str(values.get(name, "")).strip()
    if not text:
        return ()
    runs: list[tuple[int, int]] = []
    for part in text.split(","):
        run = _PAGE_RANGE.fullmatch(part.strip())
        first, last = (int(run[1]), int(run[2] or run[1])) if run else (0, 0)
        if not 0 < first <= last:
            raise BadArguments(tool, name, describe_value(text), 'pages such as "3", "1-5" or "2-4,7"')
        runs.append((first, last))
    joined = merge_ranges(runs)
    count = sum(last - first + 1 for first, last in joined)
    if count > max_pages:
        raise BadArguments(tool, name, f"{count:,} pages", f"at most {max_pages} pages in one call")
    return joined


def get_seconds(
    tool: str, values: Mapping[str, Any], name: str, *, default: float, maximum: float, unit: float = 1
) -> float:
    """A time limit in seconds; it is given in units of `unit` seconds."""
    value = values.get(name)
    if value is None:
        return default
    if not 0 < value * unit <= maximum:
        name_of_unit = "seconds" if unit == 1 else "milliseconds"
        wanted = "more than 0" if value <= 0 else f"at most {maximum / unit:.0f}"
        raise BadArguments(tool, name, describe_value(value), f"{wanted} {name_of_unit}")
    return value * unit


class Specs:
    """The tools of one dialect, loaded from the `specs.json` next to its module on first use."""

    def __init__(self, file: str) -> None:
        self.file = file

    @cached_property
    def tools(self) -> tuple[ToolSpec, ...]:
        rows = json.loads(Path(self.file).with_name("specs.json").read_text("utf-8"))
        return tuple(ToolSpec(**row) for row in rows)

    def fit(self, tool: str, arguments: Any) -> FittedArguments:
        return fit(tool, arguments, self.get_schema(tool))

    def get_schema(self, tool: str) -> Mapping[str, Any]:
        for spec in self.tools:
            if spec.name == tool:
                return spec.input_schema
        raise UnknownTool(tool, tuple(spec.name for spec in self.tools))
