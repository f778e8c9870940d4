"""A call that is sent again gets the reply it got before. The journal keeps replies by call id for that."""

import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from handhold.core.errors import BadArguments, CallIdReused, Cancelled
from handhold.core.plans import digest
from handhold.core.ports.journal import Call, Outcome
from handhold.core.results import Block, Reply
from handhold.pipeline.session import Session

CANONICAL_JSON = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
RULES_CHANGED = (
    "This call was carried out before. The rules about reading changed since, so its reply is not shown again; "
    "to look again, use a new call id."
)
MAX_ARGUMENT_CHARS = 2000  # that the journal keeps of an argument; the hash of a longer one stands for the rest


class ReplayLog:
    """The replies of earlier calls of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def find_reply(self, call: Call) -> Reply | None:
        """The first reply to this very call; None if it must be carried out."""
        entry = self._session.journal.find_call(call.session, call.turn, call.call_id) if call.call_id else None
        if entry is None:
            return None
        if (entry.call.tool, entry.call.arguments) != (call.tool, call.arguments):
            raise CallIdReused(call.call_id)
        if entry.outcome is None or entry.outcome.status == "interrupted":
            return None  # it never came to an end; if it had begun something, that was rolled back
        if entry.outcome.reply is not None:
            reply, rules = _load_reply(entry.outcome.reply)
            # A broken machine did nothing, nor did a call whose question waits or found no room: it may be tried again.
            again = reply.error_source == "infra" or reply.data.get("approval") or reply.data.get("unasked")
            if again:
                return None
            if rules != self._session.read_rules_hash:
                return Reply(reply.status, RULES_CHANGED, {"time_ms": reply.data["time_ms"]}, reply.code, replayed=True)
            return replace(reply, replayed=True)
        if not entry.changed:
            return None
        return Reply("success", "This call was carried out before; its reply is no longer kept.", replayed=True)

    def failed_just_before(self, call: Call) -> bool:
        """Whether this session's last call was this one, and failed: to say the same again would not help it."""
        *_, last, _ = [None, *self._session.journal.entries(session=call.session, last=2)]
        if last is None or last.succeeded:
            return False
        return (last.call.tool, last.call.arguments) == (call.tool, call.arguments)

    def make_outcome(self, reply: Reply, call: Call) -> Outcome:
        """What the journal keeps; the reply itself only where a repeated call could ask for it.

        Not with images in it, which would fill the store: whoever asks again looks again.

        A call that was cancelled is as one that never came to an end: sent again, it is done.
        """
        status = "interrupted" if reply.code == Cancelled.code else reply.status
        kept = _dump_reply(reply, self._session.read_rules_hash) if call.call_id and not reply.images else None
        return Outcome(status, reply.code, float(reply.data["time_ms"]), kept)


def _dump_reply(reply: Reply, read_rules_hash: str) -> str:
    return json.dumps({**reply.to_dict(), "reading": read_rules_hash})


def _load_reply(text: str) -> tuple[Reply, str]:
    """A reply, and the hash of the rules about reading under which it was made."""
    fields: dict[str, Any] = json.loads(text)
    reading = fields.pop("reading", "")
    fields["error_source"] = fields.pop("blame", None) or fields.get("error_source")  # its name in older journals
    images = tuple(Block(**block) for block in fields.pop("images"))
    return Reply(images=images, **fields), reading


class CallLocks:
    """The same call id at the same time, in two threads: the second waits for the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[tuple[str, str], tuple[threading.Lock, int]] = {}

    @contextmanager
    def hold(self, key: tuple[str, str]) -> Generator[None]:
        """`key` is the turn and the call id. A call without an id waits for nobody."""
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
    """Arguments as one spelling of JSON, so that the same call is the same text. What is long goes by its hash."""
    try:
        return CANONICAL_JSON.encode(_shorten(arguments))
    except (TypeError, ValueError, RecursionError) as error:
        wanted = f"an object that JSON can hold ({error})"
        raise BadArguments(tool, "arguments", type(arguments).__name__, wanted) from None


def _shorten(value: Any) -> Any:
    """The journal keeps contents in a bounded store; it must not grow by a second copy of them in the arguments."""
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
