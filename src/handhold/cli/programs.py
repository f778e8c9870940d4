"""Where a program is."""

import os
import sys


def find_on_path(program: str, *, only_path: bool = False) -> str:
    """The path of a program, or "". Also searches the interpreter's folder, where extras install programs; not with
    `only_path`: another program does not look there.

    A relative folder of the PATH is left out: it would be one of the workspace.
    """
    own_folder = () if only_path else (os.path.dirname(sys.executable),)
    folders = [*os.environ.get("PATH", os.defpath).split(":"), *own_folder]
    paths = [os.path.join(folder, program) for folder in folders if os.path.isabs(folder)]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")
