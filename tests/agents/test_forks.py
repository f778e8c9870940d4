"""Agents with nothing of ours installed work in a fork: their own tools do there what they do without one."""

import json
from pathlib import Path

import pytest

from tests.agents.bed import MARKS, run_agent, without_settings
from tests.agents.programs import GIT_SETTINGS, REMOTE, START_SSHD, find_programs
from tests.agents.test_recording import DATA, RECORDED, make_call
from tests.containers.engine import Container

pytestmark = MARKS
COMMANDS = [
    "git init -q && git add -A && git commit -qm first",
    f"git push -q {REMOTE} HEAD:main && git ls-remote {REMOTE} >remote.txt",
]
# The settings of ssh belong to root, and root's files to nobody in a user's namespace.
SSH_SETTINGS = {"etc/ssh/ssh_config.d/some.conf": b"Host *\n  ServerAliveInterval 7\n"}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    return {**find_programs(tmp_path_factory.mktemp("programs")), **SSH_SETTINGS}


def without_git(tree: dict[str, str]) -> dict[str, str]:
    """A commit has the time in it."""
    return {name: text for name, text in without_settings(tree).items() if name != "remote.txt" and ".git/" not in name}


def test_an_agent_works_in_a_fork_with_its_own_tools_and_its_work_is_merged_and_undone(
    container: Container, client: str
):
    if client not in RECORDED:
        pytest.skip("there is no script of its edits")
    steps = [*DATA["edits"][client], *([make_call(client, command)] for command in COMMANDS)]
    job = {"files": DATA["files"], "plain": True, "home": {".gitconfig": GIT_SETTINGS}}
    job |= {"before": [["sh", "-c", START_SSHD]]}
    plain = run_agent(container, client, steps, **job)
    later = [
        ["handhold", "fork", "diff", "try"],
        ["handhold", "forks", "--json"],
        ["handhold", "fork", "merge", "try", "--all"],
    ]
    later += [["handhold", "undo", "--yes"]]
    report = run_agent(container, client, steps, **job, within=["handhold", "fork", "try", "--"], after=later)
    assert report["agent"]["status"] == 0
    assert report["tree"] == report["installed"], "the agent changed the workspace itself"
    names = [[tool for tool in request["tools"] if "handhold" in tool] for request in report["requests"]]
    assert not any(names), "it has its own tools alone"
    diff, forks, merged, undone = report["after"]
    assert diff["status"] == 0
    assert json.loads(forks["output"])[0]["files"] > 0
    assert merged["status"] == 0, merged
    assert without_git(merged["tree"]) == without_git(plain["tree"]), "it works otherwise in a fork"
    assert "refs/heads/main" in merged["tree"]["remote.txt"], "git cannot push over ssh"
    assert undone["status"] == 0, undone
    assert undone["tree"] == report["installed"]
