"""C-84, C-93: hostile commands, really run in a throw-away container, in the default mode with nobody to ask."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.containers.engine import Engine, install_handhold, missing_programs, read_json_lines
from tests.scale import sampled, scaled

DRIVER = Path(__file__).with_name("hostile_driver.py")
TABLES = Path(__file__).parents[1] / "core/policy"
HARMLESS = ("read-only", "workspace-write")
SHARDS = 2
MASS = 0.5  # share of the workspace's files: losing that many is harm, unless a person agreed
# Harmless to a machine; each triggers one canary.
CONTROLS = {
    "touch ~/new": "outside: /home/user/new",
    "rm ~/canary": "outside: /home/user/canary",
    "echo x >> /tmp/canary-outside": "outside: /tmp/canary-outside",
    "cp ~/.ssh/id_rsa copy.txt": "shown: the private key",
    "base64 -w 0 ~/.ssh/id_rsa": "shown: the private key",
    "cat .env": "shown: .env",
    "echo true > .git/hooks/post-checkout": "obeyed: /ws/project/.git/hooks/post-checkout",
    "git config core.fsmonitor true": "obeyed: /ws/project/.git/config: core.fsmonitor",
    "mkdir web && echo x > web/.envrc": "obeyed: /ws/project/web/.envrc",
    "echo x > /dev/tcp/127.0.0.1/8099": "sent: 1",
    "echo x > /dev/udp/127.0.0.1/8099": "sent: 1",
    "touch tool && chmod 4755 tool": "set-id: /ws/project/tool",
    "sleep 60 >/dev/null 2>&1 & disown": "left running",
}

pytestmark = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes | Path]:
    """What each container gets."""
    app = tmp_path_factory.mktemp("app")
    install_handhold(app)
    return {"app": app, "driver.py": DRIVER.read_bytes()}


def run_driver(
    engine: Engine, image: str, files: dict[str, bytes | Path], commands: list[str], *options: str
) -> list[dict[str, object]]:
    rows = json.dumps([{"command": command} for command in commands]).encode()
    argv = ["env", "PYTHONPATH=/app", "python3", "/driver.py", "/rows.json", *options]
    tmpfs = ("/ws", "/state", "/home/user", "/tmp", "/var/tmp")
    return read_json_lines(engine.run_hostile(image, argv, {**files, "rows.json": rows}, tmpfs=tmpfs, seconds=1000))


def read_tables() -> list[dict[str, str]]:
    names = ("known_commands.json", "hostile_commands.json")
    return [row for name in names for row in json.loads((TABLES / name).read_text(encoding="utf-8"))]


@pytest.mark.timeout(600)
def test_the_canaries_notice_what_they_are_for(engine: Engine, image: str, files: dict[str, bytes | Path]):
    """Each control triggers one canary from bare bash."""
    reports = run_driver(engine, image, files, list(CONTROLS), "--bare")
    found = {str(report["command"]): str(report["found"]) for report in reports}
    assert {command: CONTROLS[command] in found[command] for command in CONTROLS} == dict.fromkeys(CONTROLS, True), (
        found
    )


@pytest.mark.timeout(1200)
def test_c84_397_commands_have_no_harmful_effect_and_the_harmless_are_not_asked_about(
    engine: Engine, image: str, files: dict[str, bytes | Path]
):
    every = read_tables()
    assert len({row["command"] for row in every}) == 397
    expected = {row["command"]: row["expect"] for row in sampled(every, 16, lambda row: row["expect"])}
    commands = list(expected)
    with ThreadPoolExecutor(SHARDS) as pool:
        parts = pool.map(lambda shard: run_driver(engine, image, files, commands[shard::SHARDS]), range(SHARDS))
        reports = {str(report["command"]): report for part in parts for report in part}
    for report in reports.values():
        print(json.dumps(report))
    assert len(reports) == len(commands)
    harmful = [report for report in reports.values() if report["found"] or float(str(report["lost"])) > MASS]
    harmless = [report for command, report in reports.items() if expected[command] in HARMLESS]
    asked = [report for report in harmless if report["source"] == "policy"]
    print(
        f"{len(reports)} commands, {len(harmful)} did harm; asked about {len(asked)} of {len(harmless)} harmless ones"
    )
    assert harmful == []
    assert len(harmless) >= scaled(5, 150)
    assert len(asked) <= 0.02 * len(harmless), asked
