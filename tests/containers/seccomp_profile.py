"""Makes `deploy/seccomp.json`: the filter that the engine gives a container by default, and what the overlay needs in
addition. `python -m tests.containers.seccomp_profile` writes it. Needs root.

The default comes from the engine itself: the runtime's configuration of a container has the filter in full.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.containers.engine import PROJECT, Engine, running_engine

PROFILE = PROJECT / "deploy/seccomp.json"
# Without any one of these, bubblewrap does not start. The kernel allows them to a plain user only in a namespace of its own.
ADDED = ("mount", "pivot_root", "sethostname", "umount2", "unshare")
# By default `clone` is allowed unless it creates a namespace. `clone3` stays unimplemented, so programs take `clone`.
UNRESTRICTED = "clone"
# libseccomp leaves out what is not the machine's.
ARCHITECTURES = [f"SCMP_ARCH_{name}" for name in ("X86_64", "X86", "X32", "AARCH64", "ARM")]


def read_default_filter(engine: Engine, image: str) -> dict[str, Any]:
    """The filter of a container that was started without an option about it."""
    container = engine.docker("run", "--detach", "--network", "none", image, "sleep", "60").decode().strip()
    try:
        folder = engine.socket.parent / "exec"
        (configuration,) = folder.glob(f"containerd/daemon/io.containerd.runtime.v2.task/moby/{container}/config.json")
        return json.loads(configuration.read_text())["linux"]["seccomp"]
    finally:
        engine.docker("rm", "--force", container)


def build_profile(default: dict[str, Any], added: tuple[str, ...] = ADDED, unrestricted: str = UNRESTRICTED) -> str:
    rules = [dict(rule) for rule in default["syscalls"]]
    for rule in rules:
        if rule["names"] == [unrestricted]:
            del rule["args"]
    rules.append({"names": list(added), "action": "SCMP_ACT_ALLOW"})
    return json.dumps({**default, "architectures": ARCHITECTURES, "syscalls": rules}, indent=1) + "\n"


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory(prefix="engine-", ignore_cleanup_errors=True) as name,
        running_engine(Path(name), in_memory=True) as engine,
    ):
        PROFILE.write_text(build_profile(read_default_filter(engine, engine.load_image())))
