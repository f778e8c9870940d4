"""What pages are told: every change after the first event of a stream, however slow the watching begins."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

import pytest

from handhold.review.events import EventHub
from handhold.review.workspace import ReviewedWorkspace
from tests.review.hosting import ask
from tests.server.hosting import Shop

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def workspace(shop: Shop) -> Iterator[ReviewedWorkspace]:
    workspace = ReviewedWorkspace([str(shop.root)], shop.state)
    yield workspace
    workspace.close()


async def read_until(events: AsyncGenerator[str], name: str) -> None:
    async with asyncio.timeout(10):
        async for event in events:
            if event.startswith(f"event: {name}\n"):
                return
    pytest.fail(f"the stream ended without {name}")


def test_a_question_between_the_first_event_and_the_first_look_is_told(
    workspace: ReviewedWorkspace, monkeypatch: pytest.MonkeyPatch
):
    asked = threading.Event()

    @contextmanager
    def hold_late() -> Iterator[None]:
        assert asked.wait(20)
        yield

    monkeypatch.setattr(workspace.store.review_presence, "hold", hold_late)

    async def listen() -> None:
        hub = EventHub(workspace)
        async with aclosing(hub.stream()) as events:
            await read_until(events, "hello")
            ask(workspace.store, 1)
            asked.set()
            await read_until(events, "questions")
        await hub.close()

    asyncio.run(listen())


def test_streams_end_when_watching_failed_and_the_next_one_works(
    workspace: ReviewedWorkspace, monkeypatch: pytest.MonkeyPatch
):
    async def listen() -> None:
        hub = EventHub(workspace)
        async with aclosing(hub.stream()) as events:
            await read_until(events, "hello")
            with monkeypatch.context() as broken:
                broken.setattr(workspace.records, "version", lambda: 1 / 0)
                async with asyncio.timeout(10):
                    assert [each async for each in events] == []
        async with aclosing(hub.stream()) as events:
            await read_until(events, "hello")
            ask(workspace.store, 1)
            await read_until(events, "questions")
        await hub.close()

    asyncio.run(listen())
