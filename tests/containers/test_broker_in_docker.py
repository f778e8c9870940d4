"""Commands in a default Docker container, without a setting changed: confined, equal to bare bash, and undone exactly."""

import json
from pathlib import Path

import pytest

from tests.containers.engine import Engine, install_handhold, missing_programs, read_json_lines
from tests.containers.test_hostile_commands import DRIVER as HOSTILE_DRIVER
from tests.containers.test_hostile_commands import read_tables
from tests.scale import sampled, scaled

DRIVER = Path(__file__).with_name("broker_driver.py")
SCRIPTS = scaled(25, 1000)  # for each user

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


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("user", "folder"), [("0", "/root-ws"), ("1000", "/ws/project")], ids=["root", "uid 1000"])
def test_commands_are_held_and_undone_in_a_default_container(
    engine: Engine, image: str, files: dict[str, bytes | Path], user: str, folder: str
):
    argv = ["env", "PYTHONPATH=/app", "HOME=/tmp", "python3", "/driver.py", folder, "0", str(SCRIPTS)]
    output = engine.run_default(image, argv, files, user=user, tmpfs=("/ws",), seconds=3500)
    about, *reports = read_json_lines(output)
    assert about["user"] == int(user)
    assert isinstance(sandbox := about["sandbox"], dict), about
    assert sandbox["by"] == "broker"
    assert sandbox["shadow"]
    assert len(reports) == SCRIPTS
    assert [report for report in reports if not report["exact"]] == []
    different = [report for report in reports if not report["equal"]]
    assert len(different) <= SCRIPTS * 0.002, different


@pytest.mark.timeout(1200)
def test_hostile_commands_do_no_harm_in_a_default_container(engine: Engine, image: str, files: dict[str, bytes | Path]):
    rows = sampled([{"command": row["command"]} for row in read_tables()], 60)
    argv = ["env", "PYTHONPATH=/app", "python3", "/hostile.py", "/rows.json"]
    tmpfs = ("/ws", "/state", "/home/user", "/tmp", "/var/tmp")
    given = {**files, "rows.json": json.dumps(rows).encode()}
    reports = read_json_lines(engine.run_default(image, argv, given, user="1000:1000", tmpfs=tmpfs, seconds=1000))
    assert len(reports) == len(rows)
    assert [report for report in reports if report["found"]] == []
    assert any(report["status"] == "success" for report in reports)
