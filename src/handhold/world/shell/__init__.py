"""The shell of a workspace: commands run contained and bounded, on a shadow whose contents come back as changes."""

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from threading import Lock, get_ident
from time import monotonic

from handhold.core.errors import NoShell
from handhold.core.facts import Exit, Held
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.core.ports import Finished, JobState, PathGuard
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.world.files.roots import Root
from handhold.world.files.shelf import Shelf
from handhold.world.files.trouble import named
from handhold.world.network import Opening
from handhold.world.shell import orphans
from handhold.world.shell.abilities import abilities, memory_file
from handhold.world.shell.environment import systems
from handhold.world.shell.jobs import Job, Jobs
from handhold.world.shell.lasting import Lasting, Lasts, Memory
from handhold.world.shell.layout import Guarded, Mount
from handhold.world.shell.limits import UNLIMITED, Limits, explain_uncounted
from handhold.world.shell.loopback import Loopback
from handhold.world.shell.masks import MOST, masks, told, unhidden
from handhold.world.shell.offload import MOST_KEPT, Results
from handhold.world.shell.output import SMALL_RING, Sink
from handhold.world.shell.places import RESULTS, elsewhere
from handhold.world.shell.preflight import objection
from handhold.world.shell.process import Process
from handhold.world.shell.sandbox import Launch, Mode, sandbox
from handhold.world.shell.shadow import NoShadow, Shadow
from handhold.world.shell.weekly import sweep, used
from handhold.world.shell.worktrees import advise
from handhold.world.state.folder import private

BASH = "bash"
LONGEST_ARGUMENT = 100_000  # bytes; the kernel takes 131,071
AGAIN = 30.0  # seconds after a shadow failed, until the next attempt at one
PLAIN_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


@dataclass(frozen=True)
class Places:
    """The folders that a shell has in the state: its /tmp and HOME, and what was too long to be shown."""

    state: Path
    session: str

    @property
    def tmp(self) -> str:
        name = self.session
        if not PLAIN_NAME.fullmatch(name):
            name = sha256(os.fsencode(name)).hexdigest()[:32]
        folder = self.state / "sessions" / name
        tmp = private(folder / "tmp")
        used(folder)
        return str(tmp)

    @property
    def home(self) -> str:
        return str(private(self.state / "home"))

    @property
    def results(self) -> Path:
        return private(self.state / "results")


@dataclass(frozen=True)
class Started:
    """A command that runs, and what is open for it."""

    process: Process
    launch: Launch
    memory: Memory | None
    opened: ExitStack


class BoxedShell:
    """Fulfils the port Shell, for one session on one workspace. Several threads may use it at once."""

    def __init__(
        self,
        roots: Sequence[Root],
        shelf_of: Callable[[Root], Shelf | None],
        guard: PathGuard,
        *,
        state: Path,
        session: str,
        mode: Mode = "contained",
        network: bool | Opening = False,
        lasting: Lasts = "nothing",
        hidden: Sequence[str] = (),
        most_kept: int = MOST_KEPT,
        limits: Limits = UNLIMITED,
        tracing: bool = False,
    ) -> None:
        """NoShell where commands should be contained and cannot be. `guard` is asked about paths for each command.

        `hidden` are folders and files elsewhere that they do not see either, where we contain them. With `tracing`
        they may trace their own processes.
        """
        if not hasattr(os, "pidfd_open"):
            raise NoShell("commands are run on Linux only")
        self._sandbox = sandbox(mode)
        self._bubblewrap = self._sandbox.bubblewrap.path if self._sandbox.bubblewrap else ""
        self._roots = tuple({root.real: root for root in roots if root.given != RESULTS}.values())
        self._first = self._roots[0].real
        self._shelf_of = shelf_of
        self._network = network
        self._limits = limits
        self._tracing = tracing
        self._guard = guard
        self._elsewhere = tuple(hidden)
        self._places = Places(state, session)
        self._results = Results(self._places.results, most_kept)
        self._lasting = Lasting(lasting, self._first)
        self._running: dict[Process, int] = {}  # and the thread that waits for it
        self._lock = Lock()
        self._jobs = Jobs()
        self._closed = False
        self._loopback: Loopback | None = None
        self._in_it = 0  # commands that share it
        self._no_loopback = ""  # why commands do not share one
        orphans.end_orphans()
        sweep(state / "sessions")
        sweep(self._results.folder / "conflicts")
        self._unshadowed = ("", 0.0)  # why the last attempt at a shadow failed, and until when that counts

    @property
    def held(self) -> Held:
        """As of now: whether there can be a shadow depends on what lies in the roots."""
        named = not isinstance(self._network, bool)
        held = replace(self._sandbox.held, network=self._sandbox.held.network or bool(self._network), named_hosts=named)
        if not self._bubblewrap and (why_not := unhidden(self._guard.masked_paths(), self._first)):
            held = replace(held, why_not=(*held.why_not, why_not))
        if why_not := explain_uncounted(self._limits):
            held = replace(held, why_not=(*held.why_not, why_not))
        if self._no_loopback:
            held = replace(held, why_not=(*held.why_not, self._no_loopback))
        if not held.shadow:
            return held
        why_not = self._failed() or next((why for root in self._writable() if (why := self._objection(root))), "")
        return replace(held, shadow=False, why_not=(*held.why_not, f"no shadow: {why_not}")) if why_not else held

    @property
    def working(self) -> bool:
        return self._jobs.running or self._lasting.folder != self._first or bool(self._lasting.exports)

    def _fail(self, because: str) -> None:
        self._unshadowed = because, monotonic() + AGAIN

    def _failed(self) -> str:
        because, until = self._unshadowed
        return because if monotonic() < until else ""

    def _writable(self) -> Iterator[Root]:
        return (root for root in self._roots if root.writable)

    def _objection(self, root: Root) -> str:
        if self._shelf_of(root) is None:
            return f"there is no place for its layer on the file system of {root.real}"
        with named(root.real):
            return objection(root)

    # --- in the foreground

    @contextmanager
    def run(self, run: Run, *, watch: Callable[[str], None] | None = None) -> Generator[Finished]:
        """NoShell if a shadow that could be had before cannot be had now: without one it is another question."""
        held = self.held
        direct = run.direct or not held.shadow
        if direct and run.preview:
            raise NoShell("; ".join(("a preview needs a shadow of the workspace", *held.why_not)))
        with ExitStack() as stack:
            sink = Sink(self._results, redaction=self._guard.redaction(), watch=watch)
            stack.callback(sink.drop)
            shadow = None if direct else self._shadow(stack)
            denied = self._guard.masked_paths()
            started = self._started(run, sink, self._direct() if shadow is None else shadow.mounts, denied)
            stack.callback(started.opened.close)
            try:
                ended = self._waited(started.process, run.seconds)
            except NoShell as error:
                if shadow and "overlay" in error.because:
                    self._fail(error.because)
                raise
            if started.memory and not ended.timed_out:  # being asked to end, it tells how far it came
                self._lasting.learn(started.memory, started.launch.given)
            started.opened.close()
            output = sink.output(run.chars, run.lines, first_bytes=run.first_bytes)
            proxy = started.launch.proxy
            advice = advise((root.real for root in self._roots), output.head + output.tail) if ended.code else ()
            finished = Finished(
                ended,
                output,
                told(replace(held, shadow=shadow is not None), denied, self._first),
                "file tools only" if shadow is None else "all",
                None,
                self._lasting.folder,
                (*(proxy.notes(since=started.process.began) if proxy else ()), *advice),
            )
            if shadow is not None:
                effects = (
                    Effects() if ended.cancelled else shadow.effects(self._guard.needs_review, self._guard.is_masked)
                )
                readable = replace(effects, conflicts=tuple(map(self._readable, effects.conflicts)))
                finished = replace(finished, effects=readable, set_aside=self._setting_aside(shadow))
            yield finished

    def _shadow(self, stack: ExitStack) -> Shadow:
        """Where `held` has just said that there can be one."""
        try:
            shadow = Shadow.over(self._roots, self._shelf_of, scratch=self._results.folder, asked=True)
        except NoShadow as error:
            self._fail(error.reason)
            raise NoShell(f"no shadow: {error.reason}") from None
        stack.callback(shadow.discard)
        return shadow

    def _waited(self, process: Process, seconds: float) -> Exit:
        with self._lock:
            self._running[process] = get_ident()
        try:
            return process.wait(seconds)
        finally:
            with self._lock:
                del self._running[process]

    def restart(self) -> None:
        self._lasting = Lasting(self._lasting.lasts, self._first)

    def interrupt(self, thread: int | None = None) -> None:
        with self._lock:
            running = [process for process, waits in self._running.items() if thread in (None, waits)]
        for process in running:
            process.end()

    # --- in the background

    def start(self, run: Run) -> JobState:
        denied, redaction = self._guard.masked_paths(), self._guard.redaction()

        def begin(sink: Sink) -> tuple[Process, Callable[[], None]]:
            started = self._started(run, sink, self._direct(), denied, talks=True)
            return started.process, started.opened.close

        def make() -> Job:
            with self._in_loopback(create=True):
                held = told(replace(self.held, shadow=False), denied, self._first)
                sink = Sink(self._results, redaction=redaction, little=0, ring=SMALL_RING)
                return Job(begin, sink, run.seconds, held)

        return self._jobs.start(make, run.chars)

    @contextmanager
    def _in_loopback(self, *, create: bool = False) -> Generator[Loopback | None]:
        """The loopback that commands share: made for one in the background, and kept as long as any is in it."""
        with self._lock:
            if self._closed:
                raise NoShell("the shell is closed")
            known = self._loopback or self._no_loopback
            if create and not known and self._bubblewrap and self._network is not True:
                try:
                    with named("the shell"):
                        self._loopback = Loopback(self._bubblewrap, self._network or None)
                except NoShell as error:
                    self._no_loopback = f"each command has a localhost of its own: {error.because}"
            loopback = self._loopback
            self._in_it += loopback is not None
        try:
            yield loopback
        finally:
            if loopback:
                with self._lock:
                    self._in_it -= 1
                    if not self._in_it:
                        self._loopback = None
                        loopback.close()

    def job(self, request: JobOutput | JobInput | JobStop) -> JobState:
        return self._jobs.answer(request)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.interrupt()
        self._jobs.close()

    # --- both

    def _started(
        self, run: Run, sink: Sink, mounts: Sequence[Mount], denied: Sequence[str], *, talks: bool = False
    ) -> Started:
        if not self._bubblewrap and (why_not := unhidden(denied, self._first)):
            raise NoShell(why_not)
        with ExitStack() as opened, named("the shell"):
            roots = [mount.real for mount in mounts]
            memory = None if talks else self._lasting.begin(opened)
            command, fds = _command(run.command, opened)
            launch = self._sandbox.launch(
                command,
                mounts=mounts,
                folder=self._first,
                tmp=self._places.tmp,
                home=self._places.home,
                results=str(self._results.folder),
                network=self._network,
                loopback=opened.enter_context(self._in_loopback()),
                env=memory.env if memory else {},
                shim=abilities().shim,
                hidden=[*self._hidden(), *(elsewhere(roots) if denied else ())],
                masks=masks(denied, roots, self._places.state),
                limits=self._limits,
                guarded=self._guarded(mounts),
                tracing=self._tracing,
            )
            opened.callback(launch.close)
            launch = replace(launch, pass_fds=(*launch.pass_fds, *fds, *(memory.fds if memory else ())))
            process = Process(launch, sink, folder=self._first, bubblewrap=self._bubblewrap, talks=talks)
            opened.callback(process.close)
            return Started(process, launch, memory, opened.pop_all())

    def _hidden(self) -> list[str]:
        shelves = (self._shelf_of(root) for root in self._writable())
        ours = [str(self._places.state), *(shelf.folder for shelf in shelves if shelf)]
        return list(dict.fromkeys([*ours, *self._elsewhere]))

    def _direct(self) -> tuple[Mount, ...]:
        """The roots themselves, outer ones first."""
        mounts = (Mount(root.real, "direct" if root.writable else "read-only") for root in self._roots)
        return tuple(sorted(mounts, key=lambda mount: mount.real))

    def _guarded(self, mounts: Sequence[Mount]) -> Guarded | None:
        """NoShell if more has to stay as it is than can be mounted."""
        if not self._bubblewrap or all(mount.mode != "direct" for mount in mounts):
            return None
        kept = self._guard.locked_paths()
        if len(kept) > MOST:
            raise NoShell(f"{len(kept):,} files and folders must not be changed, and at most {MOST} can be kept")
        return Guarded(self._guard.is_locked, kept)

    def _setting_aside(self, shadow: Shadow) -> Callable[[FileChange], Conflict]:
        return lambda change: self._readable(shadow.set_aside(change))

    def _readable(self, conflict: Conflict) -> Conflict:
        """What was kept of it, as a model can ask for it."""
        return replace(conflict, kept=conflict.kept.replace(str(self._results.folder), RESULTS, 1))


def _command(command: str, opened: ExitStack) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Bash, with the command as an argument; a very long one as a file without a name."""
    given = os.fsencode(command)
    if b"\0" in given:
        raise NoShell("the command holds a NUL, which no program can be given")
    if len(given) <= LONGEST_ARGUMENT:
        return (systems(BASH), "-c", command, BASH), ()  # the last is $0, which people know by that name
    script = memory_file("command", given)
    opened.callback(os.close, script)
    return (systems(BASH), f"/proc/self/fd/{script}"), (script,)
