"""Which toolbox serves a session, and who may name one."""

import asyncio
import gc
import os
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.server.desks import Desk, Desks, NoSuchSession
from handhold.server.serving import Serving
from tests.server.hosting import Shop, talk, text_of


def left(desks: Desks, desk: Desk) -> None:
    for unused in desks.leave(desk):
        unused.close()


def test_no_more_desks_are_open_than_there_is_room_for_and_the_longest_unused_goes_first(shop: Shop):
    desks = Desks(most=2)
    for session in ("one", "two", "one", "three"):
        desk = desks.take(shop.serving(), session)
        with desk.box() as box:
            assert box.call("read_file", {"path": "a.py"}).status == "success"
        left(desks, desk)
    assert len(desks) == 2
    assert desks.take(shop.serving(), "one").idle is False
    assert len(desks) == 2, "the second one went"
    desks.close()


def test_a_desk_with_a_call_or_a_job_on_it_stays(shop: Shop):
    desks = Desks(most=1)
    used = desks.take(shop.serving(), "used")
    working = desks.take(shop.serving(), "working")
    with working.box() as box:
        begun = box.call("bash", {"command": "sleep 30", "background": True})
        assert begun.status == "success", begun.text
        left(desks, working)
        assert len(desks) == 2, "one is in use, on the other a job runs"
        box.call("bash_stop", {"job": begun.data["job"]})
    left(desks, used)
    assert len(desks) == 1
    desks.close()


def test_a_session_whose_desk_was_cleared_knows_what_it_knew(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving(), desks=Desks(most=0)) as client:
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
    desks = Desks()
    for session in range(5):
        desk = desks.take(shop.serving(), str(session))
        with desk.box() as box:
            box.call("read_file", {"path": "a.py"})
        left(desks, desk)
    assert opened() > before
    desks.close()
    assert opened() <= before


# --- handles


def test_a_handle_outlives_the_server_that_gave_it(shop: Shop):
    first, second = Desks(), Desks()
    handle = first.handle(shop.serving(), name := first.mint())
    assert second.named_by(shop.serving(), handle) == name


def test_the_key_is_nobody_elses_to_read(shop: Shop):
    Desks().handle(shop.serving(), "s")
    assert (shop.serving().folder / "server.key").stat().st_mode & 0o777 == 0o600


def test_what_is_handed_out_to_one_name_means_nothing_under_another(shop: Shop):
    desks = Desks()
    handle = desks.handle(shop.serving(name="anna"), "s")
    for other in ("", "bert", "anna\0"):
        with pytest.raises(NoSuchSession):
            desks.named_by(shop.serving(name=other), handle)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_handle_is_never_guessed(name: str, guessed: str):
    desks = Desks()
    serving = Serving(("/",), name=name)
    desks._keys[None, "/"] = b"k" * 32
    handle = desks.handle(serving, "s")
    assert desks.named_by(serving, handle) == "s"
    if guessed != handle:
        with pytest.raises(NoSuchSession):
            desks.named_by(serving, guessed)
    sealed = desks.sealed(serving, "approval", guessed)
    assert desks.unsealed(serving, "approval", sealed) == guessed
    assert desks.unsealed(serving, "session", sealed) is None


def test_sessions_that_do_nothing_cost_nothing(shop: Shop):
    desks, serving = Desks(), shop.serving()
    desks.handle(serving, "first")
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(2000):
            session = desks.named_by(serving, desks.handle(serving, desks.mint()))
            left(desks, desks.take(serving, session))
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    desks.close()
    each = (after - before) / 2000
    print(f"{each:.1f} bytes a session")
    assert each < 100, "a handle says all there is to know"
