"""The toolboxes of sessions, and the validity of handles."""

import asyncio
import gc
import os
import sqlite3
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.server.server_config import ServerConfig
from handhold.server.session_pool import NoSuchSession, PooledSession, SessionPool
from handhold.toolbox import Toolbox
from tests.server.hosting import Shop, talk, text_of


def left(desks: SessionPool, desk: PooledSession) -> None:
    for unused in desks.release(desk):
        unused.close()


def test_no_more_desks_are_open_than_there_is_room_for_and_the_longest_unused_goes_first(shop: Shop):
    desks = SessionPool(max_open=2)
    for session in ("one", "two", "one", "three"):
        desk = desks.acquire(shop.serving(), session)
        with desk.use_toolbox() as box:
            assert box.call("read_file", {"path": "a.py"}).status == "success"
        left(desks, desk)
    assert len(desks) == 2
    assert desks.acquire(shop.serving(), "one").is_idle is False
    assert len(desks) == 2, "the second one went"
    desks.close()


def test_a_desk_with_a_call_or_a_job_on_it_stays(shop: Shop):
    desks = SessionPool(max_open=1)
    used = desks.acquire(shop.serving(), "used")
    working = desks.acquire(shop.serving(), "working")
    with working.use_toolbox() as box:
        begun = box.call("bash", {"command": "sleep 30", "background": True})
        assert begun.status == "success", begun.text
        left(desks, working)
        assert len(desks) == 2, "one is in use, on the other a job runs"
        box.call("bash_stop", {"job": begun.data["job"]})
    left(desks, used)
    assert len(desks) == 1
    desks.close()


def test_g1_past_the_limit_a_release_looks_at_few_sessions_however_many_are_busy(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    looked = 0
    is_idle = PooledSession.is_idle.fget
    assert is_idle

    def counting(session: PooledSession) -> bool:
        nonlocal looked
        looked += 1
        return is_idle(session)

    monkeypatch.setattr(PooledSession, "is_idle", property(counting))
    desks = SessionPool(max_open=2)
    busy = [desks.acquire(shop.serving(), f"busy {n}") for n in range(200)]
    for n in range(50):
        looked = 0
        left(desks, desks.acquire(shop.serving(), f"idle {n}"))
        assert looked <= 16
    for desk in busy:
        left(desks, desk)
    for n in range(50):  # each closes some of those that were busy
        left(desks, desks.acquire(shop.serving(), f"idle {n}"))
    assert len(desks) <= 2
    desks.close()


def test_g1_a_session_past_the_limit_is_opened_again_without_a_connection_and_without_rules(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    desks, serving = SessionPool(max_open=2), shop.serving()

    def call(name: str) -> Toolbox:
        desk = desks.acquire(serving, name)
        with desk.use_toolbox() as box:
            assert box.call("read_file", {"path": "a.py"}).ok
        left(desks, desk)
        return box

    first = call("0")
    call("1")
    monkeypatch.setattr(sqlite3, "connect", lambda *_, **__: pytest.fail("another connection"))
    for n in range(20):
        assert call(str(n)).policy is first.policy
    desks.close()


def test_a_session_whose_desk_was_cleared_knows_what_it_knew(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(), desks=SessionPool(max_open=0)) as client:
            await client.call_tool("read_file", {"path": "a.py"})
            edit = {"path": "a.py", "old_string": "1", "new_string": "2"}
            edited = await client.call_tool("edit_file", edit, meta={"handhold/callId": "c1"})
            assert not edited.is_error, text_of(edited)
            again = await client.call_tool("edit_file", edit, meta={"handhold/callId": "c1"})
            assert text_of(again) == text_of(edited)

    asyncio.run(run())
    assert (shop.root / "a.py").read_text() == "price = 2\n"


def test_a_closed_server_has_closed_every_descriptor(shop: Shop):
    def opened() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    before = opened()
    desks = SessionPool()
    for session in range(5):
        desk = desks.acquire(shop.serving(), str(session))
        with desk.use_toolbox() as box:
            box.call("read_file", {"path": "a.py"})
        left(desks, desk)
    assert opened() > before
    desks.close()
    assert opened() <= before


# --- handles


def test_a_handle_outlives_the_server_that_gave_it(shop: Shop):
    first, second = SessionPool(), SessionPool()
    handle = first.create_handle(shop.serving(), name := first.generate_name())
    assert second.resolve_handle(shop.serving(), handle) == name


def test_the_key_is_nobody_elses_to_read(shop: Shop):
    SessionPool().create_handle(shop.serving(), "s")
    assert (shop.serving().state_folder / "server.key").stat().st_mode & 0o777 == 0o600


def test_what_is_handed_out_to_one_name_means_nothing_under_another(shop: Shop):
    desks = SessionPool()
    handle = desks.create_handle(shop.serving(name="anna"), "s")
    for other in ("", "bert", "anna\0"):
        with pytest.raises(NoSuchSession):
            desks.resolve_handle(shop.serving(name=other), handle)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_handle_is_never_guessed(name: str, guessed: str):
    desks = SessionPool()
    serving = ServerConfig(("/",), name=name)
    desks._keys[None, "/"] = b"k" * 32
    handle = desks.create_handle(serving, "s")
    assert desks.resolve_handle(serving, handle) == "s"
    if guessed != handle:
        with pytest.raises(NoSuchSession):
            desks.resolve_handle(serving, guessed)
    sealed = desks.seal(serving, "approval", guessed)
    assert desks.unseal(serving, "approval", sealed) == guessed
    assert desks.unseal(serving, "session", sealed) is None


def test_sessions_that_do_nothing_cost_nothing(shop: Shop):
    desks, serving = SessionPool(), shop.serving()
    desks.create_handle(serving, "first")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(2000):
            session = desks.resolve_handle(serving, desks.create_handle(serving, desks.generate_name()))
            left(desks, desks.acquire(serving, session))
        gc.collect()  # the interpreter keeps freed tuples, to use them again
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    desks.close()
    each = (after - before) / 2000
    print(f"{each:.1f} bytes a session")
    assert each < 100, "a handle says all there is to know"
