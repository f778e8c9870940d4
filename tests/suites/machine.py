"""What this machine can do, for tests that need it."""

from functools import cache

from handhold.core.errors import NoShell
from handhold.world.shell.sandbox import sandbox


@cache
def has_shadows() -> bool:
    """Whether commands can be contained here, and run on a shadow."""
    try:
        return sandbox("contained").held.shadow
    except NoShell:
        return False
