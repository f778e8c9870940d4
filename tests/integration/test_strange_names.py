"""Names that cannot be shown as they are: found, read, changed and taken back by how they are shown."""

import json
import os
from pathlib import Path

import pytest

from handhold import Reply, Toolbox
from handhold.core.text.path_escaping import escape_path

STRANGE = ["two\nlines.txt", os.fsdecode(b"\xff\xfe.txt"), "ev\u202etxt.exe", "d\te/a\x1b[31m.txt", r"C:\new.txt"]


def sent(reply: Reply) -> Reply:
    """A reply leaves the house as UTF-8, whole."""
    json.dumps(reply.to_dict(), ensure_ascii=False).encode("utf-8")
    assert reply.status in ("success", "partial"), reply.text
    return reply


@pytest.mark.parametrize("name", STRANGE)
@pytest.mark.parametrize("dialect", ["handhold", "claude"])
def test_nasties_19_to_21_what_a_search_shows_can_be_read_changed_and_undone(tmp_path: Path, name: str, dialect: str):
    path = tmp_path / "ws" / name
    path.parent.mkdir(parents=True)
    path.write_text("needle\n")
    shown = escape_path(name)
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", dialect=dialect) as box:
        if dialect == "handhold":
            found = sent(box.call("grep", {"pattern": "needle"}))
            assert shown in found.text.splitlines()
            sent(box.call("read_file", {"path": shown}))
            sent(box.call("edit_file", {"path": shown, "old_string": "needle", "new_string": "thread"}))
        else:
            shown = f"{box.files.roots[0]}/{shown}"
            found = sent(box.call("Grep", {"pattern": "needle"}))
            assert shown in found.text.splitlines()
            sent(box.call("Read", {"file_path": shown}))
            sent(box.call("Edit", {"file_path": shown, "old_string": "needle", "new_string": "thread"}))
        assert path.read_text() == "thread\n"
        sent(box.undo())
        assert path.read_text() == "needle\n"
        assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_nasty_19_a_folder_whose_name_reads_like_an_escape_is_searched_as_itself(ground):
    box = ground({r"d\n/a\nb": "hello\n", "d\n/x": "hello\n"}).open()
    for tool, found in (("glob", {"pattern": "*"}), ("grep", {"pattern": "hello"}), ("list_files", {})):
        for folder, name in ((r"d\\n", r"d\\n/a\\nb"), (r"d\n", r"d\n/x")):
            data = box.call(tool, {**found, "path": folder}).data
            paths = data["paths"] if tool != "list_files" else [entry["path"] for entry in data["entries"]]
            assert (data["path"], paths) == (folder, [name])
            assert box.call("read_file", {"path": name}).text == "     1→hello"
