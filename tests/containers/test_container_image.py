"""What people deploy: the image of `Containerfile`, the seccomp profile, the pods, and rollouts in many containers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from bench.rollouts import run_rollouts
from tests.containers.container_image import build_image
from tests.containers.engine import Engine, missing_programs
from tests.containers.pods import FOLDER, build_docker_options, find_violations, read_pod
from tests.containers.seccomp_profile import ADDED, PROFILE, build_profile, read_default_filter
from tests.scale import scaled

UNMASKED = ("--security-opt", "systempaths=unconfined")
OVERLAY = "Commands run in a sandbox, and their changes can be undone."
BROKER = "Commands are held by the broker, without namespaces, and their changes can be undone."
# README's example of a command, in the image's own workspace; root's workspace is root's.
EXAMPLE = """
set -e
[ "$(id -u)" != 0 ] || chown 0:0 .
handhold doctor --json > ../doctor.json
echo hi > a.txt
handhold call bash '{"command": "rm -rf *"}' >&2
test ! -e a.txt
handhold undo >&2
cat a.txt
python3 -c 'import json; print(json.load(open("../doctor.json"))["held_by"])'
"""

in_docker = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(900),
]


def docker_only(test: Any) -> Any:
    for mark in in_docker:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def handhold_image(engine: Engine, image: str, wheel: Path) -> str:
    return build_image(engine, image, wheel)


def run_image(engine: Engine, image: str, *options: str, argv: tuple[str, ...] = ("handhold", "doctor")) -> str:
    return engine.docker("run", "--rm", "--network", "none", *options, image, *argv, seconds=120).decode()


SETTINGS: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing changed": ((), "broker"),
    "root": (("--user", "0"), "broker"),
    "no capability": (("--cap-drop", "ALL", "--security-opt", "no-new-privileges"), "broker"),
    "our profile": (("--security-opt", f"seccomp={PROFILE}", *UNMASKED), "overlay"),
    "our profile, root": (("--security-opt", f"seccomp={PROFILE}", *UNMASKED, "--user", "0"), "overlay"),
    "our profile, but /proc is masked": (("--security-opt", f"seccomp={PROFILE}"), "broker"),
}


@docker_only
@pytest.mark.parametrize(("options", "held_by"), SETTINGS.values(), ids=SETTINGS.keys())
def test_readmes_command_works_in_the_image_and_is_undone(
    engine: Engine, handhold_image: str, options: tuple[str, ...], held_by: str
):
    assert run_image(engine, handhold_image, *options, argv=("bash", "-c", EXAMPLE)).split() == ["hi", held_by]


TRY = 'mkdir -p "$0" && cd "$0" && handhold call bash "{\\"command\\": \\"true\\"}" >&2; echo $?'


@docker_only
@pytest.mark.parametrize(("workspace", "status"), [("/mounted/workspace", "0"), ("/mounted", "1")])
def test_a_volume_is_mounted_above_the_workspace_and_not_at_it(
    engine: Engine, handhold_image: str, workspace: str, status: str
):
    mount = ("--tmpfs", "/mounted:uid=1000,exec")
    assert run_image(engine, handhold_image, *mount, argv=("sh", "-c", TRY, workspace)).split() == [status]


# --- the profile


@docker_only
def test_the_profile_is_the_engines_default_and_what_the_overlay_needs(engine: Engine, image: str):
    default = read_default_filter(engine, image)
    ours = json.loads(PROFILE.read_text())
    version = engine.docker("version", "--format", "{{.Server.Version}}").decode().strip()
    if version.startswith("20.10."):
        assert PROFILE.read_text() == build_profile(default), "run python -m tests.containers.seccomp_profile"
    else:  # later ones allow more
        assert set(ADDED) <= {name for rule in ours["syscalls"] for name in rule["names"]}


@docker_only
@pytest.mark.parametrize("missing", [*ADDED, "clone"])
def test_nothing_that_the_profile_adds_is_superfluous(
    engine: Engine, image: str, handhold_image: str, tmp_path: Path, missing: str
):
    added = tuple(name for name in ADDED if name != missing)
    unrestricted = "nothing" if missing == "clone" else "clone"
    (tmp_path / "profile.json").write_text(build_profile(read_default_filter(engine, image), added, unrestricted))
    options = ("--security-opt", f"seccomp={tmp_path}/profile.json", *UNMASKED)
    assert run_image(engine, handhold_image, *options).startswith(BROKER)


# --- pods


PODS = sorted(path.stem for path in FOLDER.glob("*.yaml"))


@pytest.fixture(params=PODS)
def pod(request: pytest.FixtureRequest) -> dict[str, Any]:
    return read_pod(request.param)


@pytest.mark.parametrize("version", ["1.33", "1.37"])
def test_the_pods_are_valid_by_the_schemas_of_kubernetes(pod: dict[str, Any], version: str):
    kubernetes_validate.validate(pod, version, strict=True)
    wrong = {**pod, "spec": {**pod["spec"], "hostUser": False}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_restricted_admits_the_pod_of_the_broker_and_one_field_of_the_other_needs_more():
    assert {name: set(find_violations(read_pod(name))) for name in PODS} == {
        "broker": set(),
        "overlay": {"folders: procMount", "handhold: procMount"},
    }
    assert read_pod("overlay")["spec"]["hostUsers"] is False  # or the API server refuses an unmasked /proc


@pytest.fixture
def volume(engine: Engine, image: str) -> Iterator[str]:
    """As an emptyDir."""
    with engine.open_volume(image) as name:
        yield name


@docker_only
@pytest.mark.parametrize("name", PODS)
def test_a_container_with_the_settings_of_the_pod_holds_commands(
    engine: Engine, handhold_image: str, volume: str, name: str
):
    """There is no cluster here: Docker with the same user, capabilities, filter, mounts and read-only root."""
    pod = read_pod(name)
    options = build_docker_options(pod, PROFILE)
    # nocopy: an emptyDir does not get what the image has there.
    mounts = ["--mount", f"type=volume,source={volume},target=/agent,volume-nocopy", "--tmpfs", "/tmp:mode=1777"]
    (folders,) = pod["spec"]["initContainers"]
    first = ("--workdir", folders["workingDir"])
    run_image(engine, handhold_image, *options, *mounts, *first, argv=tuple(folders["command"]))
    assert run_image(engine, handhold_image, *options, *mounts, argv=("bash", "-c", EXAMPLE)).split() == ["hi", name]
    (server,) = pod["spec"]["containers"]
    serve = " ".join(server["command"])
    script = f"{serve} & until curl -fs http://127.0.0.1:8765/healthz; do sleep 0.2; done; kill $!; wait"
    run_image(engine, handhold_image, *options, *mounts, argv=("bash", "-c", script))


# --- rollouts


@docker_only
@pytest.mark.parametrize("user", ["0", "1000"])
def test_rollouts_in_containers_from_one_image_are_right(engine: Engine, handhold_image: str, user: str):
    """`python -m bench.rollouts` runs 64 of them, and prints what they cost."""
    reports = run_rollouts(engine, handhold_image, user, containers=scaled(2, 16), calls=scaled(60, 200))
    assert {report["by"] for report in reports} == {"broker"}
    assert {report["user"] for report in reports} == {int(user)}
    assert [report for report in reports if report["wrong"]] == []
