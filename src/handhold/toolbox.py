"""The one road: every call takes it, and nothing else changes a file.

    decode → policy → tracker → plan → policy → journal → world → words → journal

A search is the same road without a change: what it found is concluded with the view that planned it.

A call is journalled before it runs and after. What is not recorded as done is taken back at the next start.
"""

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from time import perf_counter
from typing import Any, Literal, Self

from handhold.core import history, tools
from handhold.core.errors import (
    BadArguments,
    Busy,
    CallIdReused,
    ContentDropped,
    Denied,
    NoMatch,
    NotApproved,
    ReadOnly,
    Stale,
    ToolError,
    UndoConflict,
    Unfinished,
)
from handhold.core.facts import Identity
from handhold.core.history import Which
from handhold.core.plans import Answer, Bytes, Changes, Content, Directory, FileChange, Search, digest
from handhold.core.policy.guard import GuardedView
from handhold.core.ports import (
    Approver,
    Broken,
    Call,
    Dialect,
    Entry,
    Files,
    Judgement,
    Outcome,
    Policy,
    Question,
    Searcher,
    Store,
    Traits,
    Verb,
    Verdict,
)
from handhold.core.requests import Below, Read, Request
from handhold.core.results import Block, Edited, Patched, Reply, Result, TakenBack, ToolSpec, Written
from handhold.core.text.names import spelled
from handhold.core.tracker import Tracker

LONG = 2000  # characters of an argument that the journal keeps as they are
SEVERITY = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)


class Road:
    """A workspace, a session, a policy and a dialect: what an agent is handed."""

    def __init__(
        self,
        files: Files,
        store: Store,
        dialect: Dialect,
        policy: Policy,
        searcher: Searcher,
        *,
        session: str,
        traits: Traits,
        approver: Approver | None = None,
    ) -> None:
        self.files = files
        self.store = store
        self.dialect = dialect
        self.policy = policy
        self.searcher = searcher
        self.session = session
        self.traits = traits
        self.approver = approver
        self.tracker = Tracker(store.marks(session), store, store, files)
        self._under_way = Once()
        recover(files, store)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        return self.dialect.specs

    # --- calls

    def call(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = "") -> Reply:
        """Do what the model asks, or say why not. Raises only for a bug of ours.

        Arguments are an object, or the text that a free-form tool was given.
        """
        started = perf_counter()
        try:
            recover(self.files, self.store)
            call = Call(self.session, turn, call_id, str(tool), canonical(tool, arguments), self.dialect.name)
            with self._under_way.alone((turn, call_id)):
                return self._repeated(call) or self._journalled(call, arguments, started)
        except ToolError as error:
            return self._refusal(tool, error, started)

    async def acall(self, tool: str, arguments: Mapping[str, Any] | str, *, call_id: str = "", turn: str = "") -> Reply:
        import asyncio  # here: a good part of the start-up time of those who never need it

        return await asyncio.to_thread(self.call, tool, arguments, call_id=call_id, turn=turn)

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
            reply = restored(entry.outcome.reply)
            # A broken machine did nothing: there the call may be tried again.
            return None if reply.blame == "infra" else replace(reply, replayed=True)
        if not entry.changed:
            return None
        return Reply("success", "This call was carried out before; its reply is no longer kept.", replayed=True)

    def _journalled(self, call: Call, arguments: Mapping[str, Any] | str, started: float) -> Reply:
        seq = self.store.begin(call)
        try:
            request = self.dialect.decode(call.tool, arguments)
            return self._carried_out(seq, call, request, started)
        except ToolError as error:
            if isinstance(error, NoMatch):
                error.again = self._failed_just_before(call)
            reply = self._refusal(call.tool, error, started)
            if not isinstance(error, Unfinished):  # that one stays open in the journal, to be taken back
                self.store.settle(seq, outcome_of(reply, call), durable=False)
            return reply

    def _failed_just_before(self, call: Call) -> bool:
        """Whether this session's last call was this one, and failed: to say the same again would not help it."""
        *_, last, _ = [None, *self.store.entries(session=call.session, last=2)]
        if last is None or last.succeeded:
            return False
        return (last.call.tool, last.call.arguments) == (call.tool, call.arguments)

    def _carried_out(self, seq: int, call: Call, request: Request, started: float) -> Reply:
        self._allowed_at_all(request)
        view = self._view()
        plan = tools.plan(request, view)
        if isinstance(plan, Changes) and (files := tuple(change for change in plan if not change.idle)):
            return self._changed(seq, call, request, replace(plan, files=files), started)
        result = self._searched(plan, view) if isinstance(plan, Search) else plan.result
        reply = self._reply(call.tool, request, result, started)
        if isinstance(plan, Answer) and plan.page:
            self.tracker.saw_page(plan.page)
        self.store.settle(seq, outcome_of(reply, call), durable=False)
        return reply

    def _searched(self, search: Search, view: GuardedView) -> Result:
        return tools.conclude(search, self.searcher.search(search, visible=view.visible), view)

    def _view(self) -> GuardedView:
        return GuardedView(self.files, self.policy, self.tracker, self.traits)

    def _changed(self, seq: int, call: Call, request: Request, plan: Changes, started: float) -> Reply:
        decision = self._approved(call.tool, request, plan)
        reply = self._reply(call.tool, request, plan.result, started)
        with self.store.alone():
            if first := self._repeated(call):  # somebody else got the same call, and was faster
                self.store.settle(seq, Outcome("error", "CALL_REPEATED", since(started), None), durable=False)
                return first
            try:
                identities = self._commit(seq, plan.files, outcome_of(reply, call), decision=decision)
            except Stale as stale:
                raise self._explained(stale, request) from None
        try:
            self._remember(plan, identities)
        except ToolError:
            pass  # the change stands and is recorded; at worst the session will have to read the file again
        return reply

    def _remember(self, plan: Changes, identities: Mapping[str, Identity]) -> None:
        for change in plan:
            if self.traits.mark_after_write and isinstance(change.after, Bytes):
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

    def _commit(
        self,
        seq: int,
        files: Sequence[FileChange],
        outcome: Outcome,
        *,
        decision: str,
        takes_back: Sequence[int] = (),
    ) -> Mapping[str, Identity]:
        """The one door, to be passed alone. What the journal does not say was done, was not done."""
        with self.files.transaction(files) as transaction:
            self.store.intend(seq, transaction.id, transaction.files, decision=decision, takes_back=takes_back)
            identities = transaction.perform()
            try:
                self.store.settle(seq, outcome, durable=True)
            except BaseException:
                transaction.take_back()
                raise
            try:
                transaction.finish()
                self.store.finish(seq)
            except ToolError:
                pass  # it is done, and recorded: what could not be thrown away now is at the next start
            return identities

    # --- policy

    def _allowed_at_all(self, request: Request) -> None:
        verb = Verb.READ if isinstance(request, Read | Below) else Verb.CHANGE
        for path in request.paths:
            judgement = self.policy.may(verb, self.files.place(path))
            if judgement.verdict is Verdict.DENY:
                raise Denied(path, judgement.because)
            if verb is Verb.CHANGE and not self.files.writable(path):
                raise ReadOnly(path)

    def _approved(self, tool: str, request: Request, plan: Changes) -> str:
        """The decision on these changes, or the reason why they do not happen."""
        place, judgement = max(
            ((change.path, self.policy.may(verb_of(change), change.path)) for change in plan),
            key=lambda judged: SEVERITY.index(judged[1].verdict),
            default=("", Judgement(Verdict.ALLOW, "nothing changes")),
        )
        if judgement.verdict is Verdict.ALLOW:
            return f"allowed by {self.policy.name}"
        path = self._as_spelled(place, request)
        if judgement.verdict is Verdict.DENY:
            raise Denied(path, judgement.because)
        if self.approver is None:
            raise NotApproved(path, judgement.because, asked=False)
        if not self.approver(Question(tool, plan.files, self._diff(plan.files), judgement.because)):
            raise NotApproved(path, judgement.because, asked=True)
        return "approved"

    def _as_spelled(self, place: str, request: Request) -> str:
        return next((path for path in request.paths if self.files.place(path) == place), place)

    # --- words

    def _reply(self, tool: str, request: Request, result: Result, started: float) -> Reply:
        return Reply(
            status=result.status,
            text=self.dialect.encode(tool, request, result, hints=self.traits.hints),
            data={**result.facts(), "time_ms": since(started)},
            ui_extra=result.diff if isinstance(result, Written | Edited | Patched) else "",
        )

    def _refusal(self, tool: str, error: ToolError, started: float) -> Reply:
        text = self.dialect.refuse(tool, error, hints=self.traits.hints)
        if isinstance(error, Stale) and error.complete and self.traits.hints:
            self._renew(error)
        return Reply("error", text, {**error.facts(), "time_ms": since(started)}, error.code, error.blame.value)

    def _renew(self, stale: Stale) -> None:
        """The refusal showed all that changed: the session knows the file again."""
        whole = self.files.read(stale.path)
        if whole.hash == stale.now:
            self.tracker.saw_diff(whole)

    # --- looking back

    def log(self, *, last: int | None = None, everyone: bool = False) -> Sequence[Entry]:
        """The calls of this session (or of everyone on this workspace), oldest first."""
        return self.store.entries(session=None if everyone else self.session, last=last)

    def diff(self, *, call: str | int = "", turn: str = "", session: bool = False) -> str:
        """What one call, one turn or the whole session did; alone, the last change."""
        which = Which(call, turn, session)
        chosen = history.changes(self.store, self.session, which, undone=False if which.several else None)
        return self._diff(self._sum(chosen))

    def undo(self, *, call: str | int = "", turn: str = "", session: bool = False, preview: bool = False) -> Reply:
        """Take back one call, one turn or the whole session; alone, the last change.

        Refused where it would lose a later change.
        """
        return self._reversed("undo", Which(call, turn, session), preview=preview)

    def redo(self, *, call: str | int = "", turn: str = "", session: bool = False, preview: bool = False) -> Reply:
        """Do again what an undo took back; alone, the last undo."""
        return self._reversed("redo", Which(call, turn, session), preview=preview)

    def _reversed(self, verb: Literal["undo", "redo"], which: Which, *, preview: bool) -> Reply:
        started = perf_counter()
        try:
            recover(self.files, self.store)
            if verb == "undo":
                chosen = history.changes(self.store, self.session, which, undone=False)
            else:
                chosen = history.undos(self.store, self.session, which)
            files = tuple(change.reversed() for change in reversed(self._sum(chosen)))
            self._can_be_had(files)
            result = TakenBack(
                verb=verb,
                calls=tuple(history.name_of(entry) for entry in chosen),
                paths=tuple(spelled(change.path) for change in files if not change.of_directory),
                preview=preview,
                diff=self._diff(files),
            )
            reply = Reply(
                "success",
                told(result, self.files.roots),
                {**result.facts(), "time_ms": since(started)},
                ui_extra=result.diff,
            )
            if not preview:
                self._commit_reversal(verb, which, chosen, files, reply)
        except ToolError as error:
            return self._refusal(verb, error, started)
        return reply

    def _commit_reversal(
        self, verb: str, which: Which, chosen: Sequence[Entry], files: Sequence[FileChange], reply: Reply
    ) -> None:
        arguments = json.dumps({"calls": reply.data["calls"]})
        asked = Call(self.session, which.turn, "", verb, arguments, self.dialect.name)
        seq = self.store.begin(asked)
        seqs = tuple(entry.seq for entry in chosen)
        try:
            with self.store.alone():
                self._commit(seq, files, outcome_of(reply, asked), decision="asked for by the host", takes_back=seqs)
        except Unfinished:
            raise
        except ToolError as error:
            self.store.settle(seq, Outcome("error", error.code, 0.0, None), durable=False)
            raise

    def _diff(self, files: Sequence[FileChange]) -> str:
        return history.diff_of(files, self.store, self.files.roots)

    def _sum(self, chosen: Sequence[Entry]) -> list[FileChange]:
        return history.net([self.store.files(entry.seq) for entry in chosen])

    def _can_be_had(self, files: Sequence[FileChange]) -> None:
        """ContentDropped if the store no longer has what was there; UndoConflict if a file was changed since."""
        gone = tuple(change.path for change in files if self._needs_more(change.after))
        if gone:
            raise ContentDropped(gone)
        changed = tuple(change.path for change in files if not self._is(change.path, change.before))
        if changed:
            raise UndoConflict(changed)

    def _needs_more(self, content: Content | None) -> bool:
        return content is not None and not isinstance(content, Directory) and not self.store.has(content.hash)

    def _is(self, path: str, content: Content | None) -> bool:
        look = self.files.look(path)
        if content is None or look is None:
            return content is None and look is None
        if isinstance(content, Directory):
            return look.kind == "directory"
        return look.kind == "file" and self.files.fingerprint(path)[1] == content.hash

    def close(self) -> None:
        self.files.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recover(files: Files, store: Store) -> None:
    """Finish or take back what a process that died left half done. Looked for before every call: it costs one query."""
    if not store.broken():
        return
    try:
        with store.alone(wait=False), files.alone():
            for broken in store.broken():
                _mend(broken, files, store)
    except Busy:
        pass  # whoever holds it is alive: what looks broken may be what it is doing


def _mend(broken: Broken, files: Files, store: Store) -> None:
    try:
        changed = files.recover(broken)
    except ToolError:
        return  # of a root that is not open here, or the machine will not have it: it stays open, for a later call
    if not broken.settled:
        note = json.dumps({"left": changed}) if changed else None
        store.settle(broken.seq, Outcome("interrupted", None, 0.0, note), durable=True)
    store.finish(broken.seq)


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
        return json.dumps(shortened(arguments), sort_keys=True, separators=(",", ":"))
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


def since(started: float) -> float:
    return round((perf_counter() - started) * 1000, 3)


def verb_of(change: FileChange) -> Verb:
    if change.before is None:
        return Verb.CREATE
    return Verb.DELETE if change.after is None else Verb.CHANGE


def outcome_of(reply: Reply, call: Call) -> Outcome:
    """What the journal keeps; the reply itself only where a repeated call could ask for it."""
    return Outcome(reply.status, reply.code, float(reply.data["time_ms"]), kept(reply) if call.call_id else None)


def kept(reply: Reply) -> str:
    return json.dumps(asdict(reply))


def restored(text: str) -> Reply:
    fields: dict[str, Any] = json.loads(text)
    images = tuple(Block(**block) for block in fields.pop("images"))
    return Reply(images=images, **fields)


def told(taken: TakenBack, roots: Sequence[str]) -> str:
    done = {"undo": "Taken back", "redo": "Done again"}[taken.verb]
    would = {"undo": "Would take back", "redo": "Would do again"}[taken.verb]
    listed = ", ".join(history.short(path, roots) for path in taken.paths[:10])
    more = f" and {len(taken.paths) - 10} more" if len(taken.paths) > 10 else ""
    return f"{would if taken.preview else done}: {', '.join(taken.calls)} ({listed}{more})"
