"""The signing key of a state folder."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from handhold.backends.state.signing_key import load_or_create_key


def test_whoever_asks_and_however_many_at_once_it_is_one_key_that_stays(tmp_path: Path):
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(load_or_create_key, [tmp_path] * 32))
    assert len(keys) == 1
    assert len(load_or_create_key(tmp_path)) == 32
    [file] = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("broken", [b"", b"half of one"])
def test_a_part_of_a_key_is_none(tmp_path: Path, broken: bytes):
    (tmp_path / "server.key").write_bytes(broken)
    key = load_or_create_key(tmp_path)
    assert len(key) == 32
    assert load_or_create_key(tmp_path) == key
