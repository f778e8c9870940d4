"""Shells on their own folder, and which of their processes are alive."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from secrets import token_hex
from typing import Any, cast

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.shell import SandboxedShell
from handhold.core.errors import NoShell
from handhold.core.policy.protected_names import Protection
from handhold.core.ports.shell import CommandResult, PathGuard
from handhold.core.requests import Run
from tests.backends.files.opening import NoContents

CHARS = 20_000
PATIENCE = 50  # seconds: generous, because the machine may be busy
MODES = ("contained", "brokered", "external")


class NamesOnly:
    """A guard without rules: only protected names are locked."""

    def __init__(self, root: str) -> None:
        self._protection = Protection((root,))

    def judging(self) -> AbstractContextManager[None]:
        return nullcontext()

    def needs_review(self, place: str) -> bool:
        return False

    def is_locked(self, place: str, is_folder: bool) -> bool:
        return self._protection.covers(place)

    def locked_paths(self) -> Sequence[str]:
        return ()

    def masked_paths(self) -> Sequence[str]:
        return ()

    def is_masked(self, place: str) -> bool:
        return False

    def find_denied_changes(self) -> None:
        return None

    def redaction(self) -> None:
        return None

    def redact_tokens(self, text: str) -> str:
        return text


class Bench:
    """A workspace and shells on it."""

    def __init__(self, place: Path, guard: PathGuard | None = None, **options: Any) -> None:
        self.ws = place / "ws"
        self.state = place / "state"
        self.ws.mkdir(exist_ok=True)
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.files = Workspace([self.ws], NoContents(), state=self.state)
        try:
            self.shell = SandboxedShell(
                self.files.open_roots,
                self.files.get_staging_area,
                guard or NamesOnly(str(self.ws)),
                state=self.state,
                **cast("dict[str, Any]", {"session": "s"} | options),
            )
        except NoShell as error:
            self.files.close()
            pytest.skip(f"no shell on this machine: {error.because}")

    def __call__(
        self, command: str, *, seconds: float = 20, watch: Callable[[str], None] | None = None, **options: Any
    ) -> CommandResult:
        """Run a command; its changes to the workspace are discarded."""
        options = {"chars": CHARS} | options
        with self.shell.run(Run(command, seconds, **options), on_output=watch) as finished:
            return finished

    def shows(self, command: str, **options: Any) -> str:
        return self(command, **options).output.head

    def kept(self, handle: str) -> bytes:
        """The offloaded output."""
        return (self.state / "results" / handle.rpartition("/")[2]).read_bytes()

    @property
    def offloaded(self) -> list[str]:
        return sorted(name for name in os.listdir(self.state / "results") if name.endswith(".txt"))

    def close(self) -> None:
        self.shell.close()
        self.files.close()


@contextmanager
def bench(place: Path, **options: Any) -> Iterator[Bench]:
    opened = Bench(place, **options)
    try:
        yield opened
    finally:
        opened.close()


def marked() -> str:
    """A sleep duration that no other process uses."""
    return f"{int(token_hex(3), 16) + 10_000}.{int(token_hex(3), 16)}"


def alive(mark: str) -> list[int]:
    """The processes on this machine that were started with this mark."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in words.split(b"\0"):
                found.append(int(name))
    return found


def appears(mark: str) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if alive(mark):
            return True
        time.sleep(0.01)
    return False


def gone(mark: str) -> bool:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not alive(mark):
            return True
        time.sleep(0.01)
    return False


def bare(command: str) -> subprocess.CompletedProcess[bytes]:
    """With an unconfined shell; what it leaves behind is in none of our groups."""
    return subprocess.run(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, check=False, start_new_session=True
    )
