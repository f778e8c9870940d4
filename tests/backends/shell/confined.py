"""Runs one command in the sandbox, as whoever starts it: python confined.py '{"command": "…", …}'.

It is a program of its own so that a test can start it as another user. `confined.py --serve` does it in forks of one
process, which has imported everything: a request comes over the socket that is its standard input, with the two
descriptors that become standard output and standard error.
"""

import json
import os
import socket
import subprocess
import sys
import traceback

from handhold.backends.network import NO_HOSTS
from handhold.backends.program_search import distrust
from handhold.backends.shell.limits import ResourceLimits
from handhold.backends.shell.loopback import Loopback
from handhold.backends.shell.sandbox import create_sandbox
from handhold.backends.shell.sandbox_layout import Mount, WriteProtection


def main(request: str) -> int:
    given = json.loads(request)
    mounts = [Mount(**mount) for mount in given.pop("mounts")]
    for mount in mounts:  # as opening the workspace does
        distrust(mount.real)
    names = [os.path.join(given["folder"], name) for name in given.pop("protected", ())]

    def holds(place: str, _is_folder: bool) -> bool:
        return any(place == name or place.startswith(f"{name}/") for name in names)

    guarded = WriteProtection(holds, [name for name in names if os.path.exists(name)])
    box = create_sandbox(given.pop("mode"))
    limits = ResourceLimits(**given.pop("limits", {}))
    if given.pop("shared", False):
        assert box.bubblewrap
        given["loopback"] = Loopback(box.bubblewrap.path)
    network = True if given.pop("network", False) else NO_HOSTS
    launch = box.prepare_launch(
        ["bash", "-c", given.pop("command")],
        mounts=mounts,
        network=network,
        limits=limits,
        write_protection=guarded,
        **given,
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


def serve() -> None:
    with socket.socket(fileno=0) as asked:
        while True:
            data, passed, _, _ = socket.recv_fds(asked, 1 << 20, 2)
            if not data:
                return
            child = os.fork()
            if child == 0:
                perform(json.loads(data), passed)
            for fd in passed:
                os.close(fd)
            _, status = os.waitpid(child, 0)
            asked.send(str(os.waitstatus_to_exitcode(status)).encode())


def perform(request: dict[str, object], passed: list[int]) -> None:
    status = 1
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for fd, target in zip((nothing, *passed), (0, 1, 2), strict=True):
            os.dup2(fd, target)
            os.close(fd)
        os.environ.clear()
        os.environ.update(request["env"])  # pyright: ignore[reportArgumentType, reportCallIssue]
        os.chdir(str(request["cwd"]))
        status = main(str(request["given"]))
    except BaseException:  # noqa: BLE001 - as an interpreter of its own would
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status & 0xFF)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        sys.exit(main(sys.argv[1]))
