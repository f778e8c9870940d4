"""Commands: authorized, run on an overlay if possible, and their effects committed like any change."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from os.path import expanduser
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

from handhold.core.errors import (
    Cancelled,
    ExtraMissing,
    NoShell,
    NotApproved,
    RollbackIncomplete,
    StaleBeforeCommit,
    ToolError,
)
from handhold.core.facts import SandboxStatus
from handhold.core.plans import Effects, FileChange
from handhold.core.ports.approvals import RunPaused
from handhold.core.ports.journal import CallDecision
from handhold.core.ports.policy import CommandAnalysis
from handhold.core.ports.shell import CommandResult, Shell
from handhold.core.requests import JobInput, JobOutput, JobStop, Request, Run
from handhold.core.results import Reply, RestartResult, RunResult
from handhold.core.tools import run
from handhold.core.tools.git_refresh import drop_locks, drop_refreshed
from handhold.logs import log_swallowed, suppress_and_log
from handhold.pipeline.authorization import Authorizer
from handhold.pipeline.change_contents import ChangeContents
from handhold.pipeline.changes import ChangeCommitter
from handhold.pipeline.context import CallContext
from handhold.pipeline.job_changes import JobChanges
from handhold.pipeline.paused_runs import PausedRuns
from handhold.pipeline.policy_review import PolicyReviewer
from handhold.pipeline.responses import Responder, refusal_decision
from handhold.pipeline.session import Session

if TYPE_CHECKING:
    from handhold.pipeline.checkers import CheckerRunner

MAX_REPORT_CHARS = 1_000_000  # of what a checker prints
MAX_HOST_QUESTIONS = 5  # in one call; each allows what was refused so far and runs the command again


class CommandRunner:
    """Runs the commands of a session. The shell is opened with the first one: most sessions run none."""

    def __init__(
        self,
        session: Session,
        authorizer: Authorizer,
        reviewer: PolicyReviewer,
        contents: ChangeContents,
        changes: ChangeCommitter,
        responder: Responder,
        make_shell: Callable[[], Shell] | None,
        checkers: "CheckerRunner | None" = None,
    ) -> None:
        self._session = session
        self._authorizer = authorizer
        self._reviewer = reviewer
        self._contents = contents
        self._changes = changes
        self._responder = responder
        self._make_shell = make_shell
        self._checkers = checkers
        self._shell: Shell | None = None
        self._opening = Lock()
        self._paused = PausedRuns(session.files)
        self._job_changes = JobChanges(session, reviewer)
        self._folder = session.files.roots[0]  # the working directory of a persistent shell

    # --- the shell

    @property
    def shell(self) -> Shell:
        with self._opening:
            if self._shell is None:
                if self._make_shell is None:
                    raise NoShell("this workspace is not on disk")
                self._shell = self._make_shell()
            return self._shell

    @property
    def is_busy(self) -> bool:
        return self._shell is not None and self._shell.is_busy

    def interrupt(self, thread: int | None = None) -> None:
        if self._shell:
            self._shell.interrupt(thread)

    def close(self) -> None:
        self._paused.close()
        if self._shell:
            self._shell.close()

    # --- calls

    def run(self, context: CallContext, request: Run) -> Reply:
        shell, token = self.shell, context.token
        sandbox = shell.sandbox
        decision, reads = self._authorize(context, request, sandbox)
        # The shell runs a command directly only if that was decided about: an overlay may become impossible meanwhile.
        request = replace(request, direct=request.direct or not sandbox.shadow, reads=reads)
        if request.background:
            commit = partial(self._job_changes.commit, context.call, request)
            started = run.conclude_job("start", shell.start(request, commit))
            return self._responder.reply_and_record(context, request, started, durable=True, decision=decision)
        if self._checkers and self.is_brokered:
            self._checkers.prepare_all()
        started = monotonic()
        with token.command(), ExitStack() as stack:
            finished = self._paused.resume(context.call, stack)
            if finished is None:
                finished = self._execute(context, request, stack)
            try:
                finished, decision = self._run_again_with_hosts(context, request, finished, decision, stack)
                self._folder = finished.cwd
                with self._session.workspace_policy.links.held():
                    return self._conclude(context, request, finished, decision, started)
            except RunPaused:
                self._paused.keep(context.call, finished, stack.pop_all())
                raise

    def _execute(self, context: CallContext, request: Run, stack: ExitStack) -> CommandResult:
        """Run the command; `stack` discards its effects."""
        watch = self._session.store.watch_output(context.seq, context.token.watch)
        finished = stack.enter_context(self.shell.run(request, on_output=self._redact_watched(watch)))
        context.token.raise_if_cancelled()
        if finished.exit_status.cancelled:
            raise Cancelled()
        return finished

    def _run_again_with_hosts(
        self,
        context: CallContext,
        request: Run,
        finished: CommandResult,
        decision: CallDecision,
        stack: ExitStack,
    ) -> tuple[CommandResult, CallDecision]:
        """If a command failed and was refused hosts, ask about them; if they are allowed, it runs again from the start.

        Otherwise its result stands. A program may try the next host only when it has reached the first.
        """
        allowed: tuple[str, ...] = ()
        for _ in range(MAX_HOST_QUESTIONS):
            asked = [host for host in finished.refused_hosts if host not in allowed]
            if finished.exit_status.code == 0 or finished.effects is None or not asked:
                break
            if not self._authorizer.can_ask():
                break
            try:
                decision = self._authorizer.authorize_hosts(
                    context.call,
                    request.command,
                    asked,
                    request.folder or self._folder,
                    wait=context.token.wait_for,
                    seq=context.seq,
                )
            except NotApproved:
                break
            allowed = (*allowed, *asked)
            stack.close()
            finished.forget_state()
            with self._session.allowed_hosts.during_call(allowed):
                finished = self._execute(context, request, stack)
            told = f"It ran again from the start, with access to {', '.join(allowed)}"
            finished = replace(finished, notes=(*finished.notes, told))
        return finished, decision

    def run_checker(self, command: str, timeout_seconds: float) -> str | None:
        """The whole output of a checker; None if it cannot run here or takes too long. Its changes are discarded."""
        request = Run(command, timeout_seconds, MAX_REPORT_CHARS, preview=True, isolated=True)
        try:
            with self.shell.run(request) as finished:
                ended, output = finished.exit_status, finished.output
                complete = not (
                    ended.timed_out or ended.cancelled or ended.signal or output.omitted_lines or output.tail
                )
                return output.head if complete else None
        except ToolError:
            log_swallowed()
            return None

    @property
    def is_brokered(self) -> bool:
        """Whether a command's changes are in the workspace before they are committed."""
        return self.shell.sandbox.is_broker

    def _redact_watched(self, watch: Callable[[str], None] | None) -> Callable[[str], None] | None:
        """Who watches gets what the reply will show; a token that is cut in two by chance is not recognised."""
        redact = self._session.redaction.redact_tokens
        return watch and (lambda text: watch(redact(text)))

    def restart(self, context: CallContext, request: Request, allowed: CallDecision | None) -> Reply:
        self.shell.restart()
        self._folder = self._session.files.roots[0]
        return self._responder.reply_and_record(context, request, RestartResult(), decision=allowed)

    def answer_job(self, context: CallContext, request: JobOutput | JobInput | JobStop) -> Reply:
        match request:
            case JobOutput():
                action = "output"
            case JobInput():
                action = "input"
            case JobStop():
                action = "stop"
        result = run.conclude_job(action, self.shell.job(request))
        return self._responder.reply_and_record(context, request, result)

    # --- before it runs

    def _authorize(self, context: CallContext, request: Run, sandbox: SandboxStatus) -> tuple[CallDecision, bool]:
        """Decide before it runs. Without an overlay its effects cannot be reviewed, so the command itself is.

        And whether it may only read: its text says so, so nobody is asked. The text does not say what the program
        obeys, such as git's settings in the HOME of the session.
        """
        direct = not sandbox.shadow or request.background or request.direct
        if direct and request.preview:
            raise NoShell("a preview needs an overlay of the workspace, which is not available here")
        folder = request.folder or self._folder
        analysis = self.analyze(request.command, contained=not direct and not sandbox.network, folder=folder)
        # In the background only the text tells whether there will be something to undo.
        in_background = request.background and analysis.kind != "read-only"
        decision = self._authorizer.authorize_command(
            context.call,
            request.command,
            analysis,
            folder,
            wait=context.token.wait_for,
            directly=direct,
            no_undo=sandbox.explain_no_undo(background=in_background),
            seq=context.seq,
        )
        reads = request.background and not in_background and self._session.policy.name != "open"
        return decision, reads

    def analyze(self, command: str, *, contained: bool, folder: str = "") -> CommandAnalysis:
        """What a command would do, by its text, in `folder` or where the shell is. It does not run."""
        from handhold.core.policy.shell import ShellContext, analyze_command

        try:
            context = ShellContext(self._session.files.roots, folder or self._folder, expanduser("~"))
            found = analyze_command(command, context)
            return replace(found, contained=contained)
        except ExtraMissing as missing:  # not analyzed, so it may also use the network: not contained
            because = f"commands cannot be analyzed unless handhold[{missing.extra}] is installed"
            return CommandAnalysis(command, "unknown", because)

    # --- after it ran

    def _conclude(
        self, context: CallContext, request: Run, finished: CommandResult, decision: CallDecision, started: float
    ) -> Reply:
        """Commit the effects of a finished command, or reply why they were discarded."""
        effects = self._review(finished)
        redact, format_path = self._session.redaction.make_redactor(started), self._session.format_path
        # A command can put a secret into the name of a file.
        ran = run.conclude(request, replace(finished, effects=effects), lambda place: redact(format_path(place)))
        if effects is None or not (effects.files or effects.refused):
            if effects and effects.folder_mtimes and not request.preview:
                self._set_times(effects)
            durable = effects is None
            return self._responder.reply_and_record(context, request, ran, durable=durable, decision=decision)
        ran = replace(ran, diff=self._contents.diff(effects.files))
        if request.preview:
            return self._responder.reply_and_record(context, request, ran, decision=decision)
        try:
            return self._commit(context, request, ran, effects, decision)
        except (RollbackIncomplete, Cancelled):
            raise
        except ToolError as error:
            late = error.paths if isinstance(error, StaleBeforeCommit) else ()
            if lost := [finished.set_aside(change) for change in effects.files if change.path in late]:
                finished = replace(finished, effects=effects.exclude(lost))
                return self._conclude(context, request, finished, decision, started)
            reply = self._responder.reply_discarded(context, request, ran, error)
            self._responder.record(context, reply, decision=refusal_decision(error))
            return reply

    def _review(self, finished: CommandResult) -> Effects | None:
        """The effects to commit, with the paths that need approval."""
        effects = finished.effects
        if not effects:
            return effects
        effects = drop_refreshed(effects, self._contents.read_content)
        if finished.exit_status.timed_out:
            effects = drop_locks(effects, self._session.format_path)
        return replace(effects, protected=self._reviewer.paths_to_ask_about(effects.files, effects.protected))

    def _commit(
        self, context: CallContext, request: Run, ran: RunResult, effects: Effects, decision: CallDecision
    ) -> Reply:
        session, files = self._session, effects.files
        counted = self._authorizer.authorize_changes(
            context.call,
            files,
            session.format_path,
            wait=context.token.wait_for,
            command=request.command,
            within=effects.protected,
            privileged=effects.privileged,
            refused=effects.refused,
            seq=context.seq,
        )
        decision = counted if counted.verdict == "approved" else decision  # an approval matters more
        ran = run.add_seen_diffs(ran, files, session.tracker, self._contents.read_content, session.format_path)
        context.token.raise_if_cancelled()
        times = self._reviewer.allowed_times(effects)
        return self._changes.commit(context, request, ran, files, decision, lambda _: self._remember(ran, files), times)

    def _set_times(self, effects: Effects) -> None:
        """Set folder times of a command that changed nothing else. Times are not recorded."""
        if times := self._reviewer.allowed_times(effects):
            with suppress_and_log(ToolError), self._session.files.transaction((), times) as transaction:
                transaction.apply()

    def _remember(self, ran: RunResult, files: Sequence[FileChange]) -> None:
        """Record as read what the reply shows completely and what was moved; drop what was deleted."""
        session, tracker = self._session, self._session.tracker
        known = list(run.find_seen_changes(files, tracker))
        shown = {each.path for each in ran.seen_diffs if each.complete}
        moved = {
            each.source: each.path for each in (run.summarize_changes(files) if known else ()) if each.verb == "moved"
        }
        for path, change in known:
            if change.path in moved:
                tracker.record_move(path, session.files.read(moved[change.path] + path.removeprefix(change.path)))
            elif change.after is None:
                tracker.read_records.drop(path)
            elif session.format_path(path) in shown:
                snapshot = session.files.read(path)
                if snapshot.hash == change.after.hash:
                    tracker.record_diff(snapshot)
