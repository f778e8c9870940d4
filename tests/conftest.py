"""How properties are tried: the same examples on every run in CI, new ones at home."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "handhold",
    deadline=None,  # the machine may be busy; pytest-timeout ends what hangs
    max_examples=100,
    derandomize=os.environ.get("CI") == "true",
    # A suite's properties are inherited by several classes, on purpose.
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("handhold")
