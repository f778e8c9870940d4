"""Answers a broker that asks, before each change, whether a path is locked.

For commands whose changes stay at once, in the background or by request: nothing reviews them afterwards. For others
only if a rule denies changes: those do not happen even for the time until the command is rolled back.
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
                locked = self._find_locked(question)
                self._channel.send(ALLOWED if not locked else REFUSED + os.fsencode(locked))

    def _find_locked(self, question: bytes) -> str:
        """A locked path. A question is the kind, a path, and for a move the new path."""
        first, _, second = os.fsdecode(question[1:]).partition("\0")
        is_folder = question[:1] == b"d"
        try:
            for path in (first, second):
                if path and self._is_locked(path, is_folder):
                    return path
            return self._find_locked_entry(first, second) if is_folder and second else ""
        except Exception:  # noqa: BLE001 — the command is waiting, and a bug of ours must not allow its change
            log_swallowed()
            return first

    def _find_locked_entry(self, folder: str, target: str) -> str:
        """Something in a folder that moves that is locked at its old or at its new place."""

        def fail(error: OSError) -> None:
            raise error

        for above, folders, files in os.walk(folder, onerror=fail):
            for names, below in ((folders, True), (files, False)):
                for name in names:
                    place = f"{above}/{name}"
                    for path in (place, target + place.removeprefix(folder)):
                        if self._is_locked(path, below):
                            return path
        return ""
