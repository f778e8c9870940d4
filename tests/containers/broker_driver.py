"""Runs inside a container without namespaces: random scripts through a toolbox and in bare bash, then undone.

`python3 broker_driver.py WORKSPACE FIRST COUNT` prints one JSON object for each script, and first one about the sandbox.
"""

import json
import os
import random
import shutil
import stat
import subprocess
import sys
from pathlib import Path

from handhold.toolbox import Toolbox

NAMES = ("a", "b", "c", "d e", "-x")
MODES = ("644", "600", "755", "400", "500", "555", "u+x", "700")
LINES = (
    *("echo {n} >{p}", "echo {n} >>{p}", ": >{p}", "truncate -s {n} {p}", "chmod {m} {p}", "mkdir {p}", "mkdir -p {p}"),
    *("rmdir {p}", "rm -f {p}", "rm -rf {p}", "mv {p} {q}", "mv -T {p} {q}", "ln {p} {q}", "ln -s {p} {q}"),
    *("cp -a {p} new-{n}", "touch -d @{n} {p}", "sed -i s/old/new/ {p}", "mkfifo {p}", "tar cf {p} a"),
    *("python3 -c 'import os,sys; os.rename(*sys.argv[1:])' {p} {q}", "echo {n} >{p} & wait"),
)
Facts = dict[str, tuple[object, ...]]


def make_path(choice: random.Random) -> str:
    return "'./" + "/".join(choice.choice(NAMES) for _ in range(choice.randint(1, 3))) + "'"


def make_script(seed: int) -> str:
    choice = random.Random(seed)
    lines: list[str] = []
    for _ in range(choice.randint(1, 12)):
        paths = {"p": make_path(choice), "q": make_path(choice)}
        lines.append(choice.choice(LINES).format(n=choice.randint(1, 9), m=choice.choice(MODES), **paths))
    return "\n".join(lines)


def lay(top: Path) -> None:
    if top.exists():
        subprocess.run(["chmod", "-R", "u+rwx", str(top)], check=True)
        for entry in os.scandir(top):
            shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    top.mkdir(exist_ok=True)
    for folder in ("a", "a/b", "a/b/c", "b", "b/a", "c", "d e"):
        (top / folder).mkdir()
    for name in ("a/a", "a/b/a", "a/b/c/b", "b/b", "b/a/c", "c/a", "c/b", "-x"):
        (top / name).write_text(f"old {name}\n")
    os.symlink("a/b", top / "b/c")
    os.symlink("nowhere", top / "c/c")
    for folder, _, files in os.walk(top, topdown=False):
        for path in (*(os.path.join(folder, name) for name in files), folder):
            os.utime(path, (1_600_000_000, 1_600_000_000), follow_symlinks=False)


def look(top: Path, *, exact: bool) -> Facts:
    """Kind, mode, content and hard links of everything; with `exact` also times. Opens closed folders for a moment."""
    facts: Facts = {}
    names: dict[int, str] = {}
    for folder, folders, files in os.walk(top):
        for name in sorted((*folders, *files)):
            path = os.path.join(folder, name)
            found = os.lstat(path)
            if stat.S_ISDIR(found.st_mode) and found.st_mode & 0o700 != 0o700:
                os.chmod(path, 0o700)
            content = b""
            if stat.S_ISREG(found.st_mode):
                if not found.st_mode & 0o400:
                    os.chmod(path, 0o600)
                content = Path(path).read_bytes()
                os.chmod(path, stat.S_IMODE(found.st_mode))
            elif stat.S_ISLNK(found.st_mode):
                content = os.readlink(path).encode()
            if name.endswith(tuple(NAMES)) and content[257:262] == b"ustar":
                content = b"an archive"  # it contains times
            one = "" if stat.S_ISDIR(found.st_mode) else names.setdefault(found.st_ino, path.removeprefix(str(top)))
            when = found.st_mtime_ns if exact and not stat.S_ISDIR(found.st_mode) else 0
            facts[os.path.relpath(path, top)] = found.st_mode, content, one, when
    for way, fact in sorted(facts.items(), reverse=True):
        mode = fact[0]
        if isinstance(mode, int) and stat.S_ISDIR(mode):
            os.chmod(top / way, stat.S_IMODE(mode))
    return facts


def main(workspace: Path, first: int, count: int) -> None:
    bare = workspace.with_name(workspace.name + "-bare")
    kept = workspace.with_name(workspace.name + "-state")
    powers = ["setpriv", "--bounding-set=-all,+chown,+dac_override,+fowner,+fsetid"] if os.geteuid() == 0 else []
    for seed in range(first, first + count):
        lay(workspace)
        lay(bare)
        before = look(workspace, exact=True)
        script = make_script(seed)
        subprocess.run([*powers, "bash", "-c", script], cwd=bare, capture_output=True, check=False, timeout=60)
        with Toolbox.open(workspace, state=kept, session=str(seed), policy="open", approver=lambda _: True) as box:
            reply = box.call("bash", {"command": script})
            if seed == first:
                report = {"sandbox": reply.data.get("sandbox"), "user": os.geteuid(), "text": reply.text}
                sys.stdout.write(json.dumps(report) + "\n")
            is_equal = look(workspace, exact=False) == look(bare, exact=False)
            undone = box.undo(keep_times=True) if reply.data.get("files") else None
        is_exact = (undone is None or undone.status == "success") and look(workspace, exact=True) == before
        report = {"seed": seed, "status": reply.status, "equal": is_equal, "exact": is_exact, "script": script}
        sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
