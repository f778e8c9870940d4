"""How properties are tried: the same examples on every run in CI, new ones at home; that CI skips nothing; and where a
plain user lives."""

import fcntl
import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Generator, Hashable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.containers.engine import Engine, running_engine
from tests.faults.trees import NOBODY
from tests.scale import NIGHTLY, each_value_once, scaled

PROJECT = Path(__file__).parents[1]
CI = os.environ.get("CI") == "true"
gc.disable()  # until all is collected
signal.signal(signal.SIGINT, signal.default_int_handler)  # who was started in the background ignores it
os.environ["XDG_CONFIG_HOME"] = os.devnull  # whoever runs the tests may have settings of their own
BESIDE = "is not beside the project"  # of a source that is no part of it: the one reason that counts everywhere

settings.register_profile(
    "handhold",
    deadline=None,  # the machine may be busy; pytest-timeout ends what hangs
    max_examples=scaled(10, 100),
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


# Where a case takes long: there, two users and six endings are six tests and not twelve, except in `just nightly`.
COMBINED = (
    *("tests/adapters/", "tests/backends/", "tests/cli/", "tests/clients/"),
    *("tests/faults/", "tests/integration/", "tests/server/"),
)


# Fixtures for who runs a test, and behind which barriers. With every change each test has one value of each, in turns.
ALTERNATING = ("who", "walls")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is for `just nightly`. Deselected, not skipped: in CI a test that is skipped has failed."""
    if NIGHTLY or any("[" in argument for argument in config.args):  # or one combination was asked for by its name
        return
    left_out = {item for item in items if item.get_closest_marker("nightly")} | {*superfluous_combinations(items)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def superfluous_combinations(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of a test with several parameters, the combinations that try no value that others do not try."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith(COMBINED) and hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    used: Counter[Hashable] = Counter()
    for combined in tests.values():
        combinations = [combination(item) for item in combined]
        alternating = {value for each in combinations for value in each if isinstance(value, tuple)}
        kept = set(each_value_once(combinations, alternating, used))
        yield from (item for n, item in enumerate(combined) if n not in kept)


def combination(item: pytest.Item) -> list[Hashable]:
    """The values of a test's parameters by their ids; an alternating one with its name."""
    given = vars(item)["callspec"]
    ids = list(given._idlist)
    named = [(name, str(given.params[name])) for name in ALTERNATING if name in given.params]
    for _, value in named:
        ids.remove(value)
    return [*named, *ids]


def pytest_collection_finish() -> None:
    """What was imported stays: the garbage collector need not go through every framework again and again."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that is skipped has failed: what it lacks there belongs into `.ci/run`."""
    report = yield
    if CI and report.skipped and not hasattr(report, "wasxfail") and BESIDE not in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built once for all processes of a run."""
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not on the path")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not list(folder.glob("*.whl")):
            subprocess.run([uv, "build", "--quiet", "--wheel", "--out-dir", folder, PROJECT], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture
def plain() -> Iterator[Path]:
    """A home of a plain user, who does not reach ours."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes somebody else")
    home = Path(tempfile.mkdtemp(prefix="plain-"))
    os.chown(home, NOBODY, NOBODY)
    yield home
    shutil.rmtree(home)


# --- containers


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    # Not tmp_path: the engine's sockets need a short path.
    folder = tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True)
    with folder as name, running_engine(Path(name), in_memory=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def image(engine: Engine) -> str:
    return engine.load_image()
