"""Log records under `handhold`, by module: swallowed errors at DEBUG, waiting at INFO, each degraded promise once at
WARNING.

`logging` is imported only for a warning. The other records need a handler, and whoever made one has imported it.
"""

import sys
from types import TracebackType

# Usually not an error at all: a file or a process that no longer exists.
ORDINARY = (FileNotFoundError, NotADirectoryError, ProcessLookupError)
_warned: set[str] = set()


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
    logger.debug("%s ignored %s: %s", caller.f_code.co_name, type(error).__name__, error, exc_info=error, stacklevel=3)


def log_wait(message: str) -> None:
    if (logging := sys.modules.get("logging")) is not None:
        logging.getLogger("handhold.locks").info("%s", message)


def warn_once(area: str, message: str) -> None:
    """A promise that does not hold here, such as a sandbox. Without a handler it goes to standard error."""
    if message not in _warned:
        _warned.add(message)
        from logging import getLogger

        getLogger(f"handhold.{area}").warning("%s", message)
