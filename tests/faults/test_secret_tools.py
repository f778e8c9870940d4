"""Forty ways around a user's own deny rule: 1 to 22 by file tools, by replies recorded earlier, and by the journal.

The rule says that `secrets/**` and `vault.*` may not be read. 23 to 40 are commands: `test_secret_commands.py`.
"""

import json
import os
from typing import Any
from unicodedata import normalize

import pytest
from click.testing import CliRunner

from handhold import Reply, Toolbox
from handhold.cli.commands import handhold
from handhold.core.text.cursor import checksum
from tests.faults.vault import CONTENT, KEY, RULE, TOKEN, VAULT, Vault, link_before, must_not_show, shows, vault

__all__ = ["vault"]

READS: list[tuple[str, str, dict[str, Any]]] = [
    ("handhold", "read_file", {"path": "{path}"}),
    ("handhold", "read_files", {"paths": ["open.txt", "{path}"]}),
    ("handhold", "grep", {"pattern": "PIN", "mode": "content", "path": "{path}"}),
    ("claude", "Read", {"file_path": "{path}"}),
    ("claude", "Grep", {"pattern": "PIN", "output_mode": "content", "path": "{path}"}),
]
CHANGES: list[tuple[str, str, dict[str, Any]]] = [
    ("handhold", "edit_file", {"path": "{path}", "old_string": "PIN=hunter2hunter", "new_string": "x"}),
    ("handhold", "multi_edit", {"path": "{path}", "edits": [{"old_string": "PIN=", "new_string": "x"}]}),
    ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Update File: {path}\n@@\n-PIN=\n+x\n*** End Patch"}),
    ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Update File: {path}\n*** Move to: moved.txt\n@@\n-PIN=hunter2hunter2\n+PIN=hunter2hunter2\n*** End Patch"}),
    ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
]  # fmt: skip


def filled(value: Any, path: str) -> Any:
    match value:
        case str():
            return value.replace("{path}", path)
        case list():
            return [filled(each, path) for each in value]
        case dict():
            return {name: filled(each, path) for name, each in value.items()}
        case _:
            return value


def must_be_closed(vault: Vault, path: str, calls: list[tuple[str, str, dict[str, Any]]] = READS) -> list[str]:
    """No call shows it under this path. Returns the codes of the refusals."""
    codes: list[str] = []
    for dialect, tool, arguments in calls:
        with vault.box(dialect) as box:
            reply = box.call(tool, filled(arguments, path))
            must_not_show(reply)
            codes.append(str(reply.code))
    vault.must_be_whole()
    return codes


def must_be_open(vault: Vault, path: str) -> None:
    """Without the rule it is shown: otherwise the way proves nothing."""
    with vault.free(session="other") as box:
        assert shows(box.call("read_file", {"path": path}))


def test_secret_01_a_symbolic_link_from_before(vault: Vault):
    link_before(vault)
    for path in ("link.txt", "way/key.txt", "sub/../way/key.txt"):
        must_be_open(vault, path)
        assert set(must_be_closed(vault, path)) <= {"DENIED", "None"}
        must_be_closed(vault, path, CHANGES)


def test_secret_02_a_hard_link_from_before(vault: Vault):
    link_before(vault)
    must_be_open(vault, "twin.txt")
    must_be_closed(vault, "twin.txt")
    must_be_closed(vault, "twin.txt", CHANGES)


def test_secret_03_another_case_neither_reads_it_nor_names_it(vault: Vault):
    for path in ("VAULT.TXT", "Vault.txt", "SECRETS/KEY.TXT", "secrets/Key.txt"):
        must_be_closed(vault, path)
        with vault.box() as box:
            said = box.call("read_file", {"path": path}).text
        assert VAULT not in said.replace(path, "")
        assert "key.txt" not in said.replace(path, "")


def test_secret_04_a_name_that_is_normalised_otherwise(vault: Vault):
    """The rule has the composed form, the file the decomposed one: to a person they are the same name."""
    for form in ("NFC", "NFD"):
        name = normalize(form, "café.txt")
        (vault.ws / name).write_text(CONTENT)
        must_be_open(vault, name)
        assert set(must_be_closed(vault, name)) <= {"DENIED", "None"}
        with vault.box() as box:
            must_not_show(box.call("grep", {"pattern": "PIN", "mode": "content"}))
            must_not_show(box.call("bash", {"command": "cat caf*"}))
        (vault.ws / name).unlink()


def test_secret_05_through_proc_self_root_and_cwd(vault: Vault, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(vault.ws)
    for path in (f"/proc/self/root{vault.ws}/{VAULT}", f"/proc/self/cwd/{VAULT}", f"/proc/{os.getpid()}/cwd/{KEY}"):
        assert "None" not in must_be_closed(vault, path)[:1]


def test_secret_06_through_a_descriptor_that_is_open(vault: Vault):
    fd = os.open(vault.ws / VAULT, os.O_RDONLY)
    try:
        (vault.ws / "fd").symlink_to(f"/proc/{os.getpid()}/fd/{fd}")
        for path in (f"/proc/self/fd/{fd}", f"/proc/{os.getpid()}/fd/{fd}", "fd", f"/dev/fd/{fd}"):
            assert "None" not in must_be_closed(vault, path)[:1]
    finally:
        os.close(fd)


def test_secret_07_through_a_second_root(vault: Vault):
    other = vault.place / "other"
    other.mkdir()
    (other / "way").symlink_to(vault.ws / "secrets")
    os.link(vault.ws / VAULT, other / "twin.txt")
    for roots in ([vault.ws, other], [other, vault.ws], [vault.ws, vault.ws / "secrets"]):
        with vault.box(roots=roots) as box:
            for path in (other / "way/key.txt", other / "twin.txt", vault.ws / KEY, vault.ws / VAULT):
                must_not_show(box.call("read_file", {"path": str(path)}))
            must_not_show(box.call("grep", {"pattern": "PIN", "mode": "content", "path": str(roots[0])}))
            must_not_show(box.call("bash", {"command": f"cat {other}/*/* {other}/* {VAULT} {KEY} key.txt"}))


def test_secret_08_through_a_root_that_is_a_link(vault: Vault):
    (vault.place / "alias").symlink_to(vault.ws)
    for root, other in ((vault.place / "alias", vault.ws), (vault.ws, vault.place / "alias")):
        with vault.box(roots=root) as box:
            for path in (VAULT, KEY, str(root / VAULT), str(other / VAULT), str(other / KEY)):
                reply = box.call("read_file", {"path": path})
                must_not_show(reply)
                assert reply.status == "error"


@pytest.mark.parametrize("mode", ["content", "count", "files_with_matches"])
def test_secret_09_a_right_guess_in_a_search_gets_the_reply_of_a_wrong_one(vault: Vault, mode: str):
    link_before(vault)
    said: list[str] = []
    with vault.box() as box:
        for guess in (TOKEN, "f" * len(TOKEN)):
            for more in ({}, {"regex": True}, {"glob": "vault*"}, {"hidden": True, "ignored": True}):
                reply = search(box, {"pattern": guess, "mode": mode, **more})
                facts = {**reply.data, "time_ms": 0}
                said.append(f"{reply.text} {facts}".replace(guess, "GUESS"))
    assert said[: len(said) // 2] == said[len(said) // 2 :]


def search(box: Toolbox, arguments: dict[str, Any]) -> Reply:
    """Again, if the machine was so busy that there was no time to count the files that were left out."""
    reply = box.call("grep", arguments)
    for _ in range(20):
        if reply.data["searched"] is not None:
            break
        reply = box.call("grep", arguments)
    return reply


def test_secret_10_names_and_counts_tell_no_name(vault: Vault):
    """Hidden files are counted whatever the pattern, so no pattern reveals a name."""
    with vault.box() as box:
        for tool, patterns in (("glob", ("vau*", "zzz*")), ("grep", ("PIN", "zzz"))):
            denied = {
                pattern: [each for each in box.call(tool, {"pattern": pattern}).data["skipped"] if each["rule"] == "denied"]
                for pattern in patterns
            }  # fmt: skip
            assert denied[patterns[0]] == denied[patterns[1]]
        for arguments in ({"path": "."}, {"path": ".", "depth": 4, "hidden": True, "ignored": True}):
            said = box.call("list_files", arguments).text
            assert "vault" not in said
            assert "key.txt" not in said


def test_secret_11_a_missing_name_is_not_corrected_to_a_denied_one(vault: Vault):
    with vault.box() as box:
        for path in ("valt.txt", "vault.tx", "sub/vault.txt", "secrets/kye.txt", "key.txt", "secret/key.txt"):
            reply = box.call("read_file", {"path": path})
            said = f"{reply.text} {reply.data}".replace(path, "")
            assert "vault.txt" not in said
            assert "key.txt" not in said


def test_secret_12_an_edit_that_nearly_fits_shows_no_nearest_lines(vault: Vault):
    assert set(must_be_closed(vault, VAULT, CHANGES)) == {"DENIED"}
    assert set(must_be_closed(vault, KEY, CHANGES)) == {"DENIED"}
    assert not (vault.ws / "moved.txt").exists()


def test_secret_13_read_files_leaves_it_out_and_shows_the_others(vault: Vault):
    with vault.box() as box:
        reply = box.call("read_files", {"paths": [VAULT, "open.txt", KEY]})
    must_not_show(reply)
    assert "harmless" in reply.text


def test_secret_14_a_notebook(vault: Vault):
    cell = {"cell_type": "code", "source": [CONTENT], "metadata": {}, "outputs": [], "execution_count": None, "id": "a"}
    book = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (vault.ws / "vault.ipynb").write_text(json.dumps(book))
    (vault.ws / "book.ipynb").symlink_to("vault.ipynb")
    for path in ("vault.ipynb", "book.ipynb"):
        must_be_open(vault, path)
        with vault.box() as box:
            must_not_show(box.call("read_file", {"path": path}))
            edit = {"path": path, "action": "replace", "cell": "a", "source": "x"}
            assert box.call("notebook_edit", edit).code == "DENIED"


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_secret_15_an_image_or_a_pdf_is_not_converted(vault: Vault, kind: str):
    from tests.backends.convert.papers import plain
    from tests.backends.convert.pictures import quartered, saved

    (vault.ws / f"vault.{kind}").write_bytes(saved(quartered(), "PNG") if kind == "png" else plain(TOKEN))
    (vault.ws / f"shown.{kind}").symlink_to(f"vault.{kind}")
    with vault.free(session="other") as box:
        assert box.call("read_file", {"path": f"shown.{kind}"}).status == "success"
    with vault.box() as box:
        for path in (f"vault.{kind}", f"shown.{kind}"):
            reply = box.call("read_file", {"path": path})
            assert (reply.code, reply.images) == ("DENIED", ())


def test_secret_16_what_the_session_saw_before_the_rule_is_no_hint_after_it(vault: Vault):
    """Neither as a diff of later changes, nor as the reason for refusing an edit."""
    with vault.free() as box:
        assert shows(box.call("read_file", {"path": VAULT}))
    (vault.ws / VAULT).write_text(CONTENT + "more\n")
    with vault.box() as box:
        for tool, arguments in (
            ("read_file", {"path": VAULT}),
            ("read_file", {"path": VAULT, "if_changed": True}),
            ("edit_file", {"path": VAULT, "old_string": "more", "new_string": "less"}),
            ("write_file", {"path": VAULT, "content": "x"}),
        ):
            reply = box.call(tool, arguments)
            must_not_show(reply)
            assert reply.code == "DENIED"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": VAULT}),
        ("read_files", {"paths": [VAULT, "open.txt"]}),
        ("grep", {"pattern": "PIN", "mode": "content"}),
        ("bash", {"command": f"cat {VAULT}"}),
        ("edit_file", {"path": VAULT, "old_string": "PIN", "new_string": "NIP"}),
    ],
)
def test_secret_17_a_reply_from_before_the_rule_is_not_replayed(vault: Vault, tool: str, arguments: dict[str, Any]):
    with vault.free() as box:
        if tool == "edit_file":
            box.call("read_file", {"path": VAULT})
        first = box.call(tool, arguments, call_id="one")
        assert shows(first)
        assert shows(box.call(tool, arguments, call_id="one"))
    with vault.box() as box:
        again = box.call(tool, arguments, call_id="one")
    must_not_show(again)
    if tool == "edit_file":  # a completed call is not repeated
        assert (vault.ws / VAULT).read_text() == CONTENT.replace("PIN", "NIP")


def test_secret_18_a_cursor_from_before_the_rule_or_a_forged_one(vault: Vault):
    for n in range(3):
        (vault.ws / "secrets" / f"more{n}.txt").write_text(CONTENT)
    search = {"pattern": "PIN", "mode": "content", "sort": "none", "limit": 1}
    with vault.free() as box:
        cursors = [box.call(*call).data["cursor"] for call in (
            ("grep", search), ("glob", {"pattern": "**/*.txt", "limit": 1}), ("list_files", {"path": ".", "depth": 3, "limit": 1}),
        )]  # fmt: skip
    with vault.box() as box:
        for cursor in (*cursors, "1", f"1.{checksum(0, 'x')}", "999999"):
            for tool, arguments in (("grep", search), ("glob", {"pattern": "**/*.txt"}), ("list_files", {"path": "."})):
                reply = box.call(tool, {**arguments, "cursor": cursor})
                must_not_show(reply)
                assert "vault" not in str(reply.data.get("paths", ""))


def test_secret_19_a_long_output_that_is_kept(vault: Vault):
    """It is stored under its own name, which no rule covers."""
    with vault.box() as box:
        reply = box.call("bash", {"command": f"seq 20000; cat {VAULT} {KEY}; seq 20000"})
        kept = reply.data["output"]["handle"]
        assert kept
        must_not_show(reply, box.call("grep", {"pattern": "PIN", "mode": "content", "path": kept}))
        must_not_show(box.call("bash", {"command": f"grep PIN {kept}"}))


@pytest.mark.parametrize("dialect", ["handhold", "claude", "codex", "gemini", "deepagents", "anthropic"])
def test_secret_20_no_tool_undoes_redoes_or_shows_a_diff_from_before_the_rule(vault: Vault, dialect: str):
    """The journal has the content. A person may undo; a model has no tool for it."""
    with vault.free() as box:
        box.call("read_file", {"path": VAULT})
        box.call("edit_file", {"path": VAULT, "old_string": "PIN", "new_string": "NIP"})
        assert TOKEN in box.diff()
    with vault.box(dialect) as box:
        assert not {"undo", "redo", "diff", "log"} & {spec.name.casefold() for spec in box.specs}
    with vault.box() as box:
        for command in (f"handhold undo --yes --root . --state {vault.place}/state", f"ls {vault.place}/state"):
            must_not_show(box.call("bash", {"command": f"{command}; cat {VAULT}"}))
        edit = {"path": VAULT, "old_string": "NIP", "new_string": "PIN"}
        must_not_show(box.call("edit_file", edit), box.call("write_file", {"path": VAULT, "content": "x"}))


def test_secret_21_explain_and_log_show_nothing_of_it(vault: Vault, monkeypatch: pytest.MonkeyPatch):
    config = vault.place / "config/handhold/handhold.toml"
    config.parent.mkdir(parents=True)
    listed = ", ".join(f'"{path}"' for path in RULE.paths if path.isascii())
    config.write_text(
        f'[[rule]]\nname = "{RULE.name}"\nverdict = "deny"\nverbs = ["read"]\npaths = [{listed}]\n'
        f'because = "mine"\ncovers = ["{KEY}"]\nspares = ["README.md"]\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(vault.place / "config"))
    monkeypatch.delenv("HANDHOLD_CONFIG", raising=False)
    with vault.box() as box:
        box.call("read_file", {"path": VAULT})
        box.call("bash", {"command": f"cat {VAULT}"})
    where = ["--root", str(vault.ws)]
    state = ["--state", str(vault.place / "state")]
    for arguments in (
        ["explain", *where, "--path", VAULT],
        ["explain", "--json", *where, f"cat {KEY}"],
        ["log", *where, *state],
        ["log", "--json", *where, *state],
        ["diff", *where, *state],
    ):
        said = CliRunner().invoke(handhold, arguments)
        assert TOKEN not in said.output, arguments
        assert not isinstance(said.exception, (TypeError, AttributeError, KeyError))


def test_secret_22_the_state_in_the_workspace_is_not_read_by_tools(vault: Vault):
    """It has what was read and changed before the rule."""
    with vault.free() as box:
        assert shows(box.call("read_file", {"path": VAULT}))
        box.call("edit_file", {"path": VAULT, "old_string": "PIN", "new_string": "NIP"})
    state = vault.place / "state"
    (vault.ws / "state").symlink_to(state)
    roots = [vault.ws, vault.place]
    for root in roots:
        with vault.box(roots=root) as box:
            must_not_show(box.call("grep", {"pattern": "IP=", "mode": "content", "hidden": True, "ignored": True}))
            for path in state.rglob("*"):
                if path.is_file():
                    must_not_show(box.call("read_file", {"path": str(path)}))
