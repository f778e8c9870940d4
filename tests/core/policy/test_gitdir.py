"""Which files of a git directory are data, and which git obeys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.policy.gitdir import HOOKS, GitEntryState, find_objection, is_git_data

STORED = [
    *("HEAD", "ORIG_HEAD", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MSG", "COMMIT_EDITMSG", "CHERRY_PICK_HEAD", "index"),
    *("index.lock", "packed-refs", "packed-refs.lock", "shallow", "objects/ab/cd", "objects/pack/x.idx", "AUTO_MERGE"),
    *("refs/heads/main", "logs/HEAD", "logs/refs/stash", "rr-cache/x/y"),
    *("rebase-merge/done", "rebase-apply/next", "info/exclude", "info/sparse-checkout", "hooks/pre-commit.sample"),
    *("objects/info/commit-graph", "objects/info/packs", "description", "BISECT_LOG", "lfs/objects/ab/cd/x"),
]
OBEYED = [
    *("config", "config.worktree", "commondir", "gitdir", "info/attributes", "info/grafts", "objects/info/alternates"),
    *("objects/info/http-alternates", "branches/x", "remotes/origin", "hooks/x", "hooks/pre-commit.sample/x"),
    *("something", "config.lock", "HEADER", "lfs/config", "worktrees/w/locked", "fsmonitor--daemon.ipc"),
    *(f"hooks/{name}" for name in HOOKS),
]
PLACES = ["", "modules/lib/", "modules/a/b/", "worktrees/w/", "modules/lib/worktrees/w/", "modules/a/modules/b/"]


@pytest.mark.parametrize("above", PLACES)
def test_r10_data_may_change_in_every_repository(above: str):
    for way in STORED:
        assert is_git_data(above + way), way


@pytest.mark.parametrize("above", PLACES)
def test_r10_what_git_obeys_is_no_data_in_any_repository(above: str):
    for way in OBEYED:
        assert not is_git_data(above + way), way
        assert not is_git_data((above + way).upper()), way


@given(
    way=st.lists(st.sampled_from(["modules", "worktrees", "lib", "x", "objects", "refs"]), max_size=12).map("/".join)
)
def test_r10_below_any_submodule_hooks_and_configuration_are_never_data(way: str):
    for last in ("config", "commondir", "hooks/pre-commit"):
        assert not is_git_data(f"{way}/{last}".lstrip("/"))


def side(data: bytes | None, kind: str = "file") -> GitEntryState:
    return GitEntryState(kind, None, lambda: data)  # type: ignore[arg-type]


def judged(way: str, before: GitEntryState | None, after: GitEntryState | None) -> str:
    return find_objection(way, before, after, gitdir="/ws/sub/.git", is_inside=lambda path: path.startswith("/ws/"))


def test_e19_pointers_between_a_worktree_and_its_repository():
    assert not judged("worktrees/w/commondir", None, side(b"../..\n"))
    assert not judged("worktrees/w/gitdir", None, side(b"/ws/w/.git\n"))
    assert not judged("", None, side(b"gitdir: /ws/.git/worktrees/sub\n"))
    assert not judged("", None, side(b"gitdir: ../.git/modules/sub\n"))
    for way, data in (
        ("commondir", b"../..\n"),
        ("modules/lib/commondir", b"../..\n"),
        ("worktrees/w/commondir", b"../../x\n"),
        ("worktrees/w/gitdir", b"/elsewhere/.git\n"),
        ("worktrees/w/gitdir", b"/ws/w/config\n"),
        ("", b"gitdir: ../evil\n"),
        ("", b"gitdir: ../../elsewhere/.git/modules/sub\n"),
        ("", b"gitdir: ../.git/modules/../../evil\n"),
        ("", b"anything"),
    ):
        assert judged(way, None, side(data)), (way, data)


@pytest.mark.parametrize("kind", ["link", "other"])
def test_r10_a_link_in_a_git_directory_always_asks(kind: str):
    for way in (*STORED, *OBEYED, ""):
        assert judged(way, None, side(b"x", kind)), way


def test_r10_content_that_cannot_be_read_asks():
    assert judged("config", None, side(None))
    assert judged("config", side(None), side(b"[core]\n\tbare = false\n"))


def test_r10_a_rebase_that_would_run_something_asks():
    for todo in ("rebase-merge/git-rebase-todo", "sequencer/todo", "worktrees/w/rebase-merge/git-rebase-todo"):
        assert not judged(todo, None, side(b"pick 12345 exec x\n"))
        for line in (b"exec x", b"x y", b"pick 1\n  exec\ty\n"):
            assert judged(todo, None, side(line))


DATA_FOLDERS = [
    "refs",
    "refs/heads",
    "logs",
    "objects",
    "objects/ab",
    "rr-cache",
    "lfs/tmp",
    "reftable",
    "rebase-apply",
]


@pytest.mark.parametrize("folder", DATA_FOLDERS)
@pytest.mark.parametrize("above", ["", "modules/lib/"])
def test_r10_a_repository_among_data_is_no_data(above: str, folder: str):
    for name in ("config", "config.worktree", "commondir", "hooks/post-receive", "info/attributes", ".git/x", ".git"):
        for way in (f"{above}{folder}/{name}", f"{above}{folder}/x.git/{name}"):
            assert not is_git_data(way), way
            assert judged(way, None, side(b"#!/bin/sh\n")), way


HASH = b"0123456789abcdef0123456789abcdef01234567"


def test_r10_a_branch_with_an_obeyed_name_is_known_by_its_content():
    log = HASH + b" " + HASH + b" a <a@b.example> 1700000000 +0000\tcommit: x\n"
    for name in ("config", "team/config", "hooks/x"):
        for way, data in ((f"refs/heads/{name}", HASH + b"\n"), (f"logs/refs/heads/{name}", log)):
            assert not judged(way, None, side(data)), way
            assert not judged(way, side(data), None), way
            assert judged(way, None, side(data + b"[core]\n")), way
            assert judged(way, None, GitEntryState("file", 0o755, lambda: HASH)), way
    assert is_git_data("refs/remotes/origin/main")
    assert not judged("refs/remotes/config", None, side(b"ref: refs/remotes/origin/main\n"))


def test_r10_a_url_inside_a_git_directory_asks():
    for url, is_harmless in (
        ("/ws/other", True),
        ("/ws/other/.git", True),
        ("/ws/.git/refs/x.git", False),
        ("/ws/.git/./x", False),
        ("/ws/.GIT/modules/x", False),
    ):
        assert bool(judged("config", None, side(f'[remote "o"]\n\turl = {url}\n'.encode()))) != is_harmless, url


def test_r10_a_rebase_runs_only_the_strategies_of_git():
    for folder in ("rebase-merge", "rebase-apply", "worktrees/w/rebase-merge"):
        for name in ("ort", "recursive", "resolve", "octopus", "ours", "subtree"):
            assert not judged(f"{folder}/strategy", None, side(name.encode() + b"\n"))
        assert not judged(f"{folder}/strategy", side(b"ort\n"), None)
        assert judged(f"{folder}/strategy", None, side(b"x/evil\n"))
        for name in ("strategy_opts", "gpg_sign_opt"):
            assert judged(f"{folder}/{name}", None, side(b"x\n"))
    assert not judged("sequencer/opts", None, side(b"[options]\n\tno-commit = true\n\tstrategy = ort\n"))
    for option in (b"strategy = x/evil", b"strategy", b"strategy-option = x", b"gpg-sign = x", b"unheard-of = x"):
        assert judged("sequencer/opts", None, side(b"[options]\n\t" + option + b"\n")), option
    assert judged("sequencer/opts", None, side(b"[core]\n\tedit = true\n"))
