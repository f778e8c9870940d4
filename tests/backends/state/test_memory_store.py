"""The store in memory: the same store, without files on disk."""

from pathlib import Path

import pytest

from handhold.backends.state import lock
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import Busy
from handhold.core.plans import digest
from tests.suites.store_suite import change, done, noise, only, turned_away


def test_large_contents_and_locks_leave_nothing_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    store, large = SqliteStore.in_memory(), noise(1, 1_000_000)
    with store.exclusive():
        done(store, change("/ws/a", large, b"new"))
    assert store.get(digest(large)) == large
    assert store.verify().problem is None
    assert list(tmp_path.iterdir()) == []


def test_two_stores_do_not_meet():
    one, two = SqliteStore.in_memory(), SqliteStore.in_memory()
    done(one, change())
    assert list(two.entries()) == []
    with one.exclusive():
        assert turned_away(one)
        assert not turned_away(two)


def test_what_was_closed_can_still_be_asked():
    store = SqliteStore.in_memory()
    done(store, change())
    store.close()
    assert only(store).paths == ("/ws/a.py",)


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lock, "LOCK_TIMEOUT_SECONDS", 0.05)
    store = SqliteStore.in_memory()
    with store.exclusive(), pytest.raises(Busy) as refused, store.exclusive():
        pass
    assert refused.value.seconds == 0.05
