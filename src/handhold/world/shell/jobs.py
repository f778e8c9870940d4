"""Commands in the background: each has a thread, which starts it, reads what it prints, and sees it end.

The thread matters: a sandbox dies with the thread that started it, so it must be one that lasts as long as the job.
"""

import time
from collections.abc import Callable
from concurrent.futures import Future
from secrets import token_hex
from threading import Event, Lock, Thread

from handhold.core.errors import NoShell, NoSuchJob, SystemTrouble, ToolError
from handhold.core.facts import Exit, Held, Output
from handhold.core.ports import JobState
from handhold.core.requests import JobInput, JobOutput, JobStop
from handhold.core.text.terminal import tidy
from handhold.world.shell.output import Sink, decoded
from handhold.world.shell.process import GRACE, Process

MOST_RUNNING = 16
MOST_KNOWN = 32  # that have ended and can still be asked
SHOWN = 10_000  # characters, where nobody says how many
AT_ONCE = 0.1  # seconds: what fails at once is told at once
TAKEN_WITHIN = 2.0  # seconds for a job to read its input


Begin = Callable[[Sink], tuple[Process, Callable[[], None]]]  # a command that runs, and what to do when it has ended


class Job:
    """One of them. `begin` is called in its thread; what that raises is raised here."""

    def __init__(self, begin: Begin, sink: Sink, seconds: float, held: Held) -> None:
        self.name = token_hex(3)
        self.exit: Exit | None = None
        self.told = 0  # up to here its output was shown
        self.ended = Event()
        self._sink = sink
        self._held = held
        self._trouble: ToolError | None = None
        begun: Future[Process] = Future()
        name = f"handhold job {self.name}"
        self._thread: Thread | None = Thread(target=self._live, args=(begin, seconds, begun), name=name, daemon=True)
        self._thread.start()
        self._process: Process | None = begun.result()
        if self.ended.is_set():
            self._forget()

    def _live(self, begin: Begin, seconds: float, begun: "Future[Process]") -> None:
        try:
            process, close = begin(self._sink)
        except BaseException as error:  # noqa: BLE001 — whoever asked for it hears of it
            begun.set_exception(error)
            return
        begun.set_result(process)
        try:
            self.exit = process.wait(seconds)
        except ToolError as error:
            self._trouble = error
        finally:
            close()
            self._sink.close()
            self.ended.set()
            self._forget()

    def _forget(self) -> None:
        """Once it has ended it is known for long, and what it ran by is of no use."""
        self._process = self._thread = None

    def state(self, offset: int | None, chars: int) -> JobState:
        """What it printed from an offset on, or since it was last asked; what went wrong with it, if something did."""
        ended = self.ended.is_set()
        if self._trouble:
            raise self._trouble
        start, data = self._sink.page(self.told if offset is None else offset, chars, ended=ended)
        text, replaced = decoded(data)
        self.told = start + len(data)
        output = Output(
            tidy(text),
            bytes=self._sink.total - start,
            lines=data.count(b"\n") + (not data.endswith(b"\n") and bool(data)),
            handle=self._sink.handle,
            kept=self._sink.kept,
            replaced=replaced,
        )
        return JobState(self.name, not ended, self.exit if ended else None, output, start, self.told, self._held)

    def write(self, data: bytes) -> None:
        """To its input; SystemTrouble if it does not read it."""
        until = time.monotonic() + TAKEN_WITHIN
        while data and (process := self._process):
            try:
                data = data[process.write(data) :]
            except BrokenPipeError:
                raise SystemTrouble(self.name, "nothing reads its input any more") from None
            if data and time.monotonic() > until:
                raise SystemTrouble(self.name, f"it does not read its input: {len(data):,} bytes were not taken")
            if data:
                self.ended.wait(0.01)

    def stop(self) -> None:
        """It is gone when this returns."""
        process, thread = self._process, self._thread
        if process:
            process.end()
        self.ended.wait(2 * GRACE)
        if thread:
            thread.join(GRACE)


class Jobs:
    """All of a shell, by their names."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._lock = Lock()

    @property
    def running(self) -> bool:
        with self._lock:
            return any(not job.ended.is_set() for job in self._jobs.values())

    def start(self, make: Callable[[], Job], chars: int) -> JobState:
        """NoShell if too many run already."""
        with self._lock:
            running = [name for name, job in self._jobs.items() if not job.ended.is_set()]
            if len(running) >= MOST_RUNNING:
                raise NoShell(f"{MOST_RUNNING} commands run in the background already: {', '.join(running)}")
            job = make()
            while job.name in self._jobs:
                job.name = token_hex(3)
            self._jobs[job.name] = job
            for name in [name for name, each in self._jobs.items() if each.ended.is_set()][:-MOST_KNOWN]:
                del self._jobs[name]
        job.ended.wait(AT_ONCE)
        return job.state(None, chars)

    def answer(self, request: JobOutput | JobInput | JobStop) -> JobState:
        with self._lock:
            job = self._jobs.get(request.job)
            known = tuple(self._jobs)
        if job is None:
            raise NoSuchJob(request.job, known)
        match request:
            case JobOutput(chars=chars, offset=offset):
                return job.state(offset, chars)
            case JobInput(text=text):
                job.write(text.encode("utf-8", "surrogateescape"))
            case JobStop():
                job.stop()
        return job.state(None, SHOWN)

    def close(self) -> None:
        """None of them is left."""
        with self._lock:
            running = [job for job in self._jobs.values() if not job.ended.is_set()]
        for job in running:
            job.stop()
