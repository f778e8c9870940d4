from pathlib import Path

import pytest

from tests.adapters.shop import Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)
