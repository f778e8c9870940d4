"""Signals of a command that runs another one: passed on to it, and its end becomes ours."""

import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
SignalHandler = Callable[[int, FrameType | None], None] | signal.Handlers


@contextmanager
def handle_signals(handlers: Mapping[signal.Signals, SignalHandler]) -> Generator[None]:
    """Handle these signals inside the block, except those that we ignore: then the command shall ignore them too."""
    chosen = {each: handler for each, handler in handlers.items() if signal.getsignal(each) != signal.SIG_IGN}
    before = {number: signal.signal(number, handler) for number, handler in chosen.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def exit_like(status: int) -> NoReturn:
    """End as the command ended: with its exit status, or by the same signal, whose number is then negative."""
    if status < 0:
        with suppress(OSError):  # nobody handles SIGKILL
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
        status = 128 - status  # a signal that does not end us
    sys.exit(status)
