"""What tests/sources/ contains was extracted from the source documents and from nothing else."""

import json
import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
FOLDER = PROJECT / "tests/sources"
DOCUMENTS = PROJECT.parent / "shared/seeds"

spec = spec_from_file_location("sources", PROJECT / "checks/sources.py")
assert spec
assert spec.loader
sources = module_from_spec(spec)
spec.loader.exec_module(sources)


def test_there_is_one_file_for_each_source():
    assert sorted(file.name for file in FOLDER.glob("*.json")) == [sources.target(name).name for name in sources.RULES]


@pytest.mark.parametrize("name", sources.RULES)
def test_each_row_names_its_section_and_its_document(name: str):
    rows = json.loads(sources.target(name).read_text("utf-8"))
    assert [row["name"] for row in rows] == [rule.name for rule in sources.RULES[name]]
    assert len({row["name"] for row in rows}) == len(rows)
    assert {row["sha256"][:16] for row in rows} == {rows[0]["sha256"][:16]}
    assert all(row["section"] and re.fullmatch("[0-9a-f]{64}", row["sha256"]) for row in rows)
    assert all(set(row) == {"name", "section", "sha256", "value"} for row in rows)


def test_a_document_that_says_something_else_is_noticed(tmp_path: Path):
    name = "004_a39344133325a2e7.txt"
    (tmp_path / name).write_text("nothing of it")
    with pytest.raises(SystemExit, match="nothing matches tools"):
        list(sources.extract(tmp_path / name))


if DOCUMENTS.is_dir():  # not part of the project; without them there is nothing to compare

    @pytest.mark.parametrize("name", sources.RULES)
    def test_the_documents_still_say_this(name: str):
        assert sources.format_rows(DOCUMENTS / name) == sources.target(name).read_text("utf-8")
