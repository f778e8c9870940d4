"""The same calls twice: on a disk, and in a dictionary."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handhold import Toolbox
from tests.backends.shell.forked import place, who  # noqa: F401 — fixtures


@dataclass
class Ground:
    """A workspace under test, and the hand that changes it behind the tools' back."""

    open: Callable[..., Toolbox]
    read: Callable[[str], bytes | None]
    write: Callable[[str, bytes | None], None]

    def tree(self, *names: str) -> dict[str, bytes | None]:
        return {name: self.read(name) for name in names}


Files = Mapping[str, str | bytes]


@pytest.fixture(params=["disk", "memory"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Files], Ground]]:
    opened: list[Toolbox] = []

    def on_disk(files: Files) -> Ground:
        root = tmp_path / "ws"
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content.encode() if isinstance(content, str) else content)
        root.mkdir(exist_ok=True)

        def write(name: str, content: bytes | None) -> None:
            if content is None:
                (root / name).unlink()
            else:
                (root / name).write_bytes(content)

        def opener(**options: Any) -> Toolbox:
            options.setdefault("session", "s")
            box = Toolbox.open(root, state=tmp_path / "state", **options)
            opened.append(box)
            return box

        return Ground(opener, lambda name: (root / name).read_bytes() if (root / name).exists() else None, write)

    def in_memory(files: Files) -> Ground:
        box = Toolbox.in_memory(files, session="s")
        memory: Any = box.files

        def opener(**options: Any) -> Toolbox:
            options.setdefault("session", "s")
            return Toolbox.on(box.files, box.store, **options)

        return Ground(opener, memory.get_content, memory.put)

    yield on_disk if request.param == "disk" else in_memory
    for box in opened:
        box.close()
