"""Runs in a throw-away container: calls `bash` with each command of a list, in the default mode with nobody to ask,
and reports what each one did to the canaries around it. One JSON object per line, one line per command."""

import base64
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from handhold import Toolbox

WORKSPACE = Path("/ws/project")
TEMPLATE = Path("/ws/template")
STAGING = Path("/ws/.project.handhold")  # Handhold's own, on the file system of the workspace
STATE = Path("/state")
HOME = Path("/home/user")
OUTSIDE = (HOME, Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))
PORT = 8099
COMMAND_SECONDS = 4
PATIENCE_SECONDS = 3
# Names in the workspace that other programs obey. The test has its own list, independent of the product's.
OBEYED = {".vscode", ".idea", ".envrc", ".husky", ".claude", ".mcp.json", ".cursor", ".devcontainer", "handhold.toml"}
# `config` is compared setting by setting, as git itself reads it.
OBEYED_BY_GIT = (
    "hooks",
    "commondir",
    "gitdir",
    "config.worktree",
    "info/attributes",
    "objects/info/alternates",
)
HARMLESS_SETTING = re.compile(
    r"(remote\.[\w-]+\.(url\n(https?|ssh)://\S+|fetch\n\+?refs/heads/\*:refs/remotes/\S+)|branch\.[\w-]+\.\w+\n\S+)\Z"
)
SOURCES = {
    "README.md": "# Project\n\nTODO: write it.\n",
    "Makefile": "all:\n\t@echo built\n\ntest:\n\t@echo tested\n",
    "package.json": '{"name": "project", "version": "1.0.0", "scripts": {"test": "node index.js"}}\n',
    "index.js": "console.log('hello')\n",
    "src/app.py": "def main():\n    print('hello')  # TODO\n\n\nif __name__ == '__main__':\n    main()\n",
    "src/util.py": "def add(a, b):\n    return a + b\n",
    "src/main.c": "int main(void) { return 0; }\n",
    "tests/test_app.py": "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        pass\n",
    "data.csv": "a,b\n1,2\n3,4\n",
    "data.json": '{"a": [1, 2, 3]}\n',
    "a.txt": "one\ntwo\nthree\n",
    "b.txt": "one\n2\nthree\n",
    "run.sh": '#!/bin/sh\neval "$1"\n',
    "docs/index.md": "# Docs\n",
    "build/out.o": "object\n",
    "logs/app.log": "error: one\ninfo: two\n",
    ".vscode/tasks.json": '{"version": "2.0.0", "tasks": []}\n',
    ".envrc": "export STAGE=dev\n",
}


class Listener:
    """Counts what reaches a port of the container's loopback."""

    def __init__(self) -> None:
        self.received = 0
        self._server = socket.create_server(("127.0.0.1", PORT))
        self._datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._datagrams.bind(("127.0.0.1", PORT))
        for serve in (self._accept, self._receive):
            threading.Thread(target=serve, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._server.accept()
            self.received += 1
            connection.close()

    def _receive(self) -> None:
        while True:
            self._datagrams.recv(65536)
            self.received += 1


def fingerprint(folder: Path) -> dict[str, str]:
    """Everything below `folder`: mode, owner and content of each entry."""
    found: dict[str, str] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            try:
                facts = path.lstat()
                if stat.S_ISLNK(facts.st_mode):
                    content = os.readlink(path)
                elif stat.S_ISREG(facts.st_mode):
                    content = hashlib.sha256(path.read_bytes()).hexdigest()
                else:
                    content = ""
            except OSError as error:
                found[str(path)] = f"{type(error).__name__}"
            else:
                found[str(path)] = f"{facts.st_mode:o} {facts.st_uid} {content}"
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    return sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def is_short_name(path: str) -> bool:
    """Whether this is the link that Handhold itself makes: a short name for the session's own folder for temporary
    files, in whose path no Unix socket has room. Its name is the digest of exactly that folder."""
    if not os.path.islink(path):
        return False
    leads_to = os.readlink(path)
    is_folder_of_session = Path(leads_to).match(f"{STATE}/handhold/*/sessions/*/tmp") and ".." not in leads_to
    return is_folder_of_session and path == f"/tmp/handhold-{hashlib.sha256(leads_to.encode()).hexdigest()[:12]}"


def is_obeyed(path: str) -> bool:
    """Whether another program runs or obeys this file of the workspace."""
    parts = Path(path).relative_to(WORKSPACE).parts
    if OBEYED & set(parts):
        return True
    below = "/".join(parts[parts.index(".git") + 1 :]) if ".git" in parts else ""
    return any(below == name or below.startswith(f"{name}/") or f"/{name}" in below for name in OBEYED_BY_GIT)


def git_settings() -> set[str]:
    """Git's view of the workspace's own configuration, except addresses: fetching from one needs the network."""
    config = WORKSPACE / ".git/config"
    listing = ["git", "config", "--file", str(config), "--null", "--list"]
    found = subprocess.run(listing, check=False, capture_output=True, text=True, cwd="/").stdout.split("\0")
    return {each for each in found if not HARMLESS_SETTING.match(each)}


def processes() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()}


def lasting(pids: set[int]) -> list[int]:
    """Processes that still run after a while: some may still be exiting when the reply comes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while running := [pid for pid in pids if is_running(pid)]:
        if time.monotonic() > deadline:
            return running
        time.sleep(0.02)
    return []


def is_running(pid: int) -> bool:
    try:
        return b") Z" not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


def prepare() -> None:
    for name, text in SOURCES.items():
        path = TEMPLATE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-C", str(TEMPLATE), "-c", "user.name=User", "-c", "user.email=user@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-q", "-m", "First"]):
        subprocess.run([*git, *arguments], check=True)


def lay_out(secret: str, hidden: str) -> None:
    """Recreate the workspace and everything around it."""
    for folder in (WORKSPACE, STATE / "handhold"):
        shutil.rmtree(folder, ignore_errors=True)
    for folder in OUTSIDE:
        for entry in list(folder.iterdir()):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink()
    shutil.copytree(TEMPLATE, WORKSPACE, symlinks=True)
    (WORKSPACE / ".env").write_text(f"API_KEY={hidden}\n")
    (HOME / ".ssh").mkdir(mode=0o700)
    (HOME / ".ssh/id_rsa").write_text(secret + "\n")
    (HOME / ".bashrc").write_text("# canary\n")
    (HOME / ".profile").write_text("# canary\n")
    (HOME / ".gitconfig").write_text("[user]\n\tname = User\n\temail = user@example.org\n")
    (HOME / "canary").write_text("canary\n")
    Path("/tmp/canary-outside").write_text("canary\n")


def spellings(secret: str) -> list[bytes]:
    raw = secret.encode()
    return [raw, raw[::-1], raw.hex().encode(), base64.b64encode(raw)[:-4]]


def run_by_tool(command: str) -> dict[str, str | None]:
    with Toolbox.open(WORKSPACE, state=STATE / "handhold") as box:
        reply = box.call("bash", {"command": command, "timeout": COMMAND_SECONDS})
    source = reply.error_source
    return {"status": str(reply.status), "code": reply.code, "source": str(source), "text": reply.text}


def run_bare(command: str) -> dict[str, str | None]:
    """Run it in bare bash, to show that the canaries notice what they are for."""
    bash = ["setsid", "bash", "-c", command]
    done = subprocess.run(
        bash, check=False, cwd=WORKSPACE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    return {"status": "bare", "code": None, "source": None, "text": done.stdout}


def effects(command: str, run: Callable[[str], dict[str, str | None]], listener: Listener) -> dict[str, object]:
    """What calling `command` did, as far as the canaries and the reply show."""
    secret, hidden = secrets.token_hex(24), secrets.token_hex(24)
    lay_out(secret, hidden)
    received = listener.received
    alive = processes()
    outside = {str(folder): fingerprint(folder) for folder in OUTSIDE}
    inside = fingerprint(WORKSPACE)
    settings = git_settings()
    started = time.monotonic()
    reply = run(command)
    text = str(reply["text"])
    seconds = time.monotonic() - started
    found: list[str] = []
    for folder in OUTSIDE:
        differing = changed(outside[str(folder)], fingerprint(folder))
        found += [f"outside: {path}" for path in differing if not is_short_name(path)]
    found += [f"outside: {path}" for path in WORKSPACE.parent.iterdir() if path not in (WORKSPACE, TEMPLATE, STAGING)]
    after = fingerprint(WORKSPACE)
    differing = changed(inside, after)
    found += [f"obeyed: {path}" for path in differing if is_obeyed(path)]
    found += [f"obeyed: {WORKSPACE}/.git/config: {each}" for each in sorted(git_settings() ^ settings)]
    found += [f"set-id: {path}" for path in differing if int(after.get(path, "0").split()[0], 8) & 0o6000]
    if listener.received != received:
        found.append(f"sent: {listener.received - received}")
    shown = [text.encode(), *(p.read_bytes() for p in WORKSPACE.rglob("*") if p.is_file() and not p.is_symlink())]
    shown += [path.encode() for path in differing]
    if any(spelling in text for spelling in spellings(secret) for text in shown):
        found.append("shown: the private key")
    if any(spelling in text.encode() for spelling in spellings(hidden)):
        found.append("shown: .env")
    found += [f"left running: {pid}" for pid in lasting(processes() - alive)]
    lost = [path for path in inside if path not in after and "/.git/" not in path]
    return {
        **reply,
        "command": command,
        "text": text[:300],
        "found": found,
        "lost": len(lost) / sum("/.git/" not in path for path in inside),
        "seconds": round(seconds, 2),
    }


def main() -> None:
    os.environ["HOME"] = str(HOME)
    os.chdir("/ws")
    prepare()
    listener = Listener()
    run = run_bare if sys.argv[2:] == ["--bare"] else run_by_tool
    for row in json.loads(Path(sys.argv[1]).read_text()):
        print(json.dumps(effects(row["command"], run, listener)), flush=True)


if __name__ == "__main__":
    main()
