"""Names of paths over time, where folders moved: compared with a tree in which they really move."""

import stat
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.files.undo_log import RecordKind, UndoRecord
from handhold.backends.shell.path_history import PathHistory

FOLDERS = ("/w/a", "/w/b", "/w/a/c", "/w/a/c/d", "/w/b/e")


def record(kind: RecordKind, first: str, second: str = "") -> UndoRecord:
    return UndoRecord(kind, (1, 1), stat.S_IFDIR, 0, 0, 0, 0, 0, first, second, b"")


def moved(path: str, old: str, new: str) -> str:
    return new + path.removeprefix(old) if path == old or path.startswith(f"{old}/") else path


@given(st.data())
def test_every_path_is_called_what_it_was_and_will_be_called(data: st.DataObject):
    places = {folder: folder for folder in FOLDERS}  # what each is called now
    records: list[UndoRecord] = []
    looks: list[tuple[str, int]] = []
    for number in range(data.draw(st.integers(0, 8))):
        which = data.draw(st.sampled_from(FOLDERS))
        looks.append((which, len(records)))
        records.append(record("save", f"{places[which]}/f"))
        first, second = (places[data.draw(st.sampled_from(FOLDERS))] for _ in range(2))
        if f"{first}/".startswith(f"{second}/") or f"{second}/".startswith(f"{first}/"):
            continue
        if data.draw(st.booleans()):
            records += [record("exchange", first, second), record("exchanged", second, first)]
            aside = {each: moved(moved(now, first, "/aside"), second, first) for each, now in places.items()}
            places = {each: moved(now, "/aside", second) for each, now in aside.items()}
        else:
            new = f"{second}/new{number}"
            records.append(record("move", first, new))
            places = {each: moved(now, first, new) for each, now in places.items()}
    history = PathHistory(records)
    for which, index in looks:
        assert history.before(index)[0] == f"{which}/f"
        assert history.after(index)[0] == f"{places[which]}/f"
    for which, now in places.items():
        assert history.find_before(f"{now}/f") == f"{which}/f"


def test_ten_thousand_moved_folders_take_a_moment():
    records = [
        each for n in range(10_000) for each in (record("save", f"/w/{n}/f"), record("move", f"/w/{n}", f"/w/x{n}"))
    ]
    started = process_time()
    history = PathHistory(records)
    assert process_time() - started < 5  # a walk over all moves for each path would take minutes
    assert history.after(0)[0] == "/w/x0/f"
