"""Standard output carries only the protocol, whatever the process or its children print."""

import os
from pathlib import Path

import pytest

from tests.clients.line import connected
from tests.scale import sampled

ASTRAY = "this went astray"
# Found by Python at its start, before anything of ours: what a careless library, plugin or debugging session would do.
CARELESS = f"""
import atexit, logging, os, subprocess, sys, threading, time, warnings

print("{ASTRAY}: before anything was served")
atexit.register(print, "{ASTRAY}: at the end")

def talk():
    while os.fstat(1).st_ino != os.fstat(2).st_ino:  # wait until standard output is redirected
        time.sleep(0.001)
    for n in range(1_000_000):
        print("{ASTRAY}: from a thread", n, flush=True)
        print("{ASTRAY}: and never flushed", n)
        os.write(1, b"{ASTRAY}: without Python's knowledge\\n")
        sys.__stdout__.write('{{"jsonrpc": "2.0", "id": "read", "result": "{ASTRAY}"}}\\n')
        subprocess.run(["echo", "{ASTRAY}: from a child"])
        warnings.warn("{ASTRAY}: as a warning", ResourceWarning)
        logging.error("{ASTRAY}: as a log entry")
        threading.Thread(target=lambda: 1 / 0).start()  # a traceback
        time.sleep(0.05)

threading.Thread(target=talk, daemon=True).start()
"""
CHATTY = f"""
echo {ASTRAY}; echo {ASTRAY} >&2; echo {ASTRAY} > /dev/stdout; echo {ASTRAY} > /proc/self/fd/1
(setsid sh -c 'echo {ASTRAY}; sleep 0.3; echo {ASTRAY} late' &)
cat; printf '\\0\\033]0;title\\007\\377\\n'
"""


@pytest.mark.parametrize("shell", sampled(["unconfined", "contained"], 1))
def test_nothing_but_the_protocol_is_on_standard_output(shell: str, tmp_path: Path):
    root, careless = tmp_path / "root", tmp_path / "careless"
    root.mkdir()
    careless.mkdir()
    (root / "a.txt").write_text("text\n")
    (careless / "sitecustomize.py").write_text(CARELESS)
    env = {**os.environ, "PYTHONPATH": str(careless), "PYTHONWARNINGS": "always", "PYTHONDEVMODE": "1"}
    env.pop("PYTHONUNBUFFERED", None)  # otherwise earlier output is written before it can be redirected
    with connected(root, tmp_path / "state", "--shell", shell, "--policy", "open", env=env) as wire:
        wire.greet()
        answers = [
            wire.ask("list", "tools/list"),
            wire.ask("read", "tools/call", name="read_file", arguments={"path": "a.txt"}),
            wire.ask("chat", "tools/call", name="bash", arguments={"command": CHATTY, "timeout": 20}),
            wire.ask(
                "job",
                "tools/call",
                name="bash",
                arguments={"command": f"while echo {ASTRAY}; do sleep 0.01; done", "background": True},
            ),
            wire.ask("wrong", "tools/call", name="bash", arguments={"command": ["a", "list"]}),
            wire.ask("still", "tools/call", name="read_file", arguments={"path": "a.txt"}),
        ]
        ended, said = wire.gone()
        after = list(iter(wire.heard.get, b""))
    assert ended == 0, said[-2000:]
    assert after == []
    assert [answer["id"] for answer in answers if "result" in answer] == [
        "list",
        "read",
        "chat",
        "job",
        "wrong",
        "still",
    ]
    assert ASTRAY in answers[2]["result"]["content"][0]["text"]
    assert "text" in answers[1]["result"]["content"][0]["text"]
    for way in ("before anything was served", "from a thread", "without", "from a child", "as a warning", "at the end"):
        assert f"{ASTRAY}: {way}" in said
    assert "ZeroDivisionError" in said
