from pathlib import Path

import pytest

from handhold.core.errors import Busy
from handhold.core.ports import Store
from handhold.world import memory
from handhold.world.memory import MemoryStore
from tests.suites.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def opened(self, folder: Path, *, bound: int = 1024**3) -> Store:
        return MemoryStore(bound=bound)


def test_patience_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "PATIENCE", 0.05)
    store = MemoryStore()
    with store.alone(), pytest.raises(Busy) as refused, store.alone():
        pass
    assert refused.value.seconds == 0.05
