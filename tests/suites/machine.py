"""What this machine supports, for tests that need it."""

from functools import cache

from handhold.backends.shell.sandbox import create_sandbox
from handhold.core.errors import NoShell


@cache
def has_shadows() -> bool:
    """Whether commands can be sandboxed here and run on an overlay."""
    try:
        return create_sandbox("contained").status.shadow
    except NoShell:
        return False
