"""One command, from its start to the end of everything that it started.

Both output streams go into one pipe. The command has ended when its shell has, even if another process still holds the
pipe. Then everything left is killed, by the pid namespace or by a reaper, and the end is reported only when nothing of
it is alive.
"""

import fcntl
import os
import re
import select
import signal
import time
from contextlib import ExitStack, suppress
from threading import RLock

from handhold.backends.files.os_errors import to_tool_error
from handhold.backends.programs import DEVNULL, PIPE, TRUSTED_FOLDER, find_interpreter, start_program
from handhold.backends.shell import reaper
from handhold.backends.shell.output import OutputSink
from handhold.backends.shell.sandbox import LaunchSpec
from handhold.backends.shell.termination import send_signal, terminate
from handhold.core.errors import NoShell, UnkillableProcess
from handhold.core.facts import ExitStatus

PIPE_BYTES = 1024**2
TERMINATE_TIMEOUT_SECONDS = (
    2.0  # for a command to end by itself at its time limit: once for its programs, once for the shell
)
KILL_TIMEOUT_SECONDS = 5.0  # for killed processes to disappear; longer means one hangs in the kernel
MAX_POLL_SECONDS = 3_600.0
FLOOD_BYTES = 16 * 1024**2  # beyond this, let the pipe fill up before reading: half as many wakeups
FLOOD_SLEEP_SECONDS, SMALL_READ_BYTES = 0.0001, 128 * 1024
CHILD_PID_PATTERN = re.compile(rb'"child-pid": (\d+)')
EXIT_CODE_PATTERN = re.compile(rb'"exit-code": (\d+)')


class CommandProcess:
    """A running command. Its creator must call `wait`, which leaves nothing of it behind."""

    def __init__(
        self, launch: LaunchSpec, sink: OutputSink, *, folder: str, bubblewrap: str, with_stdin: bool = False
    ) -> None:
        """`bubblewrap` is its path in the command line; if empty, a reaper replaces the pid namespace.

        `folder` is the working directory without bubblewrap; `with_stdin` connects a pipe to its standard input.
        """
        self.started_at = time.monotonic()
        self.cancelled = False
        self._sink = sink
        self._contained = bool(bubblewrap)
        self._status_output = b""  # bubblewrap's status messages
        self._init_pidfd = -1  # the namespace's first process; all others die with it
        self._ended = False
        self._lock = RLock()  # a signal handler may interrupt its holder and need it
        with ExitStack() as stack:
            try:
                self._spawn(launch, folder, bubblewrap, stack, with_stdin=with_stdin)
            except OSError as error:
                raise to_tool_error(error, "the shell") from error
            self._stack = stack.pop_all()

    def _spawn(self, launch: LaunchSpec, folder: str, bubblewrap: str, stack: ExitStack, *, with_stdin: bool) -> None:
        with ExitStack() as child_fds:
            self._output_fd, out = _open_pipe(stack, child_fds)
            os.set_blocking(self._output_fd, False)
            with suppress(OSError):  # a user's limit on pipe buffers may be used up; then this one is smaller
                fcntl.fcntl(out, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
            if bubblewrap:
                self._status_fd, status = _open_pipe(stack, child_fds)
                os.set_blocking(self._status_fd, False)
                at = launch.argv.index(bubblewrap) + 1
                argv = (*launch.argv[:at], "--json-status-fd", str(status), *launch.argv[at:])
            else:
                status, self._lifeline = os.pipe()
                child_fds.callback(os.close, status)
                stack.callback(self._close_lifeline)
                if launch.broker:  # which is a reaper, too
                    at = launch.argv.index(launch.broker) + 1
                    argv = (*launch.argv[:at], "-L", str(status), *launch.argv[at:])
                else:
                    argv = (find_interpreter(), "-I", "-S", reaper.__file__, str(status), "--", *launch.argv)
            stdin = PIPE if with_stdin else DEVNULL
            stdin, stdout, stderr = launch.streams or (stdin, out, out)
            self._popen = start_program(
                argv,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env=dict(launch.env),
                cwd=TRUSTED_FOLDER if bubblewrap else folder,
                pass_fds=(*launch.pass_fds, status),
                new_session=True,  # a Ctrl-C in our terminal does not reach it
            )
        try:
            self._pidfd = os.pidfd_open(self._popen.pid)
        except OSError:
            stack.close()
            if bubblewrap:
                self._popen.kill()
            self._popen.wait()
            raise
        stack.callback(os.close, self._pidfd)
        if self._popen.stdin:
            os.set_blocking(self._popen.stdin.fileno(), False)
            stack.callback(self._popen.stdin.close)

    # --- called from other threads

    def cancel(self) -> None:
        """Kill it on request."""
        with self._lock:
            if not self._ended:
                self.cancelled = True
                if self._has_child_pid:
                    self._kill()

    def send_signal(self, number: int) -> bool:
        """Send it to the shell, or to the program that has replaced it; whether there is one."""
        top = self._top_pid
        shells = reaper.read_children(top) if self._has_child_pid else None
        return bool(shells) and send_signal(shells[0], top, number)

    @property
    def _has_child_pid(self) -> bool:
        """Whether the child's pid is known. If killed before it reports that, bubblewrap leaves the child behind."""
        return not self._contained or CHILD_PID_PATTERN.search(self._status_output) is not None

    def write(self, data: bytes) -> int:
        """Write as much as its input accepts now; raise BrokenPipeError if nothing reads it any more."""
        with self._lock:
            if self._ended or not self._popen.stdin:
                raise BrokenPipeError
            return self._popen.stdin.write(data) or 0

    def close(self) -> None:
        """Clean up if nobody waited for it."""
        if not self._ended:
            self._clean_up()

    # --- waiting

    def wait(self, seconds: float) -> ExitStatus:
        """How it ended; at the time limit it is terminated. Raise NoShell if it never started."""
        in_time = True
        try:
            in_time = self._wait_for_end(self.started_at + seconds)
            if not in_time and self._has_child_pid:
                terminate(self._top_pid, TERMINATE_TIMEOUT_SECONDS, self._wait_for_end)
                self._wait_for_end(time.monotonic() + TERMINATE_TIMEOUT_SECONDS)
        finally:
            self._clean_up()
        elapsed = time.monotonic() - self.started_at
        if self.cancelled or not in_time:
            return ExitStatus(None, timed_out=not in_time, cancelled=self.cancelled, seconds=elapsed)
        code = self._popen.returncode
        if self._contained:
            exit_match = EXIT_CODE_PATTERN.search(self._status_output)
            if exit_match is None and code >= 0:
                why = self._sink.decode_tail() or f"exit status {code}"
                raise NoShell(f"the sandbox could not be created: {why}")
            code = int(exit_match[1]) if exit_match else code
        return ExitStatus(code if code >= 0 else None, get_signal_name(code), seconds=elapsed)

    @property
    def _top_pid(self) -> int:
        """The process from which all others of the command descend."""
        child = CHILD_PID_PATTERN.search(self._status_output)
        return int(child[1]) if child else self._popen.pid

    def _wait_for_end(self, until: float) -> bool:
        """Read its output until it ends, is cancelled or `until` is reached; False in the last case.

        While we look for secrets we read nothing, so that time does not count.
        """
        ready = select.poll()
        for fd in (self._output_fd, self._pidfd, *((self._status_fd,) if self._contained else ())):
            ready.register(fd, select.POLLIN)
        while (left := until + self._sink.lookup_seconds - time.monotonic()) > 0:
            if self.cancelled and self._has_child_pid:
                return True
            due = self._sink.notify_watcher()
            wait = min(left, MAX_POLL_SECONDS if due is None else due)
            events = {fd for fd, _ in ready.poll(wait * 1_000)}
            if self._contained and self._status_fd in events and (not self._read_status() or self._init_pidfd >= 0):
                ready.unregister(self._status_fd)  # further messages can wait until the end
            if self._output_fd in events:
                size = self._sink.read_from(self._output_fd)
                if not size:
                    ready.unregister(self._output_fd)
                elif size < SMALL_READ_BYTES and self._sink.total > FLOOD_BYTES:
                    time.sleep(FLOOD_SLEEP_SECONDS)
            if self._pidfd in events:
                return True
        return False

    def _read_status(self) -> bool:
        """Read bubblewrap's status: the namespace's first process, the exit code. Return whether more may follow."""
        try:
            while data := os.read(self._status_fd, 4096):
                self._status_output += data
        except BlockingIOError:
            data = b"later"
        if self._init_pidfd < 0 and (child := CHILD_PID_PATTERN.search(self._status_output)):
            with suppress(OSError):  # already gone, or out of descriptors for the moment
                self._init_pidfd = os.pidfd_open(int(child[1]))
                self._stack.callback(os.close, self._init_pidfd)
        return bool(data)

    # --- cleanup

    def _clean_up(self) -> None:
        """Kill what is left, wait until it is gone, and read its remaining output."""
        with ExitStack() as closing:
            closing.callback(self._stack.close)
            if not self._has_child_pid and not _wait_readable(self._pidfd, 0):
                _wait_readable(self._status_fd, KILL_TIMEOUT_SECONDS)
                self._read_status()
            with self._lock:
                self._ended = True
                self._kill()
            until = time.monotonic() + KILL_TIMEOUT_SECONDS
            gone = _wait_readable(self._pidfd, until - time.monotonic())
            if self._contained:
                self._read_status()
                gone &= (
                    self._is_only_init_left()
                    or self._init_pidfd < 0
                    or _wait_readable(self._init_pidfd, until - time.monotonic())
                )
            if gone:
                self._popen.wait()
                self._reap()
            with suppress(BlockingIOError):
                while self._sink.read_from(self._output_fd):
                    pass
            self._sink.flush()
            self._sink.notify_watcher(last=True)
        if not gone:
            raise UnkillableProcess()

    def _is_only_init_left(self) -> bool:
        """Whether only the namespace's first process is left and dying: it starts nothing, and adopts all orphans.

        Then nothing can change the workspace any more. There is no need to wait until it has unmounted everything,
        which takes as long as the command. If orphans are reparented to us, we must wait, to reap it.
        """
        return reaper.read_children(self._top_pid) == [] and reaper.read_parent(self._top_pid) != os.getpid()

    def _reap(self) -> None:
        """If orphans are reparented to us, as to the first process of a container, nobody else reaps them."""
        if self._init_pidfd >= 0:
            with suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self._init_pidfd, os.WEXITED | os.WNOHANG)

    def _kill(self) -> None:
        """The namespace dies with its first process; a reaper kills when its lifeline closes."""
        if not self._contained:
            self._close_lifeline()
            return
        for pidfd in (self._pidfd, self._init_pidfd):
            if pidfd >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _close_lifeline(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def get_signal_name(code: int) -> str:
    """The signal for an exit code of 128 + n, with which a shell reports that signal n ended its last command."""
    try:
        return signal.Signals(-code if code < 0 else code - 128).name
    except ValueError:
        return ""


def _open_pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


def _wait_readable(fd: int, seconds: float) -> bool:
    """Wait until a descriptor is readable; for a process, until it has ended."""
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    return bool(ready.poll(max(0.0, seconds) * 1_000))
