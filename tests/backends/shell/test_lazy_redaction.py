"""Secrets are looked for when there is output that could contain one, and then it is as if they had been known before."""

import os
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.shell.output import MAX_UNSCREENED_BYTES, OutputSink
from handhold.backends.shell.result_store import ResultStore
from handhold.core.errors import SystemFailure
from handhold.core.text.redaction import Redaction
from handhold.core.text.secrets import MIN_SECRET_CHARS, Secret
from tests.backends.shell.shells import NamesOnly, bench
from tests.backends.shell.test_output import Source
from tests.scale import examples

TOKEN = "xK9mQ2vL7pR4tW8zA1"
SHORTEST = "a1" * (MIN_SECRET_CHARS // 2)
REDACTION = Redaction([Secret("API_TOKEN", TOKEN), Secret("SHORT", SHORTEST)])
PIECES = st.sampled_from(
    [TOKEN, SHORTEST, TOKEN[:5], TOKEN[5:], SHORTEST[:-1], "a", "1", " ", "\n", "\0" * 40, "\x1b[31m", "é", "word "]
)


@contextmanager
def sink_in(folder: Path, **options: object) -> Iterator[Source]:
    source = Source(OutputSink(ResultStore(folder / "results"), **options))  # pyright: ignore[reportArgumentType]
    try:
        yield source
        source.sink.drop()
    finally:
        source.close()


def shown(source: Source) -> str:
    source.sink.flush()
    return source.sink.build_output(1_000_000, 1_000).head


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(PIECES, max_size=12), st.integers(1, 40))
def test_it_is_always_as_if_the_secrets_had_been_known_from_the_start(pieces: list[str], size: int):
    """Apart from up to three letters of a secret, which are shown before it is clear what they begin."""
    data = "".join(pieces).encode()
    outputs: list[str] = []
    with TemporaryDirectory() as folder:
        for options in ({}, {"redaction": REDACTION}, {"find_redaction": lambda: REDACTION}):
            with sink_in(Path(folder), **options) as source:
                source.print(data, piece=size)
                outputs.append(shown(source))
    bare, known, found = outputs
    assert TOKEN not in found
    assert SHORTEST not in found
    assert (found == bare) == (known == bare) == ("[redacted" not in found)
    assert found.count("[redacted") == known.count("[redacted")


@pytest.mark.parametrize(
    ("data", "looked"),
    [
        (b"", 0),
        (b"ok\n", 0),
        (b"a1" * 5 + b"a", 0),
        (b" \n" * 500, 0),
        (SHORTEST.encode(), 1),
        (b"a line of output\n", 1),
    ],
)
def test_g2_nothing_is_looked_for_if_the_output_is_too_short(tmp_path: Path, data: bytes, looked: int):
    looks: list[int] = []
    with sink_in(tmp_path, find_redaction=lambda: looks.append(1)) as source:
        for byte in data:
            source.print(bytes([byte]))
        assert shown(source) == data.decode()
    assert len(looks) == looked


def test_a_flood_of_zeros_takes_no_memory(tmp_path: Path):
    """They are no part of any secret, so there is never enough output to contain one."""
    looks: list[int] = []
    with sink_in(tmp_path, find_redaction=lambda: looks.append(1), ring_bytes=256 * 1024) as source:
        source.print(bytes(MAX_UNSCREENED_BYTES))
        assert not looks
        tracemalloc.start()
        try:
            for _ in range(64):
                source.print(bytes(1024 * 1024))
            assert tracemalloc.get_traced_memory()[1] < 4 * 1024 * 1024
        finally:
            tracemalloc.stop()
        assert looks == [1]
        assert source.sink.total == 64 * 1024 * 1024 + MAX_UNSCREENED_BYTES


def test_who_watches_sees_short_output_at_once(tmp_path: Path):
    seen: list[str] = []
    with sink_in(tmp_path, find_redaction=lambda: REDACTION, watch=seen.append) as source:
        source.print(b"ok\n")
        source.sink.notify_watcher()
        assert seen == ["ok\n"]
        source.print(TOKEN.encode())
        source.sink.flush()
        source.sink.notify_watcher(last=True)
        assert TOKEN not in "".join(seen)


class SlowGuard(NamesOnly):
    """It takes longer to find the secrets than the command may take."""

    def __init__(self, root: str, find: Callable[[], Redaction | None]) -> None:
        super().__init__(root)
        self.find = find

    def redaction(self) -> Redaction | None:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self.find()


def test_the_time_to_find_secrets_is_not_the_commands(tmp_path: Path):
    def find() -> Redaction:
        time.sleep(3)
        return REDACTION

    with bench(tmp_path, guard=SlowGuard(str(tmp_path / "ws"), find)) as shell:
        finished = shell(f"echo {TOKEN}; exit 3", seconds=2.5)
        assert finished.exit_status.code == 3
        assert finished.output.head.strip() == "[redacted: API_TOKEN]"
        finished = shell(f"echo {TOKEN}; sleep 60", seconds=0.5)
        assert finished.exit_status.timed_out


@pytest.mark.parametrize("direct", [False, True])
def test_if_secrets_cannot_be_found_no_output_is_shown(tmp_path: Path, direct: bool):
    looks: list[float] = []

    def find() -> Redaction:
        looks.append(time.monotonic())
        raise SystemFailure("/mnt", "it does not answer")

    with bench(tmp_path, guard=SlowGuard(str(tmp_path / "ws"), find)) as shell:
        with pytest.raises(SystemFailure):
            shell(f"echo {TOKEN}; touch made; seq 100000", direct=direct)
        assert len(looks) == 1
        assert os.listdir(shell.ws) == []
