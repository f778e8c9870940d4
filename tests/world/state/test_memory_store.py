from pathlib import Path

from handhold.core.ports import Store
from handhold.world.memory import MemoryStore
from tests.suites.store_suite import StoreSuite


class TestMemoryStore(StoreSuite):
    def opened(self, folder: Path, *, bound: int = 1024**3) -> Store:
        return MemoryStore(bound=bound)
