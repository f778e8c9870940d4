"""docs/hub.md, followed from nothing to two sandboxes and a hub."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.docs.pages import runnable
from tests.docs.reader import Reader


@pytest.mark.timeout(180)
def test_the_page_leads_from_nothing_to_two_sandboxes_and_a_hub(tmp_path: Path):
    reader = Reader(tmp_path, Path(sys.executable).parent)
    blocks = [block for block in runnable() if block.page == "docs/hub.md"]
    assert len(blocks) >= 3
    pid = reader.desk / "hub.pid"
    try:
        for block in blocks:
            reader.tries(block)
    finally:
        if pid.exists():
            with suppress(ProcessLookupError):
                os.kill(int(pid.read_text()), signal.SIGTERM)
