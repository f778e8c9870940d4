"""The pods of `deploy/kubernetes`: as a Docker container with the same settings, and what the Pod Security Standard
"restricted" says about them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.containers.engine import PROJECT

FOLDER = PROJECT / "deploy/kubernetes"
VOLUME_KINDS = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}


def read_pod(name: str) -> dict[str, Any]:
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def build_docker_options(pod: dict[str, Any], profile: Path) -> list[str]:
    """Options of `docker run` with the effect of the pod's settings. Docker's default stands for RuntimeDefault."""
    spec = pod["spec"]
    (container,) = spec["containers"]
    shared, own = spec["securityContext"], container["securityContext"]
    options = ["--user", f"{shared['runAsUser']}:{shared['runAsGroup']}"]
    options += [flag for each in own["capabilities"]["drop"] for flag in ("--cap-drop", each)]
    options += ["--memory", container["resources"]["limits"]["memory"].removesuffix("i").lower()]
    if not own["allowPrivilegeEscalation"]:
        options += ["--security-opt", "no-new-privileges"]
    if own["readOnlyRootFilesystem"]:
        options += ["--read-only"]
    if own.get("procMount") == "Unmasked":
        options += ["--security-opt", "systempaths=unconfined"]
    if shared["seccompProfile"]["type"] == "Localhost":
        options += ["--security-opt", f"seccomp={profile}"]
    return options


def find_violations(pod: dict[str, Any]) -> Iterator[str]:
    """What "restricted" does not admit, by the fields that the standard lists."""
    spec = pod["spec"]
    shared = spec.get("securityContext", {})
    yield from (f"{name} is set" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes", ()):
        yield from (f"volume of kind {kind}" for kind in volume.keys() - {"name"} - VOLUME_KINDS)
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        context = shared | container.get("securityContext", {})
        capabilities = context.get("capabilities", {})
        admitted = {
            "privileged": not context.get("privileged"),
            "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
            "capabilities": "ALL" in capabilities.get("drop", ())
            and set(capabilities.get("add", ())) <= {"NET_BIND_SERVICE"},
            "runAsNonRoot": context.get("runAsNonRoot") is True and context.get("runAsUser") != 0,
            "seccompProfile": context.get("seccompProfile", {}).get("type") in ("RuntimeDefault", "Localhost"),
            "procMount": context.get("procMount", "Default") == "Default",
            "hostPort": not any("hostPort" in port for port in container.get("ports", ())),
        }
        yield from (f"{container['name']}: {field}" for field, good in admitted.items() if not good)
