"""Answers a broker that asks, before each change, whether a path is locked.

Only for commands whose changes stay at once, in the background or by request: nothing reviews them afterwards.
"""

import os
import socket
from threading import Thread

from handhold.backends.shell.sandbox_layout import WriteProtection
from handhold.logs import log_swallowed, suppress_and_log

MAX_QUESTION_BYTES = 32 * 1024
ALLOWED, REFUSED = b"y", b"n"


class PolicyAnswers:
    """Answers one broker until it is closed. Without an answer, the broker refuses."""

    def __init__(self, channel: socket.socket, protection: WriteProtection) -> None:
        self._channel = channel
        self._is_locked = protection.is_write_protected
        self._thread = Thread(target=self._serve, name="handhold-policy", daemon=True)
        self._thread.start()

    def close(self) -> None:
        with suppress_and_log(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._channel.close()

    def _serve(self) -> None:
        with suppress_and_log(OSError):
            while question := self._channel.recv(MAX_QUESTION_BYTES):
                self._channel.send(ALLOWED if self._is_allowed(question) else REFUSED)

    def _is_allowed(self, question: bytes) -> bool:
        """A question is the kind, a path, and for a move the new path."""
        first, _, second = os.fsdecode(question[1:]).partition("\0")
        is_folder = question[:1] == b"d"
        try:
            if any(self._is_locked(path, is_folder) for path in (first, second) if path):
                return False
            return not (is_folder and second) or not self._has_locked_entry(first, second)
        except Exception:  # noqa: BLE001 — the command is waiting, and a bug of ours must not allow its change
            log_swallowed()
            return False

    def _has_locked_entry(self, folder: str, target: str) -> bool:
        """Whether anything in a folder that moves is locked at its old or at its new place."""

        def fail(error: OSError) -> None:
            raise error

        for above, folders, files in os.walk(folder, onerror=fail):
            for names, below in ((folders, True), (files, False)):
                for name in names:
                    place = f"{above}/{name}"
                    if self._is_locked(place, below) or self._is_locked(target + place.removeprefix(folder), below):
                        return True
        return False
