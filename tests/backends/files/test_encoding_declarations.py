"""Encoding declarations are looked up on every read, so the lookup must cost next to nothing."""

from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.text.encoding import detect_encoding, is_utf8


def quickest(*works: Callable[[], object], rounds: int) -> list[float]:
    """The best time of each in seconds, measured in turns."""
    best = [float("inf")] * len(works)
    for _ in range(rounds):
        for n, work in enumerate(works):
            began = perf_counter()
            work()
            best[n] = min(best[n], perf_counter() - began)
    return best


@pytest.mark.alone
def test_u4_declarations_cost_a_read_of_four_folders_down_less_than_half_of_it(tmp_path: Path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/f").write_text("déjà vu\n" * 500, encoding="utf-8")
    (tmp_path / ".editorconfig").write_text("root = true\n[*.{txt,md}]\ncharset = latin1\n")
    files = Workspace([tmp_path], SqliteStore.in_memory())
    lookup, page = quickest(
        lambda: files.declared_encoding("a/b/c/f"), lambda: files.read_page("a/b/c/f", 1, 2000, 2000), rounds=300
    )
    files.close()
    assert lookup < 0.5 * page


@pytest.mark.alone
def test_u4_utf8_is_recognised_in_the_time_that_decoding_takes():
    data = "déjà vu, 中文\n".encode() * 50_000
    coding, decoding = quickest(lambda: detect_encoding(data), lambda: is_utf8(data), rounds=30)
    assert coding < 1.3 * decoding
