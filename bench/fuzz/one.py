"""One target under atheris: `python -m bench.fuzz.one notebook <folders and flags of libFuzzer>`."""

import sys
from importlib import import_module
from typing import Any

atheris: Any = import_module("atheris")  # installed in its own environment: see `just fuzz`

with atheris.instrument_imports(include=["handhold"]):
    from bench.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
