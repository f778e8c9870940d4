"""A test in a small process of its own.

One that forks thousands of times pays for each fork by what it holds; who runs all tests holds every framework that
one of them imports.
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
