"""The same test with each implementation that holds commands: an overlay, and the broker."""

from typing import Literal

import pytest

from handhold.backends import shell
from handhold.backends.shell.sandbox import Sandbox, ShellMode, create_sandbox
from handhold.core.errors import NoShell

HeldBy = Literal["overlay", "broker"]


@pytest.fixture(params=["overlay", "broker"])
def held_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> HeldBy:
    """What holds the commands of every toolbox that the test opens without naming a mode."""
    mode: ShellMode = "contained" if request.param == "overlay" else "brokered"

    def create(asked: ShellMode) -> Sandbox:
        return create_sandbox(mode if asked == "contained" else asked)

    try:
        if not create(mode).status.shadow:
            pytest.skip("no overlay on this machine")
    except NoShell as error:
        pytest.skip(error.because)
    monkeypatch.setattr(shell, "create_sandbox", create)
    return request.param
