"""Two ways to run the same steps in the same folder: bare bash, and Handhold's toolbox."""

import os
import re
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from handhold import Toolbox
from handhold.core.results import Reply

STEP_SECONDS = 540
WAIT_SECONDS = 60
# Commits get the same hashes on both sides only if they have the same dates.
PRELUDE = "export GIT_AUTHOR_DATE='2024-05-06T07:08:09+0000' GIT_COMMITTER_DATE='2024-05-06T07:08:09+0000'\n"
# The last remark of a reply about the command's output; what follows is about its changes.
END_OF_OUTPUT = re.compile(
    r"^\[(No output\. )?(Exit status \d+|Killed by \w+|Timed out|\w{6}: (stopped|exit status|killed by)|\w{6} is still running)",
    re.M,
)


@dataclass(frozen=True)
class Outcome:
    """The output of one step."""

    status: str
    output: str


class Side(Protocol):
    def run(self, command: str) -> Outcome: ...
    def start(self, job: str, command: str) -> None: ...
    def send(self, job: str, text: str) -> None: ...
    def printed(self, job: str) -> str: ...
    def stop(self, job: str) -> str: ...
    def write(self, path: str, text: str) -> None: ...


class BareBash:
    """Each command in its own bash, with empty input, as in a user's terminal."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._jobs: dict[str, tuple[subprocess.Popen[bytes], Any]] = {}

    def run(self, command: str) -> Outcome:
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                ["bash", "-c", PRELUDE + command],
                check=False,
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=STEP_SECONDS,
                start_new_session=True,
            )
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        return Outcome(str(done.returncode if done.returncode >= 0 else 128 - done.returncode), text)

    def start(self, job: str, command: str) -> None:
        output = tempfile.TemporaryFile()  # noqa: SIM115 (closed by stop)
        process = subprocess.Popen(
            ["bash", "-c", PRELUDE + command],
            cwd=self._root,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        self._jobs[job] = process, output

    def send(self, job: str, text: str) -> None:
        stdin = self._jobs[job][0].stdin
        assert stdin
        stdin.write(text.encode())
        stdin.flush()

    def printed(self, job: str) -> str:
        output = self._jobs[job][1]
        return os.pread(output.fileno(), 1 << 20, 0).decode("utf-8", "replace")

    def stop(self, job: str) -> str:
        process, output = self._jobs[job]
        try:
            os.killpg(process.pid, 15)
        except ProcessLookupError:
            pass
        if process.stdin:
            process.stdin.close()
        process.wait(WAIT_SECONDS)
        text = self.printed(job)
        output.close()
        return text

    def write(self, path: str, text: str) -> None:
        (self._root / path).write_text(text)


class ByTool:
    """Each command through the tool `bash`, in the default mode with nobody to ask."""

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self._jobs: dict[str, str] = {}

    def run(self, command: str) -> Outcome:
        reply = self._box.call("bash", {"command": PRELUDE + command, "timeout": STEP_SECONDS})
        if "exit_status" not in reply.data:
            return Outcome(f"{reply.error_source}: {reply.code}", reply.text)
        status = str(reply.data["exit_status"])
        if reply.status == "error" or reply.data["output"]["left_out"] or reply.data["conflicts"]:
            return Outcome(f"{status} {reply.code} {reply.data['conflicts']}", reply.text)
        return Outcome(status, output_of(reply))

    def start(self, job: str, command: str) -> None:
        reply = self._box.call("bash", {"command": PRELUDE + command, "background": True})
        if "job" not in reply.data:
            raise RuntimeError(reply.text)
        self._jobs[job] = str(reply.data["job"])

    def send(self, job: str, text: str) -> None:
        self._box.call("bash_input", {"job": self._jobs[job], "text": text})

    def printed(self, job: str) -> str:
        return output_of(self._box.call("bash_output", {"job": self._jobs[job], "offset": 0}))

    def stop(self, job: str) -> str:
        self._box.call("bash_stop", {"job": self._jobs[job]})
        return self.printed(job)

    def write(self, path: str, text: str) -> None:
        self._box.call("read_file", {"path": path})
        reply = self._box.call("write_file", {"path": path, "content": text})
        if reply.status != "success":
            raise RuntimeError(reply.text)


def output_of(reply: Reply) -> str:
    """The command's output, without the remarks of the reply."""
    *_, last = [None, *END_OF_OUTPUT.finditer(reply.text)]
    return reply.text[: last.start()] if last else reply.text


def perform(side: Side, step: str | dict[str, str]) -> Outcome:
    """One step of a workload: a command, or an action given as a table."""
    match step:
        case str(command):
            return side.run(command)
        case {"background": command, "job": job}:
            side.start(job, command)
        case {"input": text, "job": job}:
            side.send(job, text)
        case {"stop": job}:
            return Outcome("", side.stop(job))
        case {"write": path, "text": text}:
            side.write(path, text)
        case _:
            raise ValueError(f"not a step: {step}")
    if "until" in step:
        wait_until(side, step["job"], step["until"])
    return Outcome("", "")


def wait_until(side: Side, job: str, text: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while text not in (printed := side.printed(job)):
        if time.monotonic() > deadline:
            raise TimeoutError(f"{job} did not print {text!r} but {printed!r}")
        time.sleep(0.02)
