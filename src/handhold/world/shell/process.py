"""One command, from its start to the end of everything that it started.

Both of its streams go into one pipe. It has ended when its shell has, whoever still holds the pipe; then all that it
left is killed, and only when nothing of it is alive is its ending told: by the namespace it was in, or by a keeper.
"""

import fcntl
import os
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from threading import Lock

from handhold.core.errors import NoShell, Unended
from handhold.core.facts import Exit
from handhold.world.files.trouble import trouble
from handhold.world.shell import keeper
from handhold.world.shell.output import Sink
from handhold.world.shell.sandbox import Launch
from handhold.world.shell.terminating import terminate

PIPE = 1024**2
PATIENCE = (
    2.0  # seconds for a command to end by itself when its time is over, once for its programs and once for itself
)
GRACE = 5.0  # seconds for the dead to be gone; longer is a process that hangs in the kernel
LONGEST_WAIT = 3_600.0
FLOODING = 16 * 1024**2  # from here on a pipe may fill up a little before it is read: it costs half the turns
NAP, NAP_BELOW = 0.0001, 128 * 1024
CHILD = re.compile(rb'"child-pid": (\d+)')
CODE = re.compile(rb'"exit-code": (\d+)')


class Process:
    """A command that runs. Whoever made it calls `wait`, which leaves nothing of it, however it is left."""

    def __init__(self, launch: Launch, sink: Sink, *, folder: str, bubblewrap: str, talks: bool = False) -> None:
        """`bubblewrap` is its path in the command line; empty: a keeper does what the namespace would.

        `folder` is where it starts if there is none; `talks` gives it a pipe for its input.
        """
        self.began = time.monotonic()
        self.cancelled = False
        self._sink = sink
        self._contained = bool(bubblewrap)
        self._said = b""  # by bubblewrap, about itself
        self._inner = -1  # the first process of its namespace, whose end is the end of all others
        self._ended = False
        self._lock = Lock()
        with ExitStack() as ours:
            try:
                self._spawn(launch, folder, bubblewrap, ours, talks=talks)
            except OSError as error:
                raise trouble(error, "the shell") from error
            self._ours = ours.pop_all()

    def _spawn(self, launch: Launch, folder: str, bubblewrap: str, ours: ExitStack, *, talks: bool) -> None:
        with ExitStack() as theirs:
            self._out, out = _pipe(ours, theirs)
            os.set_blocking(self._out, False)
            with suppress(OSError):  # what a user's pipes may hold together can be used up; then this one is smaller
                fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, PIPE)
            if bubblewrap:
                self._told, status = _pipe(ours, theirs)
                os.set_blocking(self._told, False)
                at = launch.argv.index(bubblewrap) + 1
                argv = (*launch.argv[:at], "--json-status-fd", str(status), *launch.argv[at:])
            else:
                status, self._lifeline = os.pipe()
                theirs.callback(os.close, status)
                ours.callback(self._let_go)
                argv = (sys.executable, "-I", "-S", keeper.__file__, str(status), "--", *launch.argv)
            self._popen = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE if talks else subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=dict(launch.env),
                cwd=None if bubblewrap else folder,
                pass_fds=(*launch.pass_fds, status),
                start_new_session=True,  # a Ctrl-C in our terminal is ours alone
                bufsize=0,
            )
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except OSError:
            ours.close()
            if bubblewrap:
                self._popen.kill()
            self._popen.wait()
            raise
        ours.callback(os.close, self._pidfd)
        if self._popen.stdin:
            os.set_blocking(self._popen.stdin.fileno(), False)
            ours.callback(self._popen.stdin.close)

    # --- from other threads

    def end(self) -> None:
        """Kill it, because somebody wants so."""
        with self._lock:
            if not self._ended:
                self.cancelled = True
                if self._knows_its_child:
                    self._kill()

    @property
    def _knows_its_child(self) -> bool:
        """Killed before it has told us who that is, bubblewrap would leave it behind; whoever waits kills it then."""
        return not self._contained or CHILD.search(self._said) is not None

    def write(self, data: bytes) -> int:
        """As much of this as its input takes now; BrokenPipe if nobody reads it any more."""
        with self._lock:
            if self._ended or not self._popen.stdin:
                raise BrokenPipeError
            return self._popen.stdin.write(data) or 0

    def close(self) -> None:
        """For when nobody came to wait for it."""
        if not self._ended:
            self._leave_nothing()

    # --- until it ends

    def wait(self, seconds: float) -> Exit:
        """How it ended; at the limit it is ended. NoShell if it never began."""
        in_time = True
        try:
            in_time = self._has_ended(self.began + seconds)
            if not in_time and self._knows_its_child:
                terminate(self._top, PATIENCE, self._has_ended)
                self._has_ended(time.monotonic() + PATIENCE)
        finally:
            self._leave_nothing()
        took = time.monotonic() - self.began
        if self.cancelled or not in_time:
            return Exit(None, timed_out=not in_time, cancelled=self.cancelled, seconds=took)
        code = self._popen.returncode
        if self._contained:
            told = CODE.search(self._said)
            if told is None and code >= 0:
                why = self._sink.last_words() or f"exit status {code}"
                raise NoShell(f"the sandbox could not be made: {why}")
            code = int(told[1]) if told else code
        return Exit(code if code >= 0 else None, signal_name(code), seconds=took)

    @property
    def _top(self) -> int:
        """The process that everything else of the command descends from."""
        child = CHILD.search(self._said)
        return int(child[1]) if child else self._popen.pid

    def _has_ended(self, until: float) -> bool:
        """Whether it ended, or somebody wants it to, before a time; what it prints is taken meanwhile."""
        ready = select.poll()
        for fd in (self._out, self._pidfd, *((self._told,) if self._contained else ())):
            ready.register(fd, select.POLLIN)
        while (left := until - time.monotonic()) > 0:
            if self.cancelled and self._knows_its_child:
                return True
            due = self._sink.tell()
            wait = min(left, LONGEST_WAIT if due is None else due)
            events = {fd for fd, _ in ready.poll(wait * 1_000)}
            if self._contained and self._told in events and (not self._listen() or self._inner >= 0):
                ready.unregister(self._told)  # it says much more, piece by piece, which can wait until the end
            if self._out in events:
                size = self._sink.take(self._out)
                if not size:
                    ready.unregister(self._out)
                elif size < NAP_BELOW and self._sink.total > FLOODING:
                    time.sleep(NAP)
            if self._pidfd in events:
                return True
        return False

    def _listen(self) -> bool:
        """To bubblewrap: who is first in its namespace, how the command ended. Whether there may be more to hear."""
        try:
            while said := os.read(self._told, 4096):
                self._said += said
        except BlockingIOError:
            said = b"later"
        if self._inner < 0 and (child := CHILD.search(self._said)):
            with suppress(OSError):  # it is gone already; or there is no descriptor left now, and will be later
                self._inner = os.pidfd_open(int(child[1]))
                self._ours.callback(os.close, self._inner)
        return bool(said)

    # --- the end

    def _leave_nothing(self) -> None:
        """Kill what is left of it, wait until that is gone, and take what it had printed until then."""
        with ExitStack() as closing:
            closing.callback(self._ours.close)
            if not self._knows_its_child and not _gone(self._pidfd, 0):
                _gone(self._told, GRACE)
                self._listen()
            with self._lock:
                self._ended = True
                self._kill()
            until = time.monotonic() + GRACE
            gone = _gone(self._pidfd, until - time.monotonic())
            if self._contained:
                self._listen()
                gone &= self._is_alone() or self._inner < 0 or _gone(self._inner, until - time.monotonic())
            if gone:
                self._popen.wait()
                self._reap()
            with suppress(BlockingIOError):
                while self._sink.take(self._out):
                    pass
            self._sink.finish()
            self._sink.tell(last=True)
        if not gone:
            raise Unended()

    def _is_alone(self) -> bool:
        """Whether only the first process of the namespace is left, and is dying: it starts none, and orphans are its.

        Then nothing can touch the workspace any more, and nobody needs to wait until it has unmounted everything,
        which takes as long as the command. Where orphans come to us it must be waited for, to be reaped.
        """
        return keeper.children(self._top) == [] and keeper.parent(self._top) != os.getpid()

    def _reap(self) -> None:
        """Where orphans come to us, as to the first process of a container, nobody else does it."""
        if self._inner >= 0:
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._inner, os.WEXITED | os.WNOHANG)

    def _kill(self) -> None:
        """The namespace dies with its first process; a keeper kills when nobody holds its lifeline."""
        if not self._contained:
            self._let_go()
            return
        for pidfd in (self._pidfd, self._inner):
            if pidfd >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _let_go(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def signal_name(code: int) -> str:
    """What 128 + n means, by which a shell says that n ended its last command."""
    try:
        return signal.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return ""


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _gone(fd: int, seconds: float) -> bool:
    """Whether there is something to see at a descriptor within so many seconds: for a process, that it has ended."""
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    return bool(ready.poll(max(0.0, seconds) * 1_000))
