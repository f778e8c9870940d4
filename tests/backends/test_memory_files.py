from collections.abc import Mapping
from dataclasses import dataclass
from posixpath import dirname

import pytest

from handhold.backends.memory import MemoryFiles
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import FileChange, StagedContent, digest
from handhold.core.ports.store import Store
from tests.suites.files_suite import FilesSuite, Ground, Make


@dataclass
class InMemory:
    files: MemoryFiles
    store: Store

    def put(self, name: str, data: bytes | None) -> None:
        self.files.put(name, data)

    def shelve(self, name: str, data: bytes | None) -> FileChange:
        slot = f"c/{len(self.files.slots)}-{name}"
        if data is not None:
            self.files.slots[slot] = data

        def thing(data: bytes | None) -> StagedContent | None:
            return None if data is None else StagedContent(slot, "file", digest(data), len(data), 0o644, (1, 1), 1)

        return FileChange(self.files.resolve(name), thing(self.files.get_content(name)), thing(data))

    def tree(self) -> dict[str, bytes | None]:
        directories = {*self.files.directories}
        for name in [*self.files.files, *self.files.directories]:
            while name := dirname(name):
                directories.add(name)
        return {**{name: None for name in directories if name}, **self.files.files}


def in_memory(tree: Mapping[str, bytes]) -> Ground:
    store = SqliteStore.in_memory()
    return InMemory(MemoryFiles(tree, contents=store), store)


class TestMemoryFiles(FilesSuite):
    @pytest.fixture
    def make(self) -> Make:
        return in_memory

    def fresh(self, tree: Mapping[str, bytes]) -> Ground:
        return in_memory(tree)


def test_a_workspace_is_a_dictionary():
    files = MemoryFiles({"a.py": "x\n", "/ws/b": b"\0"})
    assert files.files == {"a.py": b"x\n", "b": b"\0"}
    assert files.roots == ("/ws",)


def test_the_dictionary_may_be_changed_behind_the_tools_back():
    files = MemoryFiles({"a.py": "x\n"})
    before = files.read("a.py")
    files.files["a.py"] = b"y\n"
    after = files.read("a.py")
    assert (before.data, after.data) == (b"x\n", b"y\n")
    assert before.identity != after.identity
