"""The fifty-two nasties by number: what to feed the tools, and what must happen.

Each uses the public interface, and each call keeps the rules of `rows.py`. What is tried a hundred thousand times, at
every system call or under both resolvers has its own tests next to this file and in `tests/backends/`.
"""

import json
import os
import random
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends import mounts
from handhold.backends.search import DiskSearch
from handhold.core.errors import StateDamaged
from tests.backends.shell import hanging
from tests.counting import no_free_numbers
from tests.faults import crash, odd
from tests.faults.crash import Bench, Patching, kill_commits, stops_of
from tests.faults.disks import disk, fill, mounted, served
from tests.faults.injection import CODES, injected, needs_strace
from tests.faults.rows import Row, state_of
from tests.faults.trees import as_nobody, tree
from tests.scale import scaled
from tests.suites.machine import has_shadows

pytestmark = pytest.mark.timeout(120)
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
needs_shadows = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")

MIB = 1024 * 1024
FLOOD = scaled(1_100, 10_240)  # MiB: more than the gigabyte that is kept
LINES = scaled(1_000_000, 10_000_000)


@pytest.fixture
def row(tmp_path: Path) -> Iterator[Row]:
    with Row(tmp_path) as made:
        yield made


def refused_everywhere(row: Row, path: str, code: str) -> None:
    """By every tool that reads, writes or lists."""
    row.ask("read_file", path=path, code=code)
    row.ask("Read", dialect="claude", file_path=path, code=code)
    row.ask("write_file", path=path, content="x\n", code=code)
    row.ask("edit_file", path=path, old_string="a", new_string="b", code=code)
    row.ask("apply_patch", patch=f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch", code=code)
    told = row.ask("read_files", paths=[path]).data["files"]
    assert [each["code"] for each in told] == [code]


# --- A. not a regular file


def test_nasty_01_a_fifo_is_not_read(row: Row):
    os.mkfifo(row.root / "pipe")
    row.ask("read_file", path="pipe", code="NOT_REGULAR_FILE")
    row.ask("Read", dialect="claude", file_path=str(row.root / "pipe"), code="NOT_REGULAR_FILE")
    assert row.ask("grep", pattern="x").data["paths"] == []


def test_nasty_02_a_fifo_is_not_written(row: Row):
    os.mkfifo(row.root / "pipe")
    refused_everywhere(row, "pipe", "NOT_REGULAR_FILE")


def test_nasty_03_a_socket(row: Row, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(row.root)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as here:
        here.bind("socket")
    refused_everywhere(row, "socket", "NOT_REGULAR_FILE")


@needs_root
@pytest.mark.root
def test_nasty_04_a_device_outside_is_outside_and_inside_is_no_file(row: Row):
    for device in ("/dev/zero", "/dev/urandom", "/dev/tty"):
        refused_everywhere(row, device, "OUTSIDE_WORKSPACE")
        number = os.stat(device).st_rdev
        name = os.path.basename(device)
        os.mknod(row.root / name, stat.S_IFCHR | 0o666, number)
        refused_everywhere(row, name, "NOT_REGULAR_FILE")
    assert row.ask("grep", pattern="x").data["paths"] == []


@needs_root
@pytest.mark.root
def test_nasty_05_proc_and_sys_are_outside_even_of_a_workspace_that_is_everything(row: Row, tmp_path: Path):
    doors = ("/proc/self/mem", "/proc/kcore", "/proc/self/environ", "/sys/kernel/notes")
    for door in doors:
        refused_everywhere(row, door, "OUTSIDE_WORKSPACE")
    with Toolbox.open("/", state=tmp_path / "whole") as box:
        assert "environ" not in box.call("read_file", {"path": "/proc/self/environs"}).data.get("near", ())
        for door in filter(os.path.exists, doors):
            for tool, arguments in (
                ("read_file", {"path": door}),
                ("write_file", {"path": door, "content": "x"}),
                ("list_files", {"path": os.path.dirname(door)}),
                ("grep", {"path": door, "pattern": "PATH"}),
                ("glob", {"path": os.path.dirname(door), "pattern": "*"}),
            ):
                assert box.call(tool, arguments).code == "OUTSIDE_WORKSPACE", (tool, door)


def test_nasty_06_magic_links_are_not_followed(row: Row, tmp_path: Path):
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    with secret.open() as held:
        for n, magic in enumerate((f"fd/{held.fileno()}", "root", "cwd", "exe")):
            (row.root / f"link{n}").symlink_to(f"/proc/self/{magic}")
            refused_everywhere(row, f"link{n}", "OUTSIDE_WORKSPACE")
            refused_everywhere(row, f"link{n}{secret}", "OUTSIDE_WORKSPACE")
    assert row.ask("grep", pattern="secret").data["paths"] == []


def test_nasty_07_a_directory_is_no_file_and_a_file_is_no_directory(row: Row):
    row.put("d/a.txt", "x\n")
    folder = str(row.root / "d")
    reply = row.ask("Read", dialect="claude", file_path=folder, code="IS_DIRECTORY")
    assert reply.text == "<tool_use_error>Illegal operation on a directory. read</tool_use_error>"
    assert row.ask("read_file", path="d").data["entries"] == [{"path": "d/a.txt", "type": "file"}]
    row.ask("write_file", path="d", content="x", code="IS_DIRECTORY")
    assert "read_file" in row.ask("list_files", path="d/a.txt", code="NOT_DIRECTORY").text
    assert "Use Read" in row.ask("LS", dialect="claude", path=f"{folder}/a.txt", code="NOT_DIRECTORY").text


@needs_root
@pytest.mark.root
def test_nasty_08_a_file_that_does_not_say_how_long_it_is_is_read_to_its_end_and_not_for_ever(row: Row):
    with served(odd.__file__, row.root / "odd"):
        assert os.stat(row.root / "odd" / "unsized").st_size == 0
        reply = row.ask("read_file", path="odd/unsized", offset=49_990)
        assert reply.data["total_lines"] == 50_000
        assert " 50000→line 50000" in reply.text
        row.ask("read_file", path="odd/endless", code="TOO_LARGE")
        row.ask("edit_file", path="odd/endless", old_string="a", new_string="b", code="TOO_LARGE")
        row.close()  # before the files it has open disappear


# --- B. size and shape


@pytest.mark.alone
def test_nasty_09_of_a_terabyte_only_the_window_is_read(row: Row):
    with row.put("sparse", "".join(f"line {n}\n" for n in range(1, 1001))).open("r+b") as file:
        file.truncate(1 << 40)
    with row.put("hole").open("r+b") as file:
        file.truncate(1 << 40)
    row.ask("read_file", path="sparse", limit=1)  # warm-up: loads modules
    reply = row.ask("read_file", path="sparse", offset=900, limit=100, within=0.05, grows=8)
    assert "   999→line 999" in reply.text
    row.ask("Read", dialect="claude", file_path=str(row.root / "sparse"), code="TOO_LARGE")
    row.ask("read_file", path="hole", code="BINARY_FILE", within=0.05, grows=8)
    row.ask("edit_file", path="sparse", old_string="line 7\n", new_string="", code="TOO_LARGE", within=0.05, grows=8)
    row.ask("grep", pattern="line 7", path="sparse")


@pytest.mark.slow
@pytest.mark.alone
def test_nasty_10_a_line_of_100_mb_is_cut_and_what_is_left_is_said(row: Row):
    row.put("long", b'"x' * (25 * MIB) + b"needle" + b"\\y" * (25 * MIB) + b"\nsecond\n")
    reply = row.ask("read_file", path="long")
    assert reply.status == "partial"
    assert f"... ({100 * MIB + 6 - 2000} more characters)" in reply.text
    assert "     2→second" in reply.text
    for sort in ("modified", "none"):
        reply = row.ask("grep", pattern="needle", mode="content", sort=sort, within=4)  # ripgrep itself takes 1.5 s
        assert reply.status == "partial"
        assert len(reply.text) < 2000
        assert "characters before) ..." in reply.text
        assert "more characters)" in reply.text


@needs_shadows
@pytest.mark.slow
def test_nasty_11_ten_gigabytes_of_output_cost_no_memory(row: Row):
    row.ask("bash", command="true")
    reply = row.ask("bash", command=f"yes | head -c {FLOOD}M", grows=32, within=60)
    assert reply.data["output"]["bytes"] == FLOOD * MIB
    assert reply.data["output"]["kept"] == 1024**3
    assert len(reply.text) < 3000


@pytest.mark.slow
def test_nasty_12_the_end_of_ten_million_lines_is_found_in_flat_memory(row: Row):
    with row.put("many").open("wb") as file:
        for start in range(0, LINES, 100_000):
            file.write(b"".join(b"%d\n" % n for n in range(start + 1, start + 100_001)))
    row.ask("read_file", path="many", limit=1)
    reply = row.ask("read_file", path="many", offset=LINES - 10, grows=8)
    assert f"{LINES - 10}→{LINES - 10}" in reply.text
    assert reply.text.endswith(f"{LINES}→{LINES}")
    row.ask("read_file", path="many", offset=LINES + 1, code="PAST_END")


MILLION = scaled(70_000, 1_000_000)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_nasty_13_a_million_entries_in_one_folder_are_paged_in_flat_memory(row: Row):
    fd = os.open(row.root, os.O_RDONLY)
    try:
        for n in reversed(range(MILLION)):
            if n % 60_000 == 59_999 or n == MILLION - 1:  # the number of hard links per file is limited
                os.close(os.open(f"{n:07}", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
                last = f"{n:07}"
            else:
                os.link(last, f"{n:07}", src_dir_fd=fd, dst_dir_fd=fd)
    finally:
        os.close(fd)
    row.state = lambda root: (root.stat().st_mtime_ns, root.stat().st_nlink)  # too many to compare on every call
    try:
        row.ask("list_files", path="/", limit=1)
        cursor: dict[str, Any] = {}
        names: list[str] = []
        for _ in range(3):
            reply = row.ask("list_files", path="/", grows=16, **cursor)
            names += [entry["path"] for entry in reply.data["entries"]]
            cursor = {"cursor": reply.data["cursor"]}
        assert names == [f"{n:07}" for n in range(600)]
        row.ask("read_file", path="absent", code="NOT_FOUND")
    finally:
        subprocess.run(["rm", "-rf", row.root], check=True)


DEPTH = scaled(2_500, 5_000)  # folders: more than fit in a path


@contextmanager
def nested(root: Path) -> Iterator[None]:
    """Five thousand nested folders, and a file in the last one."""
    fd = os.open(root, os.O_RDONLY)
    for _ in range(DEPTH):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    last = os.open("last.txt", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd)
    os.write(last, b"a needle\n")
    os.close(last)
    os.close(fd)
    try:
        yield
    finally:
        subprocess.run(["rm", "-rf", root], check=True)  # Python's own removal is recursive and would exceed the limit


@pytest.mark.slow
def test_nasty_14_five_thousand_nested_folders_are_a_part_and_no_error(row: Row):
    row.put("beside.txt", "a needle\n")
    with nested(row.root):
        deep = "d/" * DEPTH + "last.txt"
        for sort in ("modified", "none"):
            reply = row.ask("grep", pattern="needle", sort=sort)
            assert "beside.txt" in reply.data["paths"]
            assert deep in reply.data["paths"] or reply.status == "partial"
        row.ask("glob", pattern="**/last.txt")
        row.ask("list_files", depth=10)
        assert "     1→a needle" in row.ask("read_file", path=deep).text
        row.ask("read_file", path=deep + "s", code="NOT_FOUND")


def test_nasty_15_a_long_name_is_refused_and_a_long_path_is_walked(row: Row):
    row.put("a.txt", "x\n")
    for name in ("n" * 256, "ü" * 128, "a.txt" * 52):
        reply = row.ask("read_file", path=name, code="BAD_PATH")
        assert len(reply.text) < 1000
        row.ask("write_file", path=name, content="x\n", code="BAD_PATH")
    fd, way = os.open(row.root, os.O_RDONLY), "/".join(["n" * 200] * 25)
    for name in way.split("/"):
        os.mkdir(name, dir_fd=fd)
        below = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)
    try:
        assert len(way) > 4096
        row.ask("write_file", path=f"{way}/new.txt", content="one\n", changes=True)
        assert "     1→one" in row.ask("read_file", path=f"{way}/new.txt").text
        row.ask("edit_file", path=f"{way}/new.txt", old_string="one", new_string="two", changes=True)
        assert "     1→two" in row.ask("read_file", path=f"{way}/new.txt").text
    finally:
        subprocess.run(["rm", "-rf", row.root], check=True)


@pytest.mark.parametrize(
    "content",
    [
        b"old",
        b"one\nold\nthree",
        b"one\rold\rthree\r",
        b"one\r\nold\nthree\r\n\r\nfour\rfive",
        b"\xef\xbb\xbfone\r\nold\r\n",
        "\ufeffone\r\nold\r\n€".encode("utf-16-le"),
        "\ufeffone\nold\n€".encode("utf-16-be"),
        "\ufeffone\nold\n€".encode("utf-32-le"),
        "\ufeffone\nold\n€".encode("utf-32-be"),
        b"x" * 9000 + b"\nold\n\0tail",
    ],
    ids=["no newline", "no final newline", "cr", "mixed", "utf-8", "utf-16-le", "utf-16-be", "32-le", "32-be", "nul"],
)
def test_nasty_16_every_byte_outside_the_edited_span_stays(row: Row, content: bytes):
    file = row.put("f", content)
    row.ask("read_file", path="f")
    row.ask("edit_file", path="f", old_string="old", new_string="new", changes=True)
    width = {b"\xff\xfe\x6f\x00": 2, b"\xfe\xff\x00\x6f": 2, b"\xff\xfe\x00\x00": 4, b"\x00\x00\xfe\xff": 4}
    unit = width.get(content[:4], 1)
    coding = {(2, 0xFF): "utf-16-le", (2, 0xFE): "utf-16-be", (4, 0xFF): "utf-32-le", (4, 0x00): "utf-32-be"}
    name = coding.get((unit, content[0]), "ascii")
    assert file.read_bytes() == content.replace("old".encode(name), "new".encode(name))


def test_nasty_16_an_empty_file_stays_empty_and_can_be_filled(row: Row):
    file = row.put("empty")
    assert row.ask("read_file", path="empty").text == "[empty is empty.]"
    row.ask("edit_file", path="empty", old_string="x", new_string="y", code="NO_MATCH")
    assert file.read_bytes() == b""
    row.ask("write_file", path="empty", content="x", changes=True)
    assert file.read_bytes() == b"x"


ENTITIES = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
LAUGHS = f'<?xml version="1.0"?><!DOCTYPE svg [<!ENTITY l0 "ha">{ENTITIES}]><svg><text>&l9;</text></svg>\n'


def huge_png() -> bytes:
    """One kilobyte that says it is 50,000 by 50,000 pixels."""
    head = struct.pack(">IIBBBBB", 50_000, 50_000, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(900_000))), (b"IEND", b""))
    written = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def swelling_pdf() -> bytes:
    """A page that is three hundred megabytes once it is unpacked."""
    packed = zlib.compress(bytes(300 * MIB), 9)
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%b\nendstream" % (len(packed), packed),
    )
    body = b"".join(b"%d 0 obj%b endobj\n" % (n, each) for n, each in enumerate(objects, 1))
    return b"%PDF-1.4\n" + body + b"trailer<</Root 1 0 R>>\n"


def test_nasty_17_what_swells_when_it_is_decoded_is_not_decoded(row: Row):
    row.put("huge.png", huge_png())
    row.ask("read_file", path="huge.png", code="TOO_MANY_PIXELS")
    row.put("lying.txt", huge_png())
    row.ask("read_file", path="lying.txt", code="TOO_MANY_PIXELS")
    row.put("swelling.pdf", swelling_pdf())
    row.ask("read_file", path="swelling.pdf", code=("BROKEN_FILE", "TOO_COSTLY"), within=10)
    row.put("laughs.svg", LAUGHS)
    assert "&l9;" in row.ask("read_file", path="laughs.svg", grows=8).text
    row.put("deep.json", "[" * 100_000 + "]" * 100_000)
    assert "[[[[" in row.ask("read_file", path="deep.json", grows=8).text
    row.put("deep.ipynb", '{"cells": ' + "[" * 100_000 + "]" * 100_000 + "}")
    assert row.box().call("read_file", {"path": "deep.ipynb"}).text
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    reply = row.box().call("read_file", {"path": deep})
    while deep:  # otherwise its deallocation would recurse as deeply
        (deep,) = deep
    assert reply.code == "BAD_ARGUMENTS"


def test_nasty_18_a_regex_that_backtracks_elsewhere_does_not_hang(row: Row, monkeypatch: pytest.MonkeyPatch):
    row.put("a.txt", "a" * 50_000 + "b\n")
    reply = row.ask("grep", pattern="(a+)+$", regex=True)
    assert (reply.status, reply.data["paths"]) == ("success", [])
    box = row.box("claude", searcher=DiskSearch(row.box().files, engines=("walk",)), search_seconds=1.0)  # pyright: ignore[reportArgumentType]
    reply = row.ask("Grep", dialect="claude", pattern="(a+)+$")
    assert box.options.search_seconds == 1.0
    assert reply.status == "partial"


# --- C. names


def comes_back(row: Row, name: str, *, changes: bool = True) -> str:
    """A file of this name is listed, found, read, edited and searched under the displayed name. Returns that name."""
    row.put("d/" + name, "needle\n")
    (entry,) = row.ask("list_files", path="d", hidden=True).data["entries"]
    shown = entry["path"]
    assert shown.isprintable()
    json.dumps(shown).encode()
    assert row.ask("glob", pattern="d/*", hidden=True).data["paths"] == [shown]
    assert row.ask("grep", pattern="needle", hidden=True).data["paths"] == [shown]
    assert "     1→needle" in row.ask("read_file", path=shown).text
    row.ask("edit_file", path=shown, old_string="needle", new_string="thread", changes=changes)
    assert [each.read_text() for each in (row.root / "d").iterdir()] == ["thread\n"]
    assert os.listdir(row.root / "d") == [name]
    row.box().undo()
    shutil.rmtree(row.root / "d")
    return shown


def test_nasty_19_a_name_of_two_lines_is_shown_as_one(row: Row):
    assert comes_back(row, "a\nb") == r"d/a\nb"
    assert comes_back(row, "a\tb") == r"d/a\tb"
    assert comes_back(row, "\x1b[31mred\x1b[0m") == r"d/\x1b[31mred\x1b[0m"


def test_nasty_20_a_name_that_is_no_text_is_shown_and_taken_back(row: Row):
    assert comes_back(row, os.fsdecode(b"\xff\xfe.txt")) == r"d/\xff\xfe.txt"


def test_nasty_21_a_name_that_looks_like_another_is_spelled_out(row: Row):
    assert comes_back(row, "gpj.\u202eexe") == r"d/gpj.\u202eexe"
    assert comes_back(row, "a\u200bb") == r"d/a\u200bb"
    assert comes_back(row, "р\u0430y.py") == "d/р\u0430y.py"  # homoglyphs are letters: shown unchanged
    row.put("pay.py", "latin\n")
    row.ask("read_file", path="p\u0430y.py", code="NOT_FOUND")


def test_nasty_22_two_forms_of_a_name_are_one_file_only_if_the_disk_says_so(row: Row):
    composed, apart = (unicodedata.normalize(form, "é.txt") for form in ("NFC", "NFD"))
    row.put(composed, "one\n")
    row.put(apart, "two\n")
    assert "     1→one" in row.ask("read_file", path=composed).text
    row.ask("edit_file", path=apart, old_string="two", new_string="2", code="UNREAD")
    assert "     1→two" in row.ask("read_file", path=apart).text
    composed, apart = (unicodedata.normalize(form, "ü.txt") for form in ("NFC", "NFD"))
    row.put(composed, "one\n")
    os.link(row.root / composed, row.root / apart)  # as on a file system where both are the same name
    row.ask("read_file", path=composed)
    row.ask("edit_file", path=apart, old_string="one", new_string="1", changes=True)
    assert (row.root / composed).read_bytes() == (row.root / apart).read_bytes() == b"1\n"


@needs_root
@pytest.mark.root
def test_nasty_23_a_protected_name_is_protected_in_any_case(row: Row):
    with served(odd.__file__, row.root / "odd"):
        assert os.path.samefile(row.root / "odd/.git/config", row.root / "odd/.GIT/Config")
        row.ask("read_file", path="odd/.git/config")
        for name in ("odd/.GIT/config", "odd/.git/CONFIG", "odd/.Git/Config"):
            obeyed = "core]\n\tfsmonitor = x\n[core"
            row.ask("edit_file", path=name, old_string="core", new_string=obeyed, code="NOT_APPROVED")
        for name in ("odd/.GIT/hooks/pre-commit", "odd/.Cursor/mcp.json", "odd/src/.VSCode/tasks.json"):
            row.ask("write_file", path=name, content="x\n", code="NOT_APPROVED")
        row.close()
    for name in (".GIT/config", ".Cursor/mcp.json"):  # also on a case-sensitive disk: another may ignore case
        row.ask("write_file", path=name, content="x\n", code="NOT_APPROVED")


@pytest.mark.parametrize("name", ["-rf", "--pre=x", "~", "$(id)", "*", " lead", "trail ", "con", "a:b", "-", "--"])
def test_nasty_24_a_name_is_no_option_and_nothing_to_expand(row: Row, name: str):
    row.put("beside", "x\n")
    assert comes_back(row, name) == f"d/{name}"
    row.put(name, "needle\n")
    assert "     1→needle" in row.ask("read_file", path=name).text
    assert row.ask("grep", pattern="needle", path=name).data["paths"] == [name]
    row.put("-dir/x", "needle\n")
    assert row.ask("grep", pattern="needle", path="-dir").data["paths"] == ["-dir/x"]
    assert row.ask("grep", pattern="--pre=x", path=name).data["paths"] == []


@pytest.mark.parametrize("path", ["", ".", "..", "a/", "a/.", "d/..", "a\0b", "\0", "a\ud800b"])
def test_nasty_25_what_names_no_file_is_a_bad_path(row: Row, path: str):
    row.put("a", "x\n")
    row.put("d/a", "x\n")
    row.ask("read_file", path=path, code="BAD_PATH")
    row.ask("write_file", path=path, content="x\n", code="BAD_PATH")
    row.ask("edit_file", path=path, old_string="x", new_string="y", code="BAD_PATH")
    assert row.ask("read_files", paths=[path]).data["files"][0]["code"] == "BAD_PATH"


# --- D. links and mounts


def test_nasty_26_links_that_lead_round_are_a_loop(row: Row):
    (row.root / "a").symlink_to("b")
    (row.root / "b").symlink_to("a")
    (row.root / "self").symlink_to("self/x")
    for path in ("a", "b", "self", "a/below"):
        refused_everywhere(row, path, "SYMLINK_LOOP")
    assert row.ask("grep", pattern="x").data["paths"] == []


def test_nasty_27_a_link_to_the_outside_is_refused(row: Row, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret\n")
    (row.root / "d").mkdir()
    for name, target in {
        "absolute": str(outside / "secret"),
        "relative": "../outside/secret",
        "d/deeper": "../../outside/secret",
        "folder": "../outside",
        "d/way": "../d/../../outside",
    }.items():
        (row.root / name).symlink_to(target)
        below = "/secret" if name in ("folder", "d/way") else ""
        refused_everywhere(row, name + below, "OUTSIDE_WORKSPACE")
    row.ask("write_file", path="folder/new", content="x\n", code="OUTSIDE_WORKSPACE")
    assert row.ask("grep", pattern="secret").data["paths"] == []
    assert tree(outside) == {"secret": (stat.S_IFREG, 0o644, b"secret\n", 1)}


@pytest.mark.slow
def test_nasty_28_a_link_that_is_swapped_in_during_the_call_leads_nowhere(row: Row, tmp_path: Path):
    outside, cc = tmp_path / "outside", shutil.which("cc")
    if not cc:
        pytest.skip("swap.c must be compiled, and there is no cc")
    row.put("door/file", "inside\n")
    outside.mkdir()
    (outside / "file").write_text("outside\n")
    (row.root / "other").symlink_to(outside)
    subprocess.run([cc, "-O2", "-o", tmp_path / "swap", Path(__file__).with_name("swap.c")], check=True)
    codes: set[str | None] = set()
    box = row.box()
    with subprocess.Popen([tmp_path / "swap", row.root / "door", row.root / "other"]) as swapping:
        try:
            for n in range(scaled(300, 1500)):
                reply = box.call("read_file", {"path": "door/file"})
                assert "outside" not in reply.text.splitlines()[0].partition("→")[2]
                codes.add(reply.code)
                if n % 5 == 0:
                    codes.add(box.call("write_file", {"path": f"door/{n}", "content": "x\n"}).code)
                    assert "outside" not in box.call("grep", {"pattern": "side", "mode": "content"}).text
        finally:
            swapping.kill()
    assert {None, "OUTSIDE_WORKSPACE"} <= codes  # otherwise the test proves nothing
    assert tree(outside) == {"file": (stat.S_IFREG, 0o644, b"outside\n", 1)}


def test_nasty_29_nothing_is_written_through_a_dangling_link(row: Row, tmp_path: Path):
    for name, target, code in (
        ("out", str(tmp_path / "gone"), "OUTSIDE_WORKSPACE"),
        ("up", "../gone", "OUTSIDE_WORKSPACE"),
        ("in", "gone", "DANGLING_LINK"),
    ):
        (row.root / name).symlink_to(target)
        refused_everywhere(row, name, code)
    assert not (tmp_path / "gone").exists()


def test_nasty_30_an_edit_through_a_link_changes_the_file_and_leaves_the_link(row: Row):
    row.put("src/real.py", "one\n")
    (row.root / "link.py").symlink_to("src/real.py")
    row.ask("read_file", path="link.py")
    row.ask("edit_file", path="link.py", old_string="one", new_string="two", changes=True)
    assert os.readlink(row.root / "link.py") == "src/real.py"
    assert (row.root / "src/real.py").read_bytes() == b"two\n"


def test_nasty_31_a_file_that_also_has_a_name_outside_is_written_only_after_a_question(row: Row, tmp_path: Path):
    outside = tmp_path / "outside"
    outside.write_text("one\n")
    os.link(outside, row.root / "inside")
    row.ask("read_file", path="inside")
    row.ask("edit_file", path="inside", old_string="one", new_string="two", code="NOT_APPROVED")
    row.ask("write_file", path="inside", content="two\n", code="NOT_APPROVED")
    assert outside.read_bytes() == b"one\n"
    asked: list[str] = []
    row.box(session="asked", approver=lambda question: bool(asked.append(question.because)) or True, policy="edit")
    row.ask("read_file", path="inside", session="asked")
    row.ask("edit_file", path="inside", old_string="one", new_string="two", session="asked", changes=True)
    assert len(asked) == 1
    assert (row.root / "inside").read_bytes() == b"two\n"


@needs_root
@pytest.mark.root
def test_nasty_32_a_file_system_below_the_workspace_is_written_like_any_folder(row: Row):
    row.put("near", "one\n")
    with mounted("-t", "tmpfs", "none", point=row.root / "far"):
        row.put("far/file", "one\n")
        row.ask("read_files", paths=["near", "far/file"])
        patch = "\n".join(
            line
            for path in ("near", "far/file")
            for line in (f"*** Update File: {path}", "@@", "-one", "+two", f"*** Add File: {path}.new", "+new")
        )
        row.ask("apply_patch", patch=f"*** Begin Patch\n{patch}\n*** End Patch", changes=True)
        assert {name: what[2] for name, what in tree(row.root).items() if what[2]} == {
            "near": b"two\n",
            "near.new": b"new\n",
            "far/file": b"two\n",
            "far/file.new": b"new\n",
        }
        assert row.box().undo().status == "success"
        assert (row.root / "far/file").read_bytes() == (row.root / "near").read_bytes() == b"one\n"
        assert os.listdir(row.root / "far") == ["file"]


def test_nasty_33_a_folder_that_is_renamed_away_meanwhile_is_a_part_of_the_answer(row: Row, tmp_path: Path):
    for folder in "ab":
        for n in range(100):
            row.put(f"{folder}/{n}/f", "needle\n")
    stop = Event()

    def moving() -> None:
        while not stop.is_set():
            os.rename(row.root / "a", tmp_path / "away")
            os.rename(tmp_path / "away", row.root / "a")

    mover = Thread(target=moving)
    mover.start()
    try:
        searches: tuple[tuple[str, str, dict[str, Any]], ...] = (
            ("grep", "paths", {"pattern": "needle", "limit": 1000}),
            ("glob", "paths", {"pattern": "**/f", "limit": 1000}),
            ("list_files", "entries", {"depth": 3, "limit": 1000}),
        )
        for tool, key, arguments in searches:
            for _ in range(10):
                found = row.ask(tool, changes=True, **arguments).data[key]
                names = {each["path"] if isinstance(each, dict) else each for each in found}
                assert names >= {f"b/{n}/f" for n in range(100)}
    finally:
        stop.set()
        mover.join()


def test_nasty_34_a_sibling_whose_name_begins_alike_is_outside(row: Row, tmp_path: Path):
    (tmp_path / "ws-secrets").mkdir()
    (tmp_path / "ws-secrets/key").write_text("secret\n")
    for path in (f"{row.root}-secrets/key", "../ws-secrets/key", f"{row.root}/../ws-secrets/key"):
        refused_everywhere(row, path, "OUTSIDE_WORKSPACE")


@needs_shadows
def test_nasty_35_git_runs_in_the_sandbox_and_changes_nothing_where_a_git_file_leads(row: Row, tmp_path: Path):
    outside = tmp_path / "outside"
    subprocess.run(["git", "init", "-q", outside], check=True)
    row.put(".git", f"gitdir: {outside}/.git\n")
    row.put("a.txt", "x\n")
    before = state_of(outside)
    reply = row.ask("bash", command="git config user.name intruder; git add -A; git commit -qm x; echo done")
    assert reply.text.startswith(("error", "fatal")) or "done" in reply.text
    row.ask("grep", pattern="x")
    assert state_of(outside) == before
    row.ask("write_file", path=".git", content="gitdir: /elsewhere\n", code="UNREAD")
    row.ask("read_file", path=".git")
    row.ask("write_file", path=".git", content="gitdir: /elsewhere\n", code="NOT_APPROVED")


# --- E. concurrency

GROWING = """
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while True:
    os.ftruncate(fd, 0)
    for n in range(1, 301):
        os.write(fd, b"line %d\\n" % n)
"""


def test_nasty_36_a_file_that_grows_or_shrinks_while_it_is_read_is_shown_as_it_once_was_or_not_at_all(row: Row):
    file = row.put("f", "line 1\n")
    codes: set[str | None] = set()
    rounds = 0
    with subprocess.Popen([sys.executable, "-c", GROWING, file]) as writer:
        try:
            deadline = time.monotonic() + 30  # on a busy machine, the writer has few turns
            while (rounds := rounds + 1) <= scaled(150, 500) or (len(codes) < 2 and time.monotonic() < deadline):
                reply = row.box().call("read_file", {"path": "f"})
                codes.add(reply.code)
                if reply.code is None and reply.data["total_lines"]:
                    shown = reply.text.split("\n\n")[0].split("\n")
                    assert shown == [f"{n:>6}→line {n}" for n in range(1, reply.data["total_lines"] + 1)]
        finally:
            writer.kill()
    assert codes == {None, "CHANGED_DURING_READ"}
    row.ask("read_file", path="f")


def rewritten(file: Path, content: str) -> None:
    """Different bytes of the same length, with the old timestamps."""
    before = file.stat()
    assert len(content) == before.st_size
    file.write_text(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_nasty_37_the_same_size_and_the_same_time_are_not_the_same_content(row: Row):
    file = row.put("f", "one\n")
    row.ask("read_file", path="f")
    rewritten(file, "two\n")
    row.ask("edit_file", path="f", old_string="one", new_string="x", code="STALE")
    assert file.read_bytes() == b"two\n"
    row.ask("write_file", path="f", content="x\n", changes=True)  # the whole change was shown


def test_nasty_38_two_edits_within_a_millisecond_are_two(row: Row):
    file = row.put("f", "0000\n")
    row.ask("read_file", path="f")
    box = row.box()
    last = scaled(30, 199)
    for n in range(1, last + 1):
        box.call("edit_file", {"path": "f", "old_string": f"{n - 1:04}", "new_string": f"{n:04}"})
        rewritten(file, f"{n:03}x\n")  # immediately
        assert box.call("edit_file", {"path": "f", "old_string": f"{n:03}", "new_string": "lost"}).code == "STALE"
        assert box.call("write_file", {"path": "f", "content": f"{n:04}\n"}).status == "success"
        assert file.read_bytes() == f"{n:04}\n".encode()
    rewritten(file, "lost\n")
    row.ask("edit_file", path="f", old_string=f"{last:04}", new_string="x", code="STALE")


def test_nasty_39_a_file_that_was_made_anew_is_another(row: Row):
    file = row.put("f", "one\n")
    row.ask("read_file", path="f")
    before = file.stat()
    file.unlink()
    row.put("other", "x\n")  # which may reuse its inode
    file.write_text("two\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    row.ask("edit_file", path="f", old_string="one", new_string="x", code="STALE")
    assert file.read_bytes() == b"two\n"


def test_nasty_40_of_two_agents_the_second_is_told(row: Row):
    file = row.put("f", "0\n")
    for n in range(scaled(8, 50)):
        for session in ("s", "t"):
            row.box(session=session).call("read_file", {"path": "f"})
        row.ask("edit_file", path="f", old_string=f"{n}\n", new_string=f"{n + 1}\n", changes=True)
        row.ask("edit_file", session="t", path="f", old_string=f"{n}\n", new_string="lost\n", code="STALE")
        assert file.read_bytes() == f"{n + 1}\n".encode()


def test_nasty_41_a_clock_that_goes_back_changes_nothing(row: Row):
    file = row.put("f", "one\n")
    row.ask("read_file", path="f")
    os.utime(file, (0, 0))
    row.ask("edit_file", path="f", old_string="one", new_string="two", changes=True)
    file.write_text("2\n")
    os.utime(file, (0, 0))
    row.ask("edit_file", path="f", old_string="two", new_string="x", code="STALE")


# --- F. errors from the system


@needs_root
@pytest.mark.root
def test_nasty_42_what_the_system_does_not_permit_is_said(plain: Path):
    (plain / "ws/closed").mkdir(parents=True)
    for name, mode in (("ws/unreadable", 0o000), ("ws/unwritable", 0o444), ("ws/closed/f", 0o644)):
        (plain / name).write_text("one\n")
        (plain / name).chmod(mode)
    (plain / "ws/closed").chmod(0o000)
    (plain / "ws").chmod(0o555)
    (plain / "state").mkdir()
    os.chown(plain / "state", 65534, 65534)

    def asked() -> None:
        row = Row(plain)
        row.ask("read_file", path="unreadable", code="PERMISSION_DENIED")
        row.ask("read_file", path="closed/f", code="PERMISSION_DENIED")
        row.ask("write_file", path="new", content="x\n", code="PERMISSION_DENIED")
        row.ask("read_file", path="unwritable")
        row.ask("edit_file", path="unwritable", old_string="one", new_string="two", code="PERMISSION_DENIED")
        row.ask("list_files", path="closed", code="PERMISSION_DENIED")
        assert row.ask("grep", pattern="one").data["paths"] == ["unwritable"]
        row.close()

    before = tree(plain / "ws")
    as_nobody(asked)
    assert tree(plain / "ws") == before


@needs_root
@pytest.mark.root
def test_nasty_43_nothing_is_left_on_a_read_only_file_system(tmp_path: Path):
    with disk(tmp_path) as point, Row(tmp_path, point) as row:
        row.put("f", "one\n")
        row.ask("read_file", path="f")
        subprocess.run(["mount", "-o", "remount,ro", point], check=True)
        row.ask("edit_file", path="f", old_string="one", new_string="two", code="READ_ONLY")
        row.ask("write_file", path="new", content="x\n", code="READ_ONLY")
        row.ask("write_file", path="d/new", content="x\n", code="READ_ONLY")
        row.ask("apply_patch", patch="*** Begin Patch\n*** Delete File: f\n*** End Patch", code="READ_ONLY")


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("linked", [False, True], ids=["renamed", "in place"])
def test_nasty_44_a_full_disk_leaves_the_original_whole(tmp_path: Path, linked: bool):
    with disk(tmp_path) as point, Row(tmp_path, point) as row:
        row.state = tree  # what was written in place and rolled back has another time
        row.put("ws/f", "old" * 200_000 + "\n")
        row.put("ws/small", "small\n")
        if linked:
            os.link(point / "ws/f", point / "ws/g")
        row.ask("read_files", paths=["ws/f", "ws/small"])
        fill(point, 1_000_000)
        parts = [
            *("*** Update File: ws/small", "@@", "-small", "+new", "*** Add File: ws/made/file", "+new"),
            *("*** Delete File: ws/f", "*** Add File: ws/f", "+" + "new" * 1_000_000),
        ]
        text = "\n".join(["*** Begin Patch", *parts, "*** End Patch"])
        row.ask("apply_patch", patch=text, code="NO_SPACE")
        assert (point / "ws/f").read_bytes() == b"old" * 200_000 + b"\n"


@needs_strace
@pytest.mark.parametrize(
    ("call", "error"),
    [
        *(("write", "ENOSPC"), ("write", "EDQUOT"), ("fsync", "EIO"), ("fsync", "EDQUOT"), ("renameat2", "EIO")),
        *(("write", "EINTR"), ("fsync", "EINTR"), ("renameat2", "EINTR"), ("openat", "EINTR")),
    ],
)
def test_nasty_45_an_error_at_the_nth_call_leaves_old_or_new(tmp_path: Path, call: str, error: str):
    """A sample; every call and every error are in test_injected.py."""
    bench = Bench(tmp_path)
    failed = 0
    for when in (1, 2, 5, 9, 14)[:: scaled(2, 1)]:
        said, happened = injected(bench, call, error, str(when))
        assert said == "success" or said in CODES.get(error, {"IO_ERROR"}), (call, when, said)
        failed += happened and said != "success"
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), (call, when, said)
    assert failed or error == "EINTR"  # an interrupted call may be repeated; an fsync that failed may not


@needs_strace
@pytest.mark.parametrize("call", ["renameat2", "rename,renameat"])
def test_nasty_46_a_rename_across_file_systems_is_an_error_and_no_half_copy(tmp_path: Path, call: str):
    bench = Bench(tmp_path)
    for when in ("1", "2", "7", "1+"):
        said, _ = injected(bench, call, "EXDEV", when)
        assert said in ("success", "UNFINISHED", *CODES["EXDEV"]), (when, said)
        bench.recover()
        assert bench.standing() == ("new" if said == "success" else "old"), (when, said)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.slow
def test_nasty_47_without_descriptors_there_is_a_clean_error_and_no_leak(row: Row):
    row.put("a.txt", "one\n")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {"path": "a.txt"}),
        ("read_file", {"path": "absent"}),
        ("edit_file", {"path": "a.txt", "old_string": "absent", "new_string": "x"}),
        ("write_file", {"path": "../out", "content": "x"}),
        ("list_files", {}),
    ]
    box = row.box()
    usual = [box.call(tool, arguments).code for tool, arguments in calls]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with no_free_numbers():
        before, refused = descriptors(), 0
        for room in range(20):
            for (tool, arguments), code in zip(calls, usual, strict=True):
                resource.setrlimit(resource.RLIMIT_NOFILE, (before - 1 + room, hard))
                try:
                    reply = box.call(tool, arguments)
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                assert reply.code == code or reply.error_source == "infra", (tool, room, reply)
                refused += reply.error_source == "infra"
                assert descriptors() <= before, (tool, room)
    assert refused
    for n in range(scaled(500, 10_000)):
        tool, arguments = calls[n % len(calls)]
        box.call(tool, arguments)
    assert descriptors() <= before
    row.ask("read_file", path="a.txt")


@needs_root
@pytest.mark.root
def test_nasty_48_a_file_system_that_died_or_fell_silent_is_an_error_and_the_tools_live_on(
    row: Row, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(mounts, "IO_TIMEOUT_SECONDS", 0.5)
    row.put("near", "near\n")
    with served(hanging.__file__, row.root / "far") as server:
        assert "from afar" in row.ask("read_file", path="far/file", changes=True).text
        os.kill(server.pid, 19)  # SIGSTOP: it fetches no requests
        row.ask("read_file", path="far/file", code="IO_ERROR", changes=True)
        assert "near" in row.ask("read_file", path="near", changes=True).text
        server.kill()
        server.wait()
        row.ask("read_file", path="far/file", code="IO_ERROR", changes=True)
        row.ask("write_file", path="far/new", content="x\n", code="IO_ERROR", changes=True)
        assert "near" in row.ask("read_file", path="near", changes=True).text
        row.close()


@pytest.mark.skipif(bool(crash.unavailable()), reason=crash.unavailable())
@pytest.mark.slow
def test_nasty_49_a_patch_of_twenty_files_killed_at_a_system_call_is_all_or_nothing(tmp_path: Path):
    """A sample; every stop is in test_crash.py and `just crash-full`."""
    bench = Patching(tmp_path)
    stops = stops_of(bench)
    tally = kill_commits(bench, range(3, stops + 1, stops // scaled(10, 25)))
    assert not tally.torn
    assert tally.old
    assert tally.new


MOVED = "*** Begin Patch\n*** Delete File: deleted\n*** Update File: moved\n*** Move to: to/here\n@@\n-old\n+new\n*** End Patch"


@needs_root
@pytest.mark.root
@pytest.mark.parametrize(
    ("tool", "arguments", "becomes"),
    [
        ("edit_file", {"path": "edited", "old_string": "old", "new_string": "new"}, {"edited": b"new\n"}),
        ("write_file", {"path": "made/deep/f", "content": "x\n"}, {"made/deep/f": b"x\n"}),
        ("apply_patch", {"patch": MOVED}, {"deleted": None, "moved": None, "to/here": b"new\n"}),
    ],
    ids=["edit", "create", "patch"],
)
def test_nasty_50_what_was_answered_with_success_is_there_after_a_power_cut(
    tmp_path: Path, tool: str, arguments: dict[str, Any], becomes: dict[str, bytes | None]
):
    """The disk is copied when the answer arrives; the copy is what the machine finds after the restart."""
    names = ("edited", "deleted", "moved")
    with disk(tmp_path) as point, Row(point) as row:
        for name in names:
            row.put(name, "old\n")
        os.sync()
        row.ask("read_files", paths=list(names))
        row.ask(tool, changes=True, **arguments)
        shutil.copyfile(tmp_path / "disk.img", tmp_path / "cut.img")
    with mounted("-o", "loop", str(tmp_path / "cut.img"), point=point), Row(point) as row:
        row.ask("list_files", changes=True)  # the leftovers of the dead process are cleaned up before
        left = {str(each.relative_to(row.root)): each.read_bytes() for each in row.root.rglob("*") if each.is_file()}
        wanted = {name: b"old\n" for name in names} | becomes
        assert left == {name: data for name, data in wanted.items() if data is not None}
        entries = [(entry.call.tool, entry.outcome and entry.outcome.status) for entry in row.box().log()]
        assert (tool, "success") in entries


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("attribute", ["i", "a"], ids=["immutable", "append only"])
def test_nasty_51_an_immutable_file_is_not_permitted(tmp_path: Path, attribute: str):
    with disk(tmp_path) as point, Row(tmp_path, point) as row:
        row.state = tree  # what was changed and rolled back has another time
        row.put("f", "one\n")
        row.put("other", "one\n")
        row.ask("read_files", paths=["f", "other"])
        subprocess.run(["chattr", f"+{attribute}", point / "f"], check=True)
        try:
            reply = row.ask("edit_file", path="f", old_string="one", new_string="two", code="PERMISSION_DENIED")
            assert "Operation not permitted" in reply.text
            both = "".join(f"*** Update File: {name}\n@@\n-one\n+two\n" for name in ("other", "f"))
            for patch in (both, "*** Delete File: f\n", "*** Update File: f\n*** Move to: g\n@@\n-one\n+two\n"):
                text = f"*** Begin Patch\n{patch}*** End Patch"
                row.ask("apply_patch", patch=text, code="PERMISSION_DENIED")
        finally:
            subprocess.run(["chattr", f"-{attribute}", point / "f"], check=True)


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2 + 13]


def overwritten(data: bytes) -> bytes:
    return random.Random(52).randbytes(len(data))


def of_another_version(data: bytes) -> bytes:
    return data[:60] + (99).to_bytes(4, "big") + data[64:]  # user_version, in the header of SQLite's files


@pytest.mark.parametrize("damage", [truncated, overwritten, of_another_version])
def test_nasty_52_a_damaged_journal_is_not_replayed_and_no_file_is_touched(
    tmp_path: Path, damage: Callable[[bytes], bytes]
):
    with Row(tmp_path) as row:
        row.put("f", "one\n")
        row.ask("read_file", path="f")
        row.ask("edit_file", path="f", old_string="one", new_string="two", changes=True)
    (journal,) = (tmp_path / "state").rglob("state.db")
    damaged = damage(journal.read_bytes())
    journal.write_bytes(damaged)
    before = state_of(row.root)
    with pytest.raises(StateDamaged) as told:
        Toolbox.open(row.root, state=tmp_path / "state", session="s").log()
    assert told.value.path == str(journal)
    assert journal.read_bytes() == damaged
    assert state_of(row.root) == before


# --- all of them


def test_every_row_has_a_test():
    rows = {name[len("test_nasty_") :][:2] for name in globals() if name.startswith("test_nasty_")}
    assert rows == {f"{n:02}" for n in range(1, 53)}
