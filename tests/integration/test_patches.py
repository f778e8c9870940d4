"""Patches on the whole road: one transaction over many files, seen before changed, taken back as one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handhold import Question, Toolbox
from handhold.core.ports.policy import Decision, Verb, Verdict
from tests.integration.conftest import Ground
from tests.suites.policies import OnPlaces

Make = Callable[[dict[str, str | bytes]], Ground]


def patch(box: Toolbox, *lines: str, **more: Any):
    text = "\n".join(["*** Begin Patch", *lines, "*** End Patch"])
    tool, argument = ("apply_patch", "patch") if box.dialect.name == "handhold" else ("apply_patch", "input")
    return box.call(tool, {argument: text}, **more)


def read(box: Toolbox, *paths: str) -> None:
    for path in paths:
        box.call("read_file", {"path": path})


def codex(here: Ground, **options) -> Toolbox:
    return here.open(dialect="codex", **options)


# --- all or none


def test_c62_one_bad_hunk_among_twenty_files_changes_nothing(ground: Make):
    files: dict[str, str | bytes] = {f"d{n}/a.py": f"first {n}\nsecond {n}\nthird {n}\n" for n in range(20)}
    here = ground(files)
    sections = [
        line
        for n in range(20)
        for line in (
            f"*** Update File: d{n}/a.py",
            "@@",
            f" first {n}",
            f"-{'SECOND' if n == 13 else 'second'} {n}",
            "+x",
        )
    ]
    reply = patch(codex(here), "*** Add File: new.py", "+x", *sections)
    assert (reply.code, reply.error_source) == ("HUNK_MISMATCH", "model")
    assert (reply.data["path"], reply.data["hunk"], reply.data["line"]) == ("d13/a.py", 1, 4 + 13 * 5 + 1)
    assert reply.data["nearest"] == {"first": 1, "lines": ("first 13", "second 13", "third 13")}
    assert "     2→second 13" in reply.text
    assert here.tree(*files, "new.py") == {name: str(text).encode() for name, text in files.items()} | {"new.py": None}


def test_c62_twenty_files_are_one_change(ground: Make):
    here = ground({f"{n}.py": f"{n}\n" for n in range(20)})
    box = codex(here)
    sections = [line for n in range(20) for line in (f"*** Update File: {n}.py", f"-{n}", "+x")]
    assert patch(box, *sections).status == "success"
    assert {here.read(f"{n}.py") for n in range(20)} == {b"x\n"}
    assert [entry.changed for entry in box.log()] == [20]
    assert box.undo().status == "success"
    assert [here.read(f"{n}.py") for n in range(20)] == [f"{n}\n".encode() for n in range(20)]


def test_f3_a_patch_sent_again_happens_once(ground: Make):
    here = ground({"a": "x\n"})
    box = codex(here)
    lines = ("*** Update File: a", " x", "+x")
    assert patch(box, *lines, call_id="1").status == "success"
    assert patch(box, *lines, call_id="1").replayed
    assert here.read("a") == b"x\nx\n"


# --- files


def test_an_added_file_must_not_exist(ground: Make):
    here = ground({"a": "x\n", "d/b": ""})
    assert patch(codex(here), "*** Add File: a", "+y").code == "ALREADY_EXISTS"
    assert patch(codex(here), "*** Add File: d", "+y").code == "IS_DIRECTORY"
    assert patch(codex(here), "*** Add File: new/deep/a", "+y").status == "success"
    assert here.tree("a", "new/deep/a") == {"a": b"x\n", "new/deep/a": b"y\n"}


def test_what_is_updated_or_deleted_must_exist(ground: Make):
    here = ground({"config.py": "x\n"})
    for lines in (["*** Update File: confog.py", "-x"], ["*** Delete File: confog.py"]):
        reply = patch(codex(here), *lines)
        assert (reply.code, reply.data["near"]) == ("NOT_FOUND", ["config.py"])
    assert patch(codex(here), "*** Delete File: /").code == "IS_DIRECTORY"


def test_a_move_takes_the_updated_content_along(ground: Make):
    here = ground({"a.py": "x\ny\n"})
    box = codex(here)
    reply = patch(box, "*** Update File: a.py", "*** Move to: d/b.py", "-y", "+z")
    assert reply.data["files"] == [
        {"verb": "moved", "path": "d/b.py", "source": "a.py", "added": 1, "removed": 1, "matched_by": ["exact"]}
    ]
    assert here.tree("a.py", "d/b.py") == {"a.py": None, "d/b.py": b"x\nz\n"}
    assert "rename from a.py\nrename to d/b.py" in reply.ui_extra
    assert box.undo().status == "success"
    assert here.tree("a.py", "d/b.py") == {"a.py": b"x\ny\n", "d/b.py": None}


def test_a_move_does_not_overwrite(ground: Make):
    here = ground({"a": "x\n", "b": "y\n"})
    assert patch(codex(here), "*** Update File: a", "*** Move to: b", "-x", "+z").code == "ALREADY_EXISTS"
    assert patch(codex(here), "*** Update File: a", "*** Move to: ./a", "-x", "+z").status == "success"
    assert here.tree("a", "b") == {"a": b"z\n", "b": b"y\n"}


def test_a_binary_file_is_moved_and_deleted_and_not_patched(ground: Make):
    here = ground({"a.bin": b"\0\1\2", "b.bin": b"\0\1"})
    box = codex(here)
    assert patch(box, "*** Update File: a.bin", "-x", "+y").code == "BINARY_FILE"
    reply = patch(box, "*** Update File: a.bin", "*** Move to: c.bin", "*** Delete File: b.bin")
    assert reply.status == "success"
    assert here.tree("a.bin", "b.bin", "c.bin") == {"a.bin": None, "b.bin": None, "c.bin": b"\0\1\2"}


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16", "gbk"])
def test_c40_a_patch_keeps_encoding_mark_and_line_endings(ground: Make, coding: str):
    here = ground({"a": "第一行:文件内容\r\n第二行:修改\r\n".encode(coding)})
    assert patch(codex(here), "*** Update File: a", "-第二行:修改", "+第三行", "+第四行").status == "success"
    assert here.read("a") == "第一行:文件内容\r\n第三行\r\n第四行\r\n".encode(coding)


# --- several operations on one path


def test_each_operation_works_on_what_the_ones_before_left(ground: Make):
    here = ground({"a": "1\n2\n", "b": "old\n", "c": "c\n"})
    box = codex(here)
    reply = patch(
        box,
        *("*** Update File: a", "-1", "+one", "*** Update File: a", " one", "-2", "+two"),
        *("*** Delete File: b", "*** Add File: b", "+new"),
        *("*** Add File: d", "+d", "*** Update File: d", "-d", "+D"),
        *(
            "*** Update File: c",
            "*** Move to: e",
            "*** Update File: e",
            "-c",
            "+C",
            "*** Update File: e",
            "*** Move to: f",
        ),
        *("*** Add File: g", "+g", "*** Delete File: g"),
    )
    assert reply.status == "success", reply.text
    after = {"a": b"one\ntwo\n", "b": b"new\n", "c": None, "d": b"D\n", "e": None, "f": b"C\n", "g": None}
    assert here.tree(*after) == after
    assert reply.ui_extra.count("--- ") == 4
    assert "rename from c\nrename to f\n" in reply.ui_extra
    assert box.undo().status == "success"
    assert here.tree(*after) == dict.fromkeys(after) | {"a": b"1\n2\n", "b": b"old\n", "c": b"c\n"}


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["*** Delete File: a", "*** Update File: a", "-x", "+y"], "NOT_FOUND"),
        (["*** Delete File: a", "*** Delete File: ./a"], "NOT_FOUND"),
        (["*** Update File: a", "*** Move to: b", "*** Update File: a", "-x"], "NOT_FOUND"),
        (["*** Add File: b", "+x", "*** Add File: b", "+y"], "ALREADY_EXISTS"),
        (["*** Add File: b", "+x", "*** Update File: a", "*** Move to: b"], "ALREADY_EXISTS"),
    ],
)
def test_operations_that_contradict_each_other_are_refused(ground: Make, lines: list[str], code: str):
    here = ground({"a": "x\n"})
    assert patch(codex(here), *lines).code == code
    assert here.tree("a", "b") == {"a": b"x\n", "b": None}


# --- the tracker


def test_c11_without_a_tool_to_read_with_a_hunk_is_its_own_proof(ground: Make):
    here = ground({"a": "x\n"})
    box = codex(here)
    assert patch(box, "*** Update File: a", "-x", "+y").status == "success"
    here.write("a", b"y\nz\n")
    assert patch(box, "*** Update File: a", "-y", "+x").status == "success"
    assert here.read("a") == b"x\nz\n"


@pytest.mark.parametrize("lines", [["*** Update File: a", "-x", "+y"], ["*** Delete File: a"], ["*** Update File: a", "*** Move to: b"]])  # fmt: skip
def test_c11_c12_with_one_a_file_must_have_been_read_and_not_changed_since(ground: Make, lines: list[str]):
    here = ground({"a": "x\n"})
    box = here.open()
    assert patch(box, *lines).code == "UNREAD"
    read(box, "a")
    here.write("a", b"x\nother\n")
    assert patch(box, *lines).code == "STALE"
    assert here.read("a") == b"x\nother\n"
    assert patch(box, *lines).status == "success"


def test_c10_after_a_patch_the_session_knows_what_it_knew(ground: Make):
    here = ground({"a": "1\n2\n3\n", "b": "1\n2\n"})
    box = here.open()
    read(box, "a")
    box.call("read_file", {"path": "b", "limit": 1})
    lines = (
        "*** Update File: a",
        "*** Move to: c",
        "-1",
        "+one",
        "*** Update File: b",
        "-1",
        "+one",
        "*** Add File: d",
        "+d",
    )
    assert patch(box, *lines).status == "success"

    def write(path: str):
        return box.call("write_file", {"path": path, "content": "all\n"})

    assert [write(path).code for path in ("c", "b", "d")] == [None, "PARTLY_READ", None]


def test_c10_a_deleted_file_leaves_no_mark(ground: Make):
    here = ground({"a": "x\n"})
    box = here.open()
    read(box, "a")
    assert patch(box, "*** Delete File: a").status == "success"
    here.write("a", b"x\n")
    assert box.call("edit_file", {"path": "a", "old_string": "x", "new_string": "y"}).code == "UNREAD"


# --- policy


class NoSecrets(OnPlaces):
    """Changes are allowed, except to what lies in `secret/`."""

    name = "no secrets"

    def decide(self, verb: Verb, target: str) -> Decision:
        return Decision(Verdict.DENY if "/secret" in target else Verdict.ALLOW, "secrets stay where they are")


def test_c90_one_denied_path_denies_the_patch_and_is_named(ground: Make):
    here = ground({"a": "x\n", "secret/b": "x\n"})
    box = codex(here, policy=NoSecrets())
    for lines in (
        ["*** Delete File: secret/b"],
        ["*** Update File: a", "*** Move to: secret/c"],
        ["*** Add File: secret/d", "+x"],
    ):
        reply = patch(box, "*** Update File: a", "-x", "+y", *lines)
        assert reply.code == "DENIED"
        assert reply.data["path"].startswith("secret/")
    assert here.tree("a", "secret/b") == {"a": b"x\n", "secret/b": b"x\n"}


def test_c90_a_person_is_shown_the_whole_patch(ground: Make):
    here = ground({"a": "x\n", "b": "y\n"})
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return False

    reply = patch(codex(here, approver=approver), "*** Update File: a", "-x", "+z", "*** Delete File: b")
    assert (reply.code, reply.data["path"]) == ("NOT_APPROVED", "a")
    assert "-x\n+z\n" in asked[0].diff
    assert "-y\n" in asked[0].diff
    assert here.tree("a", "b") == {"a": b"x\n", "b": b"y\n"}


# --- on a disk


def on_disk(tmp_path: Path) -> tuple[Path, Toolbox]:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws", Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect="codex")


def test_a_move_keeps_the_mode_and_undoing_it_too(tmp_path: Path):
    root, box = on_disk(tmp_path)
    (root / "run.sh").write_text("#!/bin/sh\nx\n")
    (root / "run.sh").chmod(0o750)
    assert patch(box, "*** Update File: run.sh", "*** Move to: bin/go.sh", "-x", "+y").status == "success"
    assert (root / "bin/go.sh").stat().st_mode & 0o777 == 0o750
    assert box.undo().status == "success"
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o750
    assert not (root / "bin").exists()


def test_a_link_is_updated_through_and_neither_deleted_nor_moved(tmp_path: Path):
    root, box = on_disk(tmp_path)
    (root / "d").mkdir()
    (root / "d/a").write_text("x\n")
    (root / "a").symlink_to("d/a")
    (root / "e").symlink_to("d")
    assert patch(box, "*** Update File: a", "-x", "+y").status == "success"
    assert ((root / "d/a").read_text(), (root / "a").is_symlink()) == ("y\n", True)
    for lines in (["*** Delete File: a"], ["*** Update File: a", "*** Move to: b"], ["*** Delete File: d/../a"]):
        reply = patch(box, *lines)
        assert (reply.code, reply.data["target"]) == ("IS_LINK", str(root / "d/a"))
    assert patch(box, "*** Delete File: e/a").status == "success"  # the folder is a link, the file is none
    assert not (root / "d/a").exists()
