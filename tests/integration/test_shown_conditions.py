"""Conditions that hold for a whole session are reported once, and again when they change; the data has them always."""

from dataclasses import replace

from handhold import Toolbox
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.ports.journal import Call
from handhold.core.results import JobResult, RunResult
from handhold.pipeline.cancellation import CancelToken
from handhold.pipeline.context import CallContext
from handhold.pipeline.responses import ShownConditions

SANDBOX = SandboxStatus("bubblewrap", shadow=True, network=False, hidden=(".env",), hidden_total=1)


def ran(sandbox: SandboxStatus) -> RunResult:
    return RunResult("true", ExitStatus(0), CommandOutput(""), sandbox, "all", "all")


def started(sandbox: SandboxStatus) -> JobResult:
    return JobResult("j", True, None, CommandOutput(""), 0, 0, sandbox, "start")


def new_call() -> CallContext:
    return CallContext(Call("s", "", "", "bash", "{}", "handhold"), 0.0, CancelToken())


def is_known(conditions: ShownConditions, result: RunResult | JobResult, context: CallContext | None = None) -> bool:
    shown = conditions.omit_known(context or new_call(), result)
    assert isinstance(shown, RunResult | JobResult)
    return shown.sandbox_known


def test_r38_a_sandbox_is_reported_when_it_is_new_and_when_it_changed():
    conditions = ShownConditions()
    other = replace(SANDBOX, hidden=(".env", "key.pem"), hidden_total=2)
    runs = [is_known(conditions, ran(each)) for each in (SANDBOX, SANDBOX, other, other, SANDBOX)]
    assert runs == [False, True, False, True, False]
    assert not is_known(conditions, started(SANDBOX))
    assert is_known(conditions, started(SANDBOX))
    assert not is_known(ShownConditions(), ran(SANDBOX))


def test_r38_a_reply_that_is_worded_twice_still_reports_it():
    """The first wording is not sent if undo data is dropped, or if a file changed before the commit."""
    conditions, call = ShownConditions(), new_call()
    assert [is_known(conditions, ran(SANDBOX), call) for _ in range(2)] == [False, False]
    assert is_known(conditions, ran(SANDBOX))


def test_r38_the_engine_of_a_search_is_reported_once_and_stays_in_the_data():
    with Toolbox.in_memory({"a.txt": b"one\n"}) as box:
        first, second = (box.call("grep", {"pattern": "one"}) for _ in range(2))
        assert ("instead of ripgrep" in first.text) is bool(first.data.get("fallback_used"))
        assert "instead of ripgrep" not in second.text
        assert first.data.get("fallback_used") == second.data.get("fallback_used")
