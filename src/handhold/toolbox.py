"""The one road: every call takes it, and nothing else changes a file.

    decode → policy → tracker → plan → policy → journal → world → words → journal

A search is the same road without a change: what it found is concluded with the view that planned it.

A call that may change something is journalled before it runs and after, every other once, when it ends. What is not
recorded as done is taken back at the next start.
"""

import json
import threading
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from hashlib import sha256
from os.path import expanduser
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal, Self

from handhold.core import history, tools
from handhold.core.errors import (
    BadArguments,
    CallIdReused,
    Cancelled,
    Denied,
    ExtraMissing,
    NoMatch,
    NoShell,
    NotApproved,
    Overtaken,
    ReadOnly,
    Stale,
    ToolError,
    Unfinished,
)
from handhold.core.facts import Held, Identity, Scan
from handhold.core.history import Which
from handhold.core.plans import (
    Answer,
    Bytes,
    Changes,
    Command,
    Convert,
    Directory,
    Effects,
    FileChange,
    FolderTime,
    Job,
    Restart,
    Search,
    Stored,
    digest,
)
from handhold.core.policy.guard import GuardedView
from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.rules import RulePolicy
from handhold.core.ports import (
    Approver,
    Call,
    Converter,
    Decision,
    Dialect,
    Entry,
    Files,
    Finished,
    Frame,
    Hiding,
    Judgement,
    Outcome,
    Policy,
    Searcher,
    Shell,
    Store,
    Study,
    Traits,
    Verb,
    Verdict,
)
from handhold.core.requests import Below, JobInput, JobOutput, JobStop, Read, ReadMany, Request, Run
from handhold.core.results import (
    Block,
    Edited,
    Grepped,
    NotebookEdited,
    NotebookShown,
    Patched,
    PdfShown,
    Pictured,
    Printed,
    Ran,
    Reply,
    Restarted,
    Result,
    TakenBack,
    ToolSpec,
    Written,
)
from handhold.core.text.names import spelled
from handhold.core.text.redaction import Redaction
from handhold.core.text.visible import format_id
from handhold.core.tools import run
from handhold.core.tools.grep import redact_hits
from handhold.core.tools.refreshed import without_locks, without_refreshed
from handhold.core.tracker import Tracker
from handhold.pipeline import dropped_undo
from handhold.pipeline.cancellation import Live, awaited, streamed
from handhold.pipeline.checked_policy import check_policy
from handhold.pipeline.open_calls import OpenCalls
from handhold.pipeline.secret_files import SecretFiles
from handhold.pipeline.transactions import commit, recover

if TYPE_CHECKING:
    from handhold.pipeline.approvals import Asking
    from handhold.pipeline.undo import TakingBack

CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
RULES_CHANGED = (
    "This call was carried out before. The rules about reading changed since, so its reply is not shown again; "
    "to look again, use a new call id."
)
READING = Read | ReadMany | Below  # requests that change nothing
LONG = 2000  # characters of an argument that the journal keeps as they are


class Road:
    """A workspace, a session, a policy and a dialect: what an agent is handed."""

    def __init__(
        self,
        files: Files,
        store: Store,
        dialect: Dialect,
        policy: Policy,
        searcher: Searcher,
        converter: Converter,
        *,
        session: str,
        traits: Traits,
        approver: Approver | None = None,
        shell: "Callable[[Road], Shell] | None" = None,
    ) -> None:
        self.files = files
        self.store = store
        self.dialect = dialect
        self.policy = check_policy(policy)
        self.searcher = searcher
        self.converter = converter
        self.session = session
        self.traits = traits
        self.approver = approver
        self.tracker = Tracker(store.marks(session), store, store, files)
        self._under_way = Once()
        self._shell_for = shell
        self._shell: Shell | None = None
        self._opening = threading.Lock()
        self._folder = files.roots[0]  # where a lasting shell stands
        self._open_calls = OpenCalls(self._release)
        recover(files, store)

    # Imported when they are first needed: a session that only reads starts without them.

    @cached_property
    def _asking(self) -> "Asking":
        from handhold.core.policy.protected import Protection
        from handhold.core.policy.repositories import Repositories
        from handhold.pipeline.approvals import Asking

        protection = Protection(self.files.roots)

        # The history in turn asks this one, so it is looked up when it is needed.
        def diff(changes: Sequence[FileChange], places: Collection[str]) -> tuple[str, int] | None:
            return self._history.diff_for_approval(changes, places)

        def repositories(changes: Sequence[FileChange]) -> Repositories:
            return Repositories(self.files, self._history, protection, changes)

        return Asking(
            self.policy,
            self._secret_files.policy,
            lambda: self.approver,
            self.store,
            self.session,
            protection,
            diff,
            self.files.names_outside,
            self.files.exact_hash,
            repositories,
        )

    @cached_property
    def hiding(self) -> Hiding | None:
        """What file tools do not show; None where no rule denies reading."""
        if isinstance(self.policy, ModePolicy):
            return None
        visible = GuardedView(self.files, self.policy, self.tracker, self.traits).visible
        return self.files.hiding(lambda place: not visible(place))

    @cached_property
    def _reading(self) -> str:
        """A checksum of the rules about reading."""
        rules = self.policy.reading if isinstance(self.policy, RulePolicy) else ""
        return sha256(rules.encode("utf-8", "surrogateescape")).hexdigest()[:16]

    def to_hide(self) -> Sequence[str]:
        """What a command may not see. SystemTrouble where a file system does not answer: what is not found out there
        could not be hidden, should it come back."""
        return self.files.answered(self._secret_files.withheld, lambda: None)

    def redaction(self) -> Redaction | None:
        """What is replaced in the output of a command."""
        return self.files.answered(self._secret_files.redaction, lambda: None)

    @cached_property
    def _secret_files(self) -> SecretFiles:
        return SecretFiles(self.files, self.policy, self.hiding)

    @cached_property
    def _keeping(self) -> Hiding:
        return self.files.hiding(self._asking.holds, near=True)

    def to_keep(self) -> Sequence[str]:
        """What a command that works on the workspace itself must leave as it is, of what is there.

        It cannot change the contents of others either; these are kept whole, with mode and time.
        """
        return self.files.answered(self._keeping.places, lambda: None)

    @cached_property
    def _history(self) -> "TakingBack":
        from handhold.pipeline.undo import TakingBack

        return TakingBack(
            self.files,
            self.store,
            self.session,
            self.dialect.name,
            self.policy,
            lambda: self.hiding,
            self._secret_files,
            partial(self._asking.may_take_back, wait=Live().wait_for),
        )

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.dialect.specs

    @property
    def instructions(self) -> str:
        """What teaches a model to use these tools together, for its system prompt."""
        return self.dialect.instructions

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was found in settings and does not count, such as the allow rules of a file that is not trusted."""
        return self.policy.remarks if isinstance(self.policy, RulePolicy) else ()

    # --- calls

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str,
        *,
        call_id: str = "",
        turn: str = "",
        live: Live | None = None,
    ) -> Reply:
        """Do what the model asks, or say why not. Raises ToolboxClosed after `close`, else only for a bug of ours.

        Arguments are an object, or the text that a free-form tool was given. `live` is how somebody in another thread
        hears of it while it runs, and stops it.
        """
        return self._called(tool, arguments, call_id, turn, live or Live())

    async def acall(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = "") -> Reply:
        """The same from an event loop. Cancelled, a command ends, and nothing of it counts."""
        return await awaited(lambda live: self._called(tool, arguments, call_id, turn, live), self.interrupt)

    def stream(
        self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = ""
    ) -> AsyncGenerator[Printed | Reply]:
        """The same, with what a command prints while it runs; the reply comes last."""
        return streamed(lambda live: self._called(tool, arguments, call_id, turn, live), self.interrupt)

    def interrupt(self, thread: int | None = None) -> None:
        """End the commands that calls wait for now, in any thread or in this one; nothing of them counts."""
        if self._shell:
            self._shell.interrupt(thread)

    @property
    def working(self) -> bool:
        """Whether closing and opening it again would lose something: a job that runs, or where a shell stands."""
        return self._shell is not None and self._shell.working

    def _called(self, tool: str, arguments: Mapping[str, Any] | str, call_id: str, turn: str, live: Live) -> Reply:
        started = perf_counter()
        with self._open_calls.enter():
            try:
                recover(self.files, self.store)
                call = Call(self.session, turn, call_id, str(tool), canonical(tool, arguments), self.dialect.name)
                with self._under_way.alone((turn, call_id)):
                    return self._repeated(call) or self._journalled(call, arguments, started, live)
            except ToolError as error:
                return self._refusal(tool, error, started)

    def _repeated(self, call: Call) -> Reply | None:
        """The first reply to this very call; None if it must be done."""
        entry = self.store.recall(call.session, call.turn, call.call_id) if call.call_id else None
        if entry is None:
            return None
        if (entry.call.tool, entry.call.arguments) != (call.tool, call.arguments):
            raise CallIdReused(call.call_id)
        if entry.outcome is None or entry.outcome.status == "interrupted":
            return None  # it never came to an end; if it had begun something, that was taken back
        if entry.outcome.reply is not None:
            reply, rules = restored(entry.outcome.reply)
            # A broken machine did nothing, nor did a call whose question waits or found no room: it may be tried again.
            again = reply.blame == "infra" or reply.data.get("approval") or reply.data.get("unasked")
            if again:
                return None
            if rules != self._reading:
                return Reply(reply.status, RULES_CHANGED, {"time_ms": reply.data["time_ms"]}, reply.code, replayed=True)
            return replace(reply, replayed=True)
        if not entry.changed:
            return None
        return Reply("success", "This call was carried out before; its reply is no longer kept.", replayed=True)

    def _journalled(self, call: Call, arguments: Mapping[str, Any] | str, started: float, live: Live) -> Reply:
        errand = Errand(call, started, live)
        try:
            request, errand.repaired = self.dialect.understood(call.tool, arguments)
            if not isinstance(request, READING):
                errand.seq = self.store.begin(call)
            return self._carried_out(errand, request)
        except ToolError as error:
            if isinstance(error, NoMatch):
                error.again = self._failed_just_before(call)
            reply = self._refusal(call.tool, error, started, call.arguments, errand.repaired)
            if not isinstance(error, Unfinished):  # that one stays open in the journal, to be taken back
                self._record(errand, reply, decision=refusal_of(error))
            return reply

    def _record(
        self, errand: "Errand", reply: Reply, *, durable: bool = False, decision: Decision | None = None
    ) -> None:
        """The end of a call, and if it only read, its beginning too."""
        outcome = outcome_of(reply, errand.call, self._reading)
        if errand.seq:
            self.store.settle(errand.seq, outcome, durable=durable, decision=decision)
        else:
            self.store.record(errand.call, outcome, decision=decision)

    def _failed_just_before(self, call: Call) -> bool:
        """Whether this session's last call was this one, and failed: to say the same again would not help it."""
        *_, last, _ = [None, *self.store.entries(session=call.session, last=2)]
        if last is None or last.succeeded:
            return False
        return (last.call.tool, last.call.arguments) == (call.tool, call.arguments)

    def _carried_out(self, errand: "Errand", request: Request) -> Reply:
        plan, allowed = self.files.answered(lambda: self._planned(request), errand.live.go_on)
        if isinstance(plan, Command):
            return self._commanded(errand, plan.request)
        if isinstance(plan, Restart):
            self.shell.restart()
            self._folder = self.files.roots[0]
            return self._told(errand, request, Restarted(), decision=allowed)
        if isinstance(plan, Job):
            return self._asked(errand, plan.request)
        if isinstance(plan, Changes) and (files := tuple(change for change in plan if not change.idle)):
            return self._changed(errand, request, replace(plan, files=files))
        return self._answered(errand, request, plan, allowed)

    def _answered(self, errand: "Errand", request: Request, plan: Answer | Changes, allowed: Decision | None) -> Reply:
        """Nothing is to be done but to tell it, and to know what was shown."""
        reply = self._reply(errand, request, plan.result)
        for page in plan.pages if isinstance(plan, Answer) else ():
            self.tracker.saw_page(page)
        if isinstance(plan, Answer) and plan.parts:
            self.tracker.saw_parts(plan.parts)
        self._record(errand, reply, decision=allowed)
        return reply

    def _planned(self, request: Request) -> tuple[Answer | Changes | Command | Job | Restart, Decision | None]:
        """All that a call reads, and nothing that it does: what was to be searched for or converted is an answer."""
        allowed = self._allowed_at_all(request)
        view = self._view()
        plan = tools.plan(request, view)
        if isinstance(plan, Search):
            return Answer(self._redacted(tools.conclude(plan, self._searched(plan, view), view))), allowed
        if isinstance(plan, Convert):
            return tools.converted(plan, self.converter.convert(plan), view), allowed
        if isinstance(plan, Command):
            for root in self.files.roots:
                self.files.look(root)  # one that does not answer is found out here, and not when its sandbox is made
        return plan, allowed

    def _view(self) -> GuardedView:
        return GuardedView(self.files, self.policy, self.tracker, self.traits, self.hiding)

    def _searched(self, plan: Search, view: GuardedView) -> Scan:
        return self.searcher.search(plan, visible=view.visible, hiding=view.hiding)

    def _redacted(self, result: Result) -> Result:
        """Search hits without the values of secret files, should another file hold one."""
        if not isinstance(result, Grepped) or not result.files:
            return result
        redaction = self._secret_files.redaction(searching=True)
        return redact_hits(result, redaction.redact) if redaction else result

    def _changed(self, errand: "Errand", request: Request, plan: Changes) -> Reply:
        call = errand.call
        wait = errand.live.wait_for
        decision = self._asking.may_change(call, plan.files, lambda place: self._as_spelled(place, request), wait=wait)
        try:
            return self._commit(
                errand, request, plan.result, plan.files, decision, lambda identities: self._remember(plan, identities)
            )
        except Stale as stale:
            raise self._explained(stale, request) from None

    def _commit(
        self,
        errand: "Errand",
        request: Request,
        result: Result,
        files: Sequence[FileChange],
        decision: Decision,
        remember: Callable[[Mapping[str, Identity]], None],
        times: Sequence[FolderTime] = (),
    ) -> Reply:
        """The reply, once the changes stand: it names the calls whose undo they cost."""
        reply = self._reply(errand, request, result)

        def conclude(calls: Sequence[Entry]) -> Outcome:
            nonlocal reply
            if calls:
                errand.given_up = tuple(calls)
                reply = self._reply(errand, request, result)
            return outcome_of(reply, errand.call, self._reading)

        with self.store.alone():
            if first := self._faster(errand):
                return first
            identities = commit(self.files, self.store, errand.seq, files, conclude, decision=decision, times=times)
        try:
            remember(identities)
        except ToolError:
            pass  # the change stands and is recorded; at worst the session will have to read a file again
        return reply

    def _faster(self, errand: "Errand") -> Reply | None:
        """The reply of somebody else who got the same call meanwhile, and has carried it out."""
        first = self._repeated(errand.call)
        if first:
            outcome = Outcome("error", "CALL_REPEATED", since(errand.started), None)
            self.store.settle(errand.seq, outcome, durable=False)
        return first

    def _remember(self, plan: Changes, identities: Mapping[str, Identity]) -> None:
        for change in plan:
            kept = (self.traits.mark_after_write or not plan.whole) and not plan.forget
            if kept and isinstance(change.after, Bytes):
                whole = plan.whole or change.path in plan.seen
                self.tracker.saw_change(change.path, identities[change.path], change.after.data, whole=whole)
            else:
                self.tracker.marks.drop(change.path)

    def _explained(self, stale: Stale, request: Request) -> ToolError:
        """What changed between the plan and the commit, told as if it had been found before."""
        path = self._as_spelled(stale.path, request)
        try:
            self._view().whole(path)
        except ToolError as error:
            return error
        return Stale(path)

    # --- commands

    @property
    def shell(self) -> Shell:
        """Made when it is first needed: most sessions that never run a command pay nothing for it."""
        with self._opening:
            if self._shell is None:
                if self._shell_for is None:
                    raise NoShell("this workspace is not on a disk")
                self._shell = self._shell_for(self)
            return self._shell

    def _commanded(self, errand: "Errand", request: Run) -> Reply:
        shell, live = self.shell, errand.live
        decision = self._may_run(errand, request, shell.held)
        if request.background:
            begun = run.conclude_job("start", shell.start(request))
            return self._told(errand, request, begun, durable=True, decision=decision)
        with live.command(), shell.run(request, watch=live.watch) as finished:
            live.go_on()
            if finished.exit.cancelled:
                raise Cancelled()
            self._folder = finished.folder
            return self._ended(errand, request, finished, decision)

    def _ended(self, errand: "Errand", request: Run, finished: Finished, decision: Decision) -> Reply:
        """A command has ended: what it did is still a question."""
        effects = finished.effects
        if effects:
            effects = without_refreshed(effects, self._history.content)
            if finished.exit.timed_out:
                effects = without_locks(effects, self._spelled)
            effects = replace(effects, protected=self._asking.asks_about(effects.files, effects.protected))
        ran = run.conclude(request, replace(finished, effects=effects), self._redacted_name)
        if effects is None or not effects.files:
            if effects and effects.times and not request.preview:
                self._set_times(effects)
            return self._told(errand, request, ran, durable=effects is None, decision=decision)
        ran = replace(ran, diff=self._diff(effects.files))
        if request.preview:
            return self._told(errand, request, ran, decision=decision)
        try:
            return self._taken_over(errand, request, ran, effects, decision)
        except (Unfinished, Cancelled):
            raise
        except ToolError as error:
            late = error.paths if isinstance(error, Overtaken) else ()
            if lost := [finished.set_aside(change) for change in effects.files if change.path in late]:
                return self._ended(errand, request, replace(finished, effects=effects.exclude(lost)), decision)
            reply = self._in_vain(errand, request, ran, error)
            self._record(errand, reply, decision=refusal_of(error))
            return reply

    def _taken_over(self, errand: "Errand", request: Run, ran: Ran, effects: Effects, decision: Decision) -> Reply:
        call, files = errand.call, effects.files
        counted = self._asking.may_change(
            call,
            files,
            self._spelled,
            wait=errand.live.wait_for,
            command=request.command,
            within=effects.protected,
            privileged=effects.privileged,
        )
        decision = counted if counted.verdict == "approved" else decision  # a person's word is what a reader looks for
        ran = run.shown(ran, files, self.tracker, self._history.content, self._spelled)
        errand.live.go_on()
        times = self._asking.allowed_times(effects)
        return self._commit(errand, request, ran, files, decision, lambda _: self._saw(ran, files), times)

    def _set_times(self, effects: Effects) -> None:
        """Of a command that changed nothing else. There is nothing to record: a time is no content."""
        if times := self._asking.allowed_times(effects):
            with suppress(ToolError), self.files.transaction((), times) as transaction:
                transaction.perform()

    def _saw(self, ran: Ran, files: Sequence[FileChange]) -> None:
        """What the reply shows whole, the session knows, and what was moved; what is gone, it does not."""
        known = list(run.known(files, self.tracker))
        shown = {each.path for each in ran.seen if each.complete}
        moved = {each.source: each.path for each in (run.deeds(files) if known else ()) if each.verb == "moved"}
        for path, change in known:
            if change.path in moved:
                self.tracker.moved(path, self.files.read(moved[change.path] + path.removeprefix(change.path)))
            elif change.after is None:
                self.tracker.marks.drop(path)
            elif self._spelled(path) in shown:
                whole = self.files.read(path)
                if whole.hash == change.after.hash:
                    self.tracker.saw_diff(whole)

    def _asked(self, errand: "Errand", request: JobOutput | JobInput | JobStop) -> Reply:
        match request:
            case JobOutput():
                asked = "output"
            case JobInput():
                asked = "input"
            case JobStop():
                asked = "stop"
        return self._told(errand, request, run.conclude_job(asked, self.shell.job(request)))

    def _told(
        self,
        errand: "Errand",
        request: Request,
        result: Result,
        *,
        durable: bool = False,
        decision: Decision | None = None,
    ) -> Reply:
        """Nothing is left to do: the reply, recorded."""
        reply = self._reply(errand, request, result)
        self._record(errand, reply, durable=durable, decision=decision)
        return reply

    def _in_vain(self, errand: "Errand", request: Run, ran: Ran, error: ToolError) -> Reply:
        """It ran, and nothing of it counts: why, and all the same what it printed."""
        nothing, tool = run.uncounted(ran), errand.call.tool
        words = self.dialect.refuse(tool, error, hints=self.traits.hints)
        printed = self._encode(errand, request, nothing)
        facts = {**nothing.facts(), **error.facts(), **errand.facts()}
        reply = Reply("error", f"{words}\n\n{printed}", facts, error.code, error.blame.value)
        return self._framed(reply, errand.call.tool, errand.call.arguments, request)

    def _redacted_name(self, place: str) -> str:
        """As `_spelled`, for names that a command gave: one may be a secret, like anything that it prints."""
        return self._secret_files.known.redact(self._spelled(place))

    def _spelled(self, place: str) -> str:
        return spelled(place) if self.traits.absolute_paths else history.short(place, self.files.roots)

    # --- policy

    def _allowed_at_all(self, request: Request) -> Decision | None:
        verb = Verb.READ if isinstance(request, READING) else Verb.CHANGE
        allowed = None
        for path in request.paths:
            place = self.files.place(path)
            judgement = self.policy.may(verb, place)
            if verb is Verb.CHANGE and judgement.verdict is Verdict.DENY and self.files.look(path) is None:
                judgement = self.policy.may(Verb.CREATE, place)
            if judgement.verdict is Verdict.DENY:
                raise Denied(path, judgement.because, judgement.rule, remedy=judgement.remedy)
            if verb is Verb.CHANGE and not self.files.writable(path):
                raise ReadOnly(path)
            allowed = allowed or Decision("allowed", judgement.rule)
        return allowed

    def _may_run(self, errand: "Errand", request: Run, held: Held) -> Decision:
        """What runs on the workspace itself leaves nothing to look at before it counts: it is judged before it runs."""
        direct = not held.shadow or request.background or request.direct
        if direct and request.preview:
            raise NoShell("a preview needs a shadow of the workspace, and there is none here")
        study = self._studied(request.command, contained=not direct and not held.network)
        roots = self.files.roots if direct else ()
        wait = errand.live.wait_for
        return self._asking.may_run(errand.call, request.command, study, self._folder, wait=wait, directly=roots)

    def _studied(self, command: str, *, contained: bool) -> Study:
        from handhold.core.policy.shell import Standing, study

        try:
            found = study(command, Standing(self.files.roots, self._folder, expanduser("~")))
            return replace(found, contained=contained)
        except ExtraMissing as missing:  # nothing of it was read, not even whether it connects: not contained
            because = f"commands can be read only where handhold[{missing.extra}] is installed"
            return Study(command, "unknown", because)

    def judged(self, verb: Verb, path: str) -> Judgement:
        """What would be decided about a path, under the name of it that is judged hardest. Nothing is done."""
        from handhold.pipeline.approvals import severity

        judged = self.policy.may if verb is Verb.READ else self._asking.judged
        with self._open_calls.enter():
            return max((judged(verb, place) for place in self._view().names(path)), key=severity)

    def judged_command(self, command: str, *, contained: bool = False) -> tuple[Study, Judgement]:
        """What a command is, and what would be decided before it runs, on an overlay without a network if `contained`.

        It does not run.
        """
        with self._open_calls.enter():
            study = self._studied(command, contained=contained)
            return study, self.policy.may_run(study)

    def is_guarded(self, place: str) -> bool:
        """Whether a name or a rule sets a place apart: such a one must not go unseen in a folder that changes whole."""
        root = next((root for root in self.files.roots if place.startswith(root.rstrip("/") + "/")), place)
        return self._asking.sets_apart(place, root)

    def is_withheld(self, place: str) -> bool:
        """Whether what a command makes at a place would be denied to whoever reads it, and may not be made."""
        policy = self._secret_files.policy
        return policy.concerns(place) and all(
            policy.may(verb, place).verdict is Verdict.DENY for verb in (Verb.READ, Verb.CREATE)
        )

    def is_held(self, place: str, is_folder: bool) -> bool:  # noqa: FBT001
        """Whether a command that works on the workspace itself must not make or write what would be at a place."""
        change = FileChange(
            place, None, Directory() if is_folder else Stored("", 0)
        )  # what it would hold, nobody knows
        return self._asking.holds(place, change)

    def _as_spelled(self, place: str, request: Request) -> str:
        return next((path for path in request.paths if self.files.place(path) == place), self._spelled(place))

    # --- words

    def _reply(self, errand: "Errand", request: Request, result: Result) -> Reply:
        text, facts = self._encode(errand, request, result), {**result.facts(), **errand.facts()}
        if errand.given_up:
            facts["undo_given_up"] = dropped_undo.describe(errand.given_up, self.session, self._visible_paths)
            text = f"{text}\n\n{dropped_undo.explain(facts['undo_given_up'])}"
        reply = Reply(
            status=result.status,
            text=text,
            data=facts,
            ui_extra=result.diff if isinstance(result, Written | Edited | NotebookEdited | Patched | Ran) else "",
            images=result.images if isinstance(result, Pictured | PdfShown | NotebookShown) else (),
        )
        return self._framed(reply, errand.call.tool, errand.call.arguments, request)

    def _visible_paths(self, paths: Sequence[str]) -> list[str]:
        return [self._spelled(path) for path in paths if self._history.is_visible(path)]

    def _encode(self, errand: "Errand", request: Request, result: Result) -> str:
        call = errand.call
        hints, call_id = self.traits.hints, format_id(call.call_id)
        return self.dialect.encode(call.tool, request, result, hints=hints, call_id=call_id)

    def _framed(self, reply: Reply, tool: str, arguments: str, request: Request | None = None) -> Reply:
        def place() -> str:
            with suppress(ToolError):  # one that has no place is told of by the reply
                return self.files.place(request.paths[0]) if request and request.paths else ""
            return ""

        text = self.dialect.framed(reply, Frame(tool, arguments, self.files.roots[0], place))
        return reply if text is reply.text else replace(reply, text=text)

    def _refusal(
        self, tool: str, error: ToolError, started: float, arguments: str = "{}", repaired: Sequence[str] = ()
    ) -> Reply:
        text = self.dialect.refuse(tool, error, hints=self.traits.hints)
        if isinstance(error, Stale) and error.complete and self.traits.hints:
            self._renew(error)
        facts = {**error.facts(), **mended(repaired), "time_ms": since(started)}
        return self._framed(Reply("error", text, facts, error.code, error.blame.value), tool, arguments)

    def _renew(self, stale: Stale) -> None:
        """The refusal showed all that changed: the session knows the file again."""
        whole = self.files.read(stale.path)
        if whole.hash == stale.now:
            self.tracker.saw_diff(whole)

    # --- looking back

    def log(self, *, last: int | None = None, everyone: bool = False) -> Sequence[Entry]:
        """The calls of this session (or of everyone on this workspace), oldest first."""
        with self._open_calls.enter():
            return self.store.entries(session=None if everyone else self.session, last=last)

    def diff(self, *, call: str | int = "", turn: str = "", session: bool = False) -> str:
        """What one call, one turn or the whole session did; alone, the last change."""
        with self._open_calls.enter():
            return self._history.shown(Which(call, turn, session))

    def diff_of(self, entry: Entry) -> str:
        """What one call of the log did, whosever it was."""
        with self._open_calls.enter():
            return self._diff(self.store.files(entry.seq))

    def undo(
        self,
        *,
        call: str | int = "",
        turn: str = "",
        session: bool = False,
        preview: bool = False,
        keep_times: bool = False,
    ) -> Reply:
        """Take back one call, one turn or the whole session; alone, the last change.

        Refused where it would lose a later change. A file that gets its old contents back gets the time of now, so that
        `make` notices; with `keep_times`, its old time.
        """
        return self._reversed("undo", Which(call, turn, session), preview=preview, keep_times=keep_times)

    def redo(
        self,
        *,
        call: str | int = "",
        turn: str = "",
        session: bool = False,
        preview: bool = False,
        keep_times: bool = False,
    ) -> Reply:
        """Do again what an undo took back; alone, the last undo."""
        return self._reversed("redo", Which(call, turn, session), preview=preview, keep_times=keep_times)

    def _reversed(self, verb: Literal["undo", "redo"], which: Which, *, preview: bool, keep_times: bool) -> Reply:
        started = perf_counter()
        with self._open_calls.enter():
            try:
                recover(self.files, self.store)
                result = self._history.carry_out(verb, which, preview=preview, keep_times=keep_times)
            except ToolError as error:
                return self._refusal(verb, error, started)
        facts = {**result.facts(), "time_ms": since(started)}
        return Reply("success", told(result, self.files.roots), facts, ui_extra=result.diff)

    def _diff(self, files: Sequence[FileChange]) -> str:
        return self._history.diff(files)

    def close(self, *, timeout: float = 5.0) -> None:
        """End commands and jobs, and close everything; from then on every call raises ToolboxClosed. Twice is fine.

        Calls under way in other threads are waited for, at most `timeout` seconds. One that takes longer still comes to
        its end, and the files and the journal are closed after it.
        """
        self._open_calls.close(self._close_shell, timeout)

    def _close_shell(self) -> None:
        if self._shell:
            self._shell.close()

    def _release(self) -> None:
        self._close_shell()  # a call under way may have made one since
        self.files.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Errand:
    """A call on its way: since when, who listens, its number in the journal, and what was mended in its arguments."""

    call: Call
    started: float
    live: Live
    seq: int = 0  # until it is there; a call that only reads is when it ends
    repaired: tuple[str, ...] = ()
    given_up: tuple[Entry, ...] = ()  # calls whose undo goes for this one

    def facts(self) -> dict[str, Any]:
        return {**mended(self.repaired), "time_ms": since(self.started)}


class Once:
    """The same call id at the same time, in two threads: the second waits for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], tuple[threading.Lock, int]] = {}

    @contextmanager
    def alone(self, key: tuple[str, str]) -> Generator[None]:
        if not key[1]:
            yield
            return
        with self._lock:
            lock, waiting = self._held.get(key, (threading.Lock(), 0))
            self._held[key] = lock, waiting + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                lock, waiting = self._held[key]
                if waiting == 1:
                    del self._held[key]
                else:
                    self._held[key] = lock, waiting - 1


def canonical(tool: str, arguments: Any) -> str:
    """Arguments as one spelling of JSON, so that the same call is the same text. What is long goes by its hash."""
    try:
        return CANONICAL.encode(shortened(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        wanted = f"an object that JSON can hold ({error})"
        raise BadArguments(tool, "arguments", type(arguments).__name__, wanted) from None


def shortened(value: Any) -> Any:
    """The journal keeps contents in a bounded store; it must not grow by a second copy of them in the arguments."""
    match value:
        case str() if len(value) > LONG:
            hash = digest(value.encode("utf-8", "surrogatepass"))
            return f"{value[:80]}… ({len(value)} characters, sha256 {hash})"
        case dict():
            return {key: shortened(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [shortened(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def mended(repaired: Sequence[str]) -> dict[str, Any]:
    return {"repaired": list(repaired)} if repaired else {}


def since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)


def outcome_of(reply: Reply, call: Call, reading: str) -> Outcome:
    """What the journal keeps; the reply itself only where a repeated call could ask for it.

    Not with images in it, which would fill the store: whoever asks again looks again.

    A call that was cancelled is as one that never came to an end: sent again, it is done.
    """
    status = "interrupted" if reply.code == Cancelled.code else reply.status
    reply_kept = kept(reply, reading) if call.call_id and not reply.images else None
    return Outcome(status, reply.code, float(reply.data["time_ms"]), reply_kept)


def refusal_of(error: ToolError) -> Decision | None:
    return Decision("refused", error.rule) if isinstance(error, Denied | NotApproved) else None


def kept(reply: Reply, reading: str) -> str:
    return json.dumps({**asdict(reply), "reading": reading})


def restored(text: str) -> tuple[Reply, str]:
    """A reply, and the rules about reading under which it was made."""
    fields: dict[str, Any] = json.loads(text)
    reading = fields.pop("reading", "")
    images = tuple(Block(**block) for block in fields.pop("images"))
    return Reply(images=images, **fields), reading


def told(taken: TakenBack, roots: Sequence[str]) -> str:
    done = {"undo": "Taken back", "redo": "Done again"}[taken.verb]
    would = {"undo": "Would take back", "redo": "Would do again"}[taken.verb]
    listed = ", ".join(history.short(path, roots) for path in taken.paths[:10])
    more = f" and {len(taken.paths) - 10} more" if len(taken.paths) > 10 else ""
    return f"{would if taken.preview else done}: {', '.join(taken.calls)} ({listed}{more})"
