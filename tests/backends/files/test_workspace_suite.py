import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import FileChange
from handhold.core.ports.store import Store
from tests.faults.commands import Command, file
from tests.suites.files_suite import FilesSuite, Ground, Make


@dataclass
class OnDisk:
    files: Workspace
    store: Store
    root: Path

    def put(self, name: str, data: bytes | None) -> None:
        if data is None:
            (self.root / name).unlink()
        else:
            (self.root / name).write_bytes(data)

    def shelve(self, name: str, data: bytes | None) -> FileChange:
        shelf = self.files.get_staging_area(self.files.open_roots[0])
        assert shelf
        command = Command(shelf, self.root)
        return (command.removes(name) if data is None else command.puts(name, file(data))).changes[0]

    def tree(self) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(self.root)): None if path.is_dir() else path.read_bytes()
            for path in self.root.rglob("*")
        }


class TestWorkspace(FilesSuite):
    @pytest.fixture(params=["openat2", "walk"], autouse=True)
    def ends(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with ExitStack() as self.opened:
            self.resolver = request.param
            try:
                yield
            except NotImplementedError as missing:
                pytest.skip(str(missing))

    @pytest.fixture
    def make(self, ends: None) -> Make:
        return self.fresh

    def fresh(self, tree: Mapping[str, bytes]) -> Ground:
        home = Path(self.opened.enter_context(tempfile.TemporaryDirectory()))
        root, state = home / "root", home / "state"
        root.mkdir()
        for name, data in tree.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)
        store = SqliteStore.in_memory()
        workspace = Workspace([root], store, resolver=self.resolver, state=state)
        self.opened.callback(workspace.close)
        return OnDisk(workspace, store, root)
