"""A process of a fork that dies or answers nonsense is an error of the call, never a hang."""

import subprocess
import sys
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import pytest

from handhold.backends.forks import tool_process
from handhold.backends.forks.fork_mount import RunningProgram
from handhold.backends.forks.tool_process import ToolProcess
from handhold.core.errors import ForkUnavailable, SystemFailure

# Each gets a socket `s` with a request on it, and `send`, which frames what it sends.
PARTS = {
    "it dies": "raise SystemExit(3)",
    "it closes": "s.close(); time.sleep(60)",
    "it is silent": "time.sleep(60)",
    "it is silent and ignores signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
    "it is no JSON": "send(b'{nonsense'); time.sleep(60)",
    "it is a pickle": "send(pickle.dumps((1, 'value', print))); time.sleep(60)",
    "it has no frame": "s.sendall(b'HTTP/1.1 200 OK\\r\\n\\r\\n' * 100); time.sleep(60)",
    "it is too large": "s.sendall(struct.pack('!I', 2**32 - 1)); time.sleep(60)",
    "it never ends": "s.sendall(struct.pack('!I', 1000)); time.sleep(60)",
    "it is deep": "send(b'[' * 100000); time.sleep(60)",
    "it is no message": "send(b'{}'); time.sleep(60)",
    "it has an unknown kind": "send(b'[1,\"value\",1]'); time.sleep(60)",
    "it has an unknown kind for all": "send(b'[0,\"value\",1]'); time.sleep(60)",
    "it is no text": 'send(b\'[1,"result",{"$":"Popen"}]\'); time.sleep(60)',
    "it is no output": "send(b'[1,\"output\",7]'); time.sleep(60)",
    "it asks nonsense": 'send(b\'[1,"question",{"$":"Question"}]\'); time.sleep(60)',
    "it is no error": 'send(b\'[1,"error",{"$":"SystemExit"}]\'); time.sleep(60)',
    "it is no error for all": "send(b'[0,\"error\",7]'); time.sleep(60)",
}
CODE = """
import pickle, signal, socket, struct, sys, time
s = socket.socket(fileno=int(sys.argv[1]))
def send(data): s.sendall(struct.pack('!I', len(data)) + data)
s.recv(1)
"""


@contextmanager
def start(code: str, fds: Sequence[int]) -> Generator[RunningProgram]:
    with subprocess.Popen([sys.executable, "-c", CODE + code, str(fds[0])], pass_fds=fds) as process:
        yield RunningProgram(process, -1)


def make(code: str, **options: object) -> ToolProcess:
    return ToolProcess("try", lambda _, fds: start(code, fds), options, lambda _: (None, ""))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_process, "PING_SECONDS", 0.1)
    monkeypatch.setattr(tool_process, "SILENCE_SECONDS", 0.4)
    monkeypatch.setattr(tool_process, "CLOSE_SECONDS", 0.1)


@pytest.mark.parametrize("code", PARTS.values(), ids=PARTS)
def test_v1_a_part_that_dies_or_answers_nonsense_is_an_error_of_the_call(code: str):
    process = make(code)
    with pytest.raises(SystemFailure):
        process.request("diff", target=None)
    process.close()
    assert not process.is_running


def test_v1_everybody_who_waits_is_told():
    process = make("time.sleep(0.5); raise SystemExit")
    told: list[BaseException] = []

    def ask() -> None:
        try:
            process.request("log", last=None, everyone=False)
        except SystemFailure as error:
            told.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(told) == 4
    process.close()


def test_v1_only_named_operations_and_data_are_sent():
    process = make('send(b\'[1,"result",""]\'); time.sleep(60)')
    with pytest.raises(TypeError):
        process.request("diff", target=print)
    with pytest.raises(KeyError):
        process.request("store._db.execute", sql="")
    process.close()
    with pytest.raises(ForkUnavailable):
        make("", policy=object()).request("diff", target=None)
