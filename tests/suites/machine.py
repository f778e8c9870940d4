"""What this machine can do, for tests that need it."""

from functools import cache

from handhold.backends.shell.sandbox import create_sandbox
from handhold.core.errors import NoShell


@cache
def has_shadows() -> bool:
    """Whether commands can be contained here, and run on a shadow."""
    try:
        return create_sandbox("contained").status.shadow
    except NoShell:
        return False
