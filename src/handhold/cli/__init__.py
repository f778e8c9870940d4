"""The command `handhold`."""

import sys


def main() -> None:
    if sys.argv[1:] == ["--version"]:  # before anything is imported that it does not need
        from handhold.version import VERSION

        sys.stdout.write(f"handhold {VERSION}\n")
        return
    from handhold.cli.commands import handhold

    handhold(prog_name="handhold")
