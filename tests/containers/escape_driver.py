"""Runs in a throw-away container: each attack of a list through a toolbox with nobody to ask, and then in bare bash.

`python escape_driver.py ATTACKS.json` prints one JSON object for each: whether it succeeded, and what the canaries noticed.
"""

import hashlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handhold import Toolbox

TOP = Path("/ws/escape")
ROOT, OUTSIDE, HOME, STATE = (TOP / name for name in ("work/root", "outside", "home", "state"))
SECRET = "the-secret"
COMMAND_SECONDS = 10
SETTLE_SECONDS = 0.1
SYSTEM = ("/usr/bin/env", "/etc/passwd", "/usr/local/handhold-test", "/handhold-test")


class Heard:
    """Counts what reaches the listeners of the container."""

    def __init__(self) -> None:
        self.count = 0
        self.abstract = f"escape-{os.getpid()}"
        tcp = socket.create_server(("127.0.0.1", 0))
        self.port = tcp.getsockname()[1]
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", self.port))
        self.path = f"/tmp/escape-{os.getpid()}"
        unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        unix.bind(self.path)
        os.chmod(self.path, 0o777)
        abstract.bind(f"\0{self.abstract}")
        for listener in (unix, abstract):
            listener.listen()
        for listener in (tcp, unix, abstract):
            threading.Thread(
                target=self._count, args=(lambda each=listener: each.accept()[0].close(),), daemon=True
            ).start()
        threading.Thread(target=self._count, args=(lambda: udp.recv(100),), daemon=True).start()

    def _count(self, take: Callable[[], object]) -> None:
        while True:
            take()
            self.count += 1


def lay_out() -> None:
    subprocess.run(["chmod", "-Rf", "u+rwx", str(TOP)], check=False)  # the state has a folder that nobody may enter
    shutil.rmtree(TOP, ignore_errors=True)
    for folder in (ROOT / ".git/hooks", ROOT / "sub", OUTSIDE, HOME / ".ssh", HOME / ".aws", STATE):
        folder.mkdir(parents=True)
    (OUTSIDE / "file").write_text("as it was\n")
    (OUTSIDE / "file").chmod(0o644)
    os.utime(OUTSIDE / "file", (1_000_000_000, 1_000_000_000))
    for name in (".ssh/id_ed25519", ".aws/credentials", ".netrc"):
        (HOME / name).write_text(SECRET + "\n")
    (ROOT / ".env").write_text(f"KEY={SECRET}\n")
    (ROOT / ".git/config").write_text("[core]\n")
    (ROOT / ".git/hooks/pre-commit").write_text("true\n")
    (ROOT / ".git/HEAD").write_text("ref: refs/heads/main\n")


def look() -> dict[str, str]:
    """What must stay: files outside and of the system, and protected names of the workspace."""
    found: dict[str, str] = {}
    places = [OUTSIDE, *OUTSIDE.rglob("*"), *map(Path, SYSTEM)]
    places += [path for name in (".git", ".mcp.json", ".vscode") for path in (ROOT / name, *(ROOT / name).rglob("*"))]
    for path in places:
        try:
            facts = path.lstat()
        except OSError:
            continue
        content = (
            hashlib.sha256(path.read_bytes()).hexdigest()
            if stat.S_ISREG(facts.st_mode) and os.access(path, os.R_OK)
            else ""
        )
        times = 0 if path.is_relative_to(ROOT) or stat.S_ISDIR(facts.st_mode) else facts.st_mtime_ns
        found[str(path)] = f"{facts.st_mode:o} {facts.st_uid} {times} {content}"
    return found


def attack_once(row: dict[str, Any], heard: Heard, *, bare: bool) -> dict[str, object]:
    lay_out()
    time.sleep(SETTLE_SECONDS)  # what the last one sent has been counted
    with subprocess.Popen(["sleep", "60"], env={"TOKEN": SECRET}) as victim:
        names = {"file": OUTSIDE / "file", "folder": OUTSIDE, "home": HOME, "state": STATE, "victim": victim.pid}
        names |= {"port": heard.port, "socket": heard.path, "abstract": heard.abstract}
        filled = row["command"].format(**names)
        before, count = look(), heard.count
        env = {**os.environ, "HOME": str(HOME), "GITHUB_TOKEN": SECRET}
        if bare:
            (STATE / "workspace").mkdir()
            (STATE / "workspace/canary").write_text(SECRET)
            done = subprocess.run(
                ["setsid", "bash", "-c", filled], cwd=ROOT, env=env, capture_output=True, check=False, timeout=60
            )
            status, text, code = done.returncode, done.stdout.decode(errors="replace"), None
        else:
            with Toolbox.open(ROOT, state=STATE, policy="open", secrets=row["secrets"], settings=False) as box:
                for folder in STATE.iterdir():
                    (folder / "canary").write_text(SECRET)
                reply = box.call("bash", {"command": filled, "timeout": COMMAND_SECONDS})
            status, text, code = reply.data.get("exit_status"), reply.text, reply.code
        after = look()
        found = [
            f"changed: {path}" for path in sorted(before.keys() | after.keys()) if before.get(path) != after.get(path)
        ]
        found += ["shown: the secret"] if SECRET in text else []
        found += ["sent"] if heard.count != count else []
        state = Path(f"/proc/{victim.pid}/stat").read_text().rpartition(")")[2].split()[0]
        found += ["killed or stopped"] if state in "ZTX" else []
        victim.send_signal(signal.SIGKILL)
    for place in ("/usr/local/handhold-test", "/handhold-test", "/tmp/device"):
        if os.path.lexists(place) and os.access(os.path.dirname(place), os.W_OK):
            Path(place).rmdir() if Path(place).is_dir() else Path(place).unlink()
    return {"status": status, "code": code, "found": found, "text": text[-300:]}


def main(attacks: Path) -> None:
    os.environ |= {"HOME": str(HOME), "GITHUB_TOKEN": SECRET}
    heard = Heard()
    for row in json.loads(attacks.read_text()):
        held = attack_once(row, heard, bare=False)
        bare = attack_once(row, heard, bare=True) if row["expected_bare"] != "not run" else None
        print(json.dumps({**row, "held": held, "bare": bare}), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
