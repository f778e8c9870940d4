"""Why the changes of commands in a workspace cannot be held back: neither an overlay nor the broker is possible."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from handhold.backends.files.os_errors import translate_os_errors
from handhold.backends.files.roots import Root
from handhold.backends.files.staging_area import StagingArea
from handhold.backends.shell.brokered_run import find_broker_obstacle
from handhold.backends.shell.preflight import find_overlay_obstacle
from handhold.backends.shell.sandbox import Sandbox, create_sandbox
from handhold.core.facts import SandboxStatus

GetStagingArea = Callable[[Root], StagingArea | None]


def find_obstacle(sandbox: Sandbox, roots: Sequence[Root], get_staging_area: GetStagingArea | None) -> str:
    """The first obstacle of a writable root; empty if none. Without `get_staging_area`, space is not checked."""
    writable = (root for root in roots if root.writable)
    return next((why for root in writable if (why := _find_obstacle_of(sandbox, root, get_staging_area))), "")


def without_overlay(status: SandboxStatus, because: str) -> SandboxStatus:
    return replace(status, shadow=False, why_not=(*status.why_not, f"no overlay: {because}"))


def explain_no_undo(roots: Sequence[Root]) -> str:
    """Why what a contained command changes in these roots could not be undone; empty if it can. Nothing is run.

    Raises NoShell if commands cannot be contained on this machine.
    """
    sandbox = create_sandbox("contained")
    obstacle = find_obstacle(sandbox, roots, None) if sandbox.status.shadow else ""
    return (without_overlay(sandbox.status, obstacle) if obstacle else sandbox.status).explain_no_undo()


def _find_obstacle_of(sandbox: Sandbox, root: Root, get_staging_area: GetStagingArea | None) -> str:
    if sandbox.broker:
        return find_broker_obstacle(root, get_staging_area)
    if get_staging_area and get_staging_area(root) is None:
        return f"there is no space for its overlay on the file system of {root.real}"
    with translate_os_errors(root.real):
        return find_overlay_obstacle(root)
