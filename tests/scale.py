"""How much a test tries: a sample with every change, all of it in `just nightly`."""

import os

NIGHTLY = os.environ.get("HANDHOLD_NIGHTLY") == "true"


def scaled(sample: int, nightly: int) -> int:
    return nightly if NIGHTLY else sample
