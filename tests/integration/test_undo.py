"""Taking back: exactly, or not at all."""

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from handhold import Target, Toolbox, ToolError
from tests.integration.conftest import Ground
from tests.integration.test_calls import edit, read, write
from tests.scale import examples

Make = Callable[[dict[str, str | bytes]], Ground]


def test_c92_a_call_is_shown_taken_back_and_done_again(ground: Make):
    here = ground({"a.py": "x\r\n"})
    box = here.open()
    read(box)
    edit(box, "x", "y", call_id="e")
    assert "-x" in box.diff(Target.call("e"))
    seen = box.undo(preview=True)
    assert seen.data["preview"] is True
    assert here.read("a.py") == b"y\r\n"
    assert box.undo().status == "success"
    assert here.read("a.py") == b"x\r\n"
    assert box.log()[1].undone
    assert box.redo().status == "success"
    assert here.read("a.py") == b"y\r\n"
    assert not box.log()[1].undone
    assert box.redo().code == "NOTHING_TO_UNDO"


def test_c92_a_created_file_goes_away_with_the_folders_made_for_it(ground: Make):
    here = ground({"keep": ""})
    box = here.open()
    write(box, "x", "new/deep/a.py")
    assert box.undo().status == "success"
    assert here.tree("new/deep/a.py", "keep") == {"new/deep/a.py": None, "keep": b""}
    assert box.files.stat("new") is None
    assert box.redo().status == "success"
    assert here.read("new/deep/a.py") == b"x"


def test_c92_a_turn_is_taken_back_as_one(ground: Make):
    here = ground({"a.py": "1\n", "b.py": "1\n"})
    box = here.open()
    read(box, "a.py")
    read(box, "b.py")
    edit(box, "1", "2", "a.py", turn="t")
    edit(box, "2", "3", "a.py", turn="t")
    edit(box, "1", "9", "b.py", turn="u")
    write(box, "new", "c.py", turn="t")
    assert set(box.undo(Target.turn("t")).data["paths"]) == {box.files.resolve("a.py"), box.files.resolve("c.py")}
    assert here.tree("a.py", "b.py", "c.py") == {"a.py": b"1\n", "b.py": b"9\n", "c.py": None}
    assert box.undo(Target.session()).status == "success"
    assert here.tree("a.py", "b.py") == {"a.py": b"1\n", "b.py": b"1\n"}


def test_c92_a_call_of_one_turn_is_not_its_namesake_of_another(ground: Make):
    here = ground({})
    box = here.open()
    write(box, "1", "a", call_id="c", turn="t")
    write(box, "2", "b", call_id="c", turn="u")
    assert box.undo(Target.call("c", turn="t")).status == "success"
    assert here.tree("a", "b") == {"a": None, "b": b"2"}


def test_c92_a_call_taken_back_with_others_is_not_done_again_with_them(ground: Make):
    here = ground({})
    box = here.open()
    write(box, "1", "a", call_id="one")
    write(box, "2", "b", call_id="two")
    box.undo(Target.session())
    assert box.redo(Target.call("one")).code == "NOTHING_TO_UNDO"
    assert here.tree("a", "b") == {"a": None, "b": None}
    assert box.redo().status == "success"
    assert here.tree("a", "b") == {"a": b"1", "b": b"2"}


def test_c92_what_was_done_again_is_the_last_change(ground: Make):
    here = ground({})
    box = here.open()
    write(box, "1", "a")
    box.undo()
    write(box, "2", "b")
    box.redo()
    assert box.undo().data["paths"] == [box.files.resolve("a")]
    assert here.tree("a", "b") == {"a": None, "b": b"2"}


def test_c92_a_session_is_taken_back_in_the_order_in_which_things_came(ground: Make):
    here = ground({"keep": ""})
    box = here.open()
    write(box, "1", "a")
    box.undo()
    write(box, "2", "a")
    box.call("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: a\n*** End Patch\n"})
    assert box.redo().status == "success"
    assert here.read("a") == b"1"
    assert box.undo(Target.session()).status == "success"
    assert here.tree("a", "keep") == {"a": None, "keep": b""}


def test_c92_taking_back_is_refused_where_it_would_lose_a_later_change(ground: Make):
    here = ground({"a.py": "1\n"})
    box = here.open()
    read(box)
    edit(box, "1", "2", call_id="one")
    edit(box, "2", "3", call_id="two")
    assert box.undo(Target.call("one")).code == "UNDO_CONFLICT"
    here.write("a.py", b"by hand\n")
    reply = box.undo()
    assert (reply.code, reply.data["paths"]) == ("UNDO_CONFLICT", [box.files.resolve("a.py")])
    assert here.read("a.py") == b"by hand\n"


def test_c92_another_sessions_change_in_between_is_never_lost(ground: Make):
    here = ground({"a.py": "1\n"})
    mine, theirs = here.open(session="mine"), here.open(session="theirs")
    read(mine)
    edit(mine, "1", "2", turn="t")
    read(theirs)
    edit(theirs, "2", "3")
    read(mine)
    edit(mine, "3", "4", turn="t")
    assert mine.undo(Target.turn("t")).code == "UNDO_CONFLICT"
    assert here.read("a.py") == b"4\n"


def test_an_undone_file_is_stale_to_the_session_that_had_changed_it(ground: Make):
    here = ground({"a.py": "1\n"})
    box = here.open()
    read(box)
    edit(box, "1", "2")
    box.undo()
    assert edit(box, "2", "3").code == "STALE"


class Histories(RuleBasedStateMachine):
    """Whatever is written, edited, undone and redone: undoing the session gives the start."""

    def __init__(self) -> None:
        super().__init__()
        self.start = {"a": "1\n", "b": "2\n"}
        self.box = Toolbox.in_memory(self.start)
        for name in ("a", "b"):
            read(self.box, name)

    @rule(name=st.sampled_from("abc"), content=st.text(alphabet="xy\n", max_size=4))
    def write(self, name: str, content: str) -> None:
        if write(self.box, content, name).status == "error":
            read(self.box, name)
            write(self.box, content, name)

    @rule()
    def undo(self) -> None:
        self.box.undo()

    @rule()
    def redo(self) -> None:
        self.box.redo()

    @invariant()
    def the_session_can_be_taken_back(self) -> None:
        preview = self.box.undo(Target.session(), preview=True)
        assert preview.code in (None, "NOTHING_TO_UNDO"), preview

    def teardown(self) -> None:
        self.box.undo(Target.session())
        world = self.box.files
        assert {name: world.read(name).data.decode() for name in "ab"} == self.start
        assert world.stat("c") is None


Histories.TestCase.settings = settings(max_examples=examples(50), stateful_step_count=15, deadline=None)
TestHistories = Histories.TestCase


# --- targets


def test_n8_without_a_change_the_diff_is_empty_and_an_error_is_a_sentence(ground: Make):
    box = ground({}).open()
    assert box.diff() == box.diff(Target.turn("t")) == ""
    with pytest.raises(ToolError) as refused:
        box.diff(Target.call("none"))
    assert str(refused.value).startswith("NOTHING_TO_UNDO: ")
    assert "{" not in str(refused.value)


def test_undo_redo_and_diff_take_an_entry_of_the_log(ground: Make):
    here = ground({"a.py": "x\n"})
    box = here.open()
    box.call("read_file", {"path": "a.py"})
    for n, (old, new) in enumerate([("x", "y"), ("y", "z")]):
        assert box.call("edit_file", {"path": "a.py", "old_string": old, "new_string": new}, call_id=f"c{n}").ok
    first, second = (entry for entry in box.log() if entry.changed)
    assert "+y" in box.diff(first)
    assert box.undo(first).code == "UNDO_CONFLICT"
    assert box.undo(second).ok
    assert here.read("a.py") == b"y\n"
    assert box.redo(second).ok
    assert box.undo(Target.call(second.seq)).ok
    assert box.redo(Target.call(f"#{second.seq}")).ok
    assert here.read("a.py") == b"z\n"
    other = here.open(session="other")
    assert "+z" in other.diff(second)
    assert other.undo(second).code == "NOTHING_TO_UNDO"


@pytest.mark.parametrize("wrong", ["c0", 3, {"call": "c0"}])
def test_a_target_is_nothing_else(ground: Make, wrong: object):
    box = ground({}).open()
    for use in (box.undo, box.redo, box.diff):
        with pytest.raises(TypeError, match="expected a Target"):
            use(wrong)  # pyright: ignore[reportArgumentType]


def test_an_empty_name_is_not_the_last_change():
    with pytest.raises(ValueError, match="id of a call"):
        Target.call("")
    with pytest.raises(ValueError, match="needs the name"):
        Target.turn("")
