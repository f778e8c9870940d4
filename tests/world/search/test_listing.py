import os
from pathlib import Path
from time import monotonic, sleep

import pytest

from handhold.core.facts import Scan
from handhold.core.plans import Search
from handhold.core.requests import ListFiles
from handhold.world.files.workspace import Workspace
from handhold.world.memory import MemoryStore
from handhold.world.search.listing import listing
from tests.world.search.looking import planted


def listed(root: Path, *, visible: bool = True, seconds: float = 20.0, after: str = "", **how: object) -> Scan:
    workspace = Workspace([root], MemoryStore())
    try:
        request = ListFiles(**{"limit": 100, "chars": 10_000, **how})  # pyright: ignore[reportArgumentType]
        search = Search(request, workspace.roots[0], seconds, after=after)
        return listing(workspace, search, lambda _: visible, monotonic() + seconds)
    finally:
        workspace.close()


def entries(scan: Scan, root: Path) -> list[tuple[str, str]]:
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


def test_a_fifo_is_shown_and_does_not_block(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    assert entries(listed(tmp_path), tmp_path) == [("pipe", "file")]


def test_nothing_is_told_of_what_may_not_be_seen(tmp_path: Path):
    planted(tmp_path, {"a": "", ".hidden": "", "node_modules/x": ""})
    scan = listed(tmp_path, visible=False)
    assert (scan.hits, scan.skipped) == ((), ())


def test_a_listing_ends_at_its_deadline(tmp_path: Path):
    planted(tmp_path, {f"{n}/a": "" for n in range(50)})
    workspace = Workspace([tmp_path], MemoryStore())

    def slow(_: str) -> bool:
        sleep(0.01)
        return True

    try:
        request = ListFiles(limit=1_000, chars=1, depth=2)
        scan = listing(workspace, Search(request, workspace.roots[0], 0.6), slow, monotonic() + 0.6)
    finally:
        workspace.close()
    assert scan.aborted == "deadline"
    assert scan.more
    assert 0 < len(scan.hits) < 100
