import json

from hypothesis import given
from hypothesis import strategies as st

from handhold import Question
from handhold.adapters.pausing import ANYWAY, approves, shown

QUESTIONS = st.builds(
    Question,
    tool=st.sampled_from(["edit_file", "bash"]),
    files=st.just(()),
    diff=st.text(max_size=5),
    because=st.text(max_size=5),
    command=st.text(max_size=5),
)


@given(QUESTIONS, QUESTIONS)
def test_two_questions_have_one_name_only_if_they_are_one(first: Question, second: Question):
    assert (shown(first)["change"] == shown(second)["change"]) == (first == second)
    assert json.loads(json.dumps(shown(first))) == shown(first)


@given(QUESTIONS, QUESTIONS)
def test_what_was_not_shown_is_never_approved_by_a_plain_yes(now: Question, before: Question):
    asked = shown(before)["change"]
    assert approves(True, shown(now), before=asked) is (True if now == before else None)
    assert approves(asked, shown(now), before=None) is (True if now == before else None)
    assert approves(True, shown(now), before=None) is None


@given(QUESTIONS, st.none() | st.integers() | st.just("") | st.just(False) | st.lists(st.booleans()))
def test_what_is_no_yes_is_a_no(now: Question, answer: object):
    assert approves(answer, shown(now), before=shown(now)["change"]) is False


@given(QUESTIONS)
def test_whoever_does_not_mind_says_so(now: Question):
    assert approves(ANYWAY, shown(now), before=None) is True
