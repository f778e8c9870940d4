"""In every encoding: read, edit one line, and every other byte is as it was; by every tool, in memory and on disk."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.core.text.declared_encoding import resolve_encoding
from handhold.core.text.encoding import BOMS
from tests.core.text.languages import ENCODINGS, stored, texts
from tests.integration.conftest import Ground
from tests.scale import sampled, scaled

Make = Callable[[dict[str, str | bytes]], Ground]
BOM_OF = {name: bom for bom, name in BOMS}
MARKED = ("utf-8-sig", "utf-16", "utf-16-be", "utf-32")
ALL = (*ENCODINGS, "utf-8", *MARKED, "iso8859-1", "shift_jis", "cp950", "euc_kr", "cp874")
LANGUAGES = dict.fromkeys(ALL, ("ru", "zh", "fr")) | ENCODINGS
LANGUAGES |= {"iso8859-1": ("fr",), "shift_jis": ("ja",), "cp950": ("zht",), "euc_kr": ("ko",), "cp874": ("th",)}
OLD, NEW = "the line that is edited", "another line"


def letters(encoding: str) -> str:
    """Characters of its languages that the encoding gives back as they are."""
    kept = []
    for char in sorted({char for language in LANGUAGES[encoding] for char in "".join(texts(language).values())}):
        try:
            if char.isprintable() and char.encode(encoding).decode(encoding) == char:
                kept.append(char)
        except UnicodeError:
            continue
    return "".join(kept)


def rows(encoding: str) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Lines with their endings, mixed; the last may have none."""
    row = st.tuples(st.text(letters(encoding), max_size=12), st.sampled_from(["\n", "\r\n"]))
    return st.lists(row, min_size=1, max_size=8)


@st.composite
def files(draw: st.DrawFn, encoding: str) -> tuple[bytes, bytes, bytes]:
    """A file around one line: what is before it, the line's ending, what is after it."""
    before, after = draw(rows(encoding)), draw(rows(encoding))
    ending = draw(st.sampled_from(["\n", "\r\n"]))
    tail = "".join(text + end for text, end in after)
    tail = tail if draw(st.booleans()) else tail.rstrip("\r\n")
    head = "".join(text + end for text, end in before)
    codec = plain(encoding)
    return mark(encoding) + head.encode(codec), ending.encode(codec), tail.encode(codec)


def plain(encoding: str) -> str:
    return resolve_encoding(encoding, "settings").name


def mark(encoding: str) -> bytes:
    return BOM_OF[plain(encoding)] if encoding in MARKED else b""


def edit(box: Toolbox) -> str:
    return box.call("edit_file", {"path": "f", "old_string": OLD, "new_string": NEW}).status


def multi_edit(box: Toolbox) -> str:
    edits = [{"old_string": OLD, "new_string": "between"}, {"old_string": "between", "new_string": NEW}]
    return box.call("multi_edit", {"path": "f", "edits": edits}).status


def patch(box: Toolbox) -> str:
    lines = ["*** Begin Patch", "*** Update File: f", f"-{OLD}", f"+{NEW}", "*** End Patch"]
    return box.call("apply_patch", {"patch": "\n".join(lines)}).status


def write(box: Toolbox) -> str:
    known = box.files.read_page("f", 1, 10_000, 10_000)
    content = "\n".join(line.text for line in known.lines).replace(OLD, NEW)
    whole = box.files.read("f").data
    newline = "\n".encode(plain(known.encoding))
    return box.call("write_file", {"path": "f", "content": content + "\n" * whole.endswith(newline)}).status


TOOLS = {"edit": edit, "multi_edit": multi_edit, "patch": patch, "write": write}


def boxes(data: bytes, **options) -> Iterator[tuple[Toolbox, Callable[[], bytes]]]:
    box = Toolbox.in_memory({"f": data}, **options)
    yield box, lambda: box.files.read("f").data
    with TemporaryDirectory() as root, TemporaryDirectory() as state:
        path = Path(root) / "f"
        path.write_bytes(data)
        box = Toolbox.open(root, state=state, **options)
        yield box, path.read_bytes
        box.close()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("encoding", ALL)
@settings(max_examples=scaled(1, 3), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(drawn=st.data())
def test_u4_an_edited_line_leaves_every_other_byte_alone(encoding: str, tool: str, drawn: st.DataObject):
    """With the encoding told or guessed. A guess may be wrong or none: then plain text still goes in."""
    head, ending, tail = drawn.draw(files(encoding))
    codec = plain(encoding)
    data = head + OLD.encode(codec) + ending + tail
    wanted = head + NEW.encode(codec) + ending + tail
    for options in ({"encodings": {"f": encoding}}, {}):
        if tool == "write" and not options and not mark(encoding):
            continue  # who writes a whole file must have read it all, and what is guessed may hide some of it
        for box, content in boxes(data, **options):
            assert box.call("read_file", {"path": "f"}).status != "error"
            assert TOOLS[tool](box) == "success"
            assert content() == wanted


@pytest.mark.parametrize("encoding", sampled(list(ENCODINGS), 8))
def test_u4_what_is_read_is_told_and_new_text_is_stored_in_it(encoding: str):
    language = ENCODINGS[encoding][0]
    body = "".join(texts(language).values())
    word = "@ " + texts(language)["word"].strip()
    data = stored(body, encoding)
    for box, content in boxes(data + f"{OLD}\n".encode(encoding)):
        reply = box.call("read_file", {"path": "f"})
        assert data.decode(reply.data["encoding"]) == data.decode(encoding)
        assert reply.data["encoding_by"] == "likelihood"
        assert reply.data["encoding"] in reply.text.rpartition("[")[2]
        made = box.call("edit_file", {"path": "f", "old_string": OLD, "new_string": word})
        assert (made.status, made.data["encoding"]) == ("success", reply.data["encoding"])
        assert content() == data + f"{word}\n".encode(encoding)
        refused = box.call("edit_file", {"path": "f", "old_string": word, "new_string": "\U0001f600 x"})
        assert (refused.code, refused.data["characters"]) == ("UNENCODABLE", "\U0001f600")


# --- what is said about encodings


def test_u4_editorconfig_is_looked_for_up_to_the_root(ground: Make):
    here = ground(
        {
            ".editorconfig": "[*.{txt,ini}]\ncharset = latin1\n",
            "a/b/.editorconfig": "[c/**]\ncharset = utf-8-bom\n",
            "a/x.txt": b"plain\n",
            "a/b/c/y.txt": b"plain\n",
            "a/z.md": b"plain\n",
        }
    )
    box = here.open()
    for path, encoding, by in [("a/x.txt", "iso8859-1", ".editorconfig"), ("a/z.md", "utf-8", "content")]:
        reply = box.call("read_file", {"path": path})
        assert (reply.data["encoding"], reply.data["encoding_by"]) == (encoding, by)
    assert box.call("edit_file", {"path": "a/x.txt", "old_string": "plain", "new_string": "né"}).status == "success"
    for path in ("n.txt", "a/n.md", "a/b/c/n.txt"):
        made = box.call("write_file", {"path": path, "content": "é\n"})
        assert made.status == "success"
    assert box.call("edit_file", {"path": "a/m.ini", "old_string": "", "new_string": "é\n"}).status == "success"
    lines = ["*** Begin Patch", "*** Add File: a/p.ini", "+é", "*** End Patch"]
    assert box.call("apply_patch", {"patch": "\n".join(lines)}).status == "success"
    assert here.tree("a/x.txt", "n.txt", "a/n.md", "a/b/c/n.txt", "a/m.ini", "a/p.ini") == {
        "a/x.txt": b"n\xe9\n",
        "n.txt": b"\xe9\n",
        "a/n.md": "é\n".encode(),
        "a/b/c/n.txt": "\ufeffé\n".encode(),
        "a/m.ini": b"\xe9\n",
        "a/p.ini": b"\xe9\n",
    }
    refused = box.call("write_file", {"path": "a/q.ini", "content": "中 é\n"})
    assert (refused.code, refused.data["characters"], refused.data["encoding"]) == ("UNENCODABLE", "中", "iso8859-1")


def test_u4_a_changed_editorconfig_counts_at_once(ground: Make):
    here = ground({".editorconfig": "[*]\ncharset = latin1\n", "a.txt": b"caf\xe9, d\xe9j\xe0 vu\n"})
    box = here.open()
    assert box.call("read_file", {"path": "a.txt"}).data["encoding"] == "iso8859-1"
    box.call("read_file", {"path": ".editorconfig"})
    changed = {"path": ".editorconfig", "old_string": "latin1", "new_string": "utf-8"}
    assert box.call("edit_file", changed).status == "success"
    reply = box.call("read_file", {"path": "a.txt"})
    assert (reply.data["encoding_by"], reply.data["encoding_declared"]) == ("likelihood", "utf-8")


def test_u4_what_lies_outside_the_workspace_says_nothing(tmp_path: Path):
    root = tmp_path / "outside" / "root"
    root.mkdir(parents=True)
    (tmp_path / "outside" / ".editorconfig").write_text("[*]\ncharset = latin1\n")
    (root / ".editorconfig").symlink_to("../.editorconfig")
    (root / "a.txt").write_bytes(b"plain\n")
    box = Toolbox.open(root, state=tmp_path / "state")
    assert box.call("read_file", {"path": "a.txt"}).data["encoding_by"] == "content"
    box.close()


def test_u4_settings_go_before_editorconfig():
    files = {".editorconfig": "[*]\ncharset = latin1\n", "a.txt": "żółć\n".encode("cp1250"), "b.md": b"x\n"}
    box = Toolbox.in_memory(files, encodings={"*.txt": "cp1250"})
    reply = box.call("read_file", {"path": "a.txt"})
    assert (reply.data["encoding"], reply.data["encoding_by"]) == ("cp1250", "settings")
    assert "żółć" in reply.text
    assert box.call("read_file", {"path": "b.md"}).data["encoding"] == "iso8859-1"


def test_u4_a_setting_that_means_nothing_is_refused_when_the_toolbox_is_opened():
    with pytest.raises(ValueError, match="utf-7"):
        Toolbox.in_memory({}, encodings={"*": "utf-7"})


# --- large files


@pytest.mark.parametrize("encoding", sampled(["cp1251", "koi8-r", "gbk", "cp949", "cp1250", "iso2022_jp"], 2))
@pytest.mark.parametrize("late", [False, True])
def test_u4_a_page_of_a_large_file_agrees_with_the_edit_that_follows(tmp_path: Path, encoding: str, late: bool):
    rows = "".join(texts(ENCODINGS[encoding][0]).values())
    body = rows + ("plain text\n" * 200_000 if late else rows * 1500) + rows + f"{OLD}\n"
    body = body if not late else "plain\n" * 400_000 + rows + f"{OLD}\n"
    data = stored(body, encoding)
    (tmp_path / "f").write_bytes(data)
    box = Toolbox.open(tmp_path, state=tmp_path / "state")
    total = data.count(b"\n")
    if late and encoding != "iso2022_jp":  # of that one, every byte is plain until it is looked at whole
        assert box.call("read_file", {"path": "f", "limit": 1}).data["encoding"] == "utf-8"
    page = box.call("read_file", {"path": "f", "offset": total - 2})
    if not (late and encoding == "iso2022_jp"):
        assert page.data["encoding_by"] == "likelihood"
        assert data.decode(page.data["encoding"]) == data.decode(encoding)
    made = box.call("edit_file", {"path": "f", "old_string": OLD, "new_string": NEW})
    assert made.status == "success"
    assert (tmp_path / "f").read_bytes() == data.replace(OLD.encode(), NEW.encode())
    box.close()
