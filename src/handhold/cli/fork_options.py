"""What the commands about forks share: the workspace, and a toolbox on it."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from handhold.cli import options
from handhold.cli.options import open_toolbox
from handhold.cli.prompt import TerminalApprover, is_interactive
from handhold.core.choices import Mode

if TYPE_CHECKING:
    from handhold.toolbox import Toolbox


def add_workspace_options(command: Any) -> Any:
    for option in (options.state, options.root):
        command = option(command)
    return command


def open_box(
    root: tuple[Path, ...],
    state: Path | None,
    session: str = "default",
    policy: Mode | None = None,
    credentials: Sequence[str] = (),
) -> "Toolbox":
    given = options.ToolboxOptions(
        root=root, dialect="handhold", session=session, state=state, policy=policy, shell="contained"
    )
    return open_toolbox(given, TerminalApprover() if is_interactive() else None, credentials=credentials)
