"""Runs inside a container: one rollout of a made-up agent, checked call by call against a model of the workspace.

`python rollout_driver.py SEED CALLS` prints one JSON object. The model is a dictionary of contents: what a call should
have changed is known without Handhold. At the end the whole session is undone.
"""

import json
import os
import random
import resource
import sys
import time
from pathlib import Path

STARTED = time.time()

from handhold import Target, Toolbox  # noqa: E402 (the time of the import counts)

WORKSPACE, STATE = Path("/agent/workspace"), Path("/agent/state/rollout")
KINDS = ("read", "read", "read", "edit", "edit", "edit", "write", "command", "command", "command", "search", "undo")
COMMANDS = ("append", "replace", "remove", "move", "create", "look")
MEMORY_FILES = ("memory/memory.max_usage_in_bytes", "memory.peak")  # cgroup 1, 2
Files = dict[str, str]


class Rollout:
    """A toolbox, and what the workspace should contain."""

    def __init__(self, box: Toolbox, seed: int) -> None:
        self._box = box
        self._choice = random.Random(seed)
        self._history: list[Files] = []  # before each call that changed something
        self.files = {f"src/module{n}.py": f"name = {n}\nvalue = {n}\n" for n in range(30)}
        self.wrong: list[str] = []
        self.counts: dict[str, int] = {}
        for name, text in self.files.items():
            (WORKSPACE / name).parent.mkdir(parents=True, exist_ok=True)
            (WORKSPACE / name).write_text(text)

    def step(self, number: int) -> None:
        kind = self._choice.choice(KINDS)
        if kind == "undo" and not self._history:
            kind = "read"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        name = self._choice.choice(sorted(self.files))
        before = dict(self.files)
        match kind:
            case "read":
                self._expect(self.files[name].splitlines()[-1] in self._call("read_file", path=name), f"read {name}")
            case "edit":
                line = self._choice.choice(self.files[name].splitlines())
                self._call("read_file", path=name)
                self._call("edit_file", path=name, old_string=self.files[name], new_string=f"edit = {number}\n{line}\n")
                self.files[name] = f"edit = {number}\n{line}\n"
            case "write":
                name = f"src/written{number}.py"
                self.files[name] = f"written = {number}\n"
                self._call("write_file", path=name, content=self.files[name])
            case "search":
                found = self._call("grep", pattern=self.files[name].splitlines()[0])
                self._expect(Path(name).name in found, f"grep {name}")
            case "undo":
                reply = self._box.undo()
                self._expect(reply.status == "success", f"undo: {reply.text}")
                self.files = before = self._history.pop()
            case _:
                self._command(number, name)
        if self.files != before:
            self._history.append(before)
        self._expect(self.files.get(name) == self._on_disk(name), f"{kind} {name} in call {number}")

    def _command(self, number: int, name: str) -> None:
        text, new = self.files[name], f"src/new{number}.py"
        match self._choice.choice(COMMANDS):
            case "append":
                command, self.files[name] = f"echo line = {number} >> {name}", f"{text}line = {number}\n"
            case "replace":
                command = f"sed -i 's/$/ #/' {name}"
                self.files[name] = text.replace("\n", " #\n")
            case "remove" if len(self.files) > 10:
                command = f"rm {name}"
                del self.files[name]
            case "move":
                command, self.files[new] = f"mv {name} {new}", self.files.pop(name)
            case "create":
                command = f"mkdir -p src/deep{number} && for n in 1 2 3; do echo $n > src/deep{number}/$n.py; done"
                self.files |= {f"src/deep{number}/{n}.py": f"{n}\n" for n in (1, 2, 3)}
            case _:
                command = f"cat {name} && ls src && git --version"
        self._call("bash", command=command)

    def _call(self, tool: str, **arguments: str) -> str:
        reply = self._box.call(tool, arguments)
        self._expect(reply.status == "success", f"{tool} {arguments}: {reply.text}")
        if tool == "bash":
            self.holder = reply.data["sandbox"]["by"]
        return reply.text

    def _on_disk(self, name: str) -> str | None:
        try:
            return (WORKSPACE / name).read_text()
        except FileNotFoundError:
            return None

    def _expect(self, fact: bool, what: str) -> None:
        if not fact:
            self.wrong.append(what)

    def compare(self, files: Files, what: str) -> None:
        found = {str(path.relative_to(WORKSPACE)): path.read_text() for path in WORKSPACE.rglob("*") if path.is_file()}
        self._expect(found == files, what)


def read_peak_memory() -> int:
    for name in MEMORY_FILES:
        path = Path("/sys/fs/cgroup", name)
        if path.exists():
            return int(path.read_text())
    return 0


def main(seed: int, calls: int) -> None:
    with Toolbox.open(WORKSPACE, state=STATE, session=f"rollout-{seed}", policy="open", settings=False) as box:
        rollout = Rollout(box, seed)
        initial = dict(rollout.files)
        rollout.step(0)
        first_reply = time.time()
        for number in range(1, calls):
            rollout.step(number)
        seconds = time.time() - first_reply
        rollout.compare(rollout.files, "the workspace after the last call")
        undone = box.undo(Target.session())
        if undone.status != "success":
            rollout.wrong.append(f"undo of the session: {undone.text}")
        rollout.compare(initial, "the workspace after undo of the session")
    report = {
        "seed": seed,
        "user": os.geteuid(),
        "by": rollout.holder,
        "wrong": rollout.wrong[:5],
        "counts": rollout.counts,
        "started": STARTED,
        "first_reply": first_reply,
        "seconds": seconds,
        "peak_bytes": read_peak_memory(),
        "peak_process_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
