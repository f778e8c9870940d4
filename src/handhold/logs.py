"""Log records under `handhold`, by module: swallowed errors at DEBUG, waiting at INFO, each degraded promise once at
WARNING.

`logging` is imported only for a warning. The other records need a handler, and whoever made one has imported it.
Secret values that a session knows are redacted in all of them, and in their tracebacks.
"""

import sys
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

if TYPE_CHECKING:
    from logging import Logger


class TextRedaction(Protocol):
    """What replaces secret values in a text."""

    def redact(self, text: str) -> str: ...


# Usually not an error at all: a file or a process that no longer exists.
ORDINARY = (FileNotFoundError, NotADirectoryError, ProcessLookupError)
_warned: set[str] = set()
_redactions: WeakSet[TextRedaction] = WeakSet()
_redactions_lock = Lock()


def redact_with(redaction: TextRedaction) -> None:
    """Redact log records with this one, too, as long as somebody else uses it."""
    with _redactions_lock:
        _redactions.add(redaction)


def log_swallowed() -> None:
    """Call it in an `except` block that does not raise again."""
    if (error := sys.exception()) is not None:
        _log_debug(error)


class suppress_and_log:  # noqa: N801 - as contextlib.suppress
    """`contextlib.suppress` with a log record."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, self._kinds):
            return False
        _log_debug(error)
        return True


def _log_debug(error: BaseException) -> None:
    logging = sys.modules.get("logging")
    if logging is None or isinstance(error, ORDINARY):
        return
    caller = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    logger = logging.getLogger(caller.f_globals["__name__"])
    if logger.isEnabledFor(logging.DEBUG):
        _log(logger, logging.DEBUG, f"{caller.f_code.co_name} ignored {type(error).__name__}: {error}", error, 4)


def _log(logger: "Logger", level: int, message: str, error: BaseException | None = None, stacklevel: int = 3) -> None:
    from traceback import format_exception  # it imports more than most processes ever need

    trace = "".join(format_exception(error)) if error else ""
    if (redacted := _redact(trace)) != trace:
        message, error = f"{message}\n{redacted}", None  # a handler would write out the error itself
    logger.log(level, "%s", _redact(message), exc_info=error, stacklevel=stacklevel)


def _redact(text: str) -> str:
    with _redactions_lock:
        redactions = list(_redactions)
    for each in redactions:
        text = each.redact(text)
    return text


def log_wait(message: str) -> None:
    if (logging := sys.modules.get("logging")) is not None:
        _log(logging.getLogger("handhold.locks"), logging.INFO, message)


def log_error(area: str, message: str, error: BaseException | None = None) -> None:
    """A failure of the user's own code, such as a policy or an approver."""
    import logging

    _log(logging.getLogger(f"handhold.{area}"), logging.ERROR, message, error)


def warn_once(area: str, message: str) -> None:
    """A promise that does not hold here, such as a sandbox. Without a handler it goes to standard error."""
    if message not in _warned:
        _warned.add(message)
        import logging

        _log(logging.getLogger(f"handhold.{area}"), logging.WARNING, message)
