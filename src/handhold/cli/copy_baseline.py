"""The process that completes a baseline in the background: `copy_baseline ROOT [STATE]`"""

import os
import sys

from handhold.toolbox import Toolbox


def main() -> None:
    root, *state = sys.argv[1:]
    os.nice(10)
    with Toolbox.open(root, state=state[0] if state else None) as box:
        box.snapshots.complete()
