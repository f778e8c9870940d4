"""E-1: what is kept for undo is bounded, and an undo is never dropped before a reply has said so."""

import os
import subprocess
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Reply, Target, Toolbox
from handhold.backends.files.commit.file_ops import FileOps
from handhold.backends.files.manifest import read_entry_state
from handhold.backends.memory import MemoryFiles
from handhold.backends.state import disk_share
from handhold.backends.state.disk_share import DiskShare
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import SettingsBroken, SystemFailure
from handhold.core.plans import digest
from tests.scale import examples
from tests.suites.machine import has_shadows
from tests.suites.store_suite import change, done, noise

pytestmark = pytest.mark.timeout(120)
needs_shadows = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
MIB = 1024 * 1024


def opened(place: Path, undo_bytes: int | None = MIB, session: str = "s") -> Toolbox:
    (place / "ws").mkdir(exist_ok=True)
    state = place / "state"
    return Toolbox.open(place / "ws", state=state, session=session, policy="open", undo_bytes=undo_bytes)


def bash(box: Toolbox, command: str, call_id: str = "") -> Reply:
    reply = box.call("bash", {"command": command}, call_id=call_id)
    assert reply.status == "success", reply.text
    assert (reply.data["exit_status"], reply.data["undo"]) == (0, "all")
    return reply


def write(box: Toolbox, name: str, content: str, call_id: str = "") -> Reply:
    box.call("read_file", {"path": name})
    reply = box.call("write_file", {"path": name, "content": content}, call_id=call_id)
    assert reply.status == "success", reply.text
    return reply


def text(seed: int) -> str:
    """20,000 characters, of which half remain when they are packed."""
    return "".join(f"{noise(seed * 1000 + n, 31).hex()}.\n" for n in range(313))


def given_up(reply: Reply) -> list[int]:
    return [each["seq"] for each in reply.data.get("undo_given_up", ())]


def on_shelf(box: Toolbox) -> int:
    assert isinstance(box.store, SqliteStore)
    with box.store._database.read_transaction() as connection:
        return connection.execute("SELECT in_slots FROM held").fetchone()[0]


def disk_usage(path: Path) -> int:
    listed = subprocess.run(["du", "-s", "--block-size=1", path], check=True, capture_output=True, text=True).stdout
    return int(listed.split()[0])


def tree_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- commands


@needs_shadows
@pytest.mark.parametrize(
    "creates",
    ["truncate -s 3G disk.img", "head -c 3M /dev/urandom > disk.img", "mkdir d && head -c 3M /dev/zero > d/f"],
)
def test_e1_what_a_command_creates_costs_no_undo(tmp_path: Path, creates: str):
    with opened(tmp_path) as box:
        (tmp_path / "ws/src").mkdir()
        for n in range(6):
            (tmp_path / f"ws/src/{n}").write_bytes(noise(n, 100_000))
        before = tree_of(tmp_path / "ws")
        for command in ("rm -rf src", creates):
            assert "undo_given_up" not in bash(box, command).data
        assert box.undo().status == "success"
        assert box.undo().status == "success"
        assert tree_of(tmp_path / "ws") == before


@needs_shadows
def test_e1_a_shelf_is_counted_by_the_blocks_that_lie_there(tmp_path: Path):
    with opened(tmp_path, undo_bytes=None) as box:
        folder = tmp_path / "ws/d"
        (folder / "deeper").mkdir(parents=True)
        (folder / "deeper/full").write_bytes(noise(1, 50_000))
        os.link(folder / "deeper/full", folder / "linked")
        os.symlink("linked", folder / "link")
        with (folder / "sparse").open("wb") as sparse:
            sparse.truncate(10 * 1024**3)
            sparse.write(b"x" * 10_000)
        (tmp_path / "ws/file").write_bytes(noise(2, 30_000))
        tree, file = disk_usage(folder), disk_usage(tmp_path / "ws/file")
        assert 50_000 < tree < 200_000
        found = read_entry_state(str(folder))
        assert found
        assert found.allocated == tree
        bash(box, "rm -r d")
        assert on_shelf(box) == tree
        bash(box, "echo small > file")
        assert on_shelf(box) == tree + file
        assert box.undo().status == "success"
        assert on_shelf(box) == tree + disk_usage(tmp_path / "ws/file") - file + allocated_small(tmp_path)
        assert box.undo().status == "success"
        assert on_shelf(box) == allocated_small(tmp_path)


def allocated_small(place: Path) -> int:
    probe = place / "probe"
    probe.write_text("small\n")
    return disk_usage(probe)


@needs_shadows
def test_e1_the_reply_that_makes_room_says_whose_undo_goes(tmp_path: Path):
    with opened(tmp_path) as box, opened(tmp_path, session="other") as other:
        for name in ("a", "b", "c", "d"):
            (tmp_path / f"ws/{name}").write_bytes(noise(ord(name), 600_000))
        bash(box, "rm a", "first")
        over = bash(box, "rm b", "second")
        (fact,) = over.data["undo_given_up"]
        assert (fact["call"], fact["tool"], fact["paths"], fact["changed"]) == ("first", "bash", ["a"], 1)
        assert "1 earlier call: first (bash: a)." in over.text
        assert "undo_bytes" in over.text
        repeated = box.call("bash", {"command": "rm b"}, call_id="second")
        assert repeated.replayed
        assert given_up(repeated) == given_up(over)
        assert box.undo(Target.call("first"), preview=True).status == "success"
        (fact,) = bash(other, "rm c").data["undo_given_up"]
        assert fact.keys() == {"seq", "tool"}, "what another session did is not told"
        assert box.undo(Target.call("first")).code == "CONTENT_DROPPED"
        assert box.undo(Target.call("second")).status == "success"
        assert (tmp_path / "ws/b").read_bytes() == noise(ord("b"), 600_000)


# --- file tools


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_e1_file_tools_keep_the_same_promise(tmp_path: Path, kind: str):
    texts = {name: text(ord(name)) for name in "abcd"}
    if kind == "disk":
        box = opened(tmp_path, undo_bytes=30_000)
        for name, content in texts.items():
            (tmp_path / "ws" / name).write_text(content)
    else:
        store = SqliteStore.in_memory(bound=30_000)
        box = Toolbox.on(MemoryFiles(texts, contents=store), store, session="s", policy="open")
    with closing(box):
        # What is written costs no undo; what was replaced does.
        replies = [write(box, name, "short\n", name) for name in texts]
        gone = [{each["call"] for each in reply.data.get("undo_given_up", ())} for reply in replies]
        assert gone[:2] == [set(), set()]
        assert gone[2:] == [{"a"}, {"b"}]
        assert [box.undo(Target.call(name), preview=True).code for name in "abcd"] == [
            "CONTENT_DROPPED",
            None,
            None,
            None,
        ]
        assert box.undo(Target.call("d")).status == "success"
        for n in range(3):
            assert not given_up(write(box, f"new{n}", noise(n, 100_000).hex()))
        assert box.undo(Target.call("c")).status == "success"
        assert box.files.read("d").data == texts["d"].encode()


def test_c88_a_reply_that_gives_up_very_many_calls_tells_how_many_and_lists_some(tmp_path: Path):
    with opened(tmp_path, undo_bytes=100_000) as box:
        for n in range(300):
            done(box.store, change(str(tmp_path / f"ws/{n}"), noise(n, 10), None))
        for name in "abcde":
            (tmp_path / "ws" / name).write_text(text(ord(name)))
            box.call("read_file", {"path": name})
        deletes = "".join(f"*** Delete File: {name}\n" for name in "abcde")
        reply = box.call("apply_patch", {"patch": f"*** Begin Patch\n{deletes}*** End Patch"})
        assert reply.data["undo_given_up_count"] > 100, reply.text
        assert len(reply.data["undo_given_up"]) == 50
        assert f"{reply.data['undo_given_up_count']} earlier calls" in reply.text
        assert len(reply.text) < 1000
        assert all(entry.kept for entry in box.store.entries())
        write(box, "other", "new\n")
        dropped = [entry for entry in box.store.entries() if not entry.kept]
        assert 50 < len(dropped) <= reply.data["undo_given_up_count"]


@pytest.mark.parametrize("in_place", ["two names", "no backup"])
def test_c88_c92_an_undo_that_writes_in_place_needs_no_content_that_was_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: str
):
    """What it replaces is kept for a redo only, which is dropped first, and without a reply that says so."""
    with opened(tmp_path, undo_bytes=30_000) as box:
        file = tmp_path / "ws/a"
        file.write_text(text(1))
        if in_place == "two names":
            (tmp_path / "ws/b").hardlink_to(file)
        write(box, "a", text(2), "first")
        for n in range(3, 7):
            assert not given_up(write(box, f"f{n}", text(n)))
        assert not box.store.has(digest(text(2).encode()))
        if in_place == "no backup":
            for name in ("swap", "link"):
                monkeypatch.setattr(FileOps, name, lambda *_, **__: False)
        assert box.undo(Target.call("first")).status == "success"
        assert file.read_text() == text(1)
        assert box.store.has(digest(text(2).encode())), "without it, half a write could not be rolled back"
        assert box.redo(Target.call("first")).status == "success"
        assert file.read_text() == text(2)


# --- always

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["delete", "create", "sparse", "write", "undo", "redo"]),
        st.integers(0, 3),
        st.integers(1, 30),
    ),
    min_size=3,
    max_size=9,
)


@needs_shadows
@given(st.integers(10, 200), STEPS)
@settings(max_examples=examples(12), deadline=None)
def test_e1_an_undo_works_until_a_later_reply_has_given_it_up(kib: int, steps: list[tuple[str, int, int]]):
    with TemporaryDirectory() as place, opened(Path(place), undo_bytes=kib * 1024) as box:
        ws = Path(place) / "ws"
        states: list[tuple[str, dict[str, bytes], bool]] = []  # call, the tree before it, whether its undo is promised
        for n, (step, which, size) in enumerate(steps):
            name = f"f{which}"
            before = tree_of(ws)
            match step:
                case "delete" if (ws / name).exists():
                    reply = bash(box, f"rm {name}", str(n))
                case "create":
                    reply = bash(box, f"head -c {size}K /dev/urandom > {name}", str(n))
                case "sparse":
                    reply = bash(box, f"rm -f {name}; truncate -s {size}M {name}", str(n))
                case "write":
                    box.call("read_file", {"path": name})
                    content = text(n)[: size * 600]
                    reply = box.call("write_file", {"path": name, "content": content}, call_id=str(n))
                    if reply.status != "success":  # it could not be read: a file of random bytes, or a large one
                        continue
                case "undo" if states:
                    call, tree, promised = states[-1]
                    reply = box.undo(Target.call(call))
                    assert promised <= (reply.status == "success"), reply.text
                    if reply.status == "success":
                        states.pop()
                        assert tree_of(ws) == tree
                    continue
                case "redo" if states:
                    call, tree, promised = states[-1]
                    if box.undo(Target.call(call)).status == "success":
                        assert box.redo(Target.call(call)).status == "success"
                    continue
                case _:
                    continue
            gone = {each["call"] for each in reply.data.get("undo_given_up", ())}
            states = [(call, tree, promised and call not in gone) for call, tree, promised in states]
            states.append((str(n), before, True))
        while states:  # newest first, so that nothing stands in the way of an undo but that it was dropped
            call, tree, promised = states.pop()
            reply = box.undo(Target.call(call))
            assert promised <= (reply.status == "success"), reply.text
            if reply.status != "success":
                assert reply.code == "CONTENT_DROPPED"
                break
            assert tree_of(ws) == tree


# --- the bound


def test_e1_the_bound_is_a_setting_of_the_user_and_not_of_a_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "user.toml"
    file.write_text("undo_bytes = 30000\n")
    monkeypatch.setenv("HANDHOLD_CONFIG", str(file))
    (tmp_path / "ws").mkdir()
    for name in "abc":
        (tmp_path / "ws" / name).write_text(text(ord(name)))
    with opened(tmp_path, undo_bytes=None) as box:
        assert [bool(given_up(write(box, name, "new\n"))) for name in "abc"] == [False, False, True]
    with opened(tmp_path, undo_bytes=MIB) as box:  # the code goes before the settings
        assert not given_up(write(box, "a", text(1)))
    (tmp_path / "ws/handhold.toml").write_text("undo_bytes = 200000\n")
    with pytest.raises(SettingsBroken, match="undo_bytes is only allowed in the user's own settings"):
        opened(tmp_path)


@pytest.mark.parametrize("value", ["0", "-1", '"1G"', "1.5", "true", "[1]"])
def test_e1_a_wrong_bound_in_the_settings_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str):
    file = tmp_path / "user.toml"
    file.write_text(f"undo_bytes = {value}\n")
    monkeypatch.setenv("HANDHOLD_CONFIG", str(file))
    with pytest.raises(SettingsBroken, match="undo_bytes must be a whole number above 0"):
        opened(tmp_path, undo_bytes=None)


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_e1_by_default_the_bound_is_a_quarter_of_what_is_free(free: int, held: int):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk_share, "get_free_bytes", lambda folder: {"/state": free, "/": 2**60}[folder])
        share = DiskShare("/state", ["/"])(held)
    assert share == min(max((free + held) // 4, disk_share.MIN_BOUND_BYTES), disk_share.MAX_BOUND_BYTES)


def test_e1_the_default_goes_by_the_disk_itself(tmp_path: Path):
    found = os.statvfs(tmp_path)
    expected = min(max(found.f_bavail * found.f_frsize // 4, disk_share.MIN_BOUND_BYTES), disk_share.MAX_BOUND_BYTES)
    assert abs(DiskShare(tmp_path, [tmp_path])(0) - expected) < 256 * MIB  # others write to it meanwhile


def test_e1_a_root_that_is_gone_does_not_keep_another_from_changing(tmp_path: Path):
    roots = [tmp_path / "a", tmp_path / "b"]
    for root in roots:
        root.mkdir()
    with Toolbox.open(roots, state=tmp_path / "state", session="s", policy="open") as box:
        roots[1].rmdir()
        write(box, str(roots[0] / "f"), "new\n")
        assert box.undo().status == "success"
        assert box.call("write_file", {"path": str(roots[1] / "f"), "content": "new\n"}).code == "NOT_FOUND"


def test_e1_a_state_folder_that_is_gone_is_a_tool_error(tmp_path: Path):
    with pytest.raises(SystemFailure):
        DiskShare(tmp_path / "gone")(0)
