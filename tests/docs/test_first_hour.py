"""The first hour: in a new environment, each page of the start is followed alone.

The wheel is built here, and `pip install handhold[…]` on the page installs it. Then the blocks of the page run one after
another. Each of these pages reaches a first edit and an undo.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PROJECT, RUN, blocks, name
from tests.docs.reader import Reader
from tests.scale import nightly

PAGES = ("README.md", *(name(page) for page in sorted((PROJECT / "docs/start").glob("*.md"))))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("page", PAGES)
@nightly(sampled_by="tests/meta/test_wheel.py::test_the_first_example_of_the_readme_works_as_it_stands")
def test_a_page_alone_leads_from_nothing_to_an_edit_and_back(page: str, wheel: Path, tmp_path: Path):
    subprocess.run(["uv", "venv", "--quiet", "--seed", "--python", sys.executable, tmp_path / "new"], check=True)
    pip = {
        "PIP_FIND_LINKS": str(wheel.parent),
        "PIP_CACHE_DIR": str(wheel.parent / "fetched"),  # once for all pages
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_COMPILE": "1",
    }
    reader = Reader(tmp_path, tmp_path / "new/bin", **pip)
    shown = [block for block in blocks(PROJECT / page) if block.kind in RUN]
    for block in shown:
        assert not block.not_run, "a first hour has no gaps"
        reader.tries(block)
    assert all(any(word in block.text.lower() for block in shown) for word in ("pip install", "edit", "undo"))
    assert list((tmp_path / "new/lib").glob("python*/site-packages/handhold/toolbox.py")), (
        "it was installed from the page"
    )
