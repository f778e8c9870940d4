import json

from hypothesis import given
from hypothesis import strategies as st

from handhold import Question
from handhold.adapters.paused_approvals import ANYWAY, build_payload, check_answer

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
    assert (build_payload(first)["change"] == build_payload(second)["change"]) == (first == second)
    assert json.loads(json.dumps(build_payload(first))) == build_payload(first)


@given(QUESTIONS, QUESTIONS)
def test_what_was_not_shown_is_never_approved_by_a_plain_yes(now: Question, before: Question):
    asked = build_payload(before)["change"]
    assert check_answer(True, build_payload(now), shown_change=asked) is (True if now == before else None)
    assert check_answer(asked, build_payload(now), shown_change=None) is (True if now == before else None)
    assert check_answer(True, build_payload(now), shown_change=None) is None


@given(QUESTIONS, st.none() | st.integers() | st.just("") | st.just(False) | st.lists(st.booleans()))
def test_what_is_no_yes_is_a_no(now: Question, answer: object):
    assert check_answer(answer, build_payload(now), shown_change=build_payload(now)["change"]) is False


@given(QUESTIONS)
def test_whoever_does_not_mind_says_so(now: Question):
    assert check_answer(ANYWAY, build_payload(now), shown_change=None) is True
