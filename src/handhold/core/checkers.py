"""Checkers: programs that report errors in files, and how their reports are read."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from posixpath import normpath
from typing import Any, cast

from handhold.core.errors import BadGlob
from handhold.core.text.globs import Overrides

FILES_PLACEHOLDER = "{files}"
DEFAULT_TIMEOUT_SECONDS = 30.0

# a.py:3:7: message; a.ts(3,7): message; /ws/a.py:3:7 - message. Some indent it, or put the program's name in front.
_REPORT_LINE = re.compile(
    r"^\s*(?:vet: |error: )?(?P<path>[^\s:()\d][^:()\n]*?|\d[^:()\n]*\.\w+)"
    r"(?::(?P<line>\d+)(?::(?P<column>\d+))?|\((?P<l>\d+),(?P<c>\d+)\))(?: -|:) *(?P<message>\S.*)$"
)
_NO_ERROR = re.compile(r"(?:note|info|information|help|hint)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Checker:
    """A program to run on files that a change touched.

    name: what replies call it.
    globs: the files it is for, such as "*.py".
    command: run by bash in the first root, in the sandbox; whatever it changes is discarded. It prints
        `file:line:column: message` for each error, or SARIF. {files} becomes the changed files.
    timeout_seconds: how long it may take; then its report is not used.
    """

    name: str
    globs: tuple[str, ...]
    command: str
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS

    def __post_init__(self) -> None:
        if not (self.name and self.command and self.globs) or isinstance(cast(object, self.globs), str):
            raise ValueError("a checker needs a name, a list of globs and a command")
        if not self.timeout_seconds > 0:
            raise ValueError(f"checker {self.name!r}: timeout_seconds must be above 0")
        try:
            _compile_globs(self.globs)
        except BadGlob as bad:
            raise ValueError(f"checker {self.name!r}: {bad.pattern!r} is not a glob: {bad.because}") from None

    def matches(self, path: str) -> bool:
        """Whether it is for this file; the path is relative to the first root."""
        name = path.rpartition("/")[2]
        found = _compile_globs(self.globs).decide(_to_bytes(path), _to_bytes(name), directory=False)
        return found is True


@dataclass(frozen=True)
class Report:
    """One error that a checker printed. The path is relative to the first root, or absolute."""

    path: str
    line: int
    column: int
    message: str


def parse_reports(output: str, root: str) -> list[Report]:
    text = output.strip()
    reports = _parse_sarif(text) if text.startswith("{") else None
    found = _parse_lines(text) if reports is None else reports
    return [Report(_to_relative(each.path, root), each.line, each.column, each.message) for each in found]


def _parse_lines(text: str) -> Iterator[Report]:
    for line in text.splitlines():
        found = _REPORT_LINE.match(line)
        if found and not _NO_ERROR.match(found["message"]):
            number, column = found["line"] or found["l"], found["column"] or found["c"] or 0
            yield Report(found["path"], int(number), int(column), found["message"])


def _parse_sarif(text: str) -> list[Report] | None:
    """The errors and warnings of a SARIF log; None if it is not one."""
    try:
        log = json.loads(text)
        runs: Sequence[Any] = log["runs"]
        return [report for run in runs for each in run.get("results") or () for report in _parse_sarif_result(each)]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _parse_sarif_result(result: Mapping[str, Any]) -> Iterator[Report]:
    if result.get("level", "warning") in ("none", "note"):
        return
    for location in (result.get("locations") or ())[:1]:
        place = location["physicalLocation"]
        region = place.get("region", {})
        path = _decode_uri(str(place["artifactLocation"]["uri"])).removeprefix("file://")
        rule = f"{result['ruleId']} " if result.get("ruleId") else ""
        message = f"{rule}{result['message'].get('text', '')}".strip().partition("\n")[0]
        yield Report(path, int(region.get("startLine", 1)), int(region.get("startColumn", 0)), message)


def _decode_uri(uri: str) -> str:
    return re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes.fromhex(found[1].decode()), uri.encode()).decode(
        errors="replace"
    )


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@lru_cache(maxsize=64)
def _compile_globs(globs: tuple[str, ...]) -> Overrides:
    return Overrides(globs)


def _to_relative(path: str, root: str) -> str:
    return normpath(path).removeprefix(f"{root.rstrip('/')}/")
