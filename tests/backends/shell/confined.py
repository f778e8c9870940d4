"""Runs one command in the sandbox, as whoever starts it: python -m confined '{"command": "…", …}'.

It is a program of its own so that a test can start it as another user.
"""

import json
import os
import subprocess
import sys

from handhold.backends.shell.limits import ResourceLimits
from handhold.backends.shell.loopback import Loopback
from handhold.backends.shell.sandbox import create_sandbox
from handhold.backends.shell.sandbox_layout import Mount, WriteProtection


def main() -> int:
    given = json.loads(sys.argv[1])
    mounts = [Mount(**mount) for mount in given.pop("mounts")]
    names = [os.path.join(given["folder"], name) for name in given.pop("protected", ())]

    def holds(place: str, _is_folder: bool) -> bool:
        return any(place == name or place.startswith(f"{name}/") for name in names)

    guarded = WriteProtection(holds, [name for name in names if os.path.exists(name)])
    box = create_sandbox(given.pop("mode"))
    limits = ResourceLimits(**given.pop("limits", {}))
    if given.pop("shared", False):
        assert box.bubblewrap
        given["loopback"] = Loopback(box.bubblewrap.path)
    launch = box.prepare_launch(
        ["bash", "-c", given.pop("command")], mounts=mounts, limits=limits, write_protection=guarded, **given
    )
    try:
        return subprocess.run(
            launch.argv,
            env=launch.env,
            pass_fds=launch.pass_fds,
            cwd=given["folder"],
            stdin=subprocess.DEVNULL,
            check=False,
        ).returncode
    finally:
        launch.close()


if __name__ == "__main__":
    sys.exit(main())
