"""A thread that ships the journal to a hub, in order, at least once.

Calls never wait for it: they commit to the local store, and the store's commit wakes this thread. It reads the next
records through a connection of its own, makes them durable, uploads the contents that they name, and then sends them.
Of several processes on one state folder, one ships at a time.
"""

import random
import time
from collections.abc import Callable, Iterator, Sequence
from threading import Condition, Thread
from typing import Protocol

from handhold.backends.state.contents import unpack
from handhold.backends.state.lock import hold_file_lock
from handhold.backends.state.records import IntentRecord, OutcomeRecord
from handhold.backends.state.uplink_state import UnsentRecord, UplinkState, select_shippable
from handhold.backends.uplink.hub_client import HubAway, HubClient, HubHead, HubRefused
from handhold.core.errors import Busy, HubUnreachable, ToolError
from handhold.core.plans import Content
from handhold.core.ports.hub_link import HubStatus
from handhold.core.shipped_records import MAX_BATCH_RECORDS
from handhold.logs import log_swallowed, suppress_and_log, warn_once

BATCH_BYTES = 1024 * 1024
MAX_ASKED_HASHES = 500
GATHER_SECONDS = 0.05  # to wait for more records before a batch is sent
POLL_SECONDS = 2.0  # to look for records of other processes
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.2, 30.0
REFUSED_RETRY_SECONDS = 30.0  # for what only a person can change: a token, a diverged chain
COMPARE_SECONDS = 600.0  # between looks at the hub's head without anything to send: it may have been restored
LOCK_SECONDS = 0.2
ACK_SECONDS = 10.0  # that a call waits for the hub, if it has to
WAIT_STEP_SECONDS = 0.05
WARN_AFTER_SECONDS = 60.0  # a hub that was away for less is not worth a word in a reply

# The bytes of a content at a path; None if they are no longer kept.
ReadContent = Callable[[Content, str], bytes | None]


class ShippingRules(Protocol):
    """What may leave the machine."""

    def may_ship(self, path: str, data: bytes) -> bool:
        """Whether bytes may that are, or were, at this path; an empty path is that of a reply."""
        ...

    def learn(self, path: str, data: bytes) -> None:
        """Take note of the secrets in an earlier content of a hidden file."""
        ...


class Uplink:
    """Implements the port HubLink. Thread-safe."""

    def __init__(
        self,
        state: UplinkState,
        client: HubClient,
        lock_file: str,
        read_content: ReadContent,
        rules: ShippingRules,
        *,
        ack_seconds: float = ACK_SECONDS,
    ) -> None:
        self._state, self._client, self._lock_file = state, client, lock_file
        self._read_content, self._rules = read_content, rules
        self._ack_seconds = ack_seconds
        self._condition = Condition()
        self._is_awake = True  # something may have to be shipped
        self._is_closing = False
        self._waiters = 0  # calls that wait for an acknowledgement
        self._retry_at = 0.0  # on the monotonic clock: not before, unless a call waits
        self._retry_seconds = FIRST_RETRY_SECONDS
        self._failing_since = 0.0
        self._compared_at = -COMPARE_SECONDS  # our head with the hub's, on the monotonic clock
        self._judged = 0  # the last record of whose contents it was decided whether they may be shipped
        self._has_learned = False  # the secrets in what earlier processes left
        self.warning = ""
        self._thread = Thread(target=self._run, name="handhold-uplink", daemon=True)

    def start(self) -> None:
        """Starting it again has no effect."""
        if self._thread.ident is None:
            self._judged = self._state.attach(self._client.url)
            self._thread.start()

    def wake(self) -> None:
        """Called after every commit: only sets a flag."""
        if not self._is_awake:
            with self._condition:
                self._is_awake = True
                self._condition.notify_all()

    def status(self) -> HubStatus | None:
        return self._state.read_status()

    def wait_until_acknowledged(self) -> None:
        wanted = self._read_status().head
        until = time.monotonic() + self._ack_seconds
        with self._condition:
            self._waiters += 1
            self._is_awake = True
            self._condition.notify_all()
        try:
            while (found := self._read_status()).acknowledged < wanted:
                if time.monotonic() >= until or found.diverged_at or self._is_closing:
                    raise HubUnreachable(found.hub, found.describe(), self._ack_seconds)
                with self._condition:
                    self._condition.wait(WAIT_STEP_SECONDS)
        finally:
            with self._condition:
                self._waiters -= 1

    def _read_status(self) -> HubStatus:
        """HubUnreachable if the user gave up the hub meanwhile."""
        found = self._state.read_status()
        if found is None:
            raise HubUnreachable(self._client.url, "This workspace no longer has a hub.", 0)
        return found

    def close(self, timeout: float = 5.0) -> None:
        """Ship what is left, unless that takes too long or the hub is away: then the next process does."""
        with self._condition:
            self._is_closing = True
            self._condition.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        self._client.close()
        self._state.close()

    # --- the thread

    def _run(self) -> None:
        while True:
            try:
                self._wait_for_records()
                self._judge_new_contents()
                if self._is_done():
                    return
                if not self._is_time_to_ship():
                    continue
                with hold_file_lock(self._lock_file, LOCK_SECONDS):
                    while self._ship_batch() and not self._must_stop():
                        self._note_success()
                self._note_success()
            except Busy:
                self._wait(LOCK_SECONDS)  # another process ships
            except HubAway as away:
                self._note_failure(f"it cannot be reached: {away.because}", away.wait)
            except HubRefused as refused:
                self._note_failure(str(refused), REFUSED_RETRY_SECONDS)
            except ToolError as error:
                log_swallowed()
                self._note_failure(f"the journal cannot be read: {error}", REFUSED_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - told, and tried again: a thread that ends is not noticed
                log_swallowed()
                self._note_failure(f"shipping failed: {type(error).__name__}: {error}", REFUSED_RETRY_SECONDS)
            if self._must_stop():
                return

    def _wait_for_records(self) -> None:
        with self._condition:
            if not self._is_closing:
                self._condition.wait_for(lambda: self._is_awake or self._is_closing, POLL_SECONDS)
                if not self._waiters:
                    self._condition.wait_for(lambda: self._waiters or self._is_closing, GATHER_SECONDS)
            self._is_awake = False

    def _is_time_to_ship(self) -> bool:
        """After a failure not at once, even if a call waits; but new records are looked at meanwhile."""
        with self._condition:
            pause = self._retry_at - time.monotonic()
            if self._is_closing or pause <= 0:
                return True
            if self._waiters:
                self._condition.wait_for(lambda: self._is_closing, min(pause, FIRST_RETRY_SECONDS))
                return True
            self._condition.wait_for(lambda: self._is_awake or self._waiters or self._is_closing, pause)
            self._is_awake = True
            return False

    def _is_done(self) -> bool:
        """When closing, what is left is shipped, but nothing is tried twice. Or the user gave up the hub."""
        status = self._state.read_status()
        return status is None or (self._is_closing and (not status.lag or self._failing_since > 0))

    def _must_stop(self) -> bool:
        return self._is_closing and self._failing_since > 0

    def _wait(self, seconds: float) -> None:
        with self._condition:
            self._condition.wait_for(lambda: self._is_closing, seconds)
            self._is_awake = True

    def _note_success(self) -> None:
        with self._condition:
            self._retry_at, self._retry_seconds, self._failing_since = 0.0, FIRST_RETRY_SECONDS, 0.0
            self.warning = ""
            self._condition.notify_all()

    def _note_failure(self, because: str, wait: float) -> None:
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        self._retry_at = now + max(wait, self._retry_seconds * random.uniform(0.5, 1.0))
        self._retry_seconds = min(self._retry_seconds * 2, LAST_RETRY_SECONDS)
        try:
            status = self._write_problem(because)
        except Exception as error:  # noqa: BLE001 - a full disk, for one: then it is told at once
            log_swallowed()
            self.warning = f"The hub at {self._client.url} does not get this journal: {because}; {error}."
        else:
            if status and (status.diverged_at or now - self._failing_since > WARN_AFTER_SECONDS):
                self.warning = status.describe()
        if self.warning:
            warn_once("hub", self.warning)
        with self._condition:
            self._is_awake = True  # there is still something to do
            self._condition.notify_all()

    def _write_problem(self, because: str) -> HubStatus | None:
        status = self._state.read_status()
        if status and status.problem != because:
            self._state.note_problem(because, diverged_at=status.diverged_at)
            status = self._state.read_status()
        return status

    # --- one batch

    def _ship_batch(self) -> bool:
        """Ship the next records; whether there may be more."""
        status = self._state.read_status()
        if status is None:
            return False
        if status.diverged_at or time.monotonic() - self._compared_at >= COMPARE_SECONDS:
            self._compare_heads(status)
        self._learn_secrets()
        records = self._state.read_batch(MAX_BATCH_RECORDS, BATCH_BYTES)
        if not records:
            return False
        self._state.sync()  # a power cut must not take back what the hub has
        self._upload_contents(records)
        try:
            head = self._client.append([each.line for each in records], status.head)
        except HubRefused as refused:
            if refused.code == "GAP":
                self._go_back(HubHead.parse(refused.facts))
                return True
            if refused.code == "DIVERGED":
                self._note_diverged(HubHead.parse(refused.facts).diverged_at, str(refused))
            raise
        if self._state.find_digest(head.record) != head.digest:
            self._note_diverged(min(head.record, records[-1].number + 1), "the hub has other records than this journal")
        self._state.move_to(head.record)
        return True

    def _compare_heads(self, status: HubStatus) -> None:
        """A state folder that was restored has less than the hub; a hub that was restored has less than we know."""
        head = self._client.read_head()
        if head.diverged_at:
            self._note_diverged(head.diverged_at, "the hub has other records than this journal")
        elif self._state.find_digest(head.record) != head.digest:
            # The last record that both may have is sent: if it differs, the hub knows too, and keeps it apart.
            self._state.move_to(max(0, min(head.record, status.head) - 1))
        elif head.record != status.acknowledged or status.diverged_at:
            self._state.move_to(head.record)
        else:
            self._state.note_reached()
        self._compared_at = time.monotonic()

    def _go_back(self, head: HubHead) -> None:
        """Send again what the hub lacks. If it ends with a record that is not ours, that one is sent to show it."""
        is_ours = self._state.find_digest(head.record) == head.digest
        self._state.move_to(head.record if is_ours else max(0, head.record - 1))

    def _note_diverged(self, record: int, because: str) -> None:
        self._state.note_problem(because, diverged_at=max(1, record))
        raise HubRefused(409, {"error": "DIVERGED", "message": because})

    # --- contents

    def _judge_new_contents(self) -> None:
        """Decide what may be shipped, also while the hub is away: later, a secret that changed is no longer known."""
        while records := self._state.read_batch(MAX_BATCH_RECORDS, BATCH_BYTES, after=self._judged):
            contents = dict(self._iter_contents(records)).items()
            self._state.withhold([hash for hash, (content, path) in contents if self._is_secret(hash, content, path)])
            self._judged = records[-1].number

    def _is_secret(self, hash: str, content: Content | None, path: str) -> bool:
        try:
            data = self._read(hash, content, path)
        except ToolError:
            log_swallowed()
            return True  # nobody can tell
        return data is not None and not self._rules.may_ship(path, data)

    def _learn_secrets(self) -> None:
        """Once, before what earlier processes left is shipped: a secret in it may be nowhere else any more."""
        last = None
        while not self._has_learned and (records := self._state.read_batch(MAX_BATCH_RECORDS, BATCH_BYTES, last)):
            contents = list(self._iter_contents(records))
            withheld = self._state.select_withheld({hash for hash, _ in contents})
            for hash, (content, path) in contents:
                if hash in withheld and (data := self._read_if_possible(hash, content, path)) is not None:
                    self._rules.learn(path, data)
            last = records[-1].number
        self._has_learned = True

    def _upload_contents(self, records: Sequence[UnsentRecord]) -> None:
        wanted = dict(self._iter_contents(records))
        withheld = self._state.select_withheld(wanted)
        hashes = [hash for hash in wanted if hash not in withheld]
        for start in range(0, len(hashes), MAX_ASKED_HASHES):
            for hash in self._client.select_missing(hashes[start : start + MAX_ASKED_HASHES]):
                content, path = wanted[hash]
                data = self._read_if_possible(hash, content, path)
                if data is not None and self._rules.may_ship(path, data):
                    self._upload(hash, data)

    def _iter_contents(self, records: Sequence[UnsentRecord]) -> Iterator[tuple[str, tuple[Content | None, str]]]:
        """The contents that records name, by hash, with their paths. A reply has neither."""
        for each in records:
            match each.record:
                case IntentRecord(files=files):
                    for content, path in select_shippable(files):
                        yield content.hash, (content, path)
                case OutcomeRecord(reply=str(reply)):
                    yield reply, (None, "")
                case _:
                    pass

    def _read(self, hash: str, content: Content | None, path: str) -> bytes | None:
        """The bytes; None if they are gone."""
        if content is not None:
            return self._read_content(content, path)
        found = self._state.read_reply(hash)
        return unpack(found[0], packed=bool(found[1])) if found else None

    def _read_if_possible(self, hash: str, content: Content | None, path: str) -> bytes | None:
        with suppress_and_log(ToolError):
            return self._read(hash, content, path)
        return None

    def _upload(self, hash: str, data: bytes) -> None:
        try:
            self._client.upload(hash, data)
        except HubRefused as refused:
            if refused.code not in ("HASH_MISMATCH", "TOO_LARGE"):
                raise
            log_swallowed()  # the file was written while it was read, or the hub takes smaller ones
