"""A commit in a separate process, in which one chosen system call fails."""

import ctypes
import os
import shutil
import signal
import subprocess
import traceback
from collections.abc import Sequence
from contextlib import suppress

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.errors import RollbackIncomplete, ToolError
from handhold.core.plans import FileChange
from handhold.core.ports.journal import Call, CallDecision, Outcome
from tests.faults.crash import PR_SET_PTRACER, PTRACER_ANY, Bench

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="errors are injected by strace")

CODES = {
    "ENOSPC": {"NO_SPACE"},
    "EIO": {"IO_ERROR"},
    "EXDEV": {"IO_ERROR", "OUTSIDE_WORKSPACE"},
    "EDQUOT": {"NO_SPACE"},
}

READY = b"\n"


def outcome_of(files: Workspace, store: SqliteStore, seq: int, changes: Sequence[FileChange]) -> str:
    """Commit as the toolbox does; returns the error code, or `success`."""
    try:
        with files.transaction(changes) as transaction:
            store.record_intent(seq, transaction.id, transaction.files, decision=CallDecision("allowed"))
            transaction.apply()
            try:
                store.record_outcome(seq, Outcome("success", None, 0.0, None), durable=True)
            except BaseException:
                transaction.roll_back()
                raise
            try:
                transaction.clean_up()
                store.mark_cleaned_up(seq)
            except ToolError:
                return "success"  # the next start cleans up what is left
    except RollbackIncomplete:
        return "UNFINISHED"
    except ToolError as error:
        with suppress(ToolError):  # if the disk fails for good; the next start rolls back
            store.record_outcome(seq, Outcome("error", error.code, 0.0, None), durable=False)
        return error.code
    except Exception:  # noqa: BLE001 - a defect: shown by the test that sees it
        return traceback.format_exc()
    return "success"


def injected(bench: Bench, call: str, error: str, when: str) -> tuple[str, bool]:
    """Commit in a fork whose `when`-th such call fails: the outcome, and whether there was such a call."""
    bench.lay()
    waiting, go = os.pipe()
    told, tell = os.pipe()
    log = bench.home / "strace"
    child = os.fork()
    if not child:
        try:
            os.close(go)
            ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(PTRACER_ANY), 0, 0, 0)
            with bench.open() as (files, store):
                seq = store.begin(Call("session", "", "", "patch", "{}", "none"))
                changes = bench.changes()
                os.writev(tell, [READY])  # not write() and read(): they may be the calls that fail
                os.readv(waiting, [bytearray(1)])
                os.writev(tell, [outcome_of(files, store, seq, changes).encode()])
                os.kill(os.getpid(), signal.SIGKILL)  # without another call that could be refused
        finally:
            os._exit(1)
    os.close(waiting)
    os.close(tell)
    assert os.read(told, 1) == READY
    command = [
        "strace",
        "-o",
        log,
        "-e",
        f"trace={call}",
        "-e",
        f"inject={call}:error={error}:when={when}",
        "-p",
        str(child),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr
        attached = tracer.stderr.readline()
        os.close(go)
        assert "attached" in attached, attached
        tracer.wait()
    os.waitpid(child, 0)
    with os.fdopen(told, "rb") as pipe:
        said = pipe.read().decode()
    return said, "INJECTED" in log.read_text()
