"""What crosses to a reader of files and back: names of any bytes, and nothing that is no result."""

import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold.backends.messages import BadMessage, MessageBuffer, encode_message
from handhold.backends.search.batch_reader import (
    BatchResult,
    FileBatch,
    ReaderProcess,
    SearchTask,
    batch_from_json,
    batch_to_json,
    result_from_json,
    result_to_json,
)
from handhold.backends.search.events import FoundLine
from handhold.backends.search.search_process import EngineFailed
from handhold.core.requests import Grep
from tests.scale import examples

NAMES = st.binary(min_size=1, max_size=20)
COUNTS = st.integers(0, 2**40)
LINES = st.builds(FoundLine, COUNTS, COUNTS, st.integers(-1, 99), st.integers(-1, 99), st.none() | st.binary())


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES)), st.none() | st.lists(st.binary()))
def test_v1_batches_arrive_as_they_were(files: list[tuple[bytes, bytes]], contents: list[bytes] | None):
    batch = FileBatch(files, contents)
    assert list(map(batch_from_json, MessageBuffer().feed(encode_message(batch_to_json(batch))))) == [batch]


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(NAMES, COUNTS, st.lists(LINES))), st.lists(COUNTS, min_size=5, max_size=5))
def test_v1_results_arrive_as_they_were(matches: list[tuple[bytes, int, list[FoundLine]]], counts: list[int]):
    result = BatchResult(matches, *counts)
    assert result_from_json(json.loads(json.dumps(result_to_json(result)))) == result


@pytest.mark.parametrize(
    "message",
    [
        None,
        [],
        {},
        [[], 1, 2, 3, 4],
        [[], 1, 2, 3, 4, -1],
        [[], 1, 2, 3, 4, True],
        [[["a", 1]], 0, 0, 0, 0, 0],
        [[["a", 1, [[1, 2, 3, 4, "?"]]]], 0, 0, 0, 0, 0],
        [[[1, 1, []]], 0, 0, 0, 0, 0],
    ],
)
def test_v1_what_is_no_result_is_refused(message: Any):
    with pytest.raises(BadMessage):
        result_from_json(message)


@pytest.mark.parametrize("sent", [b"", b"\xff\xff\xff\xffx", b"\0\0\0\x02{]", b"\0\0\0\x02{}"])
def test_v1_a_reader_that_answers_nonsense_fails(sent: bytes):
    reader = ReaderProcess(None, SearchTask(Grep(path=".", pattern="a", limit=1, chars=1000)))
    try:
        theirs, ours = os.pipe()
        os.dup2(theirs, reader.stdout_fd)
        os.write(ours, sent)
        os.close(ours)
        with pytest.raises(EngineFailed):
            reader.receive()
    finally:
        reader.kill()
        os.close(theirs)
