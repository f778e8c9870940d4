"""No byte leaves: a sniffer beyond a network interface counts what each of many ways sends. Needs root."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.backends.shell.network_sniffer import WAYS
from tests.containers.engine import PROJECT
from tests.scale import NIGHTLY, sampled

NOBODY = 65534
LISTED = subprocess.run(
    [sys.executable, WAYS, "1", "1", "/", "192.0.2.1", "::1", "lo", "1", "1", "--list"],
    check=True,
    capture_output=True,
    text=True,
).stdout.splitlines()

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can create the network"),
    pytest.mark.skipif(shutil.which("ip") is None, reason="not installed: ip"),
]


def sniff(user: int, holder: str, ways: list[str]) -> dict[str, int]:
    argv = [sys.executable, "-m", "tests.backends.shell.network_sniffer", str(user), holder, *ways]
    return json.loads(subprocess.run(argv, cwd=PROJECT, check=True, capture_output=True, text=True, timeout=590).stdout)


@pytest.mark.parametrize("user", [0, NOBODY], ids=["root", "nobody"])
def test_nothing_arrives_beyond_the_interface(user: int):
    ways = sampled([name for name in LISTED if "far" in name], 12)
    ways += sampled([name for name in LISTED if "far" not in name], 6)
    assert not NIGHTLY or len(ways) == len(LISTED) >= 50
    held = sniff(user, "broker", ways)
    assert held == dict.fromkeys(ways, 0)
    bare = sniff(user, "bare", ways)
    passed = [name for name, frames in bare.items() if frames]
    print(f"{len(ways)} ways as uid {user}: bare lets {len(passed)} through, the broker none")
    print("bare does not let through:", *sorted(set(ways) - set(passed)), sep="\n  ")
    assert len(passed) > len(ways) / 2
