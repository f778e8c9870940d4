"""A worker can only compute. Tests for workers that attack the machine, do not end, flood their output, or lie."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.backends.convert import seccomp
from handhold.backends.convert.converter import ConfinedConverter
from handhold.backends.convert.worker_process import (
    MAX_STDOUT_BYTES,
    READ_CHUNK_BYTES,
    WorkerResult,
    WorkerUsage,
    run_worker,
)
from handhold.backends.seccomp_bpf import ARCHITECTURES
from handhold.backends.shell import reaper
from tests.backends.convert.papers import plain
from tests.backends.convert.pictures import quartered, saved

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
PROGRAM = seccomp.build_filter()


def tried(deed: str) -> str:
    """The answer of a confined worker that runs this code."""
    code = f"""
import ctypes, os, resource, signal, socket, sys
from handhold.backends.convert import worker
worker.install_seccomp_filter(bytes.fromhex({PROGRAM.hex()!r}))
try:
    {deed}
except (PermissionError, ValueError):
    print("refused")
else:
    print("done")
sys.stdout.flush()
os._exit(0)
"""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.skipif(not PROGRAM, reason="no filter for this processor")
@pytest.mark.parametrize(
    "deed",
    [
        "os.open('/etc/passwd', os.O_RDONLY)",
        "os.open('/tmp/made', os.O_CREAT | os.O_WRONLY)",
        "os.mkdir('/tmp/made')",
        "os.unlink('/tmp/absent')",
        "os.listdir('/')",
        "socket.socket(socket.AF_INET)",
        "socket.socket(socket.AF_UNIX)",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "os.pipe()",
        "os.dup(0)",
        "resource.setrlimit(resource.RLIMIT_CPU, (60, 60))",
        "os.memfd_create('x')",
    ],
)
def test_nasty_17_a_worker_can_only_compute(deed: str):
    assert tried(deed) == "refused"


@pytest.mark.skipif(not PROGRAM, reason="no filter for this processor")
def test_what_a_worker_needs_it_still_has():
    assert tried("bytes(50_000_000); os.read(0, 1); signal.setitimer(signal.ITIMER_VIRTUAL, 9)") == "done"


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_the_numbers_are_those_of_the_kernel(machine: str):
    header = HEADERS[machine]
    if not header.exists():
        pytest.skip(f"{header} is not here")
    known = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text())
    }
    column = ARCHITECTURES[machine].column
    for name, numbers in seccomp.ALLOWED_SYSCALLS.items():
        if (number := numbers[column]) is not None:
            assert known.get(name, known.get({"newfstatat": "fstatat"}.get(name, name))) == number


def test_a_worker_that_does_not_end_is_ended():
    started = time.monotonic()
    gone = run_worker(
        [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"],
        b"",
        timeout_seconds=0.5,
    )
    assert gone.was_killed
    assert gone.exit_code == -9
    assert time.monotonic() - started < 5


def test_a_worker_that_closes_its_mouth_and_stays_is_ended():
    code = "import os, time; os.close(1); os.close(2); time.sleep(60)"
    started = time.monotonic()
    assert run_worker([sys.executable, "-c", code], b"").was_killed
    assert time.monotonic() - started < 10


def test_a_worker_that_says_too_much_is_ended():
    gone = run_worker([sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('x' * 65536)"], b"")
    assert gone.was_killed
    assert MAX_STDOUT_BYTES < len(gone.stdout) <= MAX_STDOUT_BYTES + READ_CHUNK_BYTES


def test_a_worker_gets_the_bytes_and_no_path():
    code = "import os, sys; sys.stdout.write(f'{len(sys.stdin.buffer.read())} {os.getcwd()} {sorted(os.environ)} {len(os.listdir(\"/proc/self/fd\"))}')"
    size, folder, *rest = run_worker([sys.executable, "-I", "-c", code], b"x" * 3_000_000).stdout.decode().split()
    assert (size, folder) == ("3000000", "/")
    assert int(rest[-1]) == 4  # the three, and the listed folder


def test_nothing_is_left_of_a_conversion():
    before, children = set(os.listdir("/proc/self/fd")), reaper.read_children(os.getpid())
    box = Toolbox.in_memory({"a.png": saved(quartered(), "PNG"), "b.pdf": plain("x")})
    for name in ("a.png", "b.pdf"):
        assert box.call("read_file", {"path": name}).status == "success"
    assert set(os.listdir("/proc/self/fd")) == before
    assert reaper.read_children(os.getpid()) == children


class Turned(ConfinedConverter):
    """A worker that sends what a file contains."""

    def __init__(self, said: bytes, status: int = 0) -> None:
        super().__init__()
        self.said, self.status = said, status

    def run_job(self, job: dict[str, object], data: bytes) -> WorkerResult:
        return WorkerResult(self.said, "", self.status, was_killed=False, usage=WorkerUsage(0.0, 0))


facts = st.dictionaries(
    st.sampled_from(["count", "page", "text", "cut", "mime", "size", "ended", "width", "height", "frames", "turned", "encrypted", "too_many_pixels", "broken"]),
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
)  # fmt: skip


def record(facts: dict[str, object], data: bytes) -> bytes:
    return json.dumps({**facts, "bytes": len(data)}).encode() + b"\n" + data


@given(
    st.binary(max_size=80) | st.lists(st.builds(record, facts, st.binary(max_size=9)), max_size=4).map(b"".join),
    st.sampled_from(["a.png", "a.pdf"]),
    st.sampled_from([0, 1, -11]),
)
def test_whatever_a_worker_says_is_an_answer_or_a_refusal(said: bytes, name: str, status: int):
    data = {"a.png": b"\x89PNG\r\n\x1a\n\0", "a.pdf": b"%PDF-1.7\n\0"}[name]
    box = Toolbox.in_memory({name: data}, converter=Turned(said, status))
    reply = box.call("read_file", {"path": name})
    assert reply.text
    assert reply.code in (None, "BROKEN_FILE", "ENCRYPTED", "TOO_MANY_PIXELS", "TOO_COSTLY", "NO_SUCH_PAGE")
    assert all(block.mime in ("image/png", "image/jpeg") for block in reply.images)


def test_an_image_that_is_none_is_not_passed_on():
    said = record(
        {"width": 9, "height": 9, "frames": 1, "turned": False, "mime": "image/png", "size": [9, 9]}, b"<script>"
    )
    box = Toolbox.in_memory({"a.png": b"\x89PNG\r\n\x1a\n\0"}, converter=Turned(said))
    reply = box.call("read_file", {"path": "a.png"})
    assert (reply.code, reply.images) == ("BROKEN_FILE", ())


def test_a_worker_that_falls_after_some_pages_leaves_those():
    said = record({"count": 9}, b"") + record({"page": 1, "text": "one", "cut": 0}, b"")
    reply = Toolbox.in_memory({"a.pdf": b"%PDF-1.7\n\0"}, converter=Turned(said, -11)).call(
        "read_file", {"path": "a.pdf"}
    )
    assert (reply.status, reply.data["pages"], reply.data["ended"]) == ("partial", [1], "broken")
    assert "=== Page 1\none" in reply.text
    assert "Not shown: pages 2-9" in reply.text


@pytest.mark.parametrize(("name", "extra"), [("a.png", "images"), ("a.pdf", "pdf")])
def test_without_its_extra_it_says_what_to_install(name: str, extra: str):
    source = Path(__file__).parents[3] / "src"
    code = f"""
import sys
sys.path.append({str(source)!r})
from handhold import Toolbox
data = {{"a.png": b"\\x89PNG\\r\\n\\x1a\\n\\0", "a.pdf": b"%PDF-1.7\\n\\0"}}
reply = Toolbox.in_memory(data).call("read_file", {{"path": {name!r}}})
print(reply.code, reply.error_source, reply.text)
"""
    said = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("EXTRA_MISSING infra ")
    assert f"handhold[{extra}]" in said
