"""A policy of the user's may answer anything. Only an allow that is one lets a call read or write."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handhold import Toolbox
from handhold.core.ports.policy import CommandAnalysis, Decision, Verb, Verdict
from tests.integration.conftest import Files, Ground
from tests.scale import examples

Make = Callable[[Files], Ground]
SECRET = "the secret"


@dataclass
class Answering:
    """Answers what it is told to, whatever it is asked."""

    answer: Callable[[], Any]
    name: str = "answering"
    allows_hosts: bool = False

    def decide(self, verb: Verb, target: str) -> Any:
        return self.answer()

    def decide_command(self, analysis: CommandAnalysis) -> Any:
        return self.answer()

    def has_rule_for(self, place: str) -> bool:
        return True


class AlwaysEqual:
    """Compares equal to everything, as some test doubles do."""

    verdict = Verdict.ALLOW
    because = rule = source = remedy = ""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return hash("allow")


def failing() -> Decision:
    raise RuntimeError("the policy is broken")


async def awaitable() -> Decision:
    return Decision(Verdict.ALLOW, "in a moment")


TEXTS = st.sampled_from(["", "because", None, 1])
ALLOW = st.sampled_from([Verdict.ALLOW, "allow"])
VERDICTS = st.one_of(
    st.sampled_from(["deny", "ask", "ALLOW", "allowed", " allow", "yes", "", *Verdict]),
    st.sampled_from([True, False, None, 0, 1, AlwaysEqual(), b"allow", ("allow",), ["allow"], {"allow": 1}]),
    st.text(),
)
JUDGEMENTS = st.builds(Decision, VERDICTS, TEXTS, TEXTS, TEXTS, TEXTS)  # pyright: ignore[reportArgumentType]
OTHERS = st.sampled_from([None, True, "allow", Verdict.ALLOW, AlwaysEqual(), 1, {}, object(), Decision])
ANSWERS = st.one_of(JUDGEMENTS, OTHERS)


def is_allow(answer: object) -> bool:
    if not isinstance(answer, Decision):
        return False
    texts = (answer.because, answer.rule, answer.source, answer.remedy)
    return answer.verdict is Verdict.ALLOW and all(isinstance(each, str) for each in texts)


def box_with(answer: Callable[[], Any]) -> Toolbox:
    files = {"a.txt": f"{SECRET}\n", "d/b.txt": f"{SECRET}\n"}
    return Toolbox.in_memory(files, policy=Answering(answer), session="s")


@given(ANSWERS)
@settings(max_examples=examples(200))
def test_r2_whatever_a_policy_answers_only_an_allow_lets_a_read_show_or_a_write_write(answer: Any):
    box = box_with(lambda: answer)
    shown = [
        box.call("read_file", {"path": "a.txt"}),
        box.call("read_files", {"paths": ["a.txt", "d/b.txt"]}),
        box.call("grep", {"pattern": "secret", "mode": "content"}),
    ]
    written = box.call("write_file", {"path": "new.txt", "content": "x"})
    memory: Any = box.files
    if is_allow(answer):
        assert all(SECRET in reply.text for reply in shown)
        assert (written.status, memory.get_content("new.txt")) == ("success", b"x")
    else:
        assert not any(SECRET in reply.text for reply in shown)
        assert (written.status, memory.get_content("new.txt")) == ("error", None)
        assert written.error_source == "policy"


@given(VERDICTS)
def test_r2_the_verdict_of_a_judgement_is_always_one_of_three(verdict: Any):
    judgement = Decision(verdict, "why")
    assert type(judgement.verdict) is Verdict
    known = isinstance(verdict, str) and verdict in tuple(Verdict)
    assert judgement.verdict is (Verdict(verdict) if known else Verdict.DENY)
    if not known:
        assert repr(verdict) in judgement.because


def test_r2_a_verdict_may_be_spelled_as_a_text(ground: Make):
    here = ground({"a.txt": f"{SECRET}\n"})
    denied = here.open(policy=Answering(lambda: Decision("deny", "no")))  # pyright: ignore[reportArgumentType]
    assert denied.call("read_file", {"path": "a.txt"}).code == "DENIED"
    assert denied.call("write_file", {"path": "b.txt", "content": "x"}).code == "DENIED"
    allowed = here.open(policy=Answering(lambda: Decision("allow", "yes")))  # pyright: ignore[reportArgumentType]
    assert SECRET in allowed.call("read_file", {"path": "a.txt"}).text
    assert here.read("b.txt") is None


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("answer", [failing, awaitable, lambda: None, lambda: Decision("alow", "typo")])  # pyright: ignore[reportArgumentType]
def test_r2_an_answer_that_is_none_denies_and_is_logged_once_for_the_developer(
    ground: Make, answer: Callable[[], Any], caplog: pytest.LogCaptureFixture
):
    here = ground({"a.txt": f"{SECRET}\n"})
    box = here.open(policy=Answering(answer))
    for _ in range(3):
        assert box.call("read_file", {"path": "a.txt"}).code == "DENIED"
        assert box.call("write_file", {"path": "b.txt", "content": "x"}).code == "DENIED"
    assert here.read("b.txt") is None
    errors = [record for record in caplog.records if record.levelno == logging.ERROR and ".decide:" in record.message]
    assert len(errors) == 1
    assert errors[0].name == "handhold.policy"


def test_r2_a_command_does_not_run_by_an_answer_that_is_none(ground: Make):
    box = ground({"a.txt": "x\n"}).open(policy=Answering(lambda: None))
    reply = box.call("bash", {"command": "ls"})
    assert reply.code in ("DENIED", "NO_SHELL")  # a dictionary has no shell
    assert reply.status == "error"


def test_r2_a_rule_that_asks_about_reading_denies_it_since_nobody_is_asked(ground: Make):
    from handhold import Rule

    rule = Rule("ask first", "ask", ["read"], "it is private", ["a.txt"], ["b.txt"], paths=["a.txt"])
    box = ground({"a.txt": f"{SECRET}\n", "b.txt": "b\n"}).open(rules=[rule])
    reply = box.call("read_file", {"path": "a.txt"})
    assert (reply.code, reply.data["rule"]) == ("DENIED", "ask first")
    assert SECRET not in box.call("grep", {"pattern": "secret", "mode": "content"}).text
    assert "a.txt" not in box.call("list_files", {"path": "."}).text
    assert box.call("read_file", {"path": "b.txt"}).status == "success"


class Quiet(Answering):
    """Has no word about places and hosts."""

    @property
    def allows_hosts(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("broken")

    @allows_hosts.setter
    def allows_hosts(self, value: bool) -> None: ...

    def has_rule_for(self, place: str) -> bool:
        raise RuntimeError("broken")


def test_r2_a_policy_that_cannot_say_what_it_is_about_opens_nothing_and_is_asked_of_everything(ground: Make):
    box = ground({"a.txt": "x\n"}).open(policy=Quiet(lambda: Decision(Verdict.ALLOW, "yes")))
    assert box.policy.allows_hosts is False
    assert box.policy.has_rule_for("/ws/a.txt") is True
