"""R-1, C-93: only a documented consent of an approver changes anything."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from enum import Enum, StrEnum
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Question, Toolbox
from handhold.core.ports.approvals import RunPaused
from handhold.pipeline.approver import parse_answer
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.timeout(120)

NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "one", "metadata": {}, "source": "1", "outputs": [], "execution_count": None}
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
CELL = {"path": "n.ipynb", "action": "replace", "cell": "one", "source": "2"}
PATCH = "*** Begin Patch\n*** Add File: new\n+1\n*** Update File: a\n@@\n-one\n+1\n*** End Patch"
CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "write": ("write_file", {"path": "new", "content": "1"}),
    "overwrite": ("write_file", {"path": "a", "content": "1"}),
    "edit": ("edit_file", {"path": "a", "old_string": "one", "new_string": "1"}),
    "multi-edit": ("multi_edit", {"path": "a", "edits": [{"old_string": "one", "new_string": "1"}]}),
    "patch": ("apply_patch", {"patch": PATCH}),
    "notebook": ("notebook_edit", CELL),
    "command": ("bash", {"command": "echo 1 >new; rm a"}),
    "background command": ("bash", {"command": "echo 1 >new; rm a", "background": True}),
}


class Answer(StrEnum):
    ONCE = "once"
    DENY = "deny"


class Plain(Enum):
    YES = True
    ONCE = "once"


class Sly(str):
    """A text that claims to equal every other."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("once")


INVALID: tuple[object, ...] = (
    0,
    1,
    1.0,
    "",
    "deny",
    "reject",
    "yes",
    "Once",
    "once ",
    "True",
    b"once",
    object(),
    ["once"],
    ("once",),
    {"answer": "once"},
    Answer.DENY,
    Plain.YES,
    Plain.ONCE,
    Sly("deny"),
)
REFUSALS: tuple[object, ...] = (None, False, "no")
CONSENTS: tuple[object, ...] = (True, "once", "session", "pattern", Answer.ONCE)


class Approver:
    """Gives the answer that it holds: plainly, as a coroutine, or by raising it."""

    def __init__(self, answer: object = None, *, later: bool = False) -> None:
        self.answer = answer
        self.later = later
        self.asked = 0

    def __call__(self, question: Question, /) -> Any:
        self.asked += 1
        return self._awaited() if self.later else self._given()

    async def _awaited(self) -> object:
        await asyncio.sleep(0)
        return self._given()

    def _given(self) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    root.mkdir()
    (root / "a").write_text("one\n")
    (root / "n.ipynb").write_text(json.dumps(NOTEBOOK))
    return root


@pytest.fixture
def opened(ws: Path, tmp_path: Path) -> Iterator[Callable[..., Toolbox]]:
    boxes: list[Toolbox] = []

    def open_it(approver: object, session: str = "s") -> Toolbox:
        box = Toolbox.open(ws, state=tmp_path / "state", approver=approver, session=session, policy="ask")  # pyright: ignore[reportArgumentType]
        boxes.append(box)
        for path in ("a", "n.ipynb"):
            assert box.call("read_file", {"path": path}).status == "success"
        return box

    yield open_it
    for box in boxes:
        box.close()


def held(ws: Path) -> dict[str, tuple[int, bytes]]:
    return {str(each): (each.stat().st_mode, each.read_bytes()) for each in ws.rglob("*")}


def skip_without_shadow(kind: str) -> None:
    if "command" in kind and not has_shadows():
        pytest.skip("no overlay on this machine")


@pytest.mark.parametrize("kind", CALLS)
def test_r1_nothing_but_a_documented_consent_writes(
    ws: Path, opened: Callable[..., Toolbox], kind: str, caplog: pytest.LogCaptureFixture
):
    skip_without_shadow(kind)
    approver = Approver()
    box, before = opened(approver), held(ws)
    for later in (False, True):
        for answer in (*INVALID, RuntimeError("the line is dead"), TimeoutError(), *REFUSALS):
            caplog.clear()
            approver.answer, approver.later, approver.asked = answer, later, 0
            reply = box.call(*CALLS[kind])
            refused = any(answer is each for each in REFUSALS)
            assert approver.asked == 1, (answer, later)
            assert reply.code == ("NOT_APPROVED" if refused else "APPROVER_INVALID"), (answer, later, reply.text)
            assert held(ws) == before, (answer, later)
            errors = [each for each in caplog.records if each.levelno == logging.ERROR]
            assert bool(errors) is not refused
            assert all(each.name.startswith("handhold.") for each in errors)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("answer", CONSENTS, ids=repr)
def test_r1_a_documented_consent_writes(ws: Path, opened: Callable[..., Toolbox], answer: object, later: bool):
    assert opened(Approver(answer, later=later)).call("write_file", {"path": "new", "content": "1"}).status == "success"
    assert (ws / "new").read_text() == "1"


@pytest.mark.parametrize("kind", [each for each in CALLS if each != "background command"])
def test_r1_every_kind_of_call_is_approved_by_an_awaited_consent(ws: Path, opened: Callable[..., Toolbox], kind: str):
    skip_without_shadow(kind)
    before = held(ws)
    assert opened(Approver("once", later=True)).call(*CALLS[kind]).status == "success"
    assert held(ws) != before


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.lists(st.text()))
def test_r1_an_answer_never_approves_unless_it_is_a_documented_consent(answer: object):
    documented = answer is True or (isinstance(answer, str) and answer in ("once", "session", "pattern"))
    try:
        consent = parse_answer(answer)
    except TypeError:
        consent = None
    assert (consent in ("once", "session", "pattern")) is documented


# --- where an awaitable runs


def test_r1_an_async_approver_runs_in_the_event_loop_that_awaits_the_call(ws: Path, opened: Callable[..., Toolbox]):
    async def main() -> None:
        answers: asyncio.Queue[str] = asyncio.Queue()
        loops: list[object] = []

        async def approver(question: Question) -> str:
            loops.append(asyncio.get_running_loop())
            return await answers.get()

        asyncio.get_running_loop().call_later(0.1, answers.put_nowait, "once")
        reply = await opened(approver).acall("write_file", {"path": "new", "content": "1"})
        assert reply.status == "success"
        assert loops == [asyncio.get_running_loop()]

    asyncio.run(main())
    assert (ws / "new").exists()


def test_r1_a_call_that_is_cancelled_while_its_approver_waits_changes_nothing(ws: Path, opened: Callable[..., Toolbox]):
    ended: list[str] = []

    async def main() -> None:
        asked = asyncio.Event()

        async def approver(question: Question) -> bool:
            asked.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.append("the approver")
            return True

        call = asyncio.ensure_future(opened(approver).acall("write_file", {"path": "new", "content": "1"}))
        await asked.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert ended == ["the approver"]
    assert not (ws / "new").exists()


def test_r1_a_plain_call_inside_a_running_loop_awaits_its_approver_elsewhere(ws: Path, opened: Callable[..., Toolbox]):
    async def main() -> bool:
        return (
            opened(Approver(True, later=True)).call("write_file", {"path": "new", "content": "1"}).status == "success"
        )

    assert asyncio.run(main())


def test_r1_a_call_in_a_thread_awaits_its_approver_while_another_loop_runs(ws: Path, opened: Callable[..., Toolbox]):
    box, replies = opened(Approver(True, later=True)), []

    async def main() -> None:
        thread = Thread(
            target=lambda: replies.append(box.call("write_file", {"path": "new", "content": "1"}).status == "success")
        )
        thread.start()
        await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert replies == [True]


# --- what an approver may raise


def test_r1_an_approver_pauses_a_run_by_saying_so(ws: Path, opened: Callable[..., Toolbox]):
    class Interrupt(Exception):
        pass

    def approver(question: Question) -> bool:
        raise RunPaused(Interrupt())

    with pytest.raises(Interrupt):
        opened(approver).call("write_file", {"path": "new", "content": "1"})
    assert not (ws / "new").exists()


def test_r1_a_call_refused_for_its_approver_is_tried_again_under_the_same_id(ws: Path, opened: Callable[..., Toolbox]):
    approver = Approver("yes")
    box = opened(approver)
    assert box.call("write_file", {"path": "new", "content": "1"}, call_id="c").code == "APPROVER_INVALID"
    assert [(each.decision, each.rule) for each in box.log()][-1] == ("refused", "mode ask")
    approver.answer = "once"
    assert box.call("write_file", {"path": "new", "content": "1"}, call_id="c").status == "success"


def test_r1_an_approver_that_is_exchanged_or_taken_away_no_longer_answers(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", approver=lambda _: True) as box:
        assert box.call("write_file", {"path": "a", "content": "1"}).status == "success"
        box.approver = None
        assert box.call("write_file", {"path": "b", "content": "1"}).status == "error"
        box.approver = lambda _: False
        assert box.call("write_file", {"path": "c", "content": "1"}).status == "error"
    assert sorted(path.name for path in (tmp_path / "ws").iterdir()) == ["a"]


class Pausing:
    """Pauses until it has an answer."""

    def __init__(self) -> None:
        self.answer: bool | None = None
        self.diffs: list[str] = []

    def __call__(self, question: Question) -> bool:
        self.diffs.append(question.diff)
        if self.answer is None:
            raise RunPaused(Paused())
        return self.answer


class Paused(Exception):
    pass


RANDOM = {"command": "cat /proc/sys/kernel/random/uuid > token"}  # another content with every run


def test_a_paused_command_that_is_approved_runs_once(ws: Path, opened: Callable[..., Toolbox]):
    approver = Pausing()
    box = opened(approver)
    with pytest.raises(Paused):
        box.call("bash", RANDOM, call_id="c")
    assert not (ws / "token").exists()
    approver.answer = True
    assert box.call("bash", RANDOM, call_id="c").status == "success"
    assert f"+{(ws / 'token').read_text()}" in approver.diffs[0]
    assert approver.diffs[0] == approver.diffs[1]


@pytest.mark.parametrize("call_id", ["another", ""])
def test_another_call_of_the_same_command_runs_by_itself(ws: Path, opened: Callable[..., Toolbox], call_id: str):
    approver = Pausing()
    box = opened(approver)
    with pytest.raises(Paused):
        box.call("bash", RANDOM, call_id="c")
    with pytest.raises(Paused):
        box.call("bash", RANDOM, call_id=call_id)
    assert approver.diffs[0] != approver.diffs[1]


def test_a_paused_command_runs_again_if_a_file_it_changed_was_changed(ws: Path, opened: Callable[..., Toolbox]):
    approver = Pausing()
    box = opened(approver)
    with pytest.raises(Paused):
        box.call("bash", {"command": "echo new >> log"}, call_id="c")
    (ws / "log").write_text("one\n")
    approver.answer = True
    assert box.call("bash", {"command": "echo new >> log"}, call_id="c").status == "success"
    assert (ws / "log").read_text() == "one\nnew\n"


def test_a_paused_command_leaves_nothing_behind_when_the_toolbox_closes(ws: Path, opened: Callable[..., Toolbox]):
    box = opened(Pausing())
    for number in range(20):  # more than are kept
        with pytest.raises(Paused):
            box.call("bash", {"command": f"echo new > log{number}"}, call_id=str(number))
    box.close()
    assert not list(ws.glob("log*"))
    assert not [path for path in ws.parent.rglob("*") if path.name.startswith("log")]
