"""The output of commands while a review page is open: written as it arrives, with its colours, and kept for a while."""

import os
from collections.abc import Callable
from pathlib import Path

from handhold.backends.state.state_folder import ensure_private_folder
from handhold.logs import log_swallowed

FOLDER = "live"
MAX_OUTPUT_BYTES = 4 * 1024**2  # of one command; the rest is in the reply, or where the reply says
MAX_FILES = 200
MAX_READ_BYTES = 256 * 1024
CUT_NOTE = "\n[Handhold: more output was not recorded here]\n"


class LiveOutput:
    """Without a folder, nothing is recorded."""

    def __init__(self, state: Path | None) -> None:
        self._folder = None if state is None else state / FOLDER

    def record(self, seq: int, watch: Callable[[str], None] | None) -> Callable[[str], None]:
        """A watcher that records what it gets, and passes it on."""
        if self._folder is None:
            return watch or (lambda _: None)
        ensure_private_folder(self._folder)
        self._remove_old()
        return OutputRecorder(self._folder / str(seq), watch).add

    def read(self, seq: int, offset: int) -> tuple[bytes, int] | None:
        """A part of the output, cut before an incomplete character, and where it ends."""
        if self._folder is None:
            return None
        try:
            fd = os.open(self._folder / str(seq), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
        try:
            data = os.pread(fd, MAX_READ_BYTES, max(0, offset))
        finally:
            os.close(fd)
        whole = data.decode(errors="ignore").encode() if len(data) == MAX_READ_BYTES else data
        return whole, max(0, offset) + len(whole)

    def measure(self, seq: int) -> int:
        try:
            return 0 if self._folder is None else (self._folder / str(seq)).stat().st_size
        except FileNotFoundError:
            return 0

    def _remove_old(self) -> None:
        assert self._folder
        names = sorted((name for name in os.listdir(self._folder) if name.isdecimal()), key=int)
        for name in names[: max(0, len(names) - MAX_FILES + 1)]:
            (self._folder / name).unlink(missing_ok=True)


class OutputRecorder:
    def __init__(self, file: Path, watch: Callable[[str], None] | None) -> None:
        self._file = file
        self._watch = watch
        self._room = MAX_OUTPUT_BYTES

    def add(self, text: str) -> None:
        if self._watch:
            self._watch(text)
        if self._room <= 0:
            return
        data = text.encode("utf-8", "replace")
        self._room -= len(data)
        if self._room <= 0:
            data = data[: self._room] + CUT_NOTE.encode()
        try:  # a command does not fail because nobody can watch it
            fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, data)
            finally:
                os.close(fd)
        except OSError:
            log_swallowed()
            self._room = 0
