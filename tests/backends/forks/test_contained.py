"""Programs in a fork, in the sandbox of commands."""

import os
import socket
from pathlib import Path

import pytest

from handhold import Toolbox
from handhold.core.policy.rules import Rule
from tests.backends.shell.forked import as_user
from tests.faults.trees import tree

RULE = Rule("no keys", "deny", ["read"], "not for programs", ["keys/one"], ["a.txt"], paths=["keys"])


def test_a_contained_program_changes_the_fork_alone_and_sees_nothing_that_rules_hide(who: str, place: Path):
    def work() -> None:
        root, outside = place / "work", place / "outside"
        (root / "keys").mkdir(parents=True)
        outside.mkdir()
        (root / "keys/one").write_text("secret\n")
        (root / "a.txt").write_text("a\n")
        with Toolbox.open(root, state=place / "state", rules=RULE) as box:
            before = tree(root)
            script = f"""
                cat keys/one keys && exit 1
                touch {outside}/x /usr/x "{place}/state/x" 2>/dev/null && exit 2
                test "$(ls -A {place} 2>/dev/null)" = work || exit 3
                echo b >>a.txt; mkdir new; mv new moved; exit 7
            """
            fork = box.fork("try")
            assert fork.run_contained(["sh", "-c", script]) == 7
            assert fork.run_contained(["sh", "-c", "test -d moved && kill -9 $$"]) == -9
            assert tree(root) == before
            assert os.listdir(outside) == []
            fork.run(["sh", "-c", "echo c >>a.txt"])  # one after the other, contained and not
            assert fork.merge().dropped
            assert (root / "a.txt").read_text() == "a\nb\nc\n"
            assert (root / "moved").is_dir()
            assert box.undo().ok
            assert tree(root) == before

    as_user(who, work)


@pytest.mark.parametrize("network", [False, True])
def test_a_contained_program_has_a_network_only_if_it_is_allowed(tmp_path: Path, network: bool):
    (tmp_path / "work").mkdir()
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Toolbox.open(tmp_path / "work", state=tmp_path / "state") as box,
    ):
        connect = f"exec 3<>/dev/tcp/127.0.0.1/{server.getsockname()[1]}"
        status = box.fork("try").run_contained(["bash", "-c", connect], network=network)
        assert (status == 0) == network
