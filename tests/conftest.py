"""How properties are tried: the same examples on every run in CI, new ones at home; that CI skips nothing; and where a
plain user lives."""

import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.faults.trees import NOBODY
from tests.scale import NIGHTLY, scaled

CI = os.environ.get("CI") == "true"
signal.signal(signal.SIGINT, signal.default_int_handler)  # who was started in the background ignores it
os.environ["XDG_CONFIG_HOME"] = os.devnull  # whoever runs the tests may have settings of their own
BESIDE = "is not beside the project"  # of a source that is no part of it: the one reason that counts everywhere

settings.register_profile(
    "handhold",
    deadline=None,  # the machine may be busy; pytest-timeout ends what hangs
    max_examples=scaled(25, 100),
    derandomize=CI,
    # A suite's properties are inherited by several classes, on purpose.
    suppress_health_check=[HealthCheck.differing_executors],
)
settings.load_profile("handhold")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m alone` needs none of the files that have no such test, and none of the frameworks that they import."""
    if (
        config.option.markexpr == "alone"
        and collection_path.name.startswith("test_")
        and collection_path.suffix == ".py"
    ):
        return b"pytest.mark.alone" not in collection_path.read_bytes() or None
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `just nightly`. Deselected, not skipped: in CI a test that is skipped has failed."""
    if NIGHTLY:
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not go through every framework again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped has failed: what it lacks there belongs into `.ci/run`."""
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail") and BESIDE not in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.fixture
def plain() -> Iterator[Path]:
    """A home of a plain user, who does not reach ours."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    home = Path(tempfile.mkdtemp(prefix="plain-"))
    os.chown(home, NOBODY, NOBODY)
    yield home
    shutil.rmtree(home)
