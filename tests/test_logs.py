"""Log records: what is swallowed is visible at DEBUG, and what does not hold here is a warning, once."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from handhold import Toolbox, logs
from handhold.core.errors import ToolError
from handhold.logs import log_swallowed, suppress_and_log, warn_once


def test_a_swallowed_error_is_logged_at_debug_with_its_traceback(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    try:
        raise PermissionError("closed")
    except OSError:
        log_swallowed()
    with suppress_and_log(OSError, ToolError):
        raise OSError("no room")
    with pytest.raises(KeyError), suppress_and_log(OSError):
        raise KeyError
    messages = [(each.levelname, each.getMessage(), each.funcName, bool(each.exc_info)) for each in caplog.records]
    name = "test_a_swallowed_error_is_logged_at_debug_with_its_traceback"
    assert messages == [
        ("DEBUG", f"{name} ignored PermissionError: closed", name, True),
        ("DEBUG", f"{name} ignored OSError: no room", name, True),
    ]


def test_a_missing_file_is_ordinary(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.DEBUG)
    with suppress_and_log(OSError):
        Path("/no/such/file").read_bytes()
    log_swallowed()
    assert caplog.records == []


def test_a_degraded_promise_is_a_warning_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs, "_warned", set())
    monkeypatch.setattr("handhold.backends.search.find_ripgrep", lambda roots: "no ripgrep on this machine")
    (tmp_path / "ws").mkdir()
    with Toolbox.open(tmp_path / "ws", state=tmp_path / "state") as box:
        for _ in range(2):
            assert box.call("glob", {"pattern": "*"}).data["fallback_used"] == "no ripgrep on this machine"
    found = [(each.name, each.levelname, each.getMessage()) for each in caplog.records]
    message = "Searches use the slower built-in engine: no ripgrep on this machine"
    assert found == [("handhold.search", "WARNING", message)]


def test_warnings_of_different_things_are_all_logged(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logs, "_warned", set())
    for message in ("one", "two", "one"):
        warn_once("shell", message)
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("handhold.shell", "one"),
        ("handhold.shell", "two"),
    ]


def test_swallowing_does_not_import_logging():
    code = """
import sys
from handhold.logs import suppress_and_log
with suppress_and_log(OSError):
    raise PermissionError
assert "logging" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
