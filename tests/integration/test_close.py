"""A toolbox after `close`, and while it is being closed: one error, and nothing half done."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import monotonic

import pytest

from handhold import Question, Toolbox, ToolboxClosed
from handhold.core.ports.policy import Verb

WRITE = {"path": "new.txt", "content": "x\n"}


def opened(root: Path, **options: object) -> Toolbox:
    return Toolbox.open(root, state=root.parent / "state", settings=False, **options)  # pyright: ignore[reportArgumentType]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a.txt").write_text("x\n")
    return root


def open_files() -> list[str]:
    names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    return [os.readlink(name) for name in names if os.path.lexists(name)]


async def streamed(box: Toolbox) -> list[object]:
    async with box.stream("read_file", {"path": "a.txt"}) as events:
        return [each async for each in events]


USES: dict[str, Callable[[Toolbox], object]] = {
    "call": lambda box: box.call("read_file", {"path": "a.txt"}),
    "call that writes": lambda box: box.call("write_file", WRITE),
    "call of a command": lambda box: box.call("bash", {"command": "true"}),
    "call of no tool": lambda box: box.call("nonsense", {}),
    "acall": lambda box: asyncio.run(box.acall("read_file", {"path": "a.txt"})),
    "stream": lambda box: asyncio.run(streamed(box)),
    "undo": Toolbox.undo,
    "redo": Toolbox.redo,
    "log": Toolbox.log,
    "diff": Toolbox.diff,
    "decide": lambda box: box.decide(Verb.READ, "a.txt"),
    "decide_command": lambda box: box.decide_command("ls"),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("where", ["disk", "memory"])
def test_r5_whatever_is_asked_of_a_closed_toolbox_gives_one_error(root: Path, use: str, where: str):
    box = opened(root) if where == "disk" else Toolbox.in_memory({"a.txt": "x\n"})
    box.call("read_file", {"path": "a.txt"})
    box.close()
    box.close()
    with pytest.raises(ToolboxClosed, match="closed"):
        USES[use](box)
    assert issubclass(ToolboxClosed, RuntimeError)
    assert (root / "a.txt").read_text() == "x\n"
    assert not (root / "new.txt").exists()


def test_r5_what_needs_nothing_open_still_answers(root: Path):
    with opened(root) as box:
        pass
    assert box.specs
    assert box.instructions
    assert not box.is_busy
    box.interrupt()


def test_r5_calls_that_meet_a_close_reply_or_say_that_it_is_closed(root: Path):
    """And no other exception: none of the store, say."""
    for _ in range(5):
        box, found, together = opened(root), list[BaseException](), threading.Barrier(5)

        def work(box: Toolbox, found: list[BaseException], together: threading.Barrier, number: int) -> None:
            together.wait()
            try:
                while True:
                    reply = box.call("write_file", {"path": f"{number}.txt", "content": "x\n"})
                    assert reply.code in (None, "BUSY", "STALE", "ALREADY_EXISTS", "NOT_READ"), reply
                    box.log()
            except BaseException as error:  # noqa: BLE001
                found.append(error)

        threads = [threading.Thread(target=work, args=(box, found, together, number)) for number in range(4)]
        for thread in threads:
            thread.start()
        together.wait()
        box.close()
        for thread in threads:
            thread.join(20)
        assert [type(each) for each in found] == [ToolboxClosed] * 4, found
        with opened(root) as box:
            assert all(entry.outcome for entry in box.log(everyone=True)), "each call came to its end"


def test_r5_a_call_under_way_comes_to_its_end_and_then_all_is_closed(root: Path):
    """Here the approver takes longer than `close` waits: what the call uses stays open until it is done."""
    asked, answer, replies = threading.Event(), threading.Event(), list[object]()

    def approver(question: Question) -> bool:
        asked.set()
        return answer.wait(20)

    box = opened(root, policy="ask", approver=approver)
    thread = threading.Thread(target=lambda: replies.append(box.call("write_file", WRITE).status))
    thread.start()
    assert asked.wait(20)
    box.close(timeout=0.1)
    with pytest.raises(ToolboxClosed):
        box.log()
    answer.set()
    thread.join(20)
    assert replies == ["success"]
    assert (root / "new.txt").read_text() == "x\n"
    assert not any(str(root.parent) in name for name in open_files()), "the last one out closed the store"


def test_r5_a_toolbox_may_be_closed_from_within_a_call(root: Path):
    def approver(question: Question) -> bool:
        box.close()
        return True

    box = opened(root, policy="ask", approver=approver)
    began = monotonic()
    assert box.call("write_file", WRITE).status == "success"
    assert monotonic() - began < 4, "it does not wait for itself"
    with pytest.raises(ToolboxClosed):
        box.call("write_file", WRITE)


def test_r5_close_ends_a_command_that_runs(root: Path):
    box, replies = opened(root, policy="open"), list[object]()
    if box.call("bash", {"command": "true"}).status == "error":
        pytest.skip("no command runs on this machine")
    thread = threading.Thread(target=lambda: replies.append(box.call("bash", {"command": "sleep 50"}).code))
    thread.start()
    while not box.store.entries(last=1)[0].call.arguments.count("sleep"):
        pass
    box.close()
    thread.join(20)
    assert replies == ["CANCELLED"] or replies == ["NO_SHELL"], replies


def test_async_with_closes_it_without_blocking_the_loop(root: Path):
    async def use() -> tuple[Toolbox, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        async with opened(root) as box:
            thread = threading.Thread(target=box.call, args=("bash", {"command": "sleep 30"}))
            thread.start()
            while not box.is_busy and not any(entry.call.tool == "bash" for entry in box.log()):
                await asyncio.sleep(0.01)
            before = ticks
        ticking.cancel()
        thread.join()
        return box, ticks - before

    box, ticks = asyncio.run(use())
    assert ticks > 0
    with pytest.raises(ToolboxClosed):
        box.call("read_file", {"path": "a.txt"})
