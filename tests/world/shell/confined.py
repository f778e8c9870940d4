"""Runs one command in the sandbox, as whoever starts it: python -m confined '{"command": "…", …}'.

It is a program of its own so that a test can start it as another user.
"""

import json
import subprocess
import sys

from handhold.world.shell.limits import Limits
from handhold.world.shell.sandbox import Mount, sandbox


def main() -> int:
    given = json.loads(sys.argv[1])
    mounts = [Mount(**{**mount, "protected": tuple(mount.get("protected", ()))}) for mount in given.pop("mounts")]
    box = sandbox(given.pop("mode"))
    limits = Limits(**given.pop("limits", {}))
    launch = box.launch(["bash", "-c", given.pop("command")], mounts=mounts, limits=limits, **given)
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
