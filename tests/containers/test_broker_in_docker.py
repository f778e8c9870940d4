"""Commands in a default Docker container, without a setting changed: confined, equal to bare bash, and undone exactly.
And the same for a plain user of a machine that allows no user namespaces."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.backends.shell.people import copies, interpreter
from tests.containers.engine import Engine, install_handhold, missing_programs, read_json_lines
from tests.containers.test_hostile_commands import DRIVER as HOSTILE_DRIVER
from tests.containers.test_hostile_commands import read_tables
from tests.everyday.runner import read_workloads, run_brokered
from tests.scale import nightly, sampled, scaled

DRIVER = Path(__file__).with_name("broker_driver.py")
ESCAPE_DRIVER, ATTACKS = DRIVER.with_name("escape_driver.py"), DRIVER.with_name("escape_attacks.toml")
WITHOUT_NAMESPACES = DRIVER.parents[1] / "backends/shell/without_namespaces.py"
SCRIPTS = scaled(25, 1000)  # for each user
USERS = pytest.mark.parametrize("user", ["0", "1000"], ids=["root", "uid 1000"])

pytestmark = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    app = tmp_path_factory.mktemp("app")
    install_handhold(app)
    return {"app": app, "driver.py": DRIVER.read_bytes(), "hostile.py": HOSTILE_DRIVER.read_bytes()}


def check_reports(output: bytes, user: int) -> None:
    about, *reports = read_json_lines(output)
    assert about["user"] == user
    assert isinstance(sandbox := about["sandbox"], dict), about
    assert sandbox["by"] == "broker"
    assert sandbox["shadow"]
    assert len(reports) == SCRIPTS
    assert [report for report in reports if not report["exact"]] == []
    different = [report for report in reports if not report["equal"]]
    print(f"{len(reports)} scripts as uid {user}, {len(different)} differ from bare bash:", *different, sep="\n")
    assert len(different) <= SCRIPTS * 0.002, different


@pytest.mark.timeout(7200)
@USERS
def test_commands_are_held_and_undone_in_a_default_container(
    engine: Engine, image: str, files: dict[str, bytes | Path], user: str
):
    """On a volume; the engine's data folder may be on ext4 or in memory."""
    argv = ["env", "PYTHONPATH=/app", "HOME=/tmp", "python3", "/driver.py", "/ws/project", "0", str(SCRIPTS)]
    with engine.open_volume(image) as volume:
        output = engine.run_default(image, argv, files, user=user, volumes={"/ws": volume}, seconds=7000)
    check_reports(output, int(user))


@pytest.mark.timeout(7200)
def test_commands_of_a_plain_user_are_held_and_undone_without_user_namespaces(plain: Path):
    """The probe chooses the broker: user.max_user_namespaces is 0."""
    (plain / "driver.py").write_bytes(DRIVER.read_bytes())
    owner = str(plain.stat().st_uid)
    become = ["setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", "env"]
    become += [f"PYTHONPATH={copies()}", f"HOME={plain}"]
    argv = [interpreter(), str(plain / "driver.py"), str(plain / "project"), "0", str(SCRIPTS)]
    done = subprocess.run(
        [interpreter(), str(WITHOUT_NAMESPACES), *become, *argv],
        cwd=plain,
        capture_output=True,
        check=True,
        timeout=7000,
    )
    check_reports(done.stdout, int(owner))


@pytest.mark.timeout(1200)
@USERS
def test_no_attack_escapes_from_a_command_in_a_default_container(
    engine: Engine, image: str, files: dict[str, bytes | Path], user: str
):
    groups = tomllib.loads(ATTACKS.read_text())["attack"]
    rows = [
        {"command": command, "secrets": "usable", "shows": False, **group, "expected_bare": group["bare"]}
        for group in groups
        for command in group["commands"]
    ]
    chosen = sampled(rows, 30, lambda row: row["kind"])
    given = {**files, "escapes.py": ESCAPE_DRIVER.read_bytes(), "rows.json": json.dumps(chosen).encode()}
    argv = ["env", "PYTHONPATH=/app", "python3", "/escapes.py", "/rows.json"]
    reports = read_json_lines(engine.run_default(image, argv, given, user=user, tmpfs=("/ws",), seconds=1000))
    assert len(reports) == len(chosen)
    escaped = [each for each in reports if has_succeeded(each["held"], shows=bool(each["shows"]))]
    assert escaped == []
    for each in reports:  # an attack that fails everywhere proves nothing
        if each["expected_bare"] == "all" or (each["expected_bare"] == "root" and user == "0"):
            assert has_succeeded(each["bare"], shows=bool(each["shows"])), each
    print(f"{len(reports)} attacks as uid {user}: none succeeds")


def has_succeeded(outcome: object, *, shows: bool) -> bool:
    assert isinstance(outcome, dict)
    return bool(outcome["found"]) or (not shows and outcome["status"] == 0)


@pytest.mark.timeout(1200)
@USERS
def test_hostile_commands_do_no_harm_in_a_default_container(
    engine: Engine, image: str, files: dict[str, bytes | Path], user: str
):
    rows = sampled([{"command": row["command"]} for row in read_tables()], 30)
    argv = ["env", "PYTHONPATH=/app", "python3", "/hostile.py", "/rows.json"]
    tmpfs = ("/ws", "/state", "/home/user", "/tmp", "/var/tmp")
    given = {**files, "rows.json": json.dumps(rows).encode()}
    reports = read_json_lines(engine.run_default(image, argv, given, user=user, tmpfs=tmpfs, seconds=1000))
    assert len(reports) == len(rows)
    assert [report for report in reports if report["found"]] == []
    assert any(report["status"] == "success" for report in reports)


@nightly(
    sampled_by="tests/containers/test_broker_in_docker.py::test_commands_are_held_and_undone_in_a_default_container"
)
@pytest.mark.timeout(4000)
@USERS
def test_everyday_work_comes_out_as_in_bash_in_a_default_container(user: str):
    """`just everyday --brokered UID` prints the table."""
    assert run_brokered(read_workloads(), user) == 0
