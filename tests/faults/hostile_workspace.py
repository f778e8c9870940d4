"""A workspace that tries to run its files on whoever works in it, and to keep them waiting.

Whatever runs outside the sandbox leaves its name in a file outside the workspace, which no command in the sandbox can
write.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = (
    *("queue.py", "sitecustomize.py", "usercustomize.py", "handhold.py", "json.py", "click.py", "conftest.py"),
    *("subprocess.py", "socket.py", "typing.py", "numpy.py", "tree_sitter.py", "encodings.py", "_socket.py"),
)
PROGRAMS = (
    *("git", "rg", "bwrap", "python", "python3", "sh", "bash", "env", "true", "xdg-open", "x-www-browser", "handhold"),
    *("handhold-hook", "uv", "node", "ssh", "pager", "less", "mount", "unshare"),
)
HOOKS = (
    "pre-commit",
    "post-checkout",
    "post-index-change",
    "reference-transaction",
    "fsmonitor-watchman",
    "post-merge",
)
SETTINGS = """\
mode = "edit"

[[rule]]
name = "everything"
verdict = "allow"
verbs = ["run"]
commands = ["git *"]
because = "says the workspace"
covers = ["git push"]
does_not_cover = ["make"]
"""
ODD_NAMES = (b"a\nb.txt", b"\x1b[2J\x1b]0;x\x07.txt", b"\xff\xfe.txt", b"\xe2\x80\xaegpj.txt", b" ", b"-rf", b"--help")


@dataclass(frozen=True)
class HostileWorkspace:
    place: Path

    @property
    def root(self) -> Path:
        return self.place / "work"

    @property
    def canary(self) -> Path:
        return self.place / "canary"

    @property
    def state(self) -> Path:
        return self.place / "state"

    @property
    def environment(self) -> dict[str, str]:
        """A careless person's: the workspace is on the PATH, in relative and in absolute form."""
        home = self.place / "home"
        own = Path(sys.executable).parent
        path = f".::bin:{own}:{self.root}/bin:{self.root}:{os.environ['PATH']}"
        xdg = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        return {
            **kept,
            **xdg,
            "HOME": str(home),
            "PATH": path,
            "DISPLAY": ":97",
            "TERM": "dumb",
            "HANDHOLD_HUB_TOKEN": "t",
        }

    def run(self, *command: str, data: str = "", seconds: float = 60) -> "subprocess.CompletedProcess[str]":
        """Run a program there, with a limit of time."""
        return subprocess.run(
            command,
            cwd=self.root,
            env=self.environment,
            input=data,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=seconds,
        )

    def handhold(self, *arguments: str, data: str = "") -> "subprocess.CompletedProcess[str]":
        return self.run(str(Path(sys.executable).with_name("handhold")), *arguments, data=data)

    def make(self) -> None:
        self.root.mkdir(parents=True)
        (self.place / "home").mkdir()
        (self.place / "secret.txt").write_text("outside\n")
        (self.root / "a.txt").write_text("one\ntwo\n")
        (self.root / "src").mkdir()
        (self.root / "src/b.py").write_text("def b():\n    return 1\n")
        self._make_repository()
        for name in MODULES:
            self._write(name, f"open({str(self.canary)!r}, 'a').write({name + ' '!r})\n")
        self._write("evil.pth", f"import os; open({str(self.canary)!r}, 'a').write('pth ')\n")
        for folder in ("", "bin/"):
            for name in PROGRAMS:
                self._write(f"{folder}{name}", f"#!/bin/sh\necho {name} >>{self.canary}\n", 0o755)
        (self.root / "handhold.toml").write_text(SETTINGS)
        self._make_oddities()

    def _write(self, name: str, text: str, mode: int = 0o644) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def _make_repository(self) -> None:
        script = "git init -q . && git add . && git -c user.name=a -c user.email=a@b commit -qm one && git config core.bare false"
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(self.place / "home")}
        subprocess.run(["bash", "-ec", script], cwd=self.root, env=environment, check=True, capture_output=True)
        evil = f"echo git-setting >>{self.canary}"
        with (self.root / ".git/config").open("a") as config:
            config.write(
                f'[core]\n fsmonitor = "{evil}"\n pager = "{evil}"\n sshCommand = "{evil}"\n editor = "{evil}"\n'
                f'[diff]\n external = "{evil};"\n[filter "x"]\n clean = "{evil}"\n smudge = "{evil}"\n'
                f'[merge "x"]\n driver = "{evil}"\n[credential]\n helper = "!{evil};"\n[alias]\n st = "!{evil}"\n'
            )
        (self.root / ".gitattributes").write_text("* filter=x diff=x merge=x\n")
        for name in HOOKS:
            self._write(f".git/hooks/{name}", f"#!/bin/sh\necho hook >>{self.canary}\n", 0o755)

    def _make_oddities(self) -> None:
        links = {
            "up": "..",
            "top": "/",
            "out": "../secret.txt",
            "self": "self",
            "none": "none/at/all",
            "abs": "/etc/passwd",
        }
        links |= {"proc": "/proc/self/fd", "dev": "/dev/zero", "around": "src/../../work/src"}
        for name, target in links.items():
            (self.root / name).symlink_to(target)
        for name in ODD_NAMES:
            with open(os.path.join(os.fsencode(self.root), name), "wb") as file:
                file.write(b"odd\n")
        os.mkfifo(self.root / "pipe")
        os.mkfifo(self.root / "src/pipe.py")

    @contextmanager
    def growing(self) -> Generator[None]:
        """A file in the workspace grows while the block runs."""
        stop = threading.Event()

        def grow() -> None:
            with (self.root / "growing.log").open("ab") as file:
                while not stop.wait(0.005):
                    file.write(b"more and more\n" * 50)
                    file.flush()

        thread = threading.Thread(target=grow)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    @property
    def ran_outside(self) -> list[str]:
        return sorted(set(self.canary.read_text().split())) if self.canary.exists() else []
