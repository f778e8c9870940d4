"""What this machine can do, for tests that need it."""

from functools import cache

from handhold.core.errors import NoShell
from handhold.world.shell.sandbox import create_sandbox


@cache
def has_shadows() -> bool:
    """Whether commands can be contained here, and run on a shadow."""
    try:
        return create_sandbox("contained").status.shadow
    except NoShell:
        return False
