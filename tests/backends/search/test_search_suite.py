import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.memory import MemoryFiles
from handhold.backends.search import DiskSearch
from handhold.backends.search.memory import MemorySearch
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.text.path_escaping import escape_path
from tests.suites.search_suite import Ground, Make, SearchSuite


class TestDiskSearch(SearchSuite):
    """With each engine alone; the built-in search does what it cannot."""

    @pytest.fixture(params=["ripgrep", "walk"])
    def make(self, request: pytest.FixtureRequest) -> Iterator[Make]:
        with ExitStack() as opened:

            def fresh(tree: Mapping[str, str | bytes]) -> Ground:
                root = Path(opened.enter_context(tempfile.TemporaryDirectory()))

                def put(name: str, data: bytes | None) -> None:
                    path = root / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.unlink() if data is None else path.write_bytes(data)

                for age, (name, data) in enumerate(tree.items()):
                    put(name, data.encode() if isinstance(data, str) else data)
                    os.utime(root / name, (1_000_000 - age, 1_000_000 - age))
                workspace = Workspace([root], SqliteStore.in_memory())
                opened.callback(workspace.close)
                return Ground(DiskSearch(workspace, engines=[request.param]), workspace.roots[0], put)

            yield fresh


class TestMemorySearch(SearchSuite):
    @pytest.fixture
    def make(self) -> Make:
        def fresh(tree: Mapping[str, str | bytes]) -> Ground:
            files = MemoryFiles(contents=SqliteStore.in_memory())
            for name, data in tree.items():
                files.files[name] = data.encode() if isinstance(data, str) else data
            for name in list(tree)[::-1]:  # a file is as old as its first stat
                files.stat(escape_path(name))
            return Ground(MemorySearch(files), files.roots[0], lambda name, data: put(files, name, data))

        return fresh


def put(files: MemoryFiles, name: str, data: bytes | None) -> None:
    if data is None:
        del files.files[name]
    else:
        files.write(name, data)
