"""Calls: seen before changed, done once, refused with a reason."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Question, Reply, Rule, Toolbox, ToolError
from handhold.core.errors import Busy, NoShell, SystemFailure
from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.core.results import EditResult, TextResult, UndoResult
from handhold.pipeline import planning
from handhold.pipeline.planning import Planner
from tests.integration.conftest import Ground
from tests.scale import examples

Make = Callable[[dict[str, str | bytes]], Ground]


def read(box: Toolbox, path: str = "a.py", **more: object):
    return box.call("read_file", {"path": path, **more})


def edit(box: Toolbox, old: str, new: str, path: str = "a.py", **more: Any):
    return box.call("edit_file", {"path": path, "old_string": old, "new_string": new}, **more)


def write(box: Toolbox, content: str, path: str = "a.py", **more: Any):
    return box.call("write_file", {"path": path, "content": content}, **more)


# --- the tracker


def test_c11_an_unread_file_is_neither_edited_nor_overwritten(ground: Make):
    here = ground({"a.py": "x = 1\n"})
    box = here.open()
    assert edit(box, "x", "y").code == "UNREAD"
    assert write(box, "y").code == "UNREAD"
    assert here.read("a.py") == b"x = 1\n"


def test_c11_a_partial_read_allows_an_edit_and_no_overwriting(ground: Make):
    here = ground({"a.py": "".join(f"{n}\n" for n in range(1, 101))})
    box = here.open()
    read(box, limit=10)
    assert write(box, "gone").code == "PARTLY_READ"
    assert edit(box, "50\n", "fifty\n").status == "success"
    assert write(box, "gone").code == "PARTLY_READ"
    read(box, offset=1, limit=60)
    read(box, offset=61)
    assert write(box, "all of it\n").status == "success"
    assert here.read("a.py") == b"all of it\n"


def test_c11_a_line_that_was_cut_has_not_been_seen(ground: Make):
    here = ground({"a.py": "short\n" + "x" * 5000 + "\n"})
    box = here.open()
    assert read(box).status == "partial"
    assert write(box, "gone").code == "PARTLY_READ"
    assert edit(box, "short", "long").status == "success"


def test_c12_a_file_rewritten_under_its_old_identity_is_known_again_after_a_read(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    read(box)
    mark = box.tracker.read_records.get(box.files.resolve("a.py"), None)
    assert mark is not None
    box.tracker.read_records.put(replace(mark, hash="0" * 64))  # as after a write through a mapped page
    assert read(box).data["changed_since_last_read"] is True
    assert edit(box, "one", "two").status == "success"


def test_c12_a_file_that_became_binary_is_stale(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    read(box)
    here.write("a.py", b"\0\1\2")
    assert edit(box, "one", "two").code == "STALE"


def test_c13_a_change_of_the_mark_alone_is_told_as_that(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    read(box)
    here.write("a.py", b"\xef\xbb\xbfone\n")
    reply = edit(box, "one", "two")
    assert reply.code == "STALE"
    assert reply.data["complete"]
    assert "utf-8 with a mark" in reply.data["diff"]
    assert reply.data["diff"] in reply.text


def test_c13_what_changes_while_a_person_is_asked_is_told_too(ground: Make):
    here = ground({"a.py": "one\ntwo\n"})

    def slow(question: Question) -> bool:
        here.write("a.py", b"one\nTWO\n")
        return True

    box = here.open(approver=slow)
    read(box)
    reply = edit(box, "one", "1")
    assert reply.code == "STALE"
    assert "+TWO" in reply.text
    assert here.read("a.py") == b"one\nTWO\n"


def test_c12_u3_a_real_change_is_stale_and_the_refusal_shows_it(ground: Make):
    here = ground({"a.py": "one\ntwo\n"})
    box = here.open()
    read(box)
    here.write("a.py", b"one\nTWO\n")
    reply = edit(box, "one", "1")
    assert reply.code == "STALE"
    assert "+TWO" in reply.text
    assert here.read("a.py") == b"one\nTWO\n"


def test_c13_after_a_refusal_that_showed_all_that_changed_the_edit_goes_through(ground: Make):
    here = ground({"a.py": "one\ntwo\n"})
    box = here.open()
    read(box)
    here.write("a.py", b"one\nTWO\n")
    assert edit(box, "one", "1").code == "STALE"
    assert edit(box, "one", "1").status == "success"
    assert here.read("a.py") == b"1\nTWO\n"


def test_c13_a_refusal_without_hints_showed_nothing_and_renews_nothing(ground: Make):
    here = ground({"a.py": "one\ntwo\n"})
    box = here.open(hints=False)
    read(box)
    here.write("a.py", b"one\nTWO\n")
    assert edit(box, "one", "1").code == "STALE"
    assert edit(box, "one", "1").code == "STALE"


def test_c12_u3_a_rewrite_with_the_same_bytes_never_blocks_an_edit(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    read(box)
    here.write("a.py", None)
    here.write("a.py", b"one\n")
    assert edit(box, "one", "two").status == "success"


def test_u15_all_spellings_of_a_path_are_one_file(ground: Make):
    here = ground({"d/a.py": "one\n", "d/e/b.py": ""})
    box = here.open()
    read(box, "d/e/../a.py")
    assert edit(box, "one", "two", "./d//a.py").status == "success"


def test_c14_a_file_that_does_not_exist_needs_no_read(ground: Make):
    here = ground({})
    box = here.open()
    assert write(box, "x\n", "new/deep/a.py").status == "success"
    assert edit(box, "x", "y", "new/deep/a.py").status == "success"
    assert here.read("new/deep/a.py") == b"y\n"


def test_c15_two_sessions_do_not_see_each_others_marks(ground: Make):
    here = ground({"a.py": "one\n"})
    first, second = here.open(session="first"), here.open(session="second")
    read(first)
    assert edit(second, "one", "two").code == "UNREAD"
    read(second)
    assert edit(first, "one", "two").status == "success"
    reply = edit(second, "one", "three")
    assert (reply.code, reply.data["writer"]) == ("STALE", "first")


def test_c15_u17_the_tracker_survives_the_process(ground: Make):
    here = ground({"a.py": "one\n"})
    read(here.open())
    assert edit(here.open(), "one", "two").status == "success"


def test_c30_a_file_that_changed_since_the_last_read_says_so(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    assert read(box).data["changed_since_last_read"] is False
    assert read(box).data["changed_since_last_read"] is False
    here.write("a.py", b"two\n")
    assert read(box).data["changed_since_last_read"] is True
    assert read(box).data["changed_since_last_read"] is False


def test_u1_every_miss_says_what_kind_it_is_and_a_second_identical_one_says_something_else(ground: Make):
    here = ground({"a.py": "def f(x):\n    y = x + 1\n    return y\n"})
    box = here.open()
    read(box)
    first = edit(box, "def f(x):\n    z = 5\n    return y", "pass")
    again = edit(box, "def f(x):\n    z = 5\n    return y", "pass")
    assert (first.code, first.data["kind"], first.data["again"], again.data["again"]) == (
        "NO_MATCH",
        "stale",
        False,
        True,
    )
    assert first.text != again.text
    assert "     2→    y = x + 1" in first.text
    assert edit(box, "import nothing", "pass").data["kind"] == "absent"
    assert all(len(reply.text) < 4 * 400 for reply in (first, again))


def test_c50_thousands_of_places_are_told_briefly_and_at_once(ground: Make):
    here = ground({"a.py": "    return x\n" * 50_000})
    box = here.open()
    read(box)
    start = time.process_time()
    reply = edit(box, "return", "yield")
    assert (reply.code, len(reply.data["lines"]), reply.data["lines_count"]) == ("AMBIGUOUS", 100, 50_000)
    done = box.call("edit_file", {"path": "a.py", "old_string": "return", "new_string": "yield", "replace_all": True})
    assert done.status == "success"
    assert time.process_time() - start < 5
    assert here.read("a.py") == b"    yield x\n" * 50_000


# --- reading and writing


def test_u17_an_over_budget_read_gives_page_one_and_the_next_offset(ground: Make):
    here = ground({"a.py": "".join(f"{'x' * 100} {n}\n" for n in range(1, 5001))})
    reply = read(here.open())
    assert reply.status == "partial"
    assert len(reply.text) <= 80_000
    assert f"offset={reply.data['next_offset']}" in reply.text


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "gbk"])
def test_c40_u4_a_write_keeps_encoding_mark_and_line_endings(ground: Make, coding: str):
    here = ground({"a.py": "第一行:文件内容\r\n第二行:修改\r\n".encode(coding)})
    box = here.open()
    read(box)
    assert write(box, "第一行:文件内容\n第三行\n").status == "success"
    assert here.read("a.py") == "第一行:文件内容\r\n第三行\r\n".encode(coding)


def test_u4_text_that_the_encoding_cannot_hold_is_refused(ground: Make):
    before = "文件内容,修改其中一行\n".encode("gbk")
    here = ground({"a.py": before})
    box = here.open()
    read(box)
    assert edit(box, "修改", "é😀").code == "UNENCODABLE"
    assert here.read("a.py") == before


def test_c40_a_write_that_changes_nothing_is_not_a_change(ground: Make):
    here = ground({"a.py": "one\n"})
    box = here.open()
    read(box)
    assert write(box, "one\n").status == "success"
    assert [entry.changed for entry in box.log()] == [0, 0]


def test_c57_a_file_over_64_mib_is_not_edited(ground: Make):
    here = ground({"a.py": b"x" * 100 + b"\n" + b"y" * (64 * 1024 * 1024)})
    box = here.open()
    read(box, limit=1)
    assert edit(box, "x", "y").code == "TOO_LARGE"


# --- calls


def test_f3_the_same_call_does_nothing_twice(ground: Make):
    here = ground({"a.py": "x\n"})
    box = here.open()
    read(box)
    first = edit(box, "x\n", "x\nx2\n", call_id="1", turn="t")
    again = edit(box, "x\n", "x\nx2\n", call_id="1", turn="t")
    assert (first.replayed, again.replayed) == (False, True)
    assert (again.text, again.data, again.ui_extra) == (first.text, dict(first.data), first.ui_extra)
    assert here.read("a.py") == b"x\nx2\n"
    assert edit(box, "x2", "x3", call_id="1", turn="t").code == "CALL_ID_REUSED"
    assert edit(box, "x2", "x3", call_id="1", turn="u").status == "success"


def test_f2_f3_a_long_argument_is_kept_by_its_hash_and_still_told_apart(ground: Make):
    box = ground({}).open()
    content = "x" * 100_000
    assert write(box, content + "a", "new", call_id="1").status == "success"
    assert write(box, content + "a", "new", call_id="1").replayed
    assert write(box, content + "b", "new", call_id="1").code == "CALL_ID_REUSED"
    assert len(box.log()[0].call.arguments) < 1000


def test_f3_the_same_call_in_two_processes_at_once_happens_once(ground: Make):
    here = ground({"a.py": "1\n"})

    def meanwhile(question: Question) -> bool:
        other = here.open()
        assert edit(other, "1\n", "1\n2\n", call_id="c").status == "success"
        return True

    box = here.open(approver=meanwhile)
    read(box)
    assert edit(box, "1\n", "1\n2\n", call_id="c").replayed
    assert here.read("a.py") == b"1\n2\n"
    assert edit(here.open(), "1\n", "1\n2\n", call_id="c").status == "success"


def test_f3_what_a_dead_process_left_is_taken_back_before_the_next_call_of_a_living_one(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    file = tmp_path / "ws/a.py"
    file.write_bytes(b"1\n")
    box, dying = (Toolbox.open(tmp_path / "ws", state=tmp_path / "state", session="s") for _ in range(2))
    read(box)
    seq = dying.store.begin(Call("s", "", "c", "edit_file", "{}", "handhold"))
    change = FileChange(box.files.resolve("a.py"), InlineContent(b"1\n"), InlineContent(b"1\n2\n"))
    with dying.files.transaction([change]) as transaction:
        dying.store.record_intent(seq, transaction.id, transaction.files, decision=CallDecision("allowed"))
        transaction.apply()
    assert file.read_bytes() == b"1\n2\n"
    assert edit(box, "1\n", "1\n2\n", call_id="c2").status == "success"
    assert file.read_bytes() == b"1\n2\n"
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["a.py"]


def test_a_nul_in_a_text_is_refused_and_nothing_is_written(ground: Make):
    here = ground({})
    assert write(here.open(), "a\0b", "new").code == "UNENCODABLE"
    assert here.read("new") is None


def test_f3_a_call_sent_again_by_another_process_happens_once(ground: Make):
    here = ground({})
    first = write(here.open(), "x\n", call_id="1")
    again = write(here.open(), "x\n", call_id="1")
    assert again.replayed
    assert again.text == first.text


def test_r34_a_replay_says_that_its_change_was_undone_or_its_file_changed_since(ground: Make):
    here = ground({"a.py": "x\n"})
    box = here.open()
    call = partial(box.call, "write_file", {"path": "new", "content": "1\n"}, call_id="1")
    first = call()
    assert first.ok, first.text
    assert (call().replayed, call().text) == (True, first.text)
    assert box.undo().ok
    undone = call()
    assert (undone.replayed, undone.ok, here.read("new")) == (True, True, None)
    assert "undone since" in undone.text
    assert undone.data["undone"], "n8: a program reads no text"
    assert box.redo().ok
    assert call().text == first.text
    other = here.open(session="other")
    assert other.call("read_file", {"path": "new"}).ok
    assert other.call("write_file", {"path": "new", "content": "2\n"}).ok
    changed = call()
    assert changed.replayed
    assert "Changed since: new." in changed.text


def test_r34_a_replay_names_no_file_that_may_not_be_read(ground: Make):
    here = ground({})
    assert write(here.open(), "x\n", "a.txt", call_id="1").ok
    assert write(here.open(session="other"), "y\n", "a.txt").code == "UNREAD"
    other = here.open(session="other")
    assert other.call("read_file", {"path": "a.txt"}).ok
    assert write(other, "y\n", "a.txt").ok
    assert "Changed since: a.txt." in write(here.open(), "x\n", "a.txt", call_id="1").text
    hidden = Rule("a", "deny", ["read"], "private", ["a.txt"], ["b.txt"], paths=["a.txt"])
    assert "a.txt" not in write(here.open(rules=[hidden]), "x\n", "a.txt", call_id="1").text


@pytest.mark.parametrize("error", [NoShell("no sandbox"), SystemFailure("/ws", "disk"), Busy("/ws", 30.0)], ids=str)
def test_r34_errors_of_the_machine_or_of_handhold_are_never_replayed(
    ground: Make, monkeypatch: pytest.MonkeyPatch, error: ToolError
):
    here = ground({"a.py": "x\n"})
    box = here.open()

    def fail(*_: object) -> NoReturn:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(Planner, "plan", fail)
        assert box.call("read_file", {"path": "a.py"}, call_id="1").code == error.code
    again = box.call("read_file", {"path": "a.py"}, call_id="1")
    assert (again.ok, again.replayed) == (True, False)


def test_a_reply_carries_its_typed_result_and_a_replay_does_not(ground: Make):
    box = ground({"a.py": "x\n"}).open()
    assert isinstance(read(box).result, TextResult)
    done = edit(box, "x", "y", call_id="1")
    assert done.ok
    assert isinstance(done.result, EditResult)
    assert [step.match_count for step in done.result.steps] == [1]
    again = edit(box, "x", "y", call_id="1")
    assert (again, again.result) == (replace(done, replayed=True), None)
    missing = read(box, "missing")
    assert (missing.ok, missing.result, missing.error_source) == (False, None, "model")
    undone = box.undo(preview=True)
    assert isinstance(undone.result, UndoResult)
    assert undone.result.calls == ("1",)
    assert set(done.to_dict()) == {each.name for each in fields(Reply)} - {"result"}


def test_replies_in_journals_that_say_blame_are_still_replayed(ground: Make):
    box = ground({"a.py": "x\n"}).open()
    call = Call("s", "", "1", "read_file", '{"path":"missing"}', "handhold")
    known = read(box, "missing").to_dict()
    old = {**known, "blame": known.pop("error_source"), "reading": box._session.read_rules_hash}
    box.store.record_call(call, Outcome("error", "NOT_FOUND", 0.0, json.dumps(old)))
    again = box.call("read_file", {"path": "missing"}, call_id="1")
    assert (again.replayed, again.error_source) == (True, "model")


def test_a_models_mistake_never_raises(ground: Make):
    box = ground({"a.py": "x\n"}).open()
    assert box.call("nothing", {}).code == "UNKNOWN_TOOL"
    assert box.call("read_file", {}).code == "BAD_ARGUMENTS"
    assert box.call("read_file", {"path": "../../etc/passwd"}).code == "OUTSIDE_WORKSPACE"
    assert box.call("read_file", {"path": "a\0b"}).code == "BAD_PATH"
    assert box.call("read_file", {"path": 7}).status == "error"
    assert box.call(7, {}).code == "UNKNOWN_TOOL"  # pyright: ignore[reportArgumentType]
    assert box.call("read_file", ["a.py"]).code == "BAD_ARGUMENTS"  # pyright: ignore[reportArgumentType]
    assert all(entry.outcome for entry in box.log())


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["path", "offset", "limit", "content", "edits", "pattern", "cursor", "regex"]), inner, max_size=4), max_leaves=8))  # fmt: skip
@settings(max_examples=examples(200))
def test_whatever_a_model_sends_comes_back_as_a_reply(arguments: object):
    box = Toolbox.in_memory({"a.py": "x\n"})
    for spec in box.specs:
        reply = box.call(spec.name, arguments)  # pyright: ignore[reportArgumentType]
        assert reply.status in ("success", "partial", "error")
        assert (reply.code is None) == (reply.status != "error")
        json.dumps(dict(reply.data))


@given(st.text(alphabet="ab\0\r\n\ud800\udcff\ufeff\u2028é😀", max_size=12), st.text(alphabet="a\0é\udcff", max_size=4))
def test_whatever_text_a_model_writes_is_written_exactly_or_refused(content: str, new: str):
    box = Toolbox.in_memory({"old": "a\n"})
    read(box, "old")
    for reply, path in ((write(box, content, "new"), "new"), (edit(box, "a", new, "old"), "old")):
        assert reply.code in (None, "UNENCODABLE", "NO_CHANGE")
        written = box.files.read(path).data if box.files.stat(path) else None
        expected = {"new": content, "old": f"{new}\n"}[path]
        before = {"new": None, "old": b"a\n"}[path]
        assert written == (expected.encode() if reply.status == "success" else before)


def test_acall_is_the_same_from_a_loop(ground: Make):
    here = ground({"a.py": "x\n"})
    box = here.open()

    async def both():
        return await asyncio.gather(*(box.acall("read_file", {"path": "a.py"}) for _ in range(8)))

    assert {reply.status for reply in asyncio.run(both())} == {"success"}


def test_u22_every_error_names_its_blame(ground: Make):
    box = ground({"a.py": "x\n"}).open(policy="read-only")
    assert read(box, "missing").error_source == "model"
    assert write(box, "y", "new").error_source == "policy"


# --- policy


def test_c90_read_only_refuses_every_change(ground: Make):
    here = ground({"a.py": "x\n"})
    box = here.open(policy="read-only")
    read(box)
    assert edit(box, "x", "y").code == "DENIED"
    assert write(box, "y", "new").code == "DENIED"
    assert here.tree("a.py", "new") == {"a.py": b"x\n", "new": None}


def test_c90_ask_shows_the_change_and_waits_for_yes(ground: Make):
    here = ground({"a.py": "x\n"})
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return len(asked) > 1

    box = here.open(approver=approver)
    read(box)
    refused = edit(box, "x", "y")
    assert (refused.code, refused.data["asked"]) == ("NOT_APPROVED", True)
    assert here.read("a.py") == b"x\n"
    assert edit(box, "x", "y").status == "success"
    assert "-x\n+y\n" in asked[0].diff
    assert box.log()[-1].decision == "approved"


def test_c90_nobody_is_asked_about_a_root_that_is_read_only(tmp_path: Path):
    for name in ("ws", "docs"):
        (tmp_path / name).mkdir()

    def never(question: Question) -> bool:
        raise AssertionError("asked")

    with Toolbox.open(tmp_path / "ws", read_only=[tmp_path / "docs"], state=tmp_path / "state", approver=never) as box:
        assert write(box, "x", str(tmp_path / "docs/a.md")).code == "READ_ONLY"


def test_c90_ask_with_nobody_to_ask_means_no(ground: Make):
    box = ground({"a.py": "x\n"}).open(policy="ask")
    reply = write(box, "y", "new")
    assert (reply.code, reply.data["asked"]) == ("NOT_APPROVED", False)


# --- journal


def test_c91_each_call_is_journalled_whatever_came_of_it(ground: Make):
    box = ground({"a.py": "x\n"}).open()
    read(box)
    edit(box, "x", "y")
    edit(box, "absent", "y")
    tools = [(entry.call.tool, entry.outcome and entry.outcome.code, entry.changed) for entry in box.log()]
    assert tools == [("read_file", None, 0), ("edit_file", None, 1), ("edit_file", "NO_MATCH", 0)]


@pytest.mark.parametrize(
    ("tool", "arguments", "open_meanwhile"),
    [
        ("read_file", {"path": "a.py"}, []),
        ("read_files", {"paths": ["a.py"]}, []),
        ("grep", {"pattern": "x"}, []),
        ("list_files", {}, []),
        ("edit_file", {"path": "a.py", "old_string": "absent", "new_string": ""}, ["edit_file"]),
        ("write_file", {"path": "b.py", "content": ""}, ["write_file"]),
    ],
)
def test_c91_a_call_that_may_change_something_is_journalled_before_and_any_other_only_when_it_ends(
    ground: Make, monkeypatch: pytest.MonkeyPatch, tool: str, arguments: dict[str, Any], open_meanwhile: list[str]
):
    box = ground({"a.py": "x\n"}).open()
    meanwhile: list[list[str]] = []
    plan = planning.tools.plan

    def planned(*given: Any) -> Any:
        meanwhile.append([entry.call.tool for entry in box.store.entries()])
        return plan(*given)

    monkeypatch.setattr(planning.tools, "plan", planned)
    box.call(tool, arguments)
    assert meanwhile == [open_meanwhile]
    (entry,) = box.log()
    assert (entry.call.tool, entry.outcome is not None) == (tool, True)
