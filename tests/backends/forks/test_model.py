"""The model of merging agrees with git, which shares no code with it: what the model merges, git merges equally, and
where the model has a conflict, git has one, or the conflict is about what git does not know."""

import os
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.backends.forks.model import Conflict, ModelFork, Node, Operations, Tree, above, merge_nodes
from tests.scale import scaled

MERGES = scaled(60, 2_000)
STEPS = 10
IDENTITY = {f"GIT_{who}_{what}": "x@y.z" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
ENVIRONMENT = os.environ | IDENTITY | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def to_git(tree: Tree) -> Tree:
    """As git sees it: no folders, and of a mode only whether the file can be executed."""
    return {
        path: (kind, content, 0o755 if mode & 0o100 else 0o644)
        for path, (kind, content, mode) in tree.items()
        if kind != "folder"
    }


def find_ancestor(fork: ModelFork, base: Tree) -> Tree:
    """What the fork started from: the recorded version where it changed something, what it sees elsewhere."""
    seen = fork.view(base)
    old: dict[str, Node | None] = {path: node for path, node in seen.items() if path not in fork.own} | fork.ancestors
    tree = {path: node for path, node in old.items() if node is not None}
    return {
        path: node for path, node in tree.items() if all(tree.get(up, ("folder",))[0] == "folder" for up in above(path))
    }


def git(repository: Path, *arguments: str, data: str = "") -> subprocess.CompletedProcess[str]:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=repository, input=data, capture_output=True, text=True, env=ENVIRONMENT, check=False
    )


def commit(repository: Path, trees: dict[str, Tree]) -> None:
    lines: list[str] = []
    for name, tree in trees.items():
        mark, parent = (["mark :1"], []) if name == "old" else ([], ["from :1"])
        lines += [f"commit refs/heads/{name}", *mark, "committer x <x@y.z> 0 +0000", "data 0", *parent, "deleteall"]
        for path, (kind, content, mode) in tree.items():
            # Lines differ from path to path, so that git takes nothing for a renamed file.
            lines_of = content if isinstance(content, tuple) else (content,)
            data = "".join(f"{path} {line}\n" for line in lines_of)
            lines += [f"M {'120000' if kind == 'link' else f'100{mode:o}'} inline {path}", f"data {len(data)}", data]
    assert git(repository, "fast-import", "--quiet", "--force", data="\n".join((*lines, ""))).returncode == 0


def merge_by_git(repository: Path, fork: ModelFork, base: Tree, expected: Tree | None) -> tuple[bool, bool]:
    """Whether git merges without a conflict, and whether its tree is the expected one."""
    trees = {"old": find_ancestor(fork, base), "ours": fork.view(base), "theirs": base, "expected": expected or {}}
    commit(repository, {name: to_git(tree) for name, tree in trees.items()})
    merged = git(repository, "merge-tree", "--write-tree", "ours", "theirs")
    assert merged.returncode in (0, 1), merged.stderr
    return merged.returncode == 0, merged.stdout.split()[0] == git(
        repository, "rev-parse", "expected^{tree}"
    ).stdout.strip()


def is_known_to_git(fork: ModelFork, base: Tree) -> bool:
    """Whether there is a conflict about one file or link, without other modes than git's."""
    for path, ours in fork.own.items():
        nodes = fork.ancestors[path], ours, base.get(path)
        if any(node is not None and node[0] == "folder" for node in nodes):
            continue
        old, ours, theirs = (to_git({path: node}).get(path) if node else None for node in nodes)
        if ours not in (theirs, old) and theirs != old:
            try:
                merge_nodes(old, ours, theirs)
            except Conflict:
                return True
    return False


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_model_merges_as_git_does(tmp_path: Path):
    git(tmp_path, "init", "-q", "--bare", ".")
    agreed = conflicts = 0
    for seed in range(MERGES):
        random = Random(seed)
        operations, base, fork = Operations(random), Tree(), ModelFork()
        for _ in range(8):
            operations.make(base).apply(base)
        for _ in range(STEPS):
            if random.random() < 0.5:
                operations.make(base).apply(base)
                continue
            view, chosen = fork.view(base), []
            for _ in range(random.randint(1, 3)):
                chosen.append(operations.make(view))
                chosen[-1].apply(view)
            fork.run(base, chosen)
        try:
            expected = fork.merge(base)
        except Conflict:
            expected = None
        clean, equal = merge_by_git(tmp_path, fork, base, expected)
        if expected is not None:
            assert clean, seed
            assert equal, seed
            agreed += 1
        else:
            assert not clean or not is_known_to_git(fork, base), seed
            conflicts += not clean
    print(f"{agreed} merged equally, {conflicts} conflicts in both, of {MERGES}")
    assert agreed > MERGES / 6
    assert conflicts > MERGES / 8
