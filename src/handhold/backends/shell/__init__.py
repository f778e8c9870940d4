"""The shell of a workspace: runs commands sandboxed and bounded, on an overlay whose contents become changes."""

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import RLock, get_ident
from time import monotonic
from typing import Literal

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.network import NO_HOSTS, NetworkAccess
from handhold.backends.network.proxy import describe_refusals
from handhold.backends.shell import orphans
from handhold.backends.shell.brokered_jobs import start_brokered_job
from handhold.backends.shell.brokered_run import BrokeredRun
from handhold.backends.shell.cleanup import remove_unused
from handhold.backends.shell.credentials import CredentialServer
from handhold.backends.shell.host_paths import find_other_mounts, is_inside_any
from handhold.backends.shell.jobs import BackgroundJob, JobOutcome, JobTable
from handhold.backends.shell.launch_spec import build_argv
from handhold.backends.shell.limits import UNLIMITED, ResourceLimits, explain_uncounted
from handhold.backends.shell.loopback import Loopback
from handhold.backends.shell.masks import MAX_MASKS, add_hidden_paths, build_masks, explain_unhidden
from handhold.backends.shell.obstacles import find_obstacle, without_overlay
from handhold.backends.shell.output import SMALL_RING_BYTES, OutputSink
from handhold.backends.shell.overlay import OverlayUnavailable, WorkspaceOverlay
from handhold.backends.shell.presence import hold_presence, is_alone
from handhold.backends.shell.process import CommandProcess
from handhold.backends.shell.result_store import MAX_KEPT_BYTES, ResultStore
from handhold.backends.shell.sandbox import LaunchSpec, ShellMode, create_sandbox
from handhold.backends.shell.sandbox_layout import Mount, WriteProtection
from handhold.backends.shell.sandbox_support import detect_sandbox_support
from handhold.backends.shell.session_folders import SessionFolders
from handhold.backends.shell.shell_state import PersistentShellState, StatePersistence, StateTransfer
from handhold.backends.shell.worktrees import advise_on_worktrees
from handhold.core.errors import NoShell
from handhold.core.facts import ExitStatus, SandboxStatus
from handhold.core.plans import Conflict, Effects, FileChange
from handhold.core.policy.hosts import parse_credential_host
from handhold.core.ports.files import RESULTS_PATH
from handhold.core.ports.shell import CommandResult, CommitJob, JobState, PathGuard
from handhold.core.requests import JobInput, JobOutput, JobStop, Run
from handhold.core.text.path_escaping import escape_ambiguous
from handhold.logs import warn_once

OVERLAY_RETRY_SECONDS = 30.0  # after an overlay failed, until the next attempt


@dataclass(frozen=True)
class RunningCommand:
    """A running command, and the resources opened for it."""

    process: CommandProcess
    launch: LaunchSpec
    state_transfer: StateTransfer | None
    stack: ExitStack


class SandboxedShell:
    """Implements the port Shell for one session on one workspace. Thread-safe."""

    def __init__(
        self,
        roots: Sequence[Root],
        get_staging_area: Callable[[Root], StagingArea | None],
        guard: PathGuard,
        *,
        state: Path,
        session: str,
        mode: ShellMode = "contained",
        network: Literal[True] | NetworkAccess = NO_HOSTS,
        persistence: StatePersistence = "nothing",
        hidden_paths: Sequence[str] = (),
        max_kept_bytes: int = MAX_KEPT_BYTES,
        limits: ResourceLimits = UNLIMITED,
        tracing: bool = False,
        credentials: Sequence[str] = (),
        learn_password: Callable[[str, str], None] | None = None,
    ) -> None:
        """Raise NoShell if commands should be sandboxed and cannot be. `guard` decides about paths for each command.

        `hidden_paths` are further files and folders that sandboxed commands cannot see. With `tracing`, they may trace
        their own processes. `credentials` are hosts whose passwords git may use; `learn_password` gets each of them.
        """
        if not hasattr(os, "pidfd_open"):
            raise NoShell("commands run only on Linux")
        self._sandbox = create_sandbox(mode)
        self._bubblewrap = self._sandbox.bubblewrap.path if self._sandbox.bubblewrap else ""
        self._can_hide = bool(self._bubblewrap or self._sandbox.broker)
        self._roots = tuple({root.real: root for root in roots if root.given != RESULTS_PATH}.values())
        self._first_root = self._roots[0].real
        self._get_staging_area = get_staging_area
        self._network: Literal[True] | NetworkAccess = network
        self._limits = limits
        self._tracing = tracing
        self._guard = guard
        self._hidden_outside = tuple(hidden_paths)
        self._folders = SessionFolders(state, session)
        self._results = ResultStore(self._folders.results, max_kept_bytes)
        self._shell_state = PersistentShellState(persistence, self._first_root)
        self._running: dict[CommandProcess, int] = {}  # each with the thread that waits for it
        self._lock = RLock()  # a signal handler may interrupt its holder and need it
        self._jobs = JobTable()
        self._closed = False
        self._loopback: Loopback | None = None
        self._loopback_users = 0  # commands that share the loopback
        self._loopback_error = ""  # why commands do not share one
        orphans.kill_orphans_if_due()
        remove_unused(state / "sessions")
        remove_unused(self._results.folder / "conflicts")
        self._credentials = self._start_credentials(credentials, learn_password) if credentials else None
        self._overlay_failure = ("", 0.0)  # why the last overlay failed, and until when not to retry

    @property
    def sandbox(self) -> SandboxStatus:
        """The current status: whether an overlay is possible depends on the contents of the roots."""
        network = self._network
        status = replace(
            self._sandbox.status,
            network=self._sandbox.status.network or network is True,
            named_hosts=network is not True and not network.is_closed(),
        )
        if not self._can_hide and (why_not := explain_unhidden(self._guard.masked_paths(), self._first_root)):
            status = replace(status, why_not=(*status.why_not, why_not))
        if why_not := explain_uncounted(self._limits):
            status = replace(status, why_not=(*status.why_not, why_not))
        if self._loopback_error:
            status = replace(status, why_not=(*status.why_not, self._loopback_error))
        if not status.shadow:
            return status
        why_not = self._get_overlay_failure() or find_obstacle(self._sandbox, self._roots, self._get_staging_area)
        return without_overlay(status, why_not) if why_not else status

    @property
    def is_busy(self) -> bool:
        return self._jobs.has_running or self._shell_state.folder != self._first_root or bool(self._shell_state.exports)

    def _record_overlay_failure(self, because: str) -> None:
        self._overlay_failure = because, monotonic() + OVERLAY_RETRY_SECONDS

    def _get_overlay_failure(self) -> str:
        because, until = self._overlay_failure
        return because if monotonic() < until else ""

    def _list_writable_roots(self) -> Iterator[Root]:
        return (root for root in self._roots if root.writable)

    def _start_credentials(self, hosts: Sequence[str], learn: Callable[[str, str], None] | None) -> CredentialServer:
        if not self._bubblewrap:  # a brokered command reaches no Unix socket outside its session
            raise NoShell(f"credentials for git need bubblewrap; {'; '.join(self._sandbox.status.why_not)}")
        with translate_os_errors("the shell"):
            return CredentialServer.start(list(map(parse_credential_host, hosts)), self._folders.state, learn)

    # --- foreground

    @contextmanager
    def run(self, run: Run, *, on_output: Callable[[str], None] | None = None) -> Generator[CommandResult]:
        """Raise NoShell if an overlay is suddenly impossible and `run` is not `direct`: that needs another decision."""
        status = self.sandbox
        for reason in status.why_not if self._bubblewrap else ():
            warn_once("shell", f"Commands are less confined than they could be: {reason}")
        direct = run.direct or not self._sandbox.status.shadow
        if not status.shadow and (run.preview or not direct):
            what = "a preview needs" if run.preview else "there is no longer"
            raise NoShell("; ".join((f"{what} an overlay of the workspace", *status.why_not)))
        with ExitStack() as stack:
            overlay = None if direct else self._create_overlay(stack)
            # On an overlay, what the command moves or removes stays where it is until its changes are committed.
            is_lazy = overlay is not None and not self._sandbox.broker
            redaction, find_redaction = (None, self._guard.redaction) if is_lazy else (self._guard.redaction(), None)
            sink = OutputSink(
                self._results,
                redaction=redaction,
                find_redaction=find_redaction,
                redact_tokens=self._guard.redact_tokens,
                watch=on_output,
            )
            stack.callback(sink.drop)
            denied_paths = self._list_denied_paths()
            mounts = self._prepare_direct_mounts(stack) if overlay is None else overlay.mounts
            running = self._start_command(run, sink, mounts, denied_paths, keeps_changes=overlay is None)
            stack.callback(running.stack.close)
            try:
                exit_status = self._wait_for(running.process, run.timeout_seconds)
            except NoShell as error:
                if overlay and "overlay" in error.because:
                    self._record_overlay_failure(error.because)
                raise
            earlier_state = replace(self._shell_state)
            if running.state_transfer and not exit_status.timed_out:  # when terminated, it still reports its state
                self._shell_state.load(running.state_transfer, running.launch.command_env)
            running.stack.close()
            output = sink.build_output(run.chars, run.lines, first_bytes=run.first_bytes)
            proxy = running.launch.proxy
            refusals = proxy.list_refusals(since=running.process.started_at) if proxy else []
            advice = (
                advise_on_worktrees((root.real for root in self._roots), output.head + output.tail)
                if exit_status.code
                else ()
            )
            result = CommandResult(
                exit_status,
                output,
                add_hidden_paths(replace(status, shadow=overlay is not None), denied_paths, self._first_root),
                "file tools only" if overlay is None else "all",
                None,
                self._shell_state.folder,
                (*describe_refusals(refusals), *advice),
                tuple(each.target for each in refusals if each.may_ask),
                forget_state=partial(setattr, self, "_shell_state", earlier_state),
            )
            if overlay is not None:
                effects = Effects()
                if not exit_status.cancelled:
                    try:
                        with self._guard.judging():
                            effects = overlay.collect_effects(self._guard.needs_review, self._guard.is_masked)
                    except NoShell:
                        if not exit_status.timed_out:  # a broker that is terminated may not have started the command
                            raise
                mapped_effects = replace(effects, conflicts=tuple(map(self._map_kept_path, effects.conflicts)))
                result = replace(result, effects=mapped_effects, set_aside=self._make_set_aside(overlay))
            yield result

    def run_on_layers(self, run: Run, mounts: Sequence[Mount], pass_fds: Sequence[int]) -> ExitStatus:
        """Run a command on overlays whose layers its caller keeps, as those of a fork. NoShell if there can be none.

        `pass_fds` stay open until nothing runs there any more.
        """
        if not self._sandbox.bubblewrap or not self._sandbox.bubblewrap.overlay:
            raise NoShell("; ".join(("there is no sandbox with an overlay here", *self._sandbox.status.why_not)))
        others = [Mount(root.real, "read-only") for root in self._roots if not root.writable]
        mounts = sorted((*mounts, *others), key=lambda mount: mount.real)
        with ExitStack() as stack:
            sink = OutputSink(self._results)
            stack.callback(sink.drop)
            running = self._start_command(run, sink, mounts, self._list_denied_paths(), pass_fds=pass_fds)
            stack.callback(running.stack.close)
            return self._wait_for(running.process, run.timeout_seconds)

    def _create_overlay(self, stack: ExitStack) -> WorkspaceOverlay | BrokeredRun:
        """Create an overlay or prepare the broker; `sandbox` has just reported that it is possible."""
        scratch = self._results.folder
        try:
            if self._sandbox.broker:
                overlay = BrokeredRun.create(
                    self._roots, self._get_staging_area, scratch=scratch, is_alone=self._is_alone
                )
            else:
                overlay = WorkspaceOverlay.create(
                    self._roots, self._get_staging_area, scratch=scratch, is_alone=self._is_alone, checked=True
                )
        except OverlayUnavailable as error:
            self._record_overlay_failure(error.reason)
            raise NoShell(f"no overlay: {error.reason}") from None
        stack.callback(overlay.discard)
        return overlay

    def _wait_for(self, process: CommandProcess, seconds: float) -> ExitStatus:
        with self._lock:
            self._running[process] = get_ident()
        try:
            return process.wait(seconds)
        finally:
            with self._lock:
                del self._running[process]

    def restart(self) -> None:
        self._shell_state = PersistentShellState(self._shell_state.persistence, self._first_root)

    def interrupt(self, thread: int | None = None) -> bool:
        with self._lock:
            running = [process for process, waits in self._running.items() if thread in (None, waits)]
        for process in running:
            process.cancel()
        return bool(running)

    def send_signal(self, number: int) -> bool:
        with self._lock:
            running = list(self._running)
        return any(process.send_signal(number) for process in running)

    # --- background

    def start(self, run: Run, commit: CommitJob | None = None) -> JobState:
        denied_paths, redaction = self._list_denied_paths(), self._guard.redaction()
        outcome = JobOutcome()

        def begin(sink: OutputSink) -> tuple[CommandProcess, Callable[[], None]]:
            with ExitStack() as stack:
                mounts = self._prepare_direct_mounts(stack, commit, outcome)
                running = self._start_command(run, sink, mounts, denied_paths, with_stdin=True)
                stack.callback(running.stack.close)
                return running.process, stack.pop_all().close

        def create_job() -> BackgroundJob:
            with self._use_loopback(create=True):
                status = add_hidden_paths(replace(self.sandbox, shadow=False), denied_paths, self._first_root)
                sink = OutputSink(
                    self._results,
                    redaction=redaction,
                    redact_tokens=self._guard.redact_tokens,
                    spill_threshold=0,
                    ring_bytes=SMALL_RING_BYTES,
                )
                return BackgroundJob(begin, sink, run.timeout_seconds, status, outcome)

        return self._jobs.start(create_job, run.chars)

    @contextmanager
    def _use_loopback(self, *, create: bool = False) -> Generator[Loopback | None]:
        """The loopback that commands share: created for a background command, and kept while any command uses it."""
        with self._lock:
            if self._closed:
                raise NoShell("the shell is closed")
            known = self._loopback or self._loopback_error
            if create and not known and self._bubblewrap and self._network is not True:
                try:
                    with translate_os_errors("the shell"):
                        self._loopback = Loopback(self._bubblewrap, self._network)
                except NoShell as error:
                    self._loopback_error = f"each command has its own localhost: {error.because}"
            loopback = self._loopback
            self._loopback_users += loopback is not None
        try:
            yield loopback
        finally:
            if loopback:
                with self._lock:
                    self._loopback_users -= 1
                    if not self._loopback_users:
                        self._loopback = None
                        loopback.close()

    def job(self, request: JobOutput | JobInput | JobStop) -> JobState:
        return self._jobs.handle(request)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self.interrupt()
        self._jobs.close()
        if self._credentials:
            self._credentials.close()

    # --- shared

    def _start_command(
        self,
        run: Run,
        sink: OutputSink,
        mounts: Sequence[Mount],
        denied_paths: Sequence[str],
        *,
        with_stdin: bool = False,
        keeps_changes: bool = True,
        pass_fds: Sequence[int] = (),
    ) -> RunningCommand:
        if not self._can_hide and (why_not := explain_unhidden(denied_paths, self._first_root)):
            raise NoShell(why_not)
        with ExitStack() as stack, translate_os_errors("the shell"):
            stack.enter_context(hold_presence(self._folders.state))
            roots, folder = [mount.real for mount in mounts], run.folder or self._first_root
            state_transfer = None if with_stdin or run.streams or run.isolated else self._shell_state.prepare(stack)
            command, fds = build_argv(run.command, stack)
            launch = self._sandbox.prepare_launch(
                command,
                mounts=mounts,
                folder=folder,
                tmp=self._folders.tmp,
                home=self._folders.home,
                results=str(self._results.folder),
                network=True if run.network else self._network,
                loopback=stack.enter_context(self._use_loopback()),
                env=state_transfer.env if state_transfer else {},
                shim=detect_sandbox_support().shim,
                hidden=[*self._list_hidden_paths(), *(find_other_mounts(roots) if denied_paths else ())],
                masks=build_masks(denied_paths, roots, self._folders.state),
                limits=self._limits,
                write_protection=self._build_write_protection(mounts, keeps_changes=keeps_changes, reads=run.reads),
                tracing=self._tracing,
                streams=run.streams,
                credentials=self._credentials,
            )
            stack.callback(launch.close)
            fds = (*launch.pass_fds, *pass_fds, *fds, *(state_transfer.fds if state_transfer else ()))
            launch = replace(launch, pass_fds=fds)
            process = CommandProcess(launch, sink, folder=folder, bubblewrap=self._bubblewrap, with_stdin=with_stdin)
            stack.callback(process.close)
            return RunningCommand(process, launch, state_transfer, stack.pop_all())

    def _is_alone(self) -> bool:
        return is_alone(self._folders.state)

    def _list_hidden_paths(self) -> list[str]:
        staging_areas = (self._get_staging_area(root) for root in self._list_writable_roots())
        ours = [str(self._folders.state), *(area.hidden_folder for area in staging_areas if area)]
        return list(dict.fromkeys([*ours, *self._hidden_outside]))

    def _list_denied_paths(self) -> list[str]:
        """Without our own, which are hidden anyway."""
        hidden = self._list_hidden_paths()
        return [path for path in self._guard.masked_paths() if not is_inside_any(path, hidden)]

    def _prepare_direct_mounts(
        self, stack: ExitStack, commit: CommitJob | None = None, outcome: JobOutcome | None = None
    ) -> tuple[Mount, ...]:
        """The roots themselves, outer ones first."""
        if self._sandbox.broker:
            places = self._roots, self._get_staging_area, self._results.folder, self._is_alone
            return start_brokered_job(*places, stack, self._guard, commit, outcome).mounts
        mounts = (Mount(root.real, "direct" if root.writable else "read-only") for root in self._roots)
        return tuple(sorted(mounts, key=lambda mount: mount.real))

    def _build_write_protection(
        self, mounts: Sequence[Mount], *, keeps_changes: bool, reads: bool
    ) -> WriteProtection | None:
        """Raise NoShell if more paths are protected than can be mounted."""
        if self._sandbox.broker:
            if keeps_changes:
                return WriteProtection(self._guard.is_locked)
            is_denied = self._guard.find_denied_changes()
            return (
                WriteProtection(lambda place, _: is_denied(escape_ambiguous(place)), reviewed=True)
                if is_denied
                else None
            )
        if not self._bubblewrap or all(mount.mode != "direct" for mount in mounts):
            return None
        if reads:
            roots = [mount.real for mount in mounts]
            return WriteProtection(lambda place, _: is_inside_any(place, roots), roots)
        paths = self._guard.locked_paths()
        if len(paths) > MAX_MASKS:
            raise NoShell(f"{len(paths):,} files and folders must not be changed; at most {MAX_MASKS} can be protected")
        return WriteProtection(self._guard.is_locked, paths)

    def _make_set_aside(self, overlay: WorkspaceOverlay | BrokeredRun) -> Callable[[FileChange], Conflict]:
        return lambda change: self._map_kept_path(overlay.set_aside(change))

    def _map_kept_path(self, conflict: Conflict) -> Conflict:
        """The conflict with the path of the kept version as a model can read it."""
        return replace(conflict, kept_path=conflict.kept_path.replace(str(self._results.folder), RESULTS_PATH, 1))
