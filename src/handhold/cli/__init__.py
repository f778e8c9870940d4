"""The command `handhold`."""

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # before anything is imported that it does not need
        from handhold.version import VERSION

        sys.stdout.write(f"handhold {VERSION}\n")
        return
    if sys.argv[1:2] == ["hook"]:  # a client waits for it, before and after each call
        from handhold.hooks.hook_client import pass_on

        if (status := pass_on(sys.argv[2:])) is not None:
            sys.exit(status)
    from handhold.cli.commands import handhold

    handhold(prog_name="handhold")
