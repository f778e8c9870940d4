"""Replays the fuzzers' earlier findings and seeds: `just fuzz` searches for more."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.fuzz.targets import TARGETS

SEEDS = Path(__file__).parents[1] / "fuzz_seeds"
FOUND = sorted(path for path in SEEDS.glob("*/*") if path.is_file())


def test_every_target_has_seeds():
    assert {path.parent.name for path in FOUND} == set(TARGETS)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_seed_breaks_nothing(path: Path):
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.binary(max_size=200))
def test_no_bytes_break_a_target(name: str, data: bytes):
    TARGETS[name](data)
