"""Idempotent calls: a call that is sent again gets the reply it got before, from the journal."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from handhold.core.errors import BadArguments, CallIdReused, Cancelled, ToolError
from handhold.core.plans import digest
from handhold.core.ports.journal import Call, JournalEntry, Outcome
from handhold.core.results import Block, Reply, RunResult
from handhold.logs import log_swallowed
from handhold.pipeline.session import Session

CANONICAL_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
RULES_CHANGED = (
    "This call was already carried out. The rules about reading have changed since, so its reply is not repeated; "
    "to run it again, use a new call id."
)
UNDONE_SINCE = (
    "[This call was already carried out, and its change has been undone since. To make it again, use a new call id.]"
)
CHANGED_SINCE = (
    "[This call was already carried out and was not repeated. Changed since: {paths}. Read again before you go on.]"
)
MAX_ARGUMENT_CHARS = 2000  # a longer argument is kept in the journal by its beginning and its hash
MAX_CHECKED_PATHS = 100  # of a replayed call
MAX_NAMED_PATHS = 3


class ReplayLog:
    """The replies of earlier calls of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find_reply(self, call: Call) -> Reply | None:
        """The first reply to this call; None if the call must be carried out."""
        entry = self._session.journal.find_call(call.session, call.turn, call.call_id) if call.call_id else None
        if entry is None:
            return None
        if (entry.call.tool, entry.call.arguments) != (call.tool, call.arguments):
            raise CallIdReused(call.call_id)
        if entry.outcome is None or entry.outcome.status == "interrupted":
            return None  # it never finished; what it had begun was rolled back
        if entry.outcome.reply is None:
            text = "This call was already carried out; its reply is no longer kept."
            return self._add_note(Reply("success", text, replayed=True), entry) if entry.changed else None
        reply, rules = _load_reply(entry.outcome.reply)
        # These calls changed nothing: the machine or Handhold failed, or a question waits or found no room.
        if reply.error_source in ("infra", "tool") or reply.data.get("approval") or reply.data.get("unasked"):
            return None
        if rules != self._session.read_rules_hash:
            return Reply(reply.status, RULES_CHANGED, {"time_ms": reply.data["time_ms"]}, reply.code, replayed=True)
        return self._add_note(replace(reply, replayed=True), entry)

    def _add_note(self, reply: Reply, entry: JournalEntry) -> Reply:
        """The reply; if the files are no longer as the call left them, it says so.

        A call that was undone is not made again: a client that retries late would bring back what a person undid.
        """
        if entry.undone:
            reply, note = replace(reply, data={**reply.data, "undone": True}), UNDONE_SINCE
        elif changed := self._find_changed_since(entry):
            shown = [self._session.format_path(path) for path in changed if self._session.is_visible(path)]
            more = len(changed) - len(shown[:MAX_NAMED_PATHS])
            names = [*shown[:MAX_NAMED_PATHS], *([f"{more} more"] if shown and more else [])]
            note = CHANGED_SINCE.format(paths=", ".join(names) or "its files")
        else:
            return reply
        return replace(reply, text=f"{reply.text}\n\n{note}")

    def _find_changed_since(self, entry: JournalEntry) -> list[str]:
        """The paths that are not as this call left them, of the first hundred that it changed."""
        if not (entry.changed and entry.succeeded):
            return []
        from handhold.pipeline.change_contents import is_current

        found: list[str] = []
        for change in self._session.journal.changes_of(entry.seq)[:MAX_CHECKED_PATHS]:
            try:
                if not is_current(self._session.files, change.path, change.after):
                    found.append(change.path)
            except ToolError:
                log_swallowed()  # it cannot be read now, so nobody can tell
        return found

    def failed_just_before(self, call: Call) -> bool:
        """Whether this session's last call was the same and failed, so that the same refusal would not help."""
        *_, last, _ = [None, *self._session.journal.entries(session=call.session, last=2)]
        if last is None or last.succeeded:
            return False
        return (last.call.tool, last.call.arguments) == (call.tool, call.arguments)

    def make_outcome(self, reply: Reply, call: Call) -> Outcome:
        """What the journal keeps of a reply.

        The reply itself is kept only for a call with an id and for a command, which only the reply tells the end of,
        and not if it has images, which would fill the store. A cancelled call counts as unfinished: sent again, it is
        carried out.
        """
        status = "interrupted" if reply.code == Cancelled.code else reply.status
        is_kept = bool(call.call_id or isinstance(reply.result, RunResult)) and not reply.images
        kept = _dump_reply(reply, self._session.read_rules_hash) if is_kept else None
        return Outcome(status, reply.code, float(reply.data["time_ms"]), kept)


def _dump_reply(reply: Reply, read_rules_hash: str) -> str:
    return json.dumps({**reply.to_dict(), "reading": read_rules_hash})


def _load_reply(text: str) -> tuple[Reply, str]:
    """A reply, and the hash of the reading rules that were in force."""
    fields: dict[str, Any] = json.loads(text)
    reading = fields.pop("reading", "")
    fields["error_source"] = fields.pop("blame", None) or fields.get("error_source")  # its name in older journals
    images = tuple(Block(**block) for block in fields.pop("images"))
    return Reply(images=images, **fields), reading


class CallLocks:
    """Locks by call id: of two threads with the same call, the second waits for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: tuple[str, str]) -> Generator[None]:
        """`key` is the turn and the call id. A call without an id does not wait."""
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


def canonicalize_arguments(tool: str, arguments: Any) -> str:
    """Arguments as canonical JSON, so that equal calls are equal strings. Long values are replaced by their hash."""
    try:
        return CANONICAL_JSON.encode(_shorten(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        expected = f"an object that fits into JSON: {error}"
        raise BadArguments(tool, "arguments", type(arguments).__name__, expected) from None


def _shorten(value: Any) -> Any:
    """Contents are kept in a bounded store; the journal must not grow by a second copy in the arguments."""
    match value:
        case str() if len(value) > MAX_ARGUMENT_CHARS:
            hash = digest(value.encode("utf-8", "surrogatepass"))
            return f"{value[:80]}… ({len(value)} characters, sha256 {hash})"
        case dict():
            return {key: _shorten(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case list() | tuple():
            return [_shorten(inner) for inner in value]  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value
