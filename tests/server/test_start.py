"""The first response does not wait for imports that it does not need."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.server_start import measured
from tests.scale import nightly


@nightly(sampled_by="tests/server/test_start.py::test_nothing_of_the_tools_is_loaded_before_the_first_answer")
@pytest.mark.alone
@pytest.mark.timeout(180)
def test_the_first_answer_comes_about_as_fast_as_the_sdk_can_say_anything():
    for _ in range(3):  # the machine may be busy for a while
        echo, handhold = measured(9)
        print(
            f"first answer: echo {echo * 1000:.0f} ms, handhold {handhold * 1000:.0f} ms, {handhold / echo:.2f} times"
        )
        if handhold <= 1.15 * echo:
            return
    pytest.fail("it is slower than that each time")


def test_nothing_of_the_tools_is_loaded_before_the_first_answer():
    loaded = "import sys, handhold.cli.mcp, handhold.server.stdio; print(*(each for each in sys.modules if 'handhold' in each))"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert not {"handhold.factory", "handhold.toolbox", "handhold.core.ports", "handhold.server.calls"} & set(
        ran.stdout.split()
    )


def test_the_package_itself_never_loads_the_server():
    loaded = "import sys, handhold; handhold.Toolbox; print('mcp' in sys.modules or 'handhold.server' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"


def test_what_is_served_is_checked_without_the_tools(tmp_path: Path):
    code = f"import sys; from handhold.server.server_config import ServerConfig; ServerConfig.for_roots({str(tmp_path)!r}); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"handhold.core.requests", "handhold.core.policy.rules", "handhold.toolbox"} & set(ran.stdout.split())
