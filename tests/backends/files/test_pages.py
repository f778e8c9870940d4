import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.files import line_index, line_pages, workspace
from handhold.backends.files.file_kinds import identity_of
from handhold.backends.files.line_index import LineIndex
from handhold.backends.files.line_pages import DiskSource, LineEndFinder, decode_lossy, read_lines, read_long_line
from handhold.backends.files.workspace import Workspace
from handhold.core.errors import BinaryFile, ChangedDuringRead, NotFound, PastEnd, TooLarge
from handhold.core.facts import PageLine
from handhold.core.plans import digest
from handhold.core.ports.files import MAX_EDITABLE_BYTES
from handhold.core.text.encoding import Text, TextEncoding, detect_sample_encoding, replace_undecodable
from handhold.core.text.lines import split_lines
from tests.backends.files.opening import Opener
from tests.scale import examples


def texts(lines: tuple[PageLine, ...]) -> list[str]:
    return [line.text for line in lines]


@contextmanager
def disk(data: bytes) -> Iterator[DiskSource]:
    fd = os.memfd_create("file")
    try:
        os.write(fd, data)
        yield DiskSource(fd, len(data))
    finally:
        os.close(fd)


@pytest.fixture
def large(ws: Path) -> Path:
    """A file above SMALL: 40,000 numbered lines."""
    path = ws / "large.txt"
    path.write_text("".join(f"line {n:>8} {'x' * (n % 40)}\n" for n in range(1, 40_001)))
    assert path.stat().st_size > line_pages.WHOLE_READ_BYTES
    sleep(line_index.STABLE_AFTER_NS / 1e9)  # so that the index is kept
    return path


# --- small files


def test_c_21_a_page_starts_and_ends_where_it_should(files: Workspace, ws: Path):
    (ws / "n").write_text("".join(f"{n}\n" for n in range(1, 101)))
    page = files.read_page("n", 10, 3, 80)
    assert (texts(page.lines), page.first, page.has_more, page.total) == (["10", "11", "12"], 10, True, 100)
    assert (ws / "n").read_bytes()[slice(*page.byte_span)] == b"10\n11\n12\n"
    assert page.span_hash == digest(b"10\n11\n12\n")
    assert page.snapshot == files.read("n")
    last = files.read_page("n", 99, 1000, 80)
    assert (texts(last.lines), last.has_more) == (["99", "100"], False)


def test_an_offset_past_the_end_says_how_many_lines_there_are(files: Workspace, ws: Path):
    (ws / "empty").touch()
    (ws / "mark").write_bytes(b"\xef\xbb\xbf")
    for path, lines in {"a.txt": 2, "empty": 0, "mark": 0}.items():
        with pytest.raises(PastEnd) as refused:
            files.read_page(path, lines + 2, 10, 80)
        assert (refused.value.offset, refused.value.lines) == (lines + 2, lines)
        assert files.count_lines(path) == lines


def test_a_line_ends_with_a_newline_and_a_return_before_it_belongs_to_the_ending(files: Workspace, ws: Path):
    (ws / "mixed").write_bytes(b"one\r\ntwo\rstill two\nthree\r\r\n\nfive\r")
    page = files.read_page("mixed", 1, 10, 80)
    assert texts(page.lines) == ["one", "two\rstill two", "three\r", "", "five\r"]
    assert files.count_lines("mixed") == page.total == 5


def test_c_22_a_long_line_is_cut_and_the_rest_counted(files: Workspace, ws: Path):
    (ws / "long").write_text("é" * 100 + "\r\nshort\n")
    page = files.read_page("long", 1, 10, 30)
    assert page.lines == (PageLine("é" * 30, 70), PageLine("short"))
    exact = files.read_page("long", 1, 1, 100)
    assert exact.lines == (PageLine("é" * 100),)


def test_c_25_binary_is_told_by_content(files: Workspace, ws: Path):
    (ws / "text.png").write_text("text\n")
    (ws / "late").write_bytes(b"x" * 8192 + b"\0\n")
    (ws / "binary.txt").write_bytes(b"x" * 8191 + b"\0\n")
    assert texts(files.read_page("text.png", 1, 10, 80).lines) == ["text"]
    assert files.read_page("late", 1, 10, 80).total == 1
    for ask in (files.count_lines, lambda path: files.read_page(path, 1, 10, 80)):
        with pytest.raises(BinaryFile) as refused:
            ask("binary.txt")
        assert refused.value.size == 8193
    assert len(files.read("binary.txt").data) == 8193


@pytest.mark.parametrize(
    ("encoding", "bom"),
    [
        *[("utf-8", b""), ("utf-8", b"\xef\xbb\xbf"), ("gbk", b""), ("cp932", b""), ("cp1252", b"")],
        *[("utf-16-le", b"\xff\xfe"), ("utf-16-be", b"\xfe\xff")],
        *[("utf-32-le", b"\xff\xfe\0\0"), ("utf-32-be", b"\0\0\xfe\xff")],
    ],
)
@pytest.mark.parametrize("size", ["small", "large"])
def test_c_26_every_encoding_is_read_as_its_own(files: Workspace, ws: Path, encoding: str, bom: bytes, size: str):
    row = {"gbk": "这是中文的文件", "cp932": "これは日本語です", "cp1252": "déjà vu – naïve"}.get(
        encoding, "ਊ ĀĊ 文件 é 😀"
    )
    rows = [f"{n} {row}" for n in range(30 if size == "small" else 80_000)]
    (ws / "f").write_bytes(bom + "\r\n".join(rows).encode(encoding))
    page = files.read_page("f", 11, 10, 200)
    assert texts(page.lines) == rows[10:20]
    assert (page.encoding, page.has_undecodable_bytes) == (encoding, False)
    assert texts(files.read_page("f", 1, 1, 200).lines) == rows[:1]
    assert files.count_lines("f") == len(rows)
    end = files.read_page("f", len(rows), 10, 200)
    assert (texts(end.lines), end.has_more) == (rows[-1:], False)


@pytest.mark.parametrize("lines", [10, 200_000])
def test_c_26_what_cannot_be_decoded_is_shown_replaced(files: Workspace, ws: Path, lines: int):
    (ws / "f").write_bytes("é ok\n".encode() * lines + b"\xff\xfe\x81 bad\n" + b"ok \xef\xbf\xbd\n" * 3)
    bad = files.read_page("f", lines + 1, 1, 80)
    assert (texts(bad.lines), bad.has_undecodable_bytes) == (["\ufffd\ufffd\ufffd bad"], True)
    assert files.read_page("f", lines + 2, 2, 80).has_undecodable_bytes is False
    assert files.read_page("f", 1, 5, 80).has_undecodable_bytes is False


# --- large files


def test_a_large_file_is_paged_without_being_counted(files: Workspace, large: Path):
    rows = large.read_text().splitlines()
    page = files.read_page("large.txt", 1, 3, 80)
    assert (texts(page.lines), page.total, page.has_more, page.snapshot) == (rows[:3], None, True, None)
    for offset in (2, 9_999, 20_000, 39_998):
        page = files.read_page("large.txt", offset, 5, 80)
        assert texts(page.lines) == rows[offset - 1 : offset + 4]
        assert page.span_hash == digest(large.read_bytes()[slice(*page.byte_span)])
    assert page.has_more is False
    assert files.count_lines("large.txt") == 40_000
    assert files.read_page("large.txt", 1, 1, 80).total == 40_000
    with pytest.raises(PastEnd) as refused:
        files.read_page("large.txt", 40_001, 1, 80)
    assert refused.value.lines == 40_000


def test_the_index_of_a_large_file_is_kept_and_goes_with_its_state(
    files: Workspace, large: Path, monkeypatch: pytest.MonkeyPatch
):
    def kept() -> int:
        return len(files._indexes._indexes)  # pyright: ignore[reportPrivateUsage]

    files.read_page("large.txt", 30_000, 1, 80)
    assert kept() == 1
    with large.open("a") as more:
        more.write("one more\n")
    sleep(line_index.STABLE_AFTER_NS / 1e9)
    assert texts(files.read_page("large.txt", 40_001, 1, 80).lines) == ["one more"]
    assert kept() == 2
    monkeypatch.setattr(line_index, "STABLE_AFTER_NS", 10**12)  # even if this takes long on a busy machine
    large.write_text("new\n" * 500_000)
    assert texts(files.read_page("large.txt", 40_001, 1, 80).lines) == ["new"]
    assert kept() == 2  # just written: it may change again within the same clock tick


def test_only_so_many_indexes_are_kept(ws: Path):
    indexes = line_index.LineIndexCache(max_size=3)
    for n in range(6):
        path = ws / f"{n}"
        path.write_text("x\n")
        os.utime(path, ns=(0, 0))
        sleep(line_index.STABLE_AFTER_NS / 1e9)
        fd = os.open(path, os.O_RDONLY)
        assert indexes.count_lines(fd, identity_of(os.fstat(fd)), "x") == 1
        os.close(fd)
    assert len(indexes._indexes) == 3  # pyright: ignore[reportPrivateUsage]


def test_many_threads_read_one_file(files: Workspace, large: Path):
    rows = large.read_text().splitlines()
    wrong: list[int] = []

    def run(start: int) -> None:
        for offset in range(start, 40_000, 1_999):
            if texts(files.read_page("large.txt", offset, 1, 80).lines) != [rows[offset - 1]]:
                wrong.append(offset)

    threads = [threading.Thread(target=run, args=(start,)) for start in range(1, 9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_numpy_counts_as_python_does():
    pytest.importorskip("numpy")
    count = line_index.choose_count_function(LineEndFinder(TextEncoding()), 0)
    assert count is not LineEndFinder.count
    for block in (b"", b"\n", b"a\nb\n\n", os.urandom(100_000)):
        assert count(block) == block.count(b"\n")


@pytest.mark.alone
def test_nasty_9_a_sparse_file_of_a_tebibyte(files: Workspace, ws: Path):
    for name, head in (("zeros", b""), ("text", b"one\n" * 4096 + b"last")):
        (ws / name).write_bytes(head)
        os.truncate(ws / name, 1 << 40)
    began = perf_counter()
    with pytest.raises(BinaryFile) as refused:
        files.read_page("zeros", 1, 2000, 2000)
    assert refused.value.size == 1 << 40
    assert texts(files.read_page("text", 1, 10, 2000).lines) == ["one"] * 10
    took = perf_counter() - began
    assert took <= 0.1
    page = files.read_page("text", 4097, 10, 6)
    assert page.lines == (PageLine("last\0\0", (1 << 40) - 4096 * 4 - 6),)
    assert files.count_lines("text") == 4097


def test_nasty_12_ten_million_lines(files: Workspace, ws: Path):
    (ws / "many").write_bytes(b"x\n" * 10_000_000)
    assert len(files.read_page("many", 9_999_990, 2000, 80).lines) == 11
    assert files.count_lines("many") == 10_000_000


def test_nasty_10_one_line_of_100_mb_costs_little_memory(ws: Path):
    (ws / "long").write_bytes(b"first\n" + "é".encode() * 50_000_000 + b"\r\nlast\n")
    script = f"""
from bench._memory import peak_kib
from handhold.core.facts import PageLine
from tests.backends.files.opening import NoContents
from handhold.backends.files.workspace import Workspace
files = Workspace([{str(ws)!r}], NoContents())
files.read_page("a.txt", 1, 10, 2000)
before = peak_kib()
page = files.read_page("long", 1, 2000, 2000)
assert page.lines == (PageLine("first"), PageLine("é" * 2000, 50_000_000 - 2000), PageLine("last")), page.lines
assert files.count_lines("long") == 3
print(peak_kib() - before)
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    (ws / "long").unlink()
    assert int(run.stdout) <= 8 * 1024  # KiB


def test_nasty_8_a_file_that_says_it_is_empty_is_read_to_its_end(opener: Opener, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(workspace, "is_virtual", lambda fd: False)
    files = opener("/proc")
    assert files.read("version").data == Path("/proc/version").read_bytes()
    assert files.read_page("version", 1, 1, 80).total == 1


def test_a_page_that_is_asked_for_again_is_the_same(files: Workspace, large: Path):
    pages = [files.read_page("large.txt", 20_000, 100, 80) for _ in range(2)]
    assert pages[0] == pages[1]
    os.link(large, large.with_name("other name"))
    sleep(line_index.STABLE_AFTER_NS / 1e9)
    pages = [files.read_page(name, 20_000, 100, 80) for name in ("large.txt", "other name")]
    assert [Path(page.path).name for page in pages] == ["large.txt", "other name"]
    files.count_lines("large.txt")
    assert files.read_page("large.txt", 20_000, 100, 80).total == 40_000


# --- whole files


def test_a_file_that_is_too_large_to_edit(files: Workspace, ws: Path):
    for size in (MAX_EDITABLE_BYTES, MAX_EDITABLE_BYTES + 1):
        (ws / "big").touch()
        os.truncate(ws / "big", size)
        if size <= MAX_EDITABLE_BYTES:
            assert len(files.read("big").data) == size
        else:
            with pytest.raises(TooLarge) as refused:
                files.read("big")
            assert (refused.value.size, refused.value.most) == (size, MAX_EDITABLE_BYTES)


def test_fingerprint_is_identity_and_hash(files: Workspace, ws: Path):
    data = os.urandom(3_000_000)
    (ws / "data").write_bytes(data)
    assert files.fingerprint("data") == (identity_of((ws / "data").stat()), digest(data))
    whole = files.read("data")
    assert (whole.identity, whole.hash) == files.fingerprint("data")


# --- concurrent writes


def changing(monkeypatch: pytest.MonkeyPatch, path: Path, *, times: int) -> None:
    """Rewrite a file this many times, each time right after its identity was taken."""
    left = [times]

    def kind_of(mode: int) -> str:
        if left[0]:
            left[0] -= 1
            sleep(0.01)
            path.write_text(path.read_text() + "more\n")
        return "file"

    monkeypatch.setattr(workspace, "kind_of", kind_of)


@pytest.mark.parametrize("name", ["a.txt", "large.txt"])
def test_nasty_36_a_file_that_changes_once_is_read_again(
    files: Workspace, ws: Path, large: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    changing(monkeypatch, ws / name, times=1)
    assert files.read_page(name, 1, 100_000, 80).lines[-1].text == "more"
    changing(monkeypatch, ws / name, times=1)
    assert files.read(name).data == (ws / name).read_bytes()


@pytest.mark.parametrize("name", ["a.txt", "large.txt"])
def test_nasty_36_a_file_that_changes_twice_is_given_up(
    files: Workspace, ws: Path, large: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    asks = (files.read, files.count_lines, files.fingerprint, lambda path: files.read_page(path, 1, 10, 80))
    for ask in asks:
        changing(monkeypatch, ws / name, times=2)
        with pytest.raises(ChangedDuringRead):
            ask(name)


def test_nasty_36_a_large_file_that_is_cut_while_it_is_read(
    files: Workspace, large: Path, monkeypatch: pytest.MonkeyPatch
):
    def kind_of(mode: int) -> str:
        os.truncate(large, large.stat().st_size - 500_000)
        return "file"

    large.write_text("x\n" * 3_000_000)
    monkeypatch.setattr(workspace, "kind_of", kind_of)
    with pytest.raises(ChangedDuringRead):
        files.count_lines("large.txt")


def test_a_file_that_goes_away_is_not_found(files: Workspace, ws: Path):
    (ws / "a.txt").unlink()
    with pytest.raises(NotFound):
        files.read_page("a.txt", 1, 1, 80)


# --- properties

CODINGS = [
    TextEncoding(),
    TextEncoding("utf-8", b"\xef\xbb\xbf"),
    TextEncoding("utf-16-le", b"\xff\xfe"),
    TextEncoding("utf-16-be", b"\xfe\xff"),
]
CODINGS += [TextEncoding("utf-32-le", b"\xff\xfe\0\0"), TextEncoding("utf-32-be", b"\0\0\xfe\xff")]
BODIES = st.text(alphabet="ab\r\n\n\u0a0a\u0100\u010a\u000d文é😀\ufffd", max_size=120)


@settings(deadline=None, max_examples=examples(300))
@given(
    body=BODIES,
    coding=st.sampled_from(CODINGS),
    block=st.sampled_from([4, 8, 12, 64]),
    width=st.integers(0, 9),
    limit=st.integers(1, 5),
)
def test_pages_of_any_size_give_the_lines_of_the_text(
    body: str, coding: TextEncoding, block: int, width: int, limit: int
):
    data = Text(body, coding).encode()
    rows = split_lines(body)
    with disk(data) as source, pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_pages, "BLOCK_BYTES", block)
        patch.setattr(line_index, "BLOCK_BYTES", block)
        patch.setattr(line_index, "MAX_CHECKPOINTS", 4)
        lines = LineIndex(len(data), coding)
        found: list[PageLine] = []
        for offset in range(1, len(rows) + 1, limit):
            start = lines.find_line_start(source, offset)
            assert start is not None
            made = read_lines(source, start, limit, width, coding)
            assert not made.replaced
            assert (made.end < len(data)) == (offset + limit <= len(rows))
            found += made.lines
        assert found == [PageLine(row[:width], max(0, len(row) - width)) for row in rows]
        if len(data) > len(coding.bom):
            assert lines.find_line_start(source, len(rows) + 1) is None
            assert lines.count_lines(source) == len(rows)


@settings(deadline=None, max_examples=examples(300))
@given(data=st.binary(max_size=60), block=st.sampled_from([4, 8, 64]))
def test_broken_bytes_are_cut_as_they_are_decoded_whole(data: bytes, block: int):
    rows = split_lines(replace_undecodable(data.decode("utf-8", "surrogateescape")))
    with disk(data) as source, pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_pages, "BLOCK_BYTES", block)
        assert texts(tuple(read_lines(source, 0, 1000, 1000, TextEncoding()).lines)) == rows


@settings(deadline=None, max_examples=examples(200))
@given(data=st.binary(max_size=40).filter(lambda data: len(data) % 2 == 0))
def test_lone_surrogates_are_replaced_one_by_one(data: bytes):
    text, _ = decode_lossy(data, TextEncoding("utf-16-le"))
    assert text == replace_undecodable(data.decode("utf-16-le", "surrogatepass"))


@settings(deadline=None)
@given(body=BODIES, cut_at=st.integers(0, 400), coding=st.sampled_from(CODINGS))
def test_a_sample_may_end_inside_a_character(body: str, cut_at: int, coding: TextEncoding):
    data = Text("text: " + body, coding).encode()
    sample = data[: max(cut_at, 8)]
    assert detect_sample_encoding(sample, "a", len(data)).name == coding.name


def test_the_rest_of_a_line_is_counted_over_holes(tmp_path: Path):
    (tmp_path / "f").write_bytes("é".encode() * 100)
    os.truncate(tmp_path / "f", 10_000_000)
    with (tmp_path / "f").open("r+b") as file:
        file.seek(10_000_000)
        file.write(b"end\r\nnext\n")
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    line, end, broken = read_long_line(DiskSource(fd, 10_000_010), 0, 5, TextEncoding())
    os.close(fd)
    assert (line, end, broken) == (PageLine("é" * 5, 100 + (10_000_000 - 200) + 3 - 5), 10_000_005, False)
