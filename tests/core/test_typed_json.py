"""What crosses between our processes keeps its value, and nothing else is made of JSON."""

import json
from typing import Any, Literal

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from handhold.backends.forks.tool_operations import OPERATIONS, decode_error, decode_options, encode_error
from handhold.core import errors
from handhold.core.checkers import Checker
from handhold.core.errors import ToolError
from handhold.core.policy.rules import Rule
from handhold.core.ports.approvals import PendingApproval, Question
from handhold.core.ports.journal import JournalEntry
from handhold.core.results import EditResult, Reply, TextResult, UndoResult
from handhold.core.typed_json import NotOfType, from_json, to_json
from tests.scale import examples

CROSSING = (Question, JournalEntry, PendingApproval, TextResult, EditResult, UndoResult)
ERRORS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, ToolError) and kind is not ToolError
    ),
    key=lambda kind: kind.__name__,
)


def send(kind: Any, value: object) -> Any:
    return from_json(kind, json.loads(json.dumps(to_json(value))))


@pytest.mark.parametrize("kind", CROSSING)
def test_v1_values_arrive_as_they_were(kind: type):
    @settings(max_examples=examples(80), deadline=None)
    @given(st.from_type(kind))
    def check(value: object) -> None:
        assume("nan" not in repr(value))  # which equals nothing
        assert send(kind, value) == value

    check()


def test_v1_a_result_of_a_reply_arrives_with_its_type():
    reply = Reply("success", "text \udcff", {"a": [1, None]}, result=UndoResult("undo", ("#1",), ("a",), False, "d"))
    arrived = send(Reply, reply)
    assert (arrived, arrived.result) == (reply, reply.result)


@settings(max_examples=examples(800), deadline=None)
@given(st.sampled_from(ERRORS).flatmap(st.builds))
def test_v1_every_error_of_a_call_arrives(error: ToolError):
    arrived = decode_error(json.loads(json.dumps(encode_error(error))))
    assert type(arrived) is type(error)
    assert repr(arrived) == repr(error)  # NaN equals nothing


def test_v1_rules_and_checkers_arrive():
    rule = Rule("no b", "deny", ["read", "change"], "not this one", ["src/b.txt"], ["a.txt"], paths=["src/b.txt"])
    checker = Checker("c", ("*.py",), "true")
    options = {"rules": to_json((rule,)), "checkers": to_json((checker,)), "network": ["a.example"], "root": ["/a"]}
    assert decode_options(json.loads(json.dumps(options))) == {
        "rules": (rule,),
        "checkers": (checker,),
        "network": ("a.example",),
        "root": ("/a",),
    }


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (int, True),
        (int, 1.5),
        (str, None),
        (bytes, "not base64!"),
        (Literal["a", 1], True),
        (tuple[int, str], [1]),
        (tuple[int, ...], ["a"]),
        (int | None, "1"),
        (Question, {"$": "Checker", "name": "x", "globs": ["*"], "command": "true"}),
        (Question, {"$": "Question", "tool": "t", "files": [], "diff": "", "because": "", "extra": 1}),
        (Question, {"$": "Question", "tool": 1, "files": [], "diff": "", "because": ""}),
        (Question, {"$": "Question"}),
        (Question, []),
        (OPERATIONS["call"].result, {"$": "Popen", "args": ["true"]}),
    ],
)
def test_v1_what_is_not_of_its_type_is_refused(kind: Any, message: object):
    with pytest.raises(NotOfType):
        from_json(kind, message)


@pytest.mark.parametrize(
    "message", [None, [], {"$": "ToolError"}, {"$": "OSError"}, {"$": "Denied"}, {"$": ["Denied"]}]
)
def test_v1_what_is_no_error_of_a_call_is_refused(message: object):
    with pytest.raises(NotOfType):
        decode_error(message)


@pytest.mark.parametrize("message", [None, {"approver": "os.system"}, {"root": "/"}, {"asks": "yes"}, {"rules": [{}]}])
def test_v1_options_that_are_none_are_refused(message: object):
    with pytest.raises(NotOfType):
        decode_options(message)


@pytest.mark.parametrize("value", [object(), print, {1: 2}, pytest])
def test_v1_what_is_no_data_is_not_sent(value: object):
    with pytest.raises(TypeError):
        to_json(value)
