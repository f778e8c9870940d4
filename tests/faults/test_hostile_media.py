"""Issue 7: hundreds of hostile images and PDFs, each shown by its own worker."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.hostile_media import hostile
from tests.scale import scaled

ANSWERS = {"success", "partial", "BROKEN_FILE", "ENCRYPTED", "TOO_MANY_PIXELS", "TOO_COSTLY"}
MOST_MEMORY, MOST_SECONDS = 512 << 20, 5.0
STEP = scaled(64, 1)  # one in this many files


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_nasty_17_no_hostile_file_breaks_the_tool_or_takes_more_than_512_mb_and_5_seconds(tmp_path: Path):
    subprocess.run([sys.executable, "-m", "tests.faults.hostile_media", str(tmp_path), str(STEP)], check=True)
    command = [sys.executable, "-m", "tests.faults.hostile_shown", str(tmp_path), "--json"]
    told = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    print(json.dumps(told, indent=1))
    assert told["files"] >= 500 // STEP
    assert told["workers"] >= 500 // STEP
    assert set(told["answers"]) <= ANSWERS
    assert not told["flaws"]
    assert told["most memory"][0] <= MOST_MEMORY
    assert told["most seconds"][0] <= MOST_SECONDS


def test_the_same_seed_makes_the_same_files():
    def some(seed: int) -> list[tuple[str, bytes]]:
        return [case for _, case in zip(range(60), hostile(seed), strict=False)]

    assert some(7) == some(7)
    assert some(7) != some(8)
