"""R-13, C-93: an approval that is given later covers exactly what was shown."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from handhold import Question, Toolbox
from handhold.adapters.paused_approvals import build_payload
from handhold.backends.files.manifest import exact_hash
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

pytestmark = pytest.mark.usefixtures("held_by")

BIG = "mkdir d && head -c 1100000 /dev/zero | tr '\\0' {} >d/big && touch -d @1 d/big d"
HUGE = "truncate -s 65M huge && printf {} | dd of=huge conv=notrunc status=none && touch -d @1 huge"
# What a script does when the question is put, and what it does when the call is sent again.
OTHERWISE = {
    "kind": ("printf x >new", "ln -s x new"),
    "mode": ("printf x >new", "printf x >new && chmod 777 new"),
    "mode of a folder": ("mkdir new", "mkdir -m 1777 new"),
    "kind in a new folder": ("mkdir d && printf x >d/new", "mkdir d && ln -s x d/new"),
    "mode in a new folder": ("mkdir d && printf x >d/new", "mkdir d && printf x >d/new && chmod 755 d/new"),
    "content in a new folder, of the same size and time": (BIG.format("a"), BIG.format("b")),
    "content of a large file, of the same size and time": (HUGE.format("a"), HUGE.format("b")),
    "one more file": ("printf x >new", "printf x >new && printf x >other"),
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def box(tmp_path: Path, ws: Path) -> Iterator[Toolbox]:
    with Toolbox.open(ws, state=tmp_path / "state", session="s", policy="ask") as box:
        yield box


def run(box: Toolbox, ws: Path, script: str):
    (ws / "make.sh").write_text(script)
    return box.call("bash", {"command": "bash make.sh"})


@pytest.mark.parametrize("what", OTHERWISE)
def test_r13_an_approval_is_for_no_other(box: Toolbox, ws: Path, what: str):
    first, second = OTHERWISE[what]
    asked = run(box, ws, first)
    box.store.answer(asked.data["approval"], "once", by="ann")
    other = run(box, ws, second)
    assert other.code == "NOT_APPROVED"
    assert [each.name for each in ws.iterdir()] == ["make.sh"]
    assert run(box, ws, first).status == "success", "and the answer still stands for what it was given for"


def test_r13_what_would_be_deleted_is_covered_too(box: Toolbox, ws: Path):
    (ws / "d").mkdir()
    for content in (b"a", b"b"):
        (ws / "d/big").write_bytes(content * 1_100_000)
        os.utime(ws / "d/big", (1, 1))
        asked = box.call("bash", {"command": "rm -r d"})
        assert asked.code == "NOT_APPROVED"
        if content == b"a":
            box.store.answer(asked.data["approval"], "once", by="ann")
    assert (ws / "d/big").exists()


def test_r13_an_answer_for_the_session_allows_what_it_was_shown_to_allow(box: Toolbox, ws: Path):
    asked = box.call("write_file", {"path": "a", "content": "1"})
    question = box.store.get_pending(asked.data["approval"])
    box.store.answer(question.hash, "session", by="ann")
    assert box.call("write_file", {"path": "a", "content": "1"}).status == "success"
    assert set(box.store.list_grants("s")) == set(question.allows)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("printf x >new && chmod 755 new", "[new: new file, mode 755]"),
        ("printf x >new && chmod 666 new", "[new: new file, mode 666]"),
        ("mkdir -p d/e && printf x >d/e/new && chmod 755 d/e/new", "[d/e/new: new file, mode 755]"),
        ("mkdir -p d/e && chmod 1777 d/e", "[d/e: new folder, mode 1777]"),
    ],
)
def test_r13_modes_of_what_is_new_are_shown(box: Toolbox, ws: Path, script: str, line: str):
    asked = run(box, ws, script)
    assert line in box.store.get_pending(asked.data["approval"]).diff.splitlines()


def test_r13_ordinary_modes_are_not_shown(box: Toolbox, ws: Path):
    asked = run(box, ws, "mkdir d && printf x >d/new && printf x >new")
    assert "new file" not in box.store.get_pending(asked.data["approval"]).diff


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_r13_the_exact_hash_covers_the_owner(tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d/f").write_text("x")
    hashes = set[str]()
    for path, owner in ((tmp_path, 0), (tmp_path / "d/f", 1), (tmp_path / "d", 1)):
        os.chown(path, owner, -1)
        hashes.add(exact_hash("d", dir_fd=os.open(tmp_path, os.O_RDONLY)))
        hashes.add(exact_hash(str(tmp_path / "d")))
    assert len(hashes) == 3


def test_r13_what_cannot_be_read_is_never_the_same(tmp_path: Path):
    assert exact_hash(str(tmp_path / "absent")) != exact_hash(str(tmp_path / "absent"))
    assert exact_hash(str(tmp_path)) == exact_hash(str(tmp_path))


def test_r13_a_paused_run_is_approved_by_every_byte_and_not_by_the_diff():
    one, other = (Question("bash", (), "[cut]", "because", id=each) for each in ("1", "2"))
    assert build_payload(one)["change"] != build_payload(other)["change"]
