"""Without ripgrep: git names the files, and the answer is the same. Nothing that a repository says is run."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from handhold.core.errors import BadRegex
from handhold.core.facts import Scan
from handhold.world.search.programs import found
from tests.world.search.looking import Looking, children, descriptors, looking, planted

TREE: dict[str, str | bytes] = {
    "a.py": "import os\nneedle = 1\n\n# Needle\n",
    "src/b.py": "x\n" * 50 + "a needle\nx\nanother needle\n" + "y\n" * 20,
    "src/c.txt": "needle\r\nline\r\n",
    "src/deep/er/d.md": "ein Nadelöhr, NEEDLE und näädle\n",
    "src-2/e": "needle",
    "src.txt": "needle",
    "wide.txt": "x\nneedle ä\n".encode("utf-16"),
    "bom.txt": "\ufeffneedle\n",
    "latin.txt": b"caf\xe9 needle\n",
    "binary": b"needle\0needle\n",
    "late": b"needle\n" + b"x\n" * 50_000 + b"\0\nneedle\n",
    "empty": "",
    "quoted": "a\\Eb .* (needle)\n",
    "kelvin": "\u212aelvin\n",
    ".gitignore": "*.log\n/build/\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/config": "[core]\n\tneedle = true\n",
    ".git/info/exclude": "excluded\n",
    ".hidden/f": "needle\n",
    "excluded": "needle\n",
    "x.log": "needle\n",
    "build/g": "needle\n",
    "sub/build/g": "needle\n",
    "sub/.ignore": "!keep.log\nsecret*\n",
    "sub/keep.log": "needle\n",
    "sub/secret.txt": "needle\n",
    "nested/.git/HEAD": "ref: refs/heads/main\n",
    "nested/h": "needle\n",
    "nested/i.log": "needle\n",
    ".gitattributes": "*.py -diff\n*.txt binary\nsrc-2/e filter=lfs diff=lfs\n",
    "-rf": "needle\n",
    "two\nlines": "needle\n",
    os.fsdecode(b"\xff\xfe.txt"): "needle\n",
    ":(top)x": "needle\n",
    "*": "needle\n",
}

ASKED: list[tuple[str, dict[str, Any]]] = [
    ("needle", {}),
    ("needle", {"hidden": True}),
    ("needle", {"ignored": True}),
    ("needle", {"ignore_case": True}),
    ("needle", {"glob": "*.py"}),
    ("needle", {"glob": "!src"}),
    ("needle", {"glob": "src/**"}),
    ("needle", {"glob": "*.log"}),
    ("needle", {"below": "src"}),
    ("needle", {"below": "sub"}),
    ("needle", {"below": "build"}),
    ("kelvin", {"ignore_case": True}),
    ("NADELÖHR", {"ignore_case": True}),
    ("a\\Eb .* (", {}),
    ("^needle$", {"regex": True}),
    (r"\bn\w+le\b", {"regex": True}),
    (r"n..dle", {"regex": True}),
    (r"[^a-z ]needle|é", {"regex": True}),
    (r"(?i)NEEDLE\s", {"regex": True}),
    (r"e++d", {"regex": True}),
    (r"\p{Lu}", {"regex": True}),
    ("nowhere", {}),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return planted(tmp_path_factory.mktemp("tree"), TREE)


@pytest.fixture
def both(tree: Path) -> Iterator[tuple[Looking, Looking]]:
    with looking(tree, "ripgrep") as ripgrep, looking(tree, "git grep") as git:
        yield ripgrep, git


@pytest.mark.parametrize(("pattern", "how"), ASKED)
@pytest.mark.parametrize("mode", ["files_with_matches", "count", "content"])
@pytest.mark.parametrize("sort", ["modified", "none"])
def test_c73_git_finds_what_ripgrep_finds(
    both: tuple[Looking, Looking], pattern: str, how: dict[str, Any], mode: str, sort: str
):
    context = {"before": 1, "after": 2} if mode == "content" else {}
    by_ripgrep, by_git = (look.grep(pattern, mode=mode, sort=sort, **context, **how) for look in both)
    assert by_git.hits == by_ripgrep.hits
    assert by_git.order == by_ripgrep.order
    assert by_git.weaker == "ripgrep is switched off"


def test_c73_it_says_which_engine_it_was_and_why(both: tuple[Looking, Looking]):
    scan = both[1].grep("needle")
    git = found("git")
    assert not isinstance(git, str)
    assert scan.engine == f"git grep {git.version}"
    assert (scan.aborted, scan.more) == ("", False)


def test_pages_put_together_are_the_whole(both: tuple[Looking, Looking]):
    for sort in ("modified", "none"):
        whole = both[1].lines(both[1].grep("needle", mode="content", sort=sort))
        pages: list[object] = []
        while True:
            page = both[1].grep("needle", mode="content", sort=sort, limit=4, start=len(pages))
            pages += both[1].lines(page)
            if not page.more:
                break
        assert pages == whole


def test_what_it_is_not_asked_about_goes_to_the_walk(both: tuple[Looking, Looking]):
    for how in ({"below": ".git/config"}, {"hidden": True, "ignored": True}):
        by_ripgrep, by_git = (look.grep("needle", mode="content", **how) for look in both)
        assert by_git.hits == by_ripgrep.hits
        assert "walk" in by_git.engine


def test_a_regex_that_is_none_is_told_even_where_nothing_could_match(tmp_path: Path):
    with looking(tmp_path, "git grep") as git, pytest.raises(BadRegex):
        git.grep("a(", regex=True)


def test_c73_a_repository_can_run_nothing(tmp_path: Path):
    """Every setting that names a program, in a repository's own config, the user's, and the attributes."""
    ran = tmp_path / "ran"
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    script.chmod(0o755)
    ws = tmp_path / "ws"
    ws.mkdir()
    subprocess.run(["git", "init", "--quiet", ws], check=True)
    hostile = "".join(
        f"[{section}]\n\t{key} = {script}\n"
        for section, key in [
            *(("core", "pager"), ("core", "fsmonitor"), ("core", "sshCommand"), ("core", "editor"), ("pager", "grep")),
            *(('diff "x"', "textconv"), ('diff "x"', "command"), ('filter "x"', "clean"), ('filter "x"', "smudge")),
            *(('filter "x"', "process"), ("diff", "external"), ("alias", "grep"), ("core", "hooksPath")),
        ]
    )
    hostile += "[grep]\n\tfallbackToNoIndex = true\n\tpatternType = fixed\n[core]\n\tuntrackedCache = true\n"
    with open(ws / ".git/config", "a") as config:
        config.write(hostile)
    planted(
        ws, {"a.txt": "needle\n", ".gitattributes": "* diff=x filter=x textconv=x\n", "b/.git": "gitdir: ../.git\n"}
    )
    planted(tmp_path / "home", {".gitconfig": hostile})
    before = dict(os.environ)
    os.environ |= {"HOME": str(tmp_path / "home"), "GIT_PAGER": str(script), "GIT_EXTERNAL_DIFF": str(script)}
    try:
        with looking(ws, "git grep") as git:
            for mode in ("files_with_matches", "content", "count"):
                assert git.names(git.grep("needle", mode=mode)) == ["a.txt"]
                assert git.names(git.grep("needle", mode=mode, ignored=True)) == ["a.txt"]
    finally:
        os.environ.clear()
        os.environ |= before
    assert not ran.exists()
    # The trap is set: git would run it if it were let.
    subprocess.run(
        ["git", "-C", ws, "grep", "--textconv", "-e", "needle", "--untracked"], check=False, capture_output=True
    )
    assert ran.exists()


def test_no_process_and_no_descriptor_is_left(both: tuple[Looking, Looking]):
    git = both[1]
    git.grep("needle")
    processes, opened = children(), descriptors()
    scans: list[Scan] = [git.grep("needle", seconds=seconds) for seconds in (0.001, 0.005, 0.02)]
    assert scans[0].aborted == "deadline"
    git.grep("needle", mode="content", sort="none", limit=1)
    assert children() == processes
    assert descriptors() == opened
