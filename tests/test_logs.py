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


SECRET = "tKn9Xw2LqZ7vR4mB8sHd1JfY"


class FailingPolicy:
    """A policy of the user's that fails, and tells a secret."""

    def decide_command(self, *_: object) -> object:
        raise RuntimeError(f"cannot reach the server with {SECRET}")

    def __getattr__(self, name: str) -> object:
        return self.decide_command


def test_known_secret_values_are_in_no_log_record_and_no_traceback(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("DEPLOY_TOKEN", SECRET)
    with Toolbox.open(tmp_path, state=tmp_path.with_name("state"), policy=FailingPolicy()) as box:  # pyright: ignore[reportArgumentType]
        assert not box.call("read_file", {"path": "a.py"}).ok
        with suppress_and_log(OSError):
            raise PermissionError(13, "Permission denied", f"/home/me/{SECRET}")
        warn_once("shell", f"no sandbox with {SECRET}")
    records = [record for record in caplog.records if record.name.startswith(("handhold", __name__))]
    written = [logging.Formatter("%(message)s").format(record) for record in records]
    told = [each for each in written if "[redacted: DEPLOY_TOKEN]" in each]
    assert len(told) >= 3, written
    assert any("Traceback" in each for each in told)
    assert SECRET not in "\n".join(written)


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
