"""Forty ways around a user's own deny rule: 23 to 40 by commands, in the foreground, as a preview and in the background.

Each command is first run without the rule, and must print the secret there.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.vault import (
    CONTENT,
    GIT,
    KEY,
    TOKEN,
    VAULT,
    Vault,
    link_before,
    must_hold,
    must_not_show,
    needs,
    vault,
    wait_for_job,
)
from tests.scale import scaled
from tests.suites.machine import has_shadows

__all__ = ["vault"]

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]


def must_lead_nowhere(vault: Vault, *commands: str) -> None:
    for command in commands:
        assert vault.arrives(command), command
        vault.run(command)


def test_secret_23_cat_and_links(vault: Vault):
    link_before(vault)
    must_lead_nowhere(vault, f"cat {VAULT} {KEY} link.txt twin.txt way/key.txt 2>&1")


def test_secret_24_copies(vault: Vault):
    must_lead_nowhere(
        vault, f"cp {VAULT} copy.txt; cp -r secrets open; cat copy.txt open/key.txt; cp {KEY} /tmp/c; cat /tmp/c"
    )


def test_secret_25_links_made_by_the_command(vault: Vault):
    must_lead_nowhere(vault, f"ln {VAULT} linked.txt; ln -s {VAULT} soft; cat linked.txt soft")


def test_secret_26_a_move_of_the_file(vault: Vault):
    must_lead_nowhere(vault, f"mv {VAULT} moved.txt; cat moved.txt")


def test_secret_27_a_move_of_its_folder(vault: Vault):
    must_lead_nowhere(vault, "mv secrets open; cat open/key.txt")


def test_secret_28_a_move_of_a_folder_above_its_folder(vault: Vault):
    (vault.ws / "deep").mkdir()
    (vault.ws / "deep/vault.txt").write_text(CONTENT)
    must_lead_nowhere(vault, "mv deep open; cat open/vault.txt", "mkdir x; mv deep x/; cat x/deep/vault.txt")
    assert (vault.ws / "deep/vault.txt").read_text() == CONTENT


def test_secret_29_removed_and_made_anew(vault: Vault):
    """A file that a layer records as removed does not exist, and the one below it does not show through."""
    said = vault.run(f"rm -rf secrets {VAULT}; mkdir -p secrets; cat secrets/* {VAULT}; ls -R secrets")
    assert TOKEN not in said


def test_secret_30_git_add_stash_and_hash_object(vault: Vault):
    must_lead_nowhere(
        vault,
        f"git cat-file -p $(git hash-object -w {VAULT})",
        f"git add -f {VAULT} && git show :{VAULT}",
        f"{GIT} stash -u && {GIT} show 'stash@{{0}}^3'",
        f"git mv -f open.txt o; mv {VAULT} o; git diff --no-index /dev/null o; true",
    )
    with vault.box() as box:
        must_not_show(
            box.call(
                "bash",
                {"command": "git log -p --all; git fsck --lost-found | cut -d' ' -f3 | xargs -n1 git cat-file -p"},
            )
        )


def test_secret_31_archives(vault: Vault):
    must_lead_nowhere(
        vault,
        f"tar cf out.tar {VAULT} secrets; tar xOf out.tar",
        f'python3 -m zipfile -c out.zip {VAULT}; python3 -c \'import zipfile; print(zipfile.ZipFile("out.zip").read("vault.txt"))\'',
    )


def test_secret_32_proc_root_cwd_and_descriptors(vault: Vault):
    must_lead_nowhere(
        vault,
        f"cat /proc/self/root$PWD/{VAULT}",
        f"cat /proc/self/cwd/{KEY}",
        f"exec 5<{VAULT} && cat /proc/self/fd/5",
        f"for each in /proc/[0-9]*; do cat $each/root$PWD/{VAULT} $each/cwd/{VAULT} 2>/dev/null </dev/null; done; true",
    )  # fmt: skip


def test_secret_33_diffs_and_searches(vault: Vault):
    must_lead_nowhere(
        vault,
        f"diff /dev/null {VAULT}; true",
        "grep -rh PIN . 2>/dev/null",
        f"git diff --no-index /dev/null {KEY}; true",
    )


def test_secret_34_error_messages_that_quote_it(vault: Vault):
    must_lead_nowhere(vault, f"bash {VAULT}; python3 {VAULT}; . ./{VAULT}; true", f"xargs -a {VAULT} ls; true")


def test_secret_35_a_job_that_is_asked_later_and_from_another_offset(vault: Vault):
    with vault.box() as box:
        reply = box.call(
            "bash", {"command": f"for i in 1 2 3; do cat {VAULT} {KEY}; sleep 0.1; done", "background": True}
        )
        assert reply.status == "success", reply.text
        assert "denied" in wait_for_job(box, reply.data["job"])
        for offset in (0, 5, 100):
            must_not_show(box.call("bash_output", {"job": reply.data["job"], "offset": offset}))
        must_hold(box)


def test_secret_36_the_state_from_a_command(vault: Vault):
    """It has what the session read and changed before the rule."""
    with vault.free() as box:
        box.call("read_file", {"path": VAULT})
        box.call("edit_file", {"path": VAULT, "old_string": "PIN", "new_string": "XIN"})
        box.call("edit_file", {"path": VAULT, "old_string": "XIN", "new_string": "PIN"})
    state = vault.place / "state"
    assert [path for path in state.rglob("*") if path.is_file()]
    (vault.ws / "state").symlink_to(state)
    vault.run(f"grep -ra hunter2 {state} state/ /large_tool_results {vault.place} 2>/dev/null | cat -v; true")


def test_secret_37_a_home_that_is_the_workspace(vault: Vault, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(vault.ws))
    vault.run(f"cat ~/{VAULT} $HOME/{KEY} {vault.ws}/{VAULT} ../*/{VAULT} 2>&1; true")


def test_secret_38_two_roots_and_a_linked_one(vault: Vault):
    other = vault.place / "other"
    other.mkdir()
    (other / "way").symlink_to(vault.ws)
    os.link(vault.ws / KEY, other / "twin.txt")
    (vault.place / "alias").symlink_to(vault.ws)
    for roots in ([vault.ws, other], [vault.place / "alias", other]):
        vault.run(
            f"cat {other}/twin.txt {other}/way/{VAULT} {vault.place}/alias/{KEY} {vault.ws}/{VAULT}; true", roots=roots
        )


def test_secret_39_an_approver_is_shown_no_diff_of_it(vault: Vault):
    """A command that would remove or overwrite it, with an approver that approves everything."""
    seen: list[str] = []

    def approve(question: object) -> bool:
        seen.append(repr(question))
        return True

    with vault.box(policy="ask", approver=approve) as box:
        for command in (f"rm -f {VAULT}", "rm -rf secrets", f"echo x >{VAULT}", f"mv {VAULT} moved.txt", "rm -rf *"):
            must_not_show(box.call("bash", {"command": command}))
        must_not_show(box.call("write_file", {"path": VAULT, "content": "x"}))
    assert TOKEN not in "".join(seen)
    for name in (KEY, VAULT):
        assert (vault.ws / name).read_text() == CONTENT


def test_secret_40_a_folder_that_is_swapped_while_tools_read(vault: Vault, tmp_path: Path):
    """A background command swaps a link forever; no read and no search gets through."""
    swap = tmp_path / "swap"
    subprocess.run([needs("cc"), "-O2", "-o", swap, Path(__file__).with_name("swap.c")], check=True)
    shutil.copy(swap, vault.ws / "swapper")
    (vault.ws / "shift").mkdir()
    (vault.ws / "shift/key.txt").write_text("harmless\n")
    with vault.box() as box:
        reply = box.call(
            "bash", {"command": "ln -s secrets spare; timeout 20 ./swapper shift spare", "background": True}
        )
        assert reply.status == "success", reply.text
        codes = set[str | None]()
        for _ in range(scaled(60, 150)):
            reply = box.call("read_file", {"path": "shift/key.txt"})
            codes.add(reply.code)
            must_not_show(reply)
        for mode in ("content", "count", "files_with_matches"):
            for _ in range(8):
                found = box.call("grep", {"pattern": "PIN", "mode": mode})
                must_not_show(found)
                assert "key.txt" not in found.text
    assert codes >= {None, "DENIED"}
    vault.must_be_whole()
