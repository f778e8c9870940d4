"""Credentials for git: a remote that wants a token is fetched and pushed, and no command sees the token in a file."""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import ClassVar

import pytest

from handhold import Toolbox
from handhold.backends.shell import credentials
from handhold.core.policy.hosts import CredentialHost
from tests.suites.machine import has_shadows

BACKEND = Path("/usr/lib/git-core/git-http-backend")
TOKEN = "tKn9" + "Xw2LqZ7vR4mB8sHd1JfY"
pytestmark = [
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
    pytest.mark.skipif(not BACKEND.exists() or not which("git"), reason="no git-http-backend"),
]


class GitServer(BaseHTTPRequestHandler):
    """git's own server program behind HTTP, for whoever sends the token."""

    root: ClassVar[Path]
    logins: ClassVar[list[bool]]

    def do_GET(self) -> None:
        self.serve()

    def do_POST(self) -> None:
        self.serve()

    def serve(self) -> None:
        wanted = "Basic " + base64.b64encode(f"user:{TOKEN}".encode()).decode()
        self.logins.append(self.headers.get("Authorization") == wanted)
        if not self.logins[-1]:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "REMOTE_USER": "user",
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "PATH": os.environ["PATH"],
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        done = subprocess.run([BACKEND], input=body, env=env, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200 OK").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: the output of a test is read by people."""


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a repository that wants the token, which the user's own git has in a file outside."""
    root = tmp_path / "server"
    git = ["git", "-c", "user.name=u", "-c", "user.email=u@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run([*git, "init", "-q", "--bare", root / "repo.git"], check=True)
    subprocess.run(["git", "-C", root / "repo.git", "config", "http.receivepack", "true"], check=True)
    first = tmp_path / "first"
    subprocess.run([*git, "init", "-q", first], check=True)
    (first / "a.txt").write_text("one\n")
    for words in (("add", "."), ("commit", "-qm", "first"), ("push", "-q", str(root / "repo.git"), "main")):
        subprocess.run([*git, "-C", first, *words], check=True)
    handler = type("Handler", (GitServer,), {"root": root, "logins": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    (home := tmp_path / "home").mkdir()
    store = home / "credentials"
    store.write_text(f"http://user:{TOKEN}@127.0.0.1:{server.server_port}\n")
    (home / "config").write_text(
        f'[credential]\n\thelper = store --file "{store}"\n[user]\n\tname = u\n\temail = u@example.org\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / "config"))
    yield address
    server.shutdown()
    server.server_close()


def open_box(tmp_path: Path, *credentials: str, **options: object) -> Toolbox:
    (root := tmp_path / "ws").mkdir(exist_ok=True)
    more: dict[str, object] = {"network": True, "settings": False, "policy": "open", **options}
    return Toolbox.open(root, state=tmp_path / "state", credentials=credentials, **more)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", ["call", "run", "fork"])
def test_the_command_line_lets_git_log_in(tmp_path: Path, remote: str, kind: str):
    (root := tmp_path / "ws").mkdir()
    clone = f"git clone -q {remote}/repo.git r && cat r/a.txt"
    given = ["--root", str(root), "--state", str(tmp_path / "state"), "--network", "--credential", remote]
    words = {
        "call": ["call", *given, "--policy", "open", "bash", json.dumps({"command": clone})],
        "run": ["run", *given, "--policy", "open", "--", "sh", "-c", clone],
        "fork": ["fork", "start", *given, "--contained", "f", "--", "sh", "-c", clone],
    }[kind]
    done = run_handhold(words, root)
    assert "one" in done.stdout, done.stderr
    assert (root / "r/a.txt").exists() == (kind != "fork")
    wrong = ["not a host" if word == remote else word for word in words]
    assert run_handhold(wrong, root).returncode == 2


def run_handhold(words: list[str], folder: Path) -> "subprocess.CompletedProcess[str]":
    command = [Path(sys.executable).with_name("handhold"), *words]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder)


def test_a_remote_that_wants_a_token_is_fetched_and_pushed_and_nobody_sees_the_token(tmp_path: Path, remote: str):
    with open_box(tmp_path, remote) as box:
        cloned = box.call("bash", {"command": f"git clone -q {remote}/repo.git r && cat r/a.txt"})
        assert "one" in cloned.text, cloned.text
        work = "cd r && echo two >> a.txt && git -c user.name=u -c user.email=u@e.org commit -qam second && git push -q && git fetch -q && git log --oneline origin/main"
        pushed = box.call("bash", {"command": work})
        assert "second" in pushed.text, pushed.text
        # Nowhere in the environment or the files of the sandbox; only whoever asks the helper gets it, redacted in output.
        assert TOKEN not in box.call("bash", {"command": "env; cat /proc/*/environ /proc/self/cmdline"}).text
        places = "$HOME /tmp /etc /.handhold /run . "
        found = box.call(
            "bash",
            {"command": f"grep -rlsF {TOKEN[:8]} {places}; grep -rlsF {TOKEN[8:]} {places}; true", "timeout": 60},
        )
        assert "No output" in found.text, found.text
        host = remote.removeprefix("http://")
        asked = box.call(
            "bash",
            {
                "command": f"printf 'protocol=http\\nhost={host}\\n\\n' | git credential fill | tee got | base64; cat got; rm got"
            },
        )
        assert "username=user" in asked.text
        assert "[redacted: password for " in asked.text
        assert TOKEN not in asked.text
        assert base64.b64encode(TOKEN.encode())[4:20].decode() not in asked.text
        assert all(TOKEN not in str(entry) for entry in box.log())
        assert not (tmp_path / "ws" / "got").exists()
    log = subprocess.run(
        ["git", "-C", tmp_path / "server/repo.git", "log", "--format=%s", "main"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert log.stdout.split() == ["second", "first"]
    for file in (tmp_path / "state").rglob("*"):
        if file.is_file():
            assert TOKEN.encode() not in file.read_bytes(), file


def test_it_answers_for_no_other_host_and_stores_nothing(tmp_path: Path, remote: str):
    with open_box(tmp_path, remote) as box:
        box.call("bash", {"command": "true"})
        host = remote.removeprefix("http://")
        for protocol, other in (("http", "127.0.0.1:1"), ("https", host), ("http", "example.org")):
            ask = f"printf 'protocol={protocol}\\nhost={other}\\n\\n' | GIT_TERMINAL_PROMPT=0 git -c credential.helper='cache --socket=/.handhold/credential' credential fill"
            assert "password=" not in box.call("bash", {"command": ask}).text
        put = f"printf 'protocol=http\\nhost={host}\\nusername=user\\npassword=wrong-password-1\\n\\n' | git credential approve"
        box.call("bash", {"command": put})
        assert "one" in box.call("bash", {"command": f"git clone -q {remote}/repo.git r && cat r/a.txt"}).text


def test_without_the_option_the_remote_is_refused(tmp_path: Path, remote: str):
    with open_box(tmp_path) as box:
        reply = box.call("bash", {"command": f"GIT_TERMINAL_PROMPT=0 git clone -q {remote}/repo.git r"})
        assert "could not read Username" in reply.text


def test_a_host_without_a_password_and_a_broker_are_refused_and_said(tmp_path: Path, remote: str):
    with open_box(tmp_path, "git.example.org") as box:
        reply = box.call("bash", {"command": "true"})
        assert reply.code == "NO_SHELL"
        assert "no password for https://git.example.org" in reply.text
    with open_box(tmp_path, remote, shell="brokered") as box:
        reply = box.call("bash", {"command": "true"})
        assert reply.code == "NO_SHELL"
        assert "credentials for git need bubblewrap" in reply.text


def test_a_token_that_the_server_refuses_is_asked_for_again(tmp_path: Path, remote: str):
    store, old = tmp_path / "home/credentials", "oLd4" + "Xw2LqZ7vR4mB8sHd1JfY"
    store.write_text(store.read_text().replace(TOKEN, old))
    with open_box(tmp_path, remote) as box:
        clone = {"command": f"GIT_TERMINAL_PROMPT=0 git clone -q {remote}/repo.git r && cat r/a.txt"}
        assert "one" not in box.call("bash", clone).text  # git erases what was refused
        assert old in store.read_text()  # but not the user's own
        store.write_text(store.read_text().replace(old, TOKEN))
        assert "one" in box.call("bash", clone).text
        assert "[redacted: password for " in box.call("bash", {"command": f"echo {TOKEN}"}).text


def test_a_command_can_erase_only_what_is_current_and_of_its_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    answers = iter([{"username": "u", "password": "first"}, {"username": "u", "password": "second"}])
    monkeypatch.setattr(credentials, "fill_credential", lambda host: next(answers))  # pyright: ignore[reportUnknownLambdaType]
    host = CredentialHost("https", "git.example.org")
    server = credentials.CredentialServer.start([host], tmp_path, None)
    try:
        for erased in ("host=other.example.org", "host=git.example.org\npassword=earlier"):
            ask(server.path, f"action=erase\nprotocol=https\n{erased}\n")
            assert "password=first" in ask(server.path, "action=get\nprotocol=https\nhost=git.example.org\n")
        ask(server.path, "action=erase\nprotocol=https\nhost=git.example.org\npassword=first\n")
        assert "password=second" in ask(server.path, "action=get\nprotocol=https\nhost=git.example.org\n")
    finally:
        server.close()


def ask(path: str, request: str) -> str:
    with socket.socket(socket.AF_UNIX) as connection:
        opened = os.open(os.path.dirname(path), os.O_RDONLY)
        connection.connect(f"/proc/self/fd/{opened}/{os.path.basename(path)}")
        os.close(opened)
        connection.sendall(request.encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(4096), b"")).decode()


@pytest.mark.parametrize(
    ("username", "is_token"),
    [
        ("user", False),
        ("some-company-bot-2024-production", False),
        ("someone@example.org", False),
        ("ghp_" + "Zq8Lw2Xv5Rt9Ns3Bk7Mf1Hd6Jp4Cy0GaE2uT", True),
        ("0f3d5c7e9a1b2d4f6e8c0a9b7d5f3e1c2b4a6d8e", True),
    ],
)
def test_a_token_in_the_place_of_the_name_is_redacted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, username: str, is_token: bool
):
    answer = {"username": username, "password": "x-oauth-basic"}
    monkeypatch.setattr(credentials, "fill_credential", lambda host: answer)  # pyright: ignore[reportUnknownLambdaType]
    learned: list[str] = []
    host = CredentialHost("https", "git.example.org")
    credentials.CredentialServer.start([host], tmp_path, lambda _, secret: learned.append(secret)).close()
    assert (username in learned) == is_token
    assert "x-oauth-basic" in learned
