"""G-5, G-6: the bound for undo counts what is on disk, and no change pays for everything that has to go."""

import os
import shutil
from contextlib import closing
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from handhold import Reply, Target, Toolbox
from handhold.backends.files.commit import slots as commit_slots
from handhold.backends.files.staging_area import OPEN_SUFFIX, RemovalBudget, StagingArea, remove_tree
from handhold.backends.state import contents, space_totals, undo_space
from handhold.backends.state.space_totals import DISK_OVERHEAD
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.plans import FileChange
from handhold.core.ports.journal import Outcome
from tests.counting import sql_steps, system_calls
from tests.scale import examples
from tests.suites.machine import has_shadows
from tests.suites.store_suite import (
    NO_OVERHEAD,
    begun,
    call,
    change,
    done,
    failure,
    noise,
    replied,
    shelved,
    slots_of,
)

needs_shadows = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")
pytestmark = pytest.mark.timeout(120)
MIB = 1024 * 1024


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path


def opened(place: Path, undo_bytes: int = MIB) -> Toolbox:
    return Toolbox.open(place / "ws", state=place / "state", session="s", policy="open", undo_bytes=undo_bytes)


def bash(box: Toolbox, command: str, call_id: str = "") -> Reply:
    reply = box.call("bash", {"command": command}, call_id=call_id)
    assert reply.status == "success", reply.text
    return reply


def shelf(place: Path) -> Path:
    (found,) = (place / "state").glob("*/shelf")
    return found


def measure(folder: Path) -> tuple[int, int]:
    """Blocks and inodes below a folder."""
    found = [each.lstat() for each in (folder, *folder.rglob("*"))]
    return sum(each.st_blocks * 512 for each in found), len(found)


# --- what counts


@needs_shadows
@pytest.mark.parametrize("fill", ["echo {n} > f", "rm -rf d; mkdir d; cd d; for i in $(seq 40); do : > $i; done"])
def test_g5_neither_blocks_nor_inodes_exceed_the_bound_by_more_than_5_percent(place: Path, fill: str):
    bound = MIB
    with opened(place, bound) as box:
        for n in range(70 if "seq" not in fill else 25):
            bash(box, fill.format(n=n))
            held, inodes = measure(shelf(place))
        assert held <= bound * 1.05
        assert inodes <= bound // DISK_OVERHEAD.entry * 1.05


def test_g5_what_a_command_takes_besides_its_data_counts(tmp_path: Path):
    bound = 10 * (DISK_OVERHEAD.slot + DISK_OVERHEAD.entry)
    with closing(SqliteStore(tmp_path, bound=bound)) as store:
        for n in range(40):
            done(store, shelved(f"{n}/1", b"small", b"new", f"/ws/{n}"))
        assert len(slots_of(store)) <= 12


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["edit", "command", "undo", "redo", "fail", "read"]),
        st.integers(0, 30),
        st.integers(1, 900),
        st.integers(1, 900),
    ),
    max_size=40,
)


@given(st.integers(500, 5000), STEPS)
@example(1000, [*(("edit", n, 30, 1) for n in range(30)), *(("edit", 30 + n, 300, 1) for n in range(10))])
@example(1000, [*(("edit", n, 30, 1) for n in range(30)), *(("fail", n, 200, 200) for n in range(8))])
@settings(max_examples=examples(60), deadline=None)
def test_g5_c88_all_but_the_last_two_changes_exceed_the_bound_by_5_percent_at_most(
    bound: int, steps: list[tuple[str, int, int, int]]
):
    with (
        pytest.MonkeyPatch.context() as patch,
        closing(SqliteStore.in_memory(bound=bound, overhead=NO_OVERHEAD)) as store,
    ):
        patch.setattr(space_totals, "DROP_PORTION", 3)
        for limit in ("MAX_GIVEN_UP_CALLS", "MAX_SKIPPED", "MAX_EXAMINED"):
            patch.setattr(undo_space, limit, 3)
        made: dict[int, FileChange] = {}
        undos: dict[int, int] = {}
        last_two, failed = [0, 0], 0  # the bytes of the last two changes, each with the undos and redos after it

        def held() -> int:
            with store._database.read_transaction() as connection:
                return store._contents.sum_held(connection, "kind <> 'dropped'")

        def size(changed: FileChange) -> int:
            return sum(side.size for side in (changed.before, changed.after) if side)

        for n, (step, which, old, new) in enumerate(steps):
            kept = {entry.seq for entry in store.entries() if entry.kept}
            undoable, redoable = sorted(made.keys() & kept - undos.keys()), sorted(set(undos.values()) & kept)
            match step:
                case "edit" | "command":
                    sides = noise(which, old), noise(n + 100, new)
                    changed = change(f"/ws/{n}", *sides) if step == "edit" else shelved(f"{n}/1", *sides, f"/ws/{n}")
                    made[done(store, changed)] = changed
                    last_two, failed = [last_two[1], size(changed)], 0
                case "undo" if undoable:
                    seq = undoable[which % len(undoable)]
                    undos[seq] = done(store, made[seq].invert(), asked=call("undo"), takes_back=(seq,))
                    last_two[1] += size(made[seq])
                case "redo" if redoable:
                    seq = next(seq for seq, undo in undos.items() if undo == redoable[which % len(redoable)])
                    done(store, made[seq], asked=call("redo"), takes_back=(undos.pop(seq),))
                    last_two[1] += size(made[seq])
                case "fail":
                    changed = change(f"/ws/{n}", noise(n, old), noise(-n, new))
                    store.record_outcome(begun(store, changed), failure(), durable=True)
                    failed = size(changed)
                case "read" if made and (content := made[sorted(made)[which % len(made)]].before):
                    store.get(content.hash)
                    continue
                case _:
                    continue
            assert held() <= bound * 1.05 + sum(last_two) + failed


# --- portions


@pytest.mark.parametrize("what", ["slots", "contents"])
def test_g6_a_change_that_needs_much_room_drops_a_portion_and_the_rest_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
):
    monkeypatch.setattr(space_totals, "DROP_PORTION", 5)
    monkeypatch.setattr(contents, "MAX_EXCESS_SHARE", 1.0)
    monkeypatch.setattr(undo_space, "MAX_GIVEN_UP_CALLS", 100)
    bound = 60 * (1000 + DISK_OVERHEAD.slot if what == "slots" else 1000 + DISK_OVERHEAD.content)
    with closing(SqliteStore(tmp_path, bound=bound)) as store:

        def small(n: int) -> None:
            changed = shelved(f"{n}/1", noise(n, 1000), None, f"/ws/{n}")
            done(store, changed if what == "slots" else change(f"/ws/{n}", noise(n, 1000), None))

        def kept() -> int:
            return sum(entry.kept for entry in store.entries())

        for n in range(58):
            small(n)
        large, given_up = replied(store, shelved("large/1", noise(-1, bound // 2), None, "/ws/large"))
        assert len(given_up) > 20
        before, dropped = kept(), list[int]()
        for n in range(100, 112):
            small(n)
            before, now = before + 1, kept()
            dropped.append(before - now)
            before = now
        assert max(dropped) <= 10  # of slots and of contents each
        assert sum(dropped) >= len(given_up) - 2
        assert next(entry for entry in store.entries() if entry.seq == large).kept


def test_g6_what_cannot_wait_is_dropped_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(space_totals, "DROP_PORTION", 2)
    with closing(SqliteStore(tmp_path, bound=100 * 10_000)) as store:
        for n in range(80):
            done(store, shelved(f"{n}/1", noise(n, 1000), None, f"/ws/{n}"))
        replied(store, shelved("large/1", noise(-1, 600_000), None, "/ws/large"))
        done(store, change("/ws/x", None, b""))
        with store._database.read_transaction() as connection:
            assert store._contents.measure_excess(connection).bytes <= 100 * 10_000 * contents.MAX_EXCESS_SHARE


def test_g6_a_change_at_the_bound_asks_as_much_among_many_slots_as_among_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(undo_space, "MAX_GIVEN_UP_CALLS", 4)  # as many as a tenth of the few
    counted: list[int] = []
    for slots in (40, 400):
        bound = slots * (1000 + DISK_OVERHEAD.slot)
        with closing(SqliteStore(tmp_path / str(slots), bound=bound)) as store:
            for n in range(slots + 20):
                done(store, shelved(f"{n}/1", noise(n, 1000), None, f"/ws/{n}"))
            counted.append(
                max(
                    sql_steps(store, lambda n=n: done(store, shelved(f"x{n}/1", noise(n, 1000), None, "/ws/x")))[1]
                    for n in range(60)
                )
            )
    assert counted[1] <= 2 * counted[0]


@needs_shadows
def test_g6_the_first_command_of_a_process_looks_at_no_other_commands(place: Path):
    counted: list[int] = []
    for commands in (3, 60):
        with opened(place, 100 * MIB) as box:
            bash(box, "true")
            for n in range(commands):
                box.call("write_file", {"path": f"f{commands}-{n}", "content": "x"})
            folder = shelf(place)
            for n in range(commands):
                (folder / f"{commands:08x}{n:08x}").mkdir(mode=0o700)  # nobody needs them: a sweep would remove them
        store = SqliteStore(folder.parent)
        area = StagingArea(str(folder))
        counted.append(system_calls(partial(area.sweep_abandoned, store.needed_slots)))
        store.close()
        assert len(os.listdir(folder)) >= commands
    assert counted[0] == counted[1]


# --- removal


def make_tree(folder: Path, name: str) -> int:
    """A folder with some depth and width; return the number of its entries."""
    for n in range(12):
        (folder / name / f"d{n}" / "deeper").mkdir(parents=True)
        for each in range(5):
            (folder / name / f"d{n}" / "deeper" / str(each)).write_bytes(b"")
    (folder / name / "d0").chmod(0)
    return len([*os.walk(folder / name)]) + 12 * 5 + 2


@pytest.mark.parametrize("portion", [1, 2, 7, 50, 1000])
def test_g6_a_tree_is_removed_in_portions(tmp_path: Path, portion: int):
    make_tree(tmp_path, "tree")
    fd = os.open(tmp_path, os.O_RDONLY)
    steps = 0
    while not remove_tree("tree", fd, budget := RemovalBudget(portion)):
        assert budget.left <= 0
        steps += 1
    os.close(fd)
    assert not (tmp_path / "tree").exists()
    assert steps >= 85 // portion - 1


@needs_shadows
def test_g6_a_large_folder_that_had_to_go_is_removed_by_several_changes(place: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(commit_slots, "REMOVAL_PORTION", 20)
    monkeypatch.setattr(SqliteStore, "can_removal_wait", lambda _: True)
    with opened(place, 2 * MIB) as box:
        bash(box, "mkdir d; cd d; for i in $(seq 300); do echo $i > $i; done")
        bash(box, "rm -r d", "large")
        for n in range(6):
            (place / "ws" / str(n)).write_bytes(noise(n, 500_000))
            bash(box, f"rm {n}")
        assert isinstance(box.store, SqliteStore)
        left = list[int]()
        for n in range(30):
            box.call("write_file", {"path": f"w{n}", "content": "x"})
            left.append(len([*shelf(place).rglob("*")]))
        assert not box.store.dropped_slots(9)
        assert max(before - after for before, after in pairwise(left)) <= 30
        assert len(set(left)) > 5
        assert box.undo(Target.call("large")).code == "CONTENT_DROPPED"


@needs_shadows
def test_g6_an_undo_of_what_was_dropped_is_refused_though_its_slot_is_still_there(
    place: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its folder may disappear at any moment: nothing may be exchanged with it."""
    monkeypatch.setattr(commit_slots, "remove_dropped", lambda *_: None)
    monkeypatch.setattr("handhold.backends.files.commit.remove_dropped", lambda *_: None)
    with opened(place) as box:
        (place / "ws/a").write_bytes(noise(1, 900_000))
        bash(box, "rm a", "first")
        (place / "ws/b").write_bytes(noise(2, 900_000))
        bash(box, "rm b")
        bash(box, "echo > c")
        assert isinstance(box.store, SqliteStore)
        (dropped,) = box.store.dropped_slots(9)
        assert (shelf(place) / dropped).exists()
        entries = len(box.store.entries())
        refused = box.undo(Target.call("first"))
        assert (refused.code, (place / "ws/a").exists()) == ("CONTENT_DROPPED", False)
        assert len(box.store.entries()) == entries
        # Even if it was dropped after the check: the intent is refused, and nothing changes.
        monkeypatch.setattr(SqliteStore, "needed_slots", lambda _, commands: {*commands})
        refused = box.undo(Target.call("first"))
        assert (refused.code, (place / "ws/a").exists()) == ("CONTENT_DROPPED", False)
        assert not box.store.incomplete_transactions()


def test_g6_dropped_slots_that_are_not_there_are_forgotten(place: Path):
    with opened(place) as box:
        store = box.store
        assert isinstance(store, SqliteStore)
        seq = begun(store, shelved("absent/1", b"old", b"new"))
        store.record_outcome(seq, Outcome("error", None, 0.0, None), durable=False)
        assert list(store.dropped_slots(9)) == ["absent"]
        box.call("write_file", {"path": "f", "content": "x"})
        assert not store.dropped_slots(9)


@needs_shadows
def test_g6_what_another_process_dropped_is_removed_by_the_next(place: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch, opened(place) as box:
        patch.setattr("handhold.backends.files.commit.remove_dropped", lambda *_: None)
        for n in range(4):
            (place / f"ws/{n}").write_bytes(noise(n, 600_000))
            bash(box, f"rm {n}")
        assert isinstance(box.store, SqliteStore)
        dropped = set(box.store.dropped_slots(9))
        assert dropped
        assert dropped <= {*os.listdir(shelf(place))}
    with opened(place) as box:
        box.call("write_file", {"path": "f", "content": "x"})
        assert not dropped & {*os.listdir(shelf(place))}


@needs_shadows
def test_g6_slots_of_a_state_that_was_deleted_are_removed(place: Path, monkeypatch: pytest.MonkeyPatch):
    """Next to a root on another file system, they outlive the state."""
    real = StagingArea.for_root.__func__  # pyright: ignore[reportFunctionMemberAccess]

    def beside(cls: type[StagingArea], root: object, state: Path, others: object = ()) -> StagingArea:
        area = real(cls, root, state, others)
        (place / ".beside").mkdir(mode=0o700, exist_ok=True)
        area.__init__(str(place / ".beside"))
        return area

    monkeypatch.setattr(StagingArea, "for_root", classmethod(beside))
    for _ in range(2):
        with opened(place) as box:
            (place / "ws/a").write_bytes(b"x")
            bash(box, "rm a")
            assert len([name for name in os.listdir(place / ".beside") if name != "lock"]) == 1
        shutil.rmtree(place / "state")
    assert os.listdir(f"{place}/.beside{OPEN_SUFFIX}") == []


# --- words


@needs_shadows
def test_g6_nothing_is_said_to_be_full_below_the_bound(place: Path):
    with opened(place) as box:
        (place / "ws/a").write_bytes(noise(1, int(MIB * 0.97)))
        assert "undo_given_up" not in bash(box, "rm a").data
        assert "undo_given_up" not in bash(box, "echo > c").data
