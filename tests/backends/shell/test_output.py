import os
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.backends.shell.output import (
    MAX_WATCH_BYTES,
    RING_BYTES,
    SPILL_THRESHOLD_BYTES,
    OutputSink,
)
from handhold.backends.shell.output_ends import drop_partial_end, drop_partial_start, take_head_and_tail
from handhold.backends.shell.result_store import ResultStore
from handhold.core.facts import CommandOutput


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "results")


class Source:
    """A pipe to write into, and a sink that reads from it."""

    def __init__(self, sink: OutputSink) -> None:
        self.sink = sink
        self.read, self.write = os.pipe()
        os.set_blocking(self.read, False)

    def print(self, data: bytes, piece: int = 60_000) -> None:
        for at in range(0, len(data), piece):
            os.write(self.write, data[at : at + piece])
            with suppress(BlockingIOError):
                while self.sink.read_from(self.read):
                    pass

    def close(self) -> None:
        os.close(self.read)
        os.close(self.write)


@pytest.fixture
def source(results: ResultStore) -> Iterator[Source]:
    source = Source(OutputSink(results))
    yield source
    source.close()


def printed(
    results: ResultStore, data: bytes, *, chars: int = 1_000, lines: int = 5, piece: int = 60_000, first_bytes: int = 0
) -> CommandOutput:
    source = Source(OutputSink(results))
    try:
        source.print(data, piece)
        return source.sink.build_output(chars, lines, first_bytes=first_bytes)
    finally:
        source.close()


def kept(results: ResultStore, output: CommandOutput) -> bytes:
    return (results.folder / output.handle.rpartition("/")[2]).read_bytes()


def test_a_short_output_is_shown_whole_and_leaves_no_file(results: ResultStore):
    assert printed(results, b"one\ntwo\n") == CommandOutput("one\ntwo\n", total_bytes=8, total_lines=2)
    assert not results.folder.exists()


def test_of_a_long_output_the_beginning_may_be_all_that_is_shown(results: ResultStore):
    data = b"".join(b"line %d\n" % n for n in range(1, 1_001))
    output = printed(results, data, first_bytes=30)
    assert (output.head, output.tail, output.omitted_lines) == (data[:30].decode(), "", 996)
    assert kept(results, output) == data
    assert printed(results, data[:30], first_bytes=30) == CommandOutput(
        data[:30].decode(), total_bytes=30, total_lines=5
    )


@pytest.mark.parametrize("most", [1, 2, 3, 4, 29, 30, 31])
def test_a_beginning_ends_with_a_whole_letter(results: ResultStore, most: int):
    output = printed(results, "é字🙂x".encode() * 4, first_bytes=most)
    assert len(output.head.encode()) <= most < len(output.head.encode()) + 4
    assert ("é字🙂x" * 4).startswith(output.head)
    assert output.handle


def test_silence_is_no_line(results: ResultStore):
    assert printed(results, b"") == CommandOutput("", total_bytes=0, total_lines=0)


def test_c101_a_long_output_shows_five_lines_of_each_end_and_how_many_are_between(results: ResultStore):
    data = b"".join(b"line %d\n" % n for n in range(1, 1_001))
    output = printed(results, data)
    assert output.head.split("\n") == [f"line {n}" for n in range(1, 6)]
    assert output.tail.split("\n") == [f"line {n}" for n in range(996, 1_001)]
    assert (output.total_lines, output.omitted_lines, output.total_bytes, output.kept_bytes) == (
        1_000,
        990,
        len(data),
        len(data),
    )
    assert kept(results, output) == data


def test_c82_what_is_longer_than_the_ring_is_kept_whole(results: ResultStore):
    data = b"".join(b"line %d\n" % n for n in range(800_000))
    assert len(data) > 2 * RING_BYTES
    output = printed(results, data)
    assert output.head.startswith("line 0\nline 1\n")
    assert output.tail.endswith("line 799998\nline 799999")
    assert output.total_lines == 800_000
    assert kept(results, output) == data


def test_c82_beyond_its_bound_the_file_holds_both_ends_and_says_so(tmp_path: Path):
    results = ResultStore(tmp_path / "results", max_bytes=2 * RING_BYTES)
    data = os.urandom(12 * RING_BYTES + 12_345)
    output = printed(results, data)
    file = kept(results, output)
    assert output.kept_bytes == 2 * RING_BYTES < output.total_bytes == len(data)
    assert file.startswith(data[:RING_BYTES])
    assert file.endswith(data[-RING_BYTES:])
    assert file[RING_BYTES:-RING_BYTES] == b"\n[10,498,105 bytes left out]\n"


def test_one_endless_line_shows_both_of_its_ends(results: ResultStore):
    output = printed(results, b"a" * (8 * RING_BYTES) + b"z" * 1_000_000)
    assert (output.total_lines, output.omitted_lines) == (1, 0)
    assert output.head == "a" * 100 + "…"
    assert output.tail == "…" + "z" * 100


def test_a_few_long_lines_are_not_shown_twice(results: ResultStore):
    output = printed(results, b"".join(b"%d" % n * 3_000 + b"\n" for n in range(3)), lines=5)
    assert [line[0] for line in output.head.split("\n")] == ["0", "1", "2"]
    assert output.tail == "…" + "2" * 100
    assert output.omitted_lines == 0


def test_the_file_keeps_the_raw_bytes_that_the_preview_tidies(results: ResultStore):
    data = b"\x1b[32mok\x1b[0m\r\n" * 1_000
    output = printed(results, data)
    assert output.head == "ok\nok\nok\nok\nok"
    assert kept(results, output) == data


def test_a_progress_bar_is_short_however_long_it_took(results: ResultStore):
    output = printed(results, b"".join(b"\r%d%%" % (n // 1_000) for n in range(100_001)) + b"\ndone\n")
    assert output.head == "100%\ndone\n"
    assert not list(results.folder.glob("*"))


def test_bytes_that_are_no_text_are_replaced_and_said_so(results: ResultStore):
    assert printed(results, b"caf\xe9\n") == CommandOutput(
        "caf\ufffd\n", total_bytes=5, total_lines=1, has_undecodable_bytes=True
    )
    assert not printed(results, "café\n".encode()).has_undecodable_bytes


@pytest.mark.parametrize("shift", range(4))
def test_a_letter_that_a_cut_goes_through_is_not_called_a_fault(results: ResultStore, shift: int):
    data = b"x" * shift + "€".encode() * 3_000_000
    output = printed(results, data, piece=65_536)
    assert output.head == "x" * shift + "€" * (100 - shift) + "…"
    assert output.tail == "…" + "€" * 100
    assert not output.has_undecodable_bytes


@given(st.text(), st.integers(0, 50), st.integers(0, 50))
def test_a_piece_cut_to_letters_is_always_text(text: str, start: int, end: int):
    data = text.encode(errors="surrogatepass")
    piece = data[min(start, len(data)) : max(len(data) - end, 0)]
    try:
        data.decode()
    except UnicodeDecodeError:
        return
    assert drop_partial_end(drop_partial_start(piece)).decode() in text


@given(st.lists(st.sampled_from([b"", b"a", b"bb", b"c" * 30]), min_size=1, max_size=30), st.booleans(), st.data())
def test_the_two_ends_never_show_a_line_twice_and_count_every_one(lines: list[bytes], ended: bool, data: st.DataObject):
    whole = b"\n".join(lines) + (b"\n" if ended else b"")
    if not whole:
        return
    total = whole.count(b"\n") + (not whole.endswith(b"\n"))
    most = data.draw(st.integers(1, 8))
    piece = data.draw(st.integers(1, len(whole)))
    ends = take_head_and_tail(whole[:piece], whole[-piece:], total=len(whole), lines=total, max_lines=most, width=10)
    texts = whole.decode().removesuffix("\n").split("\n")
    assert max(len(ends.head), len(ends.tail)) <= most
    for shown, text in zip(ends.head, texts, strict=False):
        assert text.startswith(shown.removesuffix("…"))
    for shown, text in zip(reversed(ends.tail), reversed(texts), strict=False):
        assert text.startswith(shown.removesuffix("…")) or text.endswith(shown.removeprefix("…"))
    both_halves = bool(ends.head and ends.tail) and ends.left_out == total - len(ends.head) - len(ends.tail) + 1
    assert ends.left_out + len(ends.head) + len(ends.tail) == total + both_halves
    assert not both_halves or ends.tail[0].startswith("…")


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=5), st.integers(70_000, 200_000))
def test_lines_are_always_counted_as_counting_would(
    tmp_path_factory: pytest.TempPathFactory, words: list[bytes], size: int
):
    """Also if the output repeats itself, and where it stops repeating."""
    repeated = b"\n".join(words) * (size // sum(map(len, words)) + 1)
    data = repeated[:size] + b"and\nnow\nsomething else\n" + repeated[:size]
    source = Source(OutputSink(ResultStore(tmp_path_factory.getbasetemp() / "counting")))
    try:
        source.print(data, 65_536)
        assert source.sink.lines == data.count(b"\n") + (not data.endswith(b"\n"))
    finally:
        source.sink.drop()
        source.close()


def test_a_full_disk_costs_the_file_and_not_the_command(tmp_path: Path):
    (tmp_path / "results").write_bytes(b"this is no folder")
    output = printed(ResultStore(tmp_path / "results"), b"line\n" * 100_000)
    assert (output.handle, output.kept_bytes, output.total_lines) == ("", 0, 100_000)
    assert output.tail.endswith("line")


def test_output_up_to_a_little_needs_no_file_while_it_runs(source: Source, results: ResultStore):
    source.print(b"x" * SPILL_THRESHOLD_BYTES)
    assert not results.folder.exists()
    source.print(b"x")
    assert [file.stat().st_size for file in results.folder.iterdir()] == [SPILL_THRESHOLD_BYTES + 1]


def test_what_nobody_asks_for_leaves_no_file(source: Source, results: ResultStore):
    source.print(b"x" * (SPILL_THRESHOLD_BYTES + 1))
    source.sink.drop()
    assert not list(results.folder.iterdir())


# --- pages of a running command


def test_pages_are_the_output_byte_for_byte(source: Source):
    data = b"".join(b"%d \xe2\x82\xac\n" % n for n in range(100_000))
    source.print(data)
    at, pieces = 0, b""
    while at < len(data):
        start, piece = source.sink.read_page(at, 10_000, ended=True)
        assert start == at
        assert piece.endswith(b"\n")
        pieces += piece
        at += len(piece)
    assert pieces == data


def test_a_page_does_not_end_within_a_letter_that_is_still_to_come(source: Source):
    source.print("50 €".encode()[:-1])
    assert source.sink.read_page(0, 100, ended=False) == (0, b"50 ")
    assert source.sink.read_page(0, 100, ended=True) == (0, b"50 \xe2\x82")


def test_e17_a_page_ends_with_a_line_only_where_more_is_left(source: Source):
    source.print(b"one\ntwo\n>>> ")
    assert source.sink.read_page(0, 100, ended=False) == (0, b"one\ntwo\n>>> ")
    assert source.sink.read_page(0, 10, ended=False) == (0, b"one\ntwo\n")


def test_a_page_from_beyond_the_end_is_empty(source: Source):
    source.print(b"some\n")
    assert source.sink.read_page(1_000, 100, ended=False) == (5, b"")


def test_a_closed_output_takes_only_the_memory_that_it_needs_and_can_still_be_paged_through(results: ResultStore):
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        source = Source(OutputSink(results, ring_bytes=512 * 1024))  # a size for which no buffer is reused
        source.print(b"one\ntwo\n")
        source.sink.close()
        source.close()
        assert tracemalloc.get_traced_memory()[0] - before < 64 * 1024
    finally:
        tracemalloc.stop()
    assert source.sink.read_page(4, 100, ended=True) == (4, b"two\n")
    assert source.sink.lines == 2


def test_what_was_not_kept_is_passed_over(tmp_path: Path):
    source = Source(OutputSink(ResultStore(tmp_path / "results", max_bytes=0), ring_bytes=512 * 1024))
    try:
        data = os.urandom(2_000_000)
        source.print(data)
        start, piece = source.sink.read_page(600_000, 1_000, ended=True)
        assert start > 600_000
        assert piece == data[start : start + len(piece)]
    finally:
        source.sink.drop()
        source.close()


# --- watchers


def test_a_watcher_sees_all_of_it_in_whole_letters(results: ResultStore):
    seen: list[str] = []
    source = Source(OutputSink(results, watch=seen.append))
    try:
        for byte in "a € b €".encode():
            source.print(bytes([byte]))
            source.sink.notify_watcher()
        source.sink.notify_watcher(last=True)
        assert "".join(seen) == "a € b €"
        assert len(seen) <= 2  # the first, and what came shortly after
    finally:
        source.close()


def test_of_a_flood_a_watcher_sees_the_last_of_each_moment(results: ResultStore):
    seen: list[str] = []
    source = Source(OutputSink(results, watch=seen.append))
    try:
        source.print(b"x" * 1_000_000 + b"end")
        source.sink.notify_watcher(last=True)
        assert len("".join(seen)) < MAX_WATCH_BYTES + 100
        assert seen[0].startswith(f"\n[{1_000_003 - MAX_WATCH_BYTES:,} bytes]\n")
        assert seen[0].endswith("end")
    finally:
        source.sink.drop()
        source.close()
