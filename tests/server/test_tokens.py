"""Tokens: the file format, authentication, and isolation between tokens."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from handhold.cli.commands import handhold
from handhold.core.errors import SettingsBroken
from handhold.server.server_config import ServerConfig
from handhold.server.tokens import AccessTokens, add_token, generate_token, hash_token, load_tokens, quote_toml
from tests.server.web import HANDSHAKE, Answer, Client, Web, served

NOBODYS = ServerConfig(())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "tokens.toml"


def written(file: Path, text: str, mode: int = 0o600) -> str:
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def entry(name: str = "anna", hash: str = hash_token("anna"), **more: str) -> str:
    told = {"hash": f'"{hash}"', "roots": '["/srv/shop"]', **more}
    return f"[tokens.{name}]\n" + "".join(f"{key} = {value}\n" for key, value in told.items() if value)


# --- the file


def test_a_new_token_is_in_the_file_by_its_hash_only_and_lets_in(file: Path):
    serving = replace(NOBODYS, name="anna", roots=("/srv/shop",), dialect="claude", network=("a.example",))
    token = add_token(str(file), serving, ["roots", "dialect", "network"])
    assert token not in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    found = load_tokens(str(file), NOBODYS).authenticate(f"Bearer {token}")
    assert found is not None
    assert (found.name, found.roots, found.dialect, found.network) == ("anna", ("/srv/shop",), "claude", ("a.example",))
    other = add_token(str(file), replace(serving, name="ben"), ["roots"])
    tokens = load_tokens(str(file), NOBODYS)
    for bearer, name in ((token, "anna"), (other, "ben")):
        config = tokens.authenticate(f"Bearer {bearer}")
        assert config is not None
        assert config.name == name


def test_a_name_is_given_out_once(file: Path):
    serving = replace(NOBODYS, name="anna", roots=("/srv/shop",))
    add_token(str(file), serving, ["roots"])
    with pytest.raises(SettingsBroken, match="already"):
        add_token(str(file), serving, ["roots"])


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o644, 0o660, 0o666, 0o602])
def test_a_file_that_others_may_read_or_write_is_refused(file: Path, mode: int):
    with pytest.raises(SettingsBroken, match="0600"):
        load_tokens(written(file, entry(), mode), NOBODYS)


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("tokens = 1", "begins with"),
        ("[tokens]\nanna = 1", "begins with"),
        ("[[rule]]", "unknown key 'rule'"),
        ("[tokens.anna", ""),
        (entry(hash="sha256:12"), "64 hexadecimal digits"),
        (entry(hash="anna"), "64 hexadecimal digits"),
        (entry(roots=""), "roots are missing"),
        (entry(roots="[]"), "roots are missing"),
        (entry(roots='["shop"]'), "absolute"),
        (entry(roots='"/srv"'), "list of strings"),
        (entry(dialect='"latin"'), "dialect must be one of"),
        (entry(policy='"lax"'), "policy must be one of"),
        (entry(shell="[]"), "shell must be one of"),
        (entry(rooms="1"), "unknown key 'rooms'"),
        (entry(structured="1"), "true or false"),
        (entry(network='"x"'), "list of hosts"),
        (entry(network='["localhost"]'), "network must be"),
        (entry('"an na"'), "invalid token name"),
        (entry('"../x"'), "invalid token name"),
        (entry('"a\\u0000b"'), "invalid token name"),
        (entry() + entry("ben"), "the same hash"),
        (entry() + entry("ben", hash_token("ben"), shell='"unconfined"'), "without a sandbox"),
        ("a = " + "[" * 5000, ""),
    ],
)
def test_a_file_that_is_wrong_anywhere_counts_nowhere(file: Path, text: str, because: str):
    with pytest.raises(SettingsBroken) as caught:
        load_tokens(written(file, text), NOBODYS)
    assert because in caught.value.because


def test_the_file_lies_in_no_root_since_a_tool_could_let_itself_in(tmp_path: Path, file: Path):
    with pytest.raises(SettingsBroken, match="is inside"):
        load_tokens(written(file, entry(roots=f'["{tmp_path}"]')), NOBODYS)
    inside = tmp_path / "shop" / "state"
    inside.mkdir(parents=True)
    with pytest.raises(SettingsBroken, match="is inside"):
        load_tokens(written(file, entry(roots=f'["{inside.parent}"]')), replace(NOBODYS, state=str(inside)))


@given(st.text())
def test_whatever_is_written_down_is_read_back(text: str):
    import tomllib

    try:
        told = quote_toml(text)
    except UnicodeEncodeError:
        return
    assert tomllib.loads(f"x = {told}") == {"x": text}


@given(st.text(max_size=80))
def test_no_header_but_the_right_one_ever_lets_in(header: str):
    token = generate_token()
    tokens = AccessTokens((replace_hash(token),))
    assert tokens.authenticate(header) is None
    assert tokens.authenticate(f"Bearer {token}") is not None
    assert tokens.authenticate(f"Bearer {token[:-1]}") is None
    assert tokens.authenticate(f"Bearer {token}{header.strip() or 'x'}") is None


def replace_hash(token: str):
    from handhold.server.tokens import AccessToken

    return AccessToken(hash_token(token), replace(NOBODYS, name="anna"))


# --- the command line


def test_the_command_makes_a_token_and_prints_it_once(tmp_path: Path, file: Path):
    root = tmp_path / "shop"
    root.mkdir()
    call = ["serve", "--new-token", "anna", "--root", str(root), "--tokens", str(file), "--dialect", "claude"]
    made = CliRunner().invoke(handhold, call)
    assert made.exit_code == 0, made.output
    token = made.stdout.strip()
    found = load_tokens(str(file), NOBODYS).authenticate(f"Bearer {token}")
    assert found
    assert (found.roots, found.dialect) == ((str(root),), "claude")
    assert "policy" not in file.read_text(), "what was not said is the server's to say"


@pytest.mark.parametrize(
    ("options", "because"),
    [
        (["--no-token", "--listen", "0.0.0.0:0"], "requires a loopback address"),
        (["--listen", "0.0.0.0:0"], "--allow-host"),
        (["--listen", "8765"], "HOST:PORT"),
        (["--listen", "127.0.0.1:99999"], "HOST:PORT"),
        (["--tokens", "FILE", "--no-token"], "cannot be combined"),
        (["--tokens", "FILE"], "does not exist"),
    ],
)
def test_what_would_let_anybody_in_is_not_started(file: Path, options: list[str], because: str):
    given = [str(file) if option == "FILE" else option for option in options]
    refused = CliRunner().invoke(handhold, ["serve", *given])
    assert refused.exit_code != 0
    assert because in refused.output


# --- one from the other

WORD = f"marzipan{os.getpid()}"  # unique, so that files of earlier runs do not match
SECRET = f"the word is {WORD}"


@pytest.fixture
def two(tmp_path: Path, file: Path) -> Iterator[tuple[Web, Path]]:
    """Anna and Ben have their own roots; Carla shares Anna's."""
    # Not in /tmp, which commands cannot see anyway.
    place = Path("/opt") / f"handhold-{os.getpid()}" if os.geteuid() == 0 else tmp_path
    roots = {"anna": place / "annas", "ben": place / "bens", "carla": place / "annas"}
    for root in roots.values():
        root.mkdir(parents=True, exist_ok=True)
    (roots["anna"] / "secret.txt").write_text(f"{SECRET}\n")
    (roots["ben"] / "mine.txt").write_text("mine\n")
    text = "".join(entry(name, hash_token(name), roots=f'["{root}"]', policy='"open"') for name, root in roots.items())
    state = place / "state"
    tokens = load_tokens(written(file, text), replace(NOBODYS, state=str(state), settings=False))
    try:
        with served(tokens) as web:
            yield web, place
    finally:
        if place != tmp_path:
            shutil.rmtree(place)


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_token_b_reaches_nothing_of_token_a_in_two_hundred_tries(two: tuple[Web, Path]):
    web, place = two
    anna, ben, carla = (Client(web.port, name) for name in ("anna", "ben", "carla"))
    for each in (anna, ben, carla):
        each.begin()
    long = anna.old_tool("bash", {"command": f"yes '{SECRET}' | head -n 40000"}).text
    output = next(word.strip("`'\".,;:()[]") for word in long.split() if word.startswith("/large_tool_results/"))
    job = anna.old_tool("bash", {"command": f"while sleep 1; do echo {SECRET}; done", "background": True})
    assert job.result["isError"] is False, job.text
    name = next(word.strip("`'\".,;:()[]") for word in job.text.split() if len(word.strip("`'\".,;:()[]")) == 6)
    assert SECRET in anna.old_tool("read_file", {"path": output}).text
    assert anna.old_tool("bash_output", {"job": name}).result["isError"] is False
    handle = anna.tool("read_file", {"path": "secret.txt"}, **{"handhold/callId": "c"}).result["_meta"][
        "handhold/session"
    ]
    old_handle = anna.session.partition("~")[0]
    before = seen(place / "annas")

    tries: list[tuple[str, Answer]] = []

    def tried(what: str, answer: Answer) -> None:
        tries.append((what, answer))

    # Paths, with every tool that takes one.
    root = place / "annas"
    spelled = [
        str(root / "secret.txt"),
        "../annas/secret.txt",
        f"{place}/bens/../annas/secret.txt",
        f"//{root}/secret.txt",
        f"/proc/self/root{root}/secret.txt",
        f"file://{root}/secret.txt",
        "..%2fannas%2fsecret.txt",
        "link/secret.txt",
        str(root),
        "../annas",
    ]
    (place / "bens" / "link").symlink_to(root)
    for path in spelled:
        for call in (ben.tool, ben.old_tool) if path in spelled[:3] else (ben.tool,):
            tried(f"read {path}", call("read_file", {"path": path}))
            tried(f"read {path}", call("read_files", {"paths": [path, "mine.txt"]}))
            tried(f"list {path}", call("list_files", {"path": path, "depth": 3}))
            tried(f"glob {path}", call("glob", {"pattern": "**/*", "path": path}))
            tried(f"grep {path}", call("grep", {"pattern": WORD, "path": path}))
            tried(f"write {path}", call("write_file", {"path": path, "content": "x"}))
            tried(f"edit {path}", call("edit_file", {"path": path, "old_string": "word", "new_string": "x"}))
            patch = f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"
            tried(f"patch {path}", call("apply_patch", {"patch": patch}))
    for command in (
        f"cat {root}/secret.txt",
        "cat ../annas/secret.txt link/secret.txt",
        f"ls -laR {place} /large_tool_results",
        f"grep -r {WORD} {place} /large_tool_results",
        f"cat {output}",
        f"cp -r {root} stolen && cat stolen/*",
        f"echo x > {root}/secret.txt",
        f"rm -rf {root}/*",
        "find /opt /srv /tmp /var -name secret.txt -exec cat {} + 2>/dev/null",
        f"cat {place}/state/tokens/anna/*/state.db {place}/state/tokens/*/*/results/*",
        f"cat /proc/*/root/etc/hostname /proc/*/environ | grep -a {WORD}",
    ):
        tried(command, ben.tool("bash", {"command": command}))

    # Sessions: by handle, by id, and by forged handles.
    kinds = [handle, old_handle, anna.session, handle.partition(".")[0], handle.partition(".")[0] + ".", "token-anna"]
    hers, his = (each.session.partition("~")[0].partition(".") for each in (anna, ben))
    kinds += [f"{hers[0]}.{his[2]}", f"{his[0]}.{hers[2]}"]
    kinds += ["mcp-" + "0" * 16, "", "\ud800.x", "é" * 99, "new\0", "../anna"]
    for kind in kinds:
        for thief in (ben, carla):
            tried(f"session {kind!r}", thief.tool("bash_output", {"job": name, "session": kind}))
            tried(f"session {kind!r}", thief.tool("bash_output", {"job": name}, **{"handhold/session": kind}))
    for session in (anna.session, old_handle, f"{old_handle}~a", f"{handle}~a", "token-anna", f"{ben.session}x"):
        for thief in (ben, carla):
            headers = {"mcp-session-id": session, "mcp-protocol-version": HANDSHAKE}
            list_tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            stop = {"name": "bash_stop", "arguments": {"job": name}}
            for message in (list_tools, {**list_tools, "method": "tools/call", "params": stop}):
                answer = thief.post(message, headers)
                assert answer.status == 404
                tried(f"id {session!r}", answer)
            answer = thief.raw("DELETE", "/mcp", headers=headers)
            assert answer.status == 404
            tried(f"end {session!r}", answer)

    # Jobs, outputs and calls, by name.
    for thief in (ben, carla):
        for call in (thief.tool, thief.old_tool):
            tried("job", call("bash_output", {"job": name}))
            tried("job", call("bash_input", {"job": name, "text": "x"}))
            tried("job", call("bash_stop", {"job": name}))
            tried("output", call("read_file", {"path": output}))
            tried("outputs", call("list_files", {"path": "/large_tool_results"}))
            tried("outputs", call("grep", {"pattern": WORD, "path": "/large_tool_results"}))
            tried("outputs", call("bash", {"command": f"cat {output}; ls /large_tool_results"}))
    tried("call", ben.tool("read_file", {"path": "secret.txt"}, **{"handhold/callId": "c"}))
    tried("call", ben.tool("read_file", {"path": "secret.txt", "call_id": "c"}))

    assert len(tries) >= 200, len(tries)
    for what, answer in tries:
        assert SECRET.encode() not in answer.body, what
        assert answer.status < 500, (what, answer.body)
        assert output.rpartition("/")[2].encode() not in answer.body.replace(output.encode(), b""), what
    assert seen(place / "annas") == before
    assert "still running" in anna.old_tool("bash_output", {"job": name}).text, "her job was left alone"
    anna.old_tool("bash_stop", {"job": name})


def seen(folder: Path) -> dict[str, str]:
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {str(each): hashlib.sha256(each.read_bytes()).hexdigest() for each in files}


def test_r20_roots_given_through_a_link_are_known_by_their_real_path(tmp_path: Path, file: Path):
    (tmp_path / "real" / "bens").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    text = entry(roots=f'["{tmp_path}/annas"]') + entry(
        "ben", hash_token("ben"), roots=f'["{tmp_path}/link/bens"]', read_only=f'["{tmp_path}/link"]'
    )
    anna, ben = load_tokens(written(file, text), replace(NOBODYS, state=str(tmp_path / "state"))).configs
    assert ben.all_roots == (str(tmp_path / "real" / "bens"), str(tmp_path / "real"))
    assert {f"{tmp_path}/real/bens", f"{tmp_path}/real/.bens.handhold", f"{tmp_path}/.real.handhold"} <= {*anna.hidden}


@pytest.mark.root
def test_r20_commands_of_one_token_do_not_see_what_another_deleted_behind_a_link(file: Path):
    place = Path("/opt") / f"handhold-r20-{os.getpid()}"  # not in /tmp, which commands cannot see anyway
    state = Path("/dev/shm") / place.name  # on another file system, so that deleted files are kept next to the root
    (place / "real" / "bens").mkdir(parents=True)
    (place / "annas").mkdir()
    (place / "link").symlink_to("real/bens")
    (place / "real" / "bens" / "secret.txt").write_text(f"{SECRET}\n")
    roots = {"anna": place / "annas", "ben": place / "link"}
    text = "".join(entry(name, hash_token(name), roots=f'["{root}"]', policy='"open"') for name, root in roots.items())
    try:
        with served(load_tokens(written(file, text), replace(NOBODYS, state=str(state), settings=False))) as web:
            deleted = Client(web.port, "ben").tool("bash", {"command": "rm secret.txt"})
            assert deleted.result["isError"] is False, deleted.text
            assert (place / "real" / ".bens.handhold").exists(), "it should be kept beside the root"
            found = Client(web.port, "anna").tool(
                "bash", {"command": f"grep -rh {WORD[:4]} {place} 2>&1; ls -laR {place}"}
            )
            assert found.result["isError"] is False, found.text
            assert WORD not in found.text
            assert "secret" not in found.text
    finally:
        for folder in (place, state):
            shutil.rmtree(folder, ignore_errors=True)
