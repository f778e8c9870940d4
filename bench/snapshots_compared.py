"""Snapshots beside a shadow git, and beside opencode's own: what each restores, and what it costs.

    python -m bench.snapshots_compared [--opencode PROGRAM] [--files 5000]

One script does damage of every kind in a small repository, and each method undoes it. A shadow git is a repository
elsewhere (`git --git-dir … --work-tree .`, `add --all`; back with `reset --hard` and `clean`), as many agents keep one.
opencode is driven by its own server with a scripted model, in a home of its own; its agent runs nothing but our script.
"""

import argparse
import http.server
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

from bench.snapshots import lay
from handhold import Target, Toolbox
from handhold.core.ports.recording import Window

MIB = 1024 * 1024
GIT_PROGRAM = shutil.which("git") or "git"  # also where `no_git` hides it
IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main")
NOBODY = 65534


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.snapshots_compared")
    parser.add_argument("--opencode", metavar="PROGRAM", type=Path)
    parser.add_argument("--files", type=int, default=5_000)
    options = parser.parse_args()
    methods: dict[str, Callable[[Path], Method]] = {"Handhold": HandholdMethod, "shadow git": ShadowGit}
    if options.opencode:
        methods["opencode"] = lambda root: OpenCode(root, options.opencode)
    columns = {name: try_all(make) | measure(make, options.files) for name, make in methods.items()}
    print("| |", " | ".join(columns), "|")
    print("| --- |", " | ".join("---" for _ in columns), "|")
    for row in next(iter(columns.values())):
        print(f"| {row} |", " | ".join(column[row] for column in columns.values()), "|")
    return 0


class Method(Protocol):
    """A way to undo what a command did in a folder."""

    def run(self, command: str) -> None: ...

    def undo(self) -> None: ...

    def close(self) -> None: ...

    @property
    def store(self) -> Path:
        """Where it keeps what it needs."""
        ...


class HandholdMethod:
    def __init__(self, root: Path) -> None:
        self.store = root.parent / "handhold"
        self._root = root
        self._box = Toolbox.open(root, state=self.store, session="s", approver=lambda _: True, settings=False)
        self._calls = 0

    def run(self, command: str) -> None:
        self._calls += 1
        snapshots = self._box.snapshots
        snapshots.begin(Window("s", str(self._calls), "sh"))
        while not snapshots.complete() or snapshots.recorder.baseline.due(1):
            time.sleep(0.02)
        subprocess.run(["sh", "-c", command], cwd=self._root, check=True)
        snapshots.end("s", str(self._calls))

    def undo(self) -> None:
        self._box.snapshots.sweep()
        reply = self._box.undo(Target.session(), with_foreign=True)
        if not reply.ok:
            raise OSError(reply.text)

    def close(self) -> None:
        self._box.close()


class ShadowGit:
    def __init__(self, root: Path) -> None:
        self.store = root.parent / "shadow"
        self._root = root
        self._git("init", "--quiet")

    def run(self, command: str) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", "before")
        subprocess.run(["sh", "-c", command], cwd=self._root, check=True)

    def undo(self) -> None:
        self._git("reset", "--quiet", "--hard")
        self._git("clean", "--quiet", "-d", "--force")

    def close(self) -> None:
        pass

    def _git(self, *arguments: str) -> None:
        place = (f"--git-dir={self.store}", f"--work-tree={self._root}")
        subprocess.run(["git", *IDENTITY, *place, *arguments], cwd=self._root, check=True, stderr=subprocess.DEVNULL)


class OpenCode:
    """opencode's server, with a model that calls its shell tool once for each prompt."""

    PORTS: ClassVar[Iterator[int]] = iter(range(41_800, 42_000))

    def __init__(self, root: Path, program: Path) -> None:
        self._home = root.parent / "home"
        self.store = self._home / ".local/share/opencode/snapshot"
        self._model = ScriptedModel()
        (self._home / ".config/opencode").mkdir(parents=True)
        provider = {
            "npm": "@ai-sdk/openai-compatible",
            "name": "fake",
            "options": {"baseURL": f"http://127.0.0.1:{self._model.port}/v1", "apiKey": "none"},
            "models": {"fake-model": {"name": "fake", "tool_call": True}},
        }
        settings = {
            "provider": {"fake": provider},
            "permission": {"*": "allow"},
            "autoupdate": False,
            "share": "disabled",
        }
        (self._home / ".config/opencode/opencode.json").write_text(json.dumps(settings))
        self._url = f"http://127.0.0.1:{(port := next(self.PORTS))}"
        environment = {**os.environ, "HOME": str(self._home), "OPENCODE_DISABLE_MODELS_FETCH": "1"}
        command = [program, "serve", "--port", str(port), "--hostname", "127.0.0.1"]
        user = NOBODY if os.geteuid() == 0 else None  # an agent is never root
        if user is not None:
            subprocess.run(["/bin/chown", "-R", f"{user}:{user}", root.parent], check=True)
        self._server = subprocess.Popen(
            command, cwd=root, env=environment, user=user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._session = self._wait_for_session()
        self._first: str | None = None

    def run(self, command: str) -> None:
        self._model.command = command
        model = {"providerID": "fake", "modelID": "fake-model"}
        parts = [{"type": "text", "text": "go"}]
        self._post(f"/session/{self._session}/message", {"model": model, "parts": parts})
        messages = self._request("GET", f"/session/{self._session}/message")
        self._first = self._first or next(each["info"]["id"] for each in messages if each["info"]["role"] == "user")

    def undo(self) -> None:
        self._post(f"/session/{self._session}/revert", {"messageID": self._first})

    def close(self) -> None:
        self._server.kill()
        self._server.wait()
        self._model.close()

    def _wait_for_session(self) -> str:
        for _ in range(100):
            with suppress(OSError):  # what it is asked while it starts it never answers
                return self._request("POST", "/session", b"{}", timeout=10)["id"]
            time.sleep(0.5)
        self.close()
        raise OSError("opencode does not answer")

    def _post(self, path: str, body: object) -> Any:
        return self._request("POST", path, json.dumps(body).encode())

    def _request(self, method: str, path: str, data: bytes | None = None, *, timeout: float = 120) -> Any:
        headers = {"Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(self._url + path, data, headers, method=method), timeout=timeout
        ) as reply:
            return json.load(reply)


class ScriptedModel:
    """Chat completions: first a call of `bash` with our command, then a word."""

    def __init__(self) -> None:
        self.command = "true"
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = model.answer(request)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, request: Mapping[str, Any]) -> bytes:
        delta: dict[str, object] = {"role": "assistant", "content": "done"}
        reason = "stop"
        if request.get("tools") and request["messages"][-1]["role"] == "user":
            arguments = json.dumps({"command": self.command, "description": "damage"})
            function = {"name": "bash", "arguments": arguments}
            calls = [{"index": 0, "id": f"call{time.monotonic_ns()}", "type": "function", "function": function}]
            delta, reason = {"role": "assistant", "tool_calls": calls}, "tool_calls"
        chunks = [
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
        ]
        common = {"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "fake-model"}
        lines = [json.dumps(common | chunk) for chunk in chunks]
        return "".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")).encode()

    def close(self) -> None:
        self._server.shutdown()


# --- what is restored


@dataclass(frozen=True)
class Damage:
    """A kind of damage: the paths that it concerns, and what a shell does to them."""

    kind: str
    command: str
    paths: tuple[str, ...]


DAMAGES = (
    Damage("a changed file", "echo changed > tracked.txt", ("tracked.txt",)),
    Damage("a deleted file that git does not track", "rm untracked.txt", ("untracked.txt",)),
    Damage("an ignored file", "rm ignored.log", ("ignored.log",)),
    Damage("a new file is removed", "echo new > new.txt", ("new.txt",)),
    Damage("a new ignored file is removed", "echo new > new.log", ("new.log",)),
    Damage("permissions (0640)", "chmod 600 private.txt", ("private.txt",)),
    Damage("a symbolic link", "rm link", ("link",)),
    Damage("two names of one file", "rm one two", ("one", "two")),
    Damage("an empty folder", "rmdir empty", ("empty",)),
    Damage("a file of 3 MB", "rm medium.bin", ("medium.bin",)),
    Damage("a file of 100 MB", "rm large.bin", ("large.bin",)),
    Damage("a repository inside", "rm -r inner", ("inner", "inner/file.txt", "inner/.git")),
    Damage("the folder's own .git", "echo broken > .git/HEAD", (".git/HEAD",)),
)
LATE = "echo early > early.txt; (sleep 8; echo late > late.txt) > /dev/null 2>&1 &"


def lay_damaged(root: Path, *, is_repository: bool) -> None:
    for name in ("tracked.txt", "private.txt", "one", "late.txt", "inner/file.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"this is {name}\n")
    (root / ".gitignore").write_text("*.log\n")
    (root / "private.txt").chmod(0o640)
    (root / "link").symlink_to("tracked.txt")
    os.link(root / "one", root / "two")
    (root / "empty").mkdir()
    for folder in (root / "inner", *((root,) if is_repository else ())):
        for arguments in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "one"]):
            subprocess.run([GIT_PROGRAM, *IDENTITY, *arguments], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    (root / "untracked.txt").write_text("untracked\n")
    (root / "ignored.log").write_text("ignored\n")
    (root / "medium.bin").write_bytes(os.urandom(3 * MIB))
    (root / "large.bin").write_bytes(os.urandom(MIB) * 100)


def describe(root: Path, path: str) -> object:
    try:
        found = os.lstat(root / path)
    except OSError:
        return None
    content: object = None
    if stat.S_ISREG(found.st_mode):
        content = (root / path).read_bytes(), found.st_nlink
    elif stat.S_ISLNK(found.st_mode):
        content = os.readlink(root / path)
    return found.st_mode, content


def try_all(make: Callable[[Path], Method]) -> dict[str, str]:
    """All damage in one command, but that to `.git`, on which others rely."""
    *most, last = DAMAGES
    paths = [path for each in most for path in each.paths]
    restored = try_damage(make, "; ".join((*(each.command for each in most), LATE)), [*paths, "late.txt"], wait=10)
    rows = {each.kind: answer(restored, each.paths) for each in most}
    rows[last.kind] = answer(try_damage(make, last.command, last.paths), last.paths)
    rows["what a program writes after its call"] = answer(restored, ["late.txt"])
    change = "echo changed > tracked.txt"
    rows["in a folder without git"] = answer(
        try_damage(make, change, ["tracked.txt"], repository=False), ["tracked.txt"]
    )
    with no_git():
        rows["on a machine without git"] = answer(try_damage(make, change, ["tracked.txt"]), ["tracked.txt"])
    return rows


def answer(restored: Collection[str], paths: Collection[str]) -> str:
    return "yes" if {*paths} <= {*restored} else "no"


def try_damage(
    make: Callable[[Path], Method], command: str, paths: Collection[str], *, wait: float = 0, repository: bool = True
) -> set[str]:
    """Those of these paths that come back."""
    with a_folder() as folder:
        root = folder / "work"
        lay_damaged(root, is_repository=repository)
        try:
            method = make(root)
        except (OSError, subprocess.CalledProcessError):
            return set()
        try:
            before = {path: describe(root, path) for path in paths}
            method.run(command)
            time.sleep(wait)
            assert all(before[path] != describe(root, path) for path in paths), f"{command} was not run"
            method.undo()
            return {path for path in paths if describe(root, path) == before[path]}
        except (OSError, subprocess.CalledProcessError) as error:
            print(error, file=sys.stderr)
            return set()
        finally:
            method.close()


@contextmanager
def no_git() -> Iterator[None]:
    """A machine that has hardly any programs, for those who look for them in PATH."""
    path = os.environ["PATH"]
    with a_folder() as folder:
        folder.chmod(0o755)
        for name in ("sh", "true"):
            (folder / name).symlink_to(shutil.which(name) or name)
        os.environ["PATH"] = str(folder)
        try:
            yield
        finally:
            os.environ["PATH"] = path


# --- what it costs


def measure(make: Callable[[Path], Method], files: int) -> dict[str, str]:
    with a_folder() as folder:
        root = lay(folder / "work", files)
        method = make(root)
        try:
            first = time_it(lambda: method.run("true"))
            later = min(time_it(lambda: method.run("true")) for _ in range(3))
            undone = time_it(lambda: (method.run("rm -r p1"), method.undo()))
        finally:
            method.close()
        used = subprocess.run(["du", "-sk", method.store], check=True, stdout=subprocess.PIPE, text=True).stdout
        tree = subprocess.run(["du", "-sk", root], check=True, stdout=subprocess.PIPE, text=True).stdout
    return {
        f"first snapshot of {files:,} files": f"{first:.2f} s",
        "a call that changes nothing": f"{later:.2f} s",
        "`rm -r` of 1,000 files, and undo": f"{undone:.2f} s",
        "disk, for a tree of " + f"{int(tree.split()[0]) / 1024:.0f} MB": f"{int(used.split()[0]) / 1024:.0f} MB",
    }


def time_it(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


@contextmanager
def a_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="compared-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


if __name__ == "__main__":
    sys.exit(main())
