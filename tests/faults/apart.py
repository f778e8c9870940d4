"""Runs a test in its own small process.

A fork costs more the more memory the process has, and a process that runs all tests has imported every framework
they use. A test that forks thousands of times needs a small one.
"""

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]


def apart(test: Callable[..., None]) -> Callable[..., None]:
    @wraps(test)
    def wrapped(**given: Any) -> None:
        command = [sys.executable, "-m", __name__, test.__module__, test.__name__]
        done = subprocess.run(command, cwd=PROJECT, input=pickle.dumps(given), capture_output=True, check=False)
        print(done.stdout.decode())
        if done.returncode:
            pytest.fail(done.stderr.decode(errors="replace"), pytrace=False)

    return wrapped


if __name__ == "__main__":
    module, name = sys.argv[1:]
    getattr(import_module(module), name).__wrapped__(**pickle.load(sys.stdin.buffer))
