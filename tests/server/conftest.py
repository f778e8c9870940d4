from pathlib import Path

import pytest

from tests.server.hosting import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop.below(tmp_path)
