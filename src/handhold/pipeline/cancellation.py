"""Calls from an event loop: cancellation, and output of commands while they run."""

import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from handhold.core.errors import Cancelled
from handhold.core.results import OutputChunk, Reply

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from concurrent.futures import Executor

MAX_PENDING_CHARS = 1024 * 1024  # of output that was not consumed yet; more is dropped and counted
INTERRUPT_POLL_SECONDS = 0.05  # between two attempts to end a command that may not have started
CANCEL_POLL_SECONDS = 0.1  # between two checks whether a call that waits for an approver was cancelled


class CancelToken:
    """Connects a running call to its caller, who may follow and cancel it."""

    def __init__(self, watch: Callable[[str], None] | None = None) -> None:
        self.watch = watch
        self.thread: int | None = None  # the thread in which a command of this call runs
        self.loop: AbstractEventLoop | None = None  # the loop, in another thread, that awaits this call
        self._cancelled = threading.Event()

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def raise_if_cancelled(self) -> None:
        """Raise Cancelled if the call was cancelled."""
        if self.is_cancelled:
            raise Cancelled()

    def wait_for(self, awaitable: Awaitable[Any]) -> Any:
        """The result of `awaitable`, from the thread of the call; Cancelled if the call is cancelled meanwhile.

        It runs in the event loop that awaits the call. A call that is not awaited may itself block a loop, so there
        the awaitable gets a new loop in a thread of its own.
        """
        import asyncio

        async def outcome() -> tuple[Any, BaseException | None]:
            try:
                return await awaitable, None
            except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the call
                return None, error

        with nullcontext(self.loop) if self.loop else _new_loop() as loop:
            running = asyncio.run_coroutine_threadsafe(outcome(), loop)
            try:
                while True:
                    try:
                        result, error = running.result(CANCEL_POLL_SECONDS)
                        break
                    except TimeoutError:
                        self.raise_if_cancelled()
            finally:
                running.cancel()
        if isinstance(error, asyncio.CancelledError):
            self.raise_if_cancelled()
            raise RuntimeError("it was cancelled before it answered") from error
        if error:
            raise error
        return result

    @contextmanager
    def command(self) -> Generator[None]:
        self.raise_if_cancelled()
        self.thread = threading.get_ident()
        try:
            yield
        finally:
            self.thread = None


@contextmanager
def _new_loop() -> "Generator[AbstractEventLoop]":
    """An event loop in its own thread; tasks that still run at the end are cancelled."""
    import asyncio
    from concurrent.futures import Future

    started: Future[tuple[AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        end = asyncio.Event()
        started.set_result((asyncio.get_running_loop(), end))
        await end.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    loop, end = started.result()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join()


Work = Callable[[CancelToken], Reply]
Interrupt = Callable[[int], None]  # ends the command that runs in this thread


async def run_awaited(work: Work, interrupt: Interrupt, executor: "Executor | None" = None) -> Reply:
    """Run a call in a thread and return its reply. If cancelled, returns after nothing of the call runs any more.

    `executor` provides the threads; by default the event loop's.
    """
    token = CancelToken()
    return await _wait_for_reply(_start(work, token, executor), token, interrupt)


async def run_streamed(
    work: Work, interrupt: Interrupt, executor: "Executor | None" = None
) -> AsyncGenerator[OutputChunk | Reply]:
    """The output of a call while it runs, and finally its reply."""
    import asyncio

    loop = asyncio.get_running_loop()
    arrived = asyncio.Event()
    pending = PendingOutput(lambda: loop.call_soon_threadsafe(arrived.set))
    token = CancelToken(pending.add)
    running = _start(work, token, executor)
    running.add_done_callback(lambda _: arrived.set())
    try:
        while not running.done():
            await arrived.wait()
            arrived.clear()
            if piece := pending.take():
                yield piece
        if piece := pending.take():
            yield piece
        yield running.result()
    finally:
        await _stop(running, token, interrupt)


def _start(work: Work, token: CancelToken, executor: "Executor | None") -> "Future[Reply]":
    import asyncio
    from contextvars import copy_context

    context = copy_context()
    token.loop = asyncio.get_running_loop()
    return token.loop.run_in_executor(executor, lambda: context.run(work, token))


async def _wait_for_reply(running: "Future[Reply]", token: CancelToken, interrupt: Interrupt) -> Reply:
    import asyncio  # here, since it is slow to import and many never need it

    try:
        return await asyncio.shield(running)
    finally:
        await _stop(running, token, interrupt)


async def _stop(running: Any, token: CancelToken, interrupt: Interrupt) -> None:
    """Cancel a call and wait until it has ended, even if this is cancelled meanwhile."""
    import asyncio

    while not running.done():
        token.cancel()
        if token.thread is not None:
            interrupt(token.thread)
        try:
            await asyncio.wait([running], timeout=INTERRUPT_POLL_SECONDS)
        except asyncio.CancelledError:
            continue


class PendingOutput:
    """Output that was not consumed yet, bounded: the consumer may be slower than the command."""

    def __init__(self, notify: Callable[[], object]) -> None:
        self._notify = notify
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._size = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        with self._lock:
            first = not self._pieces and not self._dropped
            if self._size + len(text) <= MAX_PENDING_CHARS:
                self._pieces.append(text)
                self._size += len(text)
            else:
                self._dropped += len(text)
        if first:
            self._notify()

    def take(self) -> OutputChunk | None:
        with self._lock:
            if not self._pieces and not self._dropped:
                return None
            piece = OutputChunk("".join(self._pieces), self._dropped)
            self._pieces, self._size, self._dropped = [], 0, 0
            return piece
