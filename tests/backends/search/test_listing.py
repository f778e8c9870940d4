import os
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import Random
from time import monotonic
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.files.directory_tree import EntryKind
from handhold.backends.files.workspace import Workspace
from handhold.backends.memory import MemoryFiles
from handhold.backends.search.listing import MAX_EXTRA_ENTRIES, ListingRun, list_directory
from handhold.backends.search.memory import MemoryTree
from handhold.backends.search.search_process import Deadline
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.requests import ListFiles
from tests.backends.search.looking import planted
from tests.scale import examples


def listed(root: Path, *, visible: bool = True, seconds: float = 20.0, after: str = "", **how: object) -> SearchOutcome:
    workspace = Workspace([root], SqliteStore.in_memory())
    try:
        request = ListFiles(**{"limit": 100, "chars": 10_000, **how})  # pyright: ignore[reportArgumentType]
        search = Search(request, workspace.roots[0], seconds, after=after)
        return list_directory(workspace, search, lambda _: visible, monotonic() + seconds)
    finally:
        workspace.close()


def entries(scan: SearchOutcome, root: Path) -> list[tuple[str, str]]:
    return [(hit.place.removeprefix(f"{os.path.realpath(root)}/"), hit.kind) for hit in scan.hits]


@pytest.fixture
def linked(tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text("")
    root = planted(tmp_path / "ws", {"real/a": "", "z.txt": ""})
    for name, target in {
        "folder": "real",
        "file": "z.txt",
        "out": "../outside",
        "gone": "nowhere",
        "loop": "loop",
    }.items():
        (root / name).symlink_to(target)
    return root


def test_seed_004_a_link_counts_as_a_folder_only_if_it_leads_inside(linked: Path):
    assert entries(listed(linked), linked) == [
        ("folder", "directory"),
        ("real", "directory"),
        ("file", "file"),
        ("gone", "link"),
        ("loop", "link"),
        ("out", "link"),
        ("z.txt", "file"),
    ]


def test_nobody_goes_through_a_link(linked: Path):
    shown = [name for name, _ in entries(listed(linked, depth=5), linked)]
    assert shown == ["folder", "real", "real/a", "file", "gone", "loop", "out", "z.txt"]


def test_pages_of_links_follow_each_other(linked: Path):
    whole = listed(linked, depth=3)
    places: list[str] = []
    while len(places) < len(whole.hits):
        page = listed(linked, depth=3, limit=2, after=places[-1] if places else "")
        assert page.hits
        places += [hit.place for hit in page.hits]
    assert places == [hit.place for hit in whole.hits]


class InOrder(MemoryTree):
    """A folder that lists its entries in arbitrary order, as a disk does."""

    def __init__(self, kinds: dict[str, EntryKind]) -> None:
        files = {name: "" for name, kind in kinds.items() if kind == "file"}
        super().__init__(MemoryFiles(files, directories=kinds.keys() - files.keys()), "/ws")
        self.kinds = kinds

    def iter_entries(self, rel_path: bytes) -> Iterator[tuple[str, EntryKind]]:
        assert not rel_path
        yield from self.kinds.items()


def mixed(dice: Random) -> dict[str, EntryKind]:
    some = cast(tuple[EntryKind, ...], dice.choice([("file",), ("file", "file", "directory"), ("directory",)]))
    names = [
        dice.choice(("", "", "", ".")) + str(n)
        for n in dice.sample(range(10_000), dice.randint(0, 6 * MAX_EXTRA_ENTRIES))
    ]
    return {name: dice.choice(some) for name in dice.choice([names, sorted(names), sorted(names, reverse=True)])}


@given(seed=st.integers(0, 1 << 32), limit=st.integers(50, 300))
@settings(deadline=None, max_examples=examples(60))
def test_pages_of_a_large_folder_always_hold_all_of_it_once_and_in_order(seed: int, limit: int):
    tree = InOrder(mixed(Random(seed)))
    seen = {name for name in tree.kinds if (int(name.lstrip(".")) + limit) % 10}
    request = ListFiles(limit=limit, chars=1)
    places: list[str] = []
    more = True
    while more:
        search = Search(request, "/ws", inf, after=places[-1] if places else "")
        scan = ListingRun(tree, search, lambda place: place[4:] in seen, lambda _: "link", Deadline(inf)).run()
        places += [hit.place for hit in scan.hits]
        assert sum(left.files for left in scan.skipped) == sum(name[0] == "." for name in seen)
        more = scan.has_more
    shown = sorted((tree.kinds[name] != "directory", name) for name in seen if name[0] != ".")
    assert places == [f"/ws/{name}" for _, name in shown]


def test_a_fifo_is_shown_and_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert entries(listed(tmp_path), tmp_path) == [("pipe", "file")]


def test_nothing_is_told_of_what_may_not_be_seen(tmp_path: Path):
    planted(tmp_path, {"a": "", ".hidden": "", "node_modules/x": ""})
    scan = listed(tmp_path, visible=False)
    assert (scan.hits, scan.skipped) == ((), ())


def test_a_listing_ends_at_its_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    planted(tmp_path, {f"{n}/a": "" for n in range(50)})
    workspace = Workspace([tmp_path], SqliteStore.in_memory())
    clock = 0.0
    monkeypatch.setattr("handhold.backends.search.search_process.monotonic", lambda: clock)

    def slow(_: str) -> bool:
        nonlocal clock
        clock += 0.01
        return True

    try:
        request = ListFiles(limit=1_000, chars=1, depth=2)
        scan = list_directory(workspace, Search(request, workspace.roots[0], 0.6), slow, 0.6)
    finally:
        workspace.close()
    assert scan.abort_reason == "deadline"
    assert scan.has_more
    assert 0 < len(scan.hits) < 100
