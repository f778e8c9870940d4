"""Images and PDFs on the road that every call takes: policy, tracker, journal, and the same road on a disk."""

import json
from pathlib import Path

import pytest

from handhold import Rule, Toolbox
from tests.backends.convert.papers import plain
from tests.backends.convert.pictures import quartered, saved

PNG, OTHER = saved(quartered(), "PNG"), saved(quartered(90, 60), "PNG")


def test_on_a_disk_as_in_memory(tmp_path: Path):
    (tmp_path / "root").mkdir()
    (tmp_path / "root/a.png").write_bytes(PNG)
    with Toolbox.open(tmp_path / "root", state=tmp_path / "state") as box:
        reply = box.call("read_file", {"path": "a.png"})
    memory = Toolbox.in_memory({"a.png": PNG}).call("read_file", {"path": "a.png"})
    assert (reply.text, reply.images) == (memory.text, memory.images)
    assert [block.type for block in reply.blocks] == ["text", "image"]


def test_facts_are_safe_for_json_and_hold_no_pixels():
    reply = Toolbox.in_memory({"a.png": PNG}).call("read_file", {"path": "a.png"})
    assert len(json.dumps(dict(reply.data))) < 600


def test_a_denied_image_is_not_looked_at():
    private = Rule("no images", "deny", ["read"], "images are private", ["a.png"], ["a.txt"], paths=["*.png"])
    reply = Toolbox.in_memory({"a.png": PNG}, rules=[private]).call("read_file", {"path": "a.png"})
    assert (reply.code, reply.images) == ("DENIED", ())


def test_c30_an_image_that_changed_since_says_so():
    box = Toolbox.in_memory({"a.png": PNG})
    assert not box.call("read_file", {"path": "a.png"}).data["changed_since_last_read"]
    box.files.put("a.png", OTHER)  # pyright: ignore[reportAttributeAccessIssue]
    reply = box.call("read_file", {"path": "a.png"})
    assert reply.data["changed_since_last_read"]
    assert not box.call("read_file", {"path": "a.png"}).data["changed_since_last_read"]


def test_c25_an_image_that_was_seen_is_still_no_text_to_write_over():
    box = Toolbox.in_memory({"a.png": PNG})
    box.call("read_file", {"path": "a.png"})
    reply = box.call("write_file", {"path": "a.png", "content": "text"})
    assert reply.code == "BINARY_FILE"
    assert box.files.read("a.png").data == PNG


def test_c11_a_pdf_is_known_whole_once_every_page_was_shown():
    box = Toolbox.in_memory({"a.pdf": plain(*["text"] * 30)})

    def mark():
        return box.tracker.read_records.get("/ws/a.pdf", None)

    box.call("read_file", {"path": "a.pdf"})
    assert (found := mark())
    assert (found.lines, found.is_complete) == (((1, 20),), False)
    box.call("read_file", {"path": "a.pdf", "pages": "21-30"})
    assert (found := mark())
    assert (found.lines, found.is_complete) == (((1, 30),), True)


def test_the_journal_keeps_the_call_and_not_the_pixels():
    noise = saved(quartered(1500, 1500).effect_spread(300), "PNG")
    box = Toolbox.in_memory({"a.png": noise})
    first = box.call("read_file", {"path": "a.png"}, call_id="1", turn="t")
    again = box.call("read_file", {"path": "a.png"}, call_id="1", turn="t")
    assert again.images == first.images
    assert not again.replayed
    assert all(entry.outcome and entry.outcome.reply is None for entry in box.log())
    assert [entry.call.tool for entry in box.log()] == ["read_file"] * 2


@pytest.mark.parametrize("dialect", ["handhold", "claude"])
def test_every_refusal_has_words_and_no_image(dialect: str):
    names = {"handhold": ("read_file", "path"), "claude": ("Read", "file_path")}
    tool, argument = names[dialect]
    files = {"a.png": PNG[:50], "b.png": b"\0\1", "c.pdf": b"%PDF-1.7\n\0", "d.gif": b"GIF89a\1"}
    box = Toolbox.in_memory(files, dialect=dialect)
    for name in files:
        reply = box.call(tool, {argument: f"/ws/{name}"})
        assert (reply.code, reply.error_source, reply.images) == ("BROKEN_FILE", "model", ())
        assert (reply.data["path"], reply.data["medium"]) == (f"/ws/{name}", name[2:])
        assert f"/ws/{name}" in reply.text


def test_a_text_file_costs_no_worker():
    class NoConverter:
        def convert(self, convert: object) -> None:
            raise AssertionError("a text needs no converter")

    box = Toolbox.in_memory({"a.txt": "GIF89a is a format\n"}, converter=NoConverter())  # pyright: ignore[reportArgumentType]
    assert box.call("read_file", {"path": "a.txt"}).status == "success"
