"""What is redacted before it reaches a reply, the journal or a watcher: known secret values, and well-known tokens.

Applied to what commands print, to search hits and to errors. What file tools read or edit, and diffs, are not altered.
"""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from time import monotonic
from typing import Any, cast

from handhold.core.facts import Page, PageLine
from handhold.core.results import ReadManyResult, Result, TextResult
from handhold.core.text.redaction import Redaction, can_contain_secret
from handhold.core.text.secrets import Secret, find_secrets
from handhold.core.text.token_rules import ENVIRONMENT_RULE, MAX_KEY_CHARS, MAX_KEY_LINES, make_token_redactor
from handhold.logs import redact_with
from handhold.pipeline.secret_files import SecretFiles

KNOWN_ONLY = float("-inf")  # as `since`: what is known is enough


def find_environment_secrets(environment: Mapping[str, str] = os.environ) -> tuple[Secret, ...]:
    """The values of our own environment whose names or shapes say that they are secret."""
    found = (
        secret for name, value in environment.items() for secret in find_secrets(_to_bytes(f"{name}={value}"), name)
    )
    return tuple({secret.value: secret for secret in found}.values())


class OutputRedaction:
    """What one session redacts. The secret files are those of the workspace."""

    def __init__(self, get_secret_files: Callable[[], SecretFiles], unredacted: Collection[str] = ()) -> None:
        self._get_secret_files = get_secret_files
        self._environment = () if ENVIRONMENT_RULE in unredacted else find_environment_secrets()
        self._redact_tokens = make_token_redactor(unredacted)
        self._values = _make_redaction(self._environment)
        self._known = 0  # secrets of files that are in it

    def add_password(self, host: str, password: str) -> None:
        """Redact a password that commands may use from now on."""
        if password not in {each.value for each in self._environment}:
            self._environment = (*self._environment, Secret(f"password for {host}", password))
            self._values, self._known = _make_redaction(self._environment), 0

    def get_values(self, *, searching: bool = False, since: float | None = None) -> Redaction | None:
        """The known secret values, for a stream of output."""
        secret_files = self._get_secret_files()
        of_files = secret_files.redaction(searching=searching, since=since)
        if of_files:
            redact_with(of_files)
        if not self._environment or not of_files:
            return of_files or self._values or None
        secrets = secret_files.known_secrets
        if len(secrets) != self._known:
            self._values, self._known = _make_redaction((*secrets, *self._environment)), len(secrets)
        return self._values

    def make_redactor(self, since: float | None = None, *, searching: bool = False) -> Callable[[str], str]:
        """A function that redacts texts. It looks for secret files if a text could have some, once after `since`."""
        since = monotonic() if since is None else since

        def redact(text: str) -> str:
            if not can_contain_secret(text.encode("utf-8", "surrogatepass")):
                return text
            values = self.get_values(searching=searching, since=since)
            return self._redact_tokens(values.redact(text) if values else text)

        return redact

    def redact_tokens(self, text: str) -> str:
        """Well-known tokens only: known values were replaced when the text was collected."""
        return self._redact_tokens(text)

    def redact_page(self, result: Result, read_page: Callable[[str, int, int, int], Page]) -> Result:
        """A page of a kept output: its file has no known values, but well-known tokens are only looked for here.

        They may begin before the page, and end where its lines are cut.
        """
        match result:
            case TextResult(path=path, first=first, lines=lines) if lines:
                before = min(first - 1, MAX_KEY_LINES)
                width = max(len(line.text) for line in lines) + MAX_KEY_CHARS
                whole = read_page(path, first - before, before + len(lines), width).lines
                redacted = self._redact_tokens("\n".join(line.text for line in whole)).split("\n")
                shown = map(_redact_line, lines, whole[before:], redacted[before:])
                return replace(result, lines=tuple(shown))
            case ReadManyResult(files=files):
                pages = (self.redact_page(each, read_page) if isinstance(each, TextResult) else each for each in files)
                return ReadManyResult(tuple(pages))  # pyright: ignore[reportArgumentType]
            case _:
                return result


def _redact_line(shown: PageLine, whole: PageLine, redacted: str) -> PageLine:
    if redacted == whole.text:
        return shown
    text = redacted[: len(shown.text)] if shown.omitted_chars else redacted
    return PageLine(text, len(redacted) - len(text) + whole.omitted_chars)


@lru_cache(maxsize=16)
def _make_redaction(secrets: tuple[Secret, ...]) -> Redaction:
    """One for all sessions with the same secrets."""
    made = Redaction(secrets)
    redact_with(made)
    return made


def redact_facts(value: Any, redact: Callable[[str], str]) -> Any:
    """The same JSON value with all its texts redacted."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: redact_facts(each, redact) for name, each in cast(Mapping[str, Any], value).items()}
    if isinstance(value, list | tuple):
        return [redact_facts(each, redact) for each in cast(Sequence[Any], value)]
    return value


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
