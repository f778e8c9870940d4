"""A trial command in the sandbox: what keeps it from starting would keep every command from starting."""

import os
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from handhold.backends.programs import TimeoutExpired, run_program
from handhold.backends.shell.sandbox import create_sandbox
from handhold.backends.shell.sandbox_layout import Mount
from handhold.backends.state.state_folder import state_folder_path
from handhold.core.errors import ToolError

TIMEOUT_SECONDS = 20  # for the command `true`


def find_trial_failure(root: str, state: Path | None, *, is_direct: bool) -> str:
    """Why `true` does not run in the sandbox, without an overlay; empty if it does.

    As for other commands, Handhold's own files may be inside the root, where they are hidden.
    """
    own = os.path.realpath(state_folder_path(state, [root]))
    with TemporaryDirectory(prefix="handhold-") as folder:
        tmp, home, results = (os.path.join(folder, name) for name in ("tmp", "home", "results"))
        for each in (tmp, home, results):
            os.mkdir(each)
        try:
            launch = create_sandbox("contained").prepare_launch(
                ("true",),
                mounts=(Mount(root, "direct" if is_direct else "read-only"),),
                folder=root,
                tmp=tmp,
                home=home,
                results=results,
                hidden=(folder, own),
                masks={os.path.dirname(own): results} if os.path.isdir(own) else {},
            )
        except (ToolError, OSError) as error:
            return str(error)
        with closing(launch):
            try:
                done = run_program(launch.argv, env=launch.env, pass_fds=launch.pass_fds, timeout=TIMEOUT_SECONDS)
            except TimeoutExpired:
                return f"timed out after {TIMEOUT_SECONDS} s"
    return (done.stderr.decode("utf-8", "replace").strip() or "failed") if done.returncode else ""
