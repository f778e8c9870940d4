"""The command `handhold`."""

import os
import sys

from handhold.backends.program_search import distrust


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # before anything is imported that it does not need
        from handhold.version import VERSION

        sys.stdout.write(f"handhold {VERSION}\n")
        return
    distrust_current_folder()
    if sys.argv[1:2] == ["hook"]:  # a client waits for it, before and after each call
        from handhold.hooks.hook_client import pass_on

        if (status := pass_on(sys.argv[2:])) is not None:
            sys.exit(status)
    from handhold.cli.commands import handhold

    handhold(prog_name="handhold")


def distrust_current_folder() -> None:
    """Take no program from it: it is a workspace by default, and may have come from anybody. Not so a whole home."""
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return
    if not f"{os.path.realpath(os.path.expanduser('~'))}/".startswith(f"{folder}/"):
        distrust(folder)
