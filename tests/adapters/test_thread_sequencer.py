import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.adapters import thread_sequencer
from handhold.adapters.thread_sequencer import MAX_REMEMBERED_TURNS, ThreadCallSequencer
from tests.scale import examples

CALLS = "abcd"


def started(calls: ThreadCallSequencer, turn: str, call: str, done: list[str]) -> threading.Thread:
    def work() -> None:
        with calls.exclusive(turn, call, CALLS[: CALLS.index(call)]):
            done.append(call)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@given(st.permutations(CALLS))
@settings(max_examples=examples(24))
def test_calls_are_always_carried_out_as_they_stand_however_they_come(arrived: list[str]):
    calls, done = ThreadCallSequencer(), list[str]()
    for thread in [started(calls, "turn", call, done) for call in arrived]:
        thread.join(20)
    assert "".join(done) == CALLS


def test_a_call_that_never_comes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thread_sequencer, "START_TIMEOUT_SECONDS", 0.01)
    calls, done = ThreadCallSequencer(), list[str]()
    started(calls, "turn", "b", done).join(20)
    assert done == ["b"]


def test_a_call_that_failed_lets_the_next_one_go():
    calls, done = ThreadCallSequencer(), list[str]()
    with pytest.raises(LookupError), calls.exclusive("turn", "a", ()):
        raise LookupError
    started(calls, "turn", "b", done).join(20)
    assert done == ["b"]


def test_calls_of_another_turn_wait_too():
    calls, done = ThreadCallSequencer(), list[str]()
    with calls.exclusive("turn", "a", ()):
        thread = started(calls, "other", "a", done)
        time.sleep(0.05)
        assert not done
    thread.join(20)
    assert done == ["a"]


def test_turns_that_are_long_over_are_forgotten():
    calls = ThreadCallSequencer()
    for n in range(MAX_REMEMBERED_TURNS * 2):
        with calls.exclusive(f"turn {n}", "a", ()):
            pass
    assert len(vars(calls)["_started"]) == MAX_REMEMBERED_TURNS
