"""Background commands. Each has a thread that starts it, reads its output and waits for its end.

A sandbox dies with the thread that started it, so that thread must live as long as the job.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from secrets import token_hex
from threading import Event, Lock, Thread

from handhold.backends.shell.output import OutputSink
from handhold.backends.shell.output_ends import decode
from handhold.backends.shell.process import KILL_TIMEOUT_SECONDS, CommandProcess
from handhold.core.errors import NoShell, NoSuchJob, SystemFailure, ToolError
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus, UndoScope
from handhold.core.ports.shell import JobState
from handhold.core.requests import JobInput, JobOutput, JobStop
from handhold.core.text.terminal import render_terminal_text

MAX_RUNNING_JOBS = 16
MAX_ENDED_JOBS = 32  # finished jobs that can still be queried
DEFAULT_OUTPUT_CHARS = 10_000
EARLY_EXIT_SECONDS = 0.1  # early failures are reported immediately
CONCLUDE_TIMEOUT_SECONDS = 600.0  # for the changes of a job that has ended to be recorded
INPUT_TIMEOUT_SECONDS = 2.0  # for a job to read its input

# A running command, and a callback for its end.
StartCommand = Callable[[OutputSink], tuple[CommandProcess, Callable[[], None]]]


@dataclass
class JobOutcome:
    """What became of a job's changes."""

    undo_scope: UndoScope = "file tools only"
    notes: list[str] = field(default_factory=list[str])


class BackgroundJob:
    """One background command. `begin` is called in its thread; its exceptions are raised here."""

    def __init__(
        self, begin: StartCommand, sink: OutputSink, seconds: float, status: SandboxStatus, outcome: JobOutcome
    ) -> None:
        self.name = token_hex(3)
        self._outcome = outcome
        self._is_concluding = False
        self.exit: ExitStatus | None = None
        self.shown_offset = 0  # how far its output has been shown
        self.ended = Event()
        self._sink = sink
        self._status = status
        self._error: ToolError | None = None
        started: Future[CommandProcess] = Future()
        name = f"handhold job {self.name}"
        self._thread: Thread | None = Thread(target=self._run, args=(begin, seconds, started), name=name, daemon=True)
        self._thread.start()
        self._process: CommandProcess | None = started.result()
        if self.ended.is_set():
            self._release()

    def _run(self, begin: StartCommand, seconds: float, started: "Future[CommandProcess]") -> None:
        try:
            process, close = begin(self._sink)
        except BaseException as error:  # noqa: BLE001 — raised again in the caller's thread
            started.set_exception(error)
            return
        started.set_result(process)
        try:
            self.exit = process.wait(seconds)
        except ToolError as error:
            self._error = error
        finally:
            self._is_concluding = True
            close()
            self._sink.close()
            self.ended.set()
            self._release()

    def _release(self) -> None:
        """Release what is not needed after the end: a finished job stays known for long."""
        self._process = self._thread = None

    def read_state(self, offset: int | None, chars: int) -> JobState:
        """Its output from an offset, or since the last query; raise the error that it failed with, if any."""
        ended = self.ended.is_set()
        if self._error:
            raise self._error
        start, data = self._sink.read_page(self.shown_offset if offset is None else offset, chars, ended=ended)
        text, replaced = decode(data)
        self.shown_offset = start + len(data)
        output = CommandOutput(
            self._sink.redact_page(start, render_terminal_text(text)),
            total_bytes=self._sink.total - start,
            total_lines=data.count(b"\n") + (not data.endswith(b"\n") and bool(data)),
            handle=self._sink.handle,
            kept_bytes=self._sink.kept_bytes,
            has_undecodable_bytes=replaced,
        )
        return JobState(
            self.name,
            not ended,
            self.exit if ended else None,
            output,
            start,
            self.shown_offset,
            self._status,
            self._outcome.undo_scope,
            tuple(self._outcome.notes) if ended else (),
        )

    def write(self, data: bytes) -> None:
        """Write to its input; raise SystemFailure if it does not read it."""
        until = time.monotonic() + INPUT_TIMEOUT_SECONDS
        while data and (process := self._process):
            try:
                data = data[process.write(data) :]
            except BrokenPipeError:
                raise SystemFailure(self.name, "its input is closed") from None
            if data and time.monotonic() > until:
                raise SystemFailure(self.name, f"it does not read its input: {len(data):,} bytes were not written")
            if data:
                self.ended.wait(0.01)

    def stop(self) -> None:
        """Kill the job and wait until it is gone."""
        process, thread = self._process, self._thread
        if process:
            process.cancel()
        if not self.ended.wait(2 * KILL_TIMEOUT_SECONDS) and self._is_concluding:
            self.ended.wait(CONCLUDE_TIMEOUT_SECONDS)
        if thread:
            thread.join(KILL_TIMEOUT_SECONDS)


class JobTable:
    """All jobs of a shell, by name."""

    def __init__(self) -> None:
        self._jobs: dict[str, BackgroundJob] = {}
        self._lock = Lock()

    @property
    def has_running(self) -> bool:
        with self._lock:
            return any(not job.ended.is_set() for job in self._jobs.values())

    def start(self, create_job: Callable[[], BackgroundJob], chars: int) -> JobState:
        """Raise NoShell if too many are running."""
        with self._lock:
            running = [name for name, job in self._jobs.items() if not job.ended.is_set()]
            if len(running) >= MAX_RUNNING_JOBS:
                raise NoShell(f"{MAX_RUNNING_JOBS} background commands are already running: {', '.join(running)}")
            job = create_job()
            while job.name in self._jobs:
                job.name = token_hex(3)
            self._jobs[job.name] = job
            for name in [name for name, each in self._jobs.items() if each.ended.is_set()][:-MAX_ENDED_JOBS]:
                del self._jobs[name]
        job.ended.wait(EARLY_EXIT_SECONDS)
        return job.read_state(None, chars)

    def handle(self, request: JobOutput | JobInput | JobStop) -> JobState:
        with self._lock:
            job = self._jobs.get(request.job)
            known = tuple(self._jobs)
        if job is None:
            raise NoSuchJob(request.job, known)
        match request:
            case JobOutput(chars=chars, offset=offset):
                return job.read_state(offset, chars)
            case JobInput(text=text):
                job.write(text.encode("utf-8", "surrogateescape"))
            case JobStop():
                job.stop()
        return job.read_state(None, DEFAULT_OUTPUT_CHARS)

    def close(self) -> None:
        """Stop all jobs."""
        with self._lock:
            running = [job for job in self._jobs.values() if not job.ended.is_set()]
        for job in running:
            job.stop()
