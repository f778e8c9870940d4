"""Answering from the page while a real MCP client waits, in a real browser."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.review.hosting import Agent, Reviewed, ask, make_shop, new_context, reviewing, until

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    """One page for all these tests."""
    with reviewing(make_shop(tmp_path_factory.mktemp("answers"))) as reviewed:
        yield reviewed


@pytest.fixture(scope="module")
def agent(reviewed: Reviewed) -> Iterator[Agent]:
    """One client for all these tests: most of the time of a test would be the start of its server."""
    with Agent(reviewed.shop, "--session", "coupons") as agent:
        agent.call("read_file", path="a.py").result(60)
        yield agent


@pytest.fixture(autouse=True)
def fresh(reviewed: Reviewed) -> None:
    """The files as they were, and nothing left to answer."""
    for name in "abc":
        (reviewed.root / f"keep/{name}.txt").write_text(f"{name}\n")
    for each in reviewed.pending():
        reviewed.workspace.store.answer(each.hash, "no", by="the next test")


def question(page: Page, number: int = 0):
    return page.locator("[data-question]").nth(number)


def test_once_carries_out_exactly_what_was_shown_and_asks_again(reviewed: Reviewed, agent: Agent, page: Page):
    reply = agent.call("bash", command="rm keep/a.txt")
    card = question(page)
    expect(card.locator("h2")).to_have_text("Would delete 1 file in your workspace")
    expect(card.locator(".eff")).to_contain_text("keep/a.txt")
    expect(card.locator(".kv")).to_contain_text("these files are the only copy")
    assert (reviewed.root / "keep/a.txt").exists()
    assert not reply.done()
    card.get_by_role("button", name="Allow once").click()
    assert "Exit status 0" in reply.result(40)
    assert not (reviewed.root / "keep/a.txt").exists()
    expect(page.locator("[data-answered]")).to_contain_text("Allowed once.")
    again = agent.call("bash", command="rm keep/b.txt")
    expect(question(page).locator(".eff")).to_contain_text("keep/b.txt")
    question(page).locator("button[value=no]").click()
    assert "did not approve" in again.result(40)
    assert (reviewed.root / "keep/b.txt").exists()
    (entry,) = [entry for entry in reviewed.workspace.store.entries() if entry.decision == "approved"]
    assert entry.approver == "ann@desk on the review page"


def test_for_this_session_covers_the_same_thing_again(reviewed: Reviewed, agent: Agent, page: Page):
    first = agent.call("bash", command="make release notes || true")
    question(page).get_by_role("button", name="For this session").click()
    first.result(40)
    assert "Exit status" in agent.call("bash", command="make release notes || true").result(40)
    assert not reviewed.pending()


def test_the_like_of_it_spells_out_the_pattern_and_covers_similar_commands(
    reviewed: Reviewed, agent: Agent, page: Page
):
    first = agent.call("bash", command="git push one", background=True)
    card = question(page)
    card.get_by_role("button", name="Allow similar commands").click()
    expect(card.locator(".more:visible")).to_contain_text("git push")
    assert not first.done(), "opening the form allows nothing"
    card.get_by_role("button", name=re.compile("Allow th(is|ese) pattern")).click()
    first.result(40)
    agent.call("bash", command="git push two", background=True).result(40)
    assert not reviewed.pending()


def test_no_with_a_word_reaches_the_model_and_changes_nothing(reviewed: Reviewed, agent: Agent, page: Page):
    reply = agent.call("bash", command="rm -rf keep")
    card = question(page)
    card.get_by_role("button", name="No, and say why").click()
    card.locator("textarea").fill("Keep originals, they exist nowhere else.")
    card.locator("textarea").press("Control+Enter")
    assert "Keep originals, they exist nowhere else." in reply.result(40)
    assert sorted(path.name for path in (reviewed.root / "keep").iterdir()) == ["a.txt", "b.txt", "c.txt"]


def test_with_the_keyboard_alone_and_no_single_key_allows(reviewed: Reviewed, agent: Agent, page: Page):
    reply = agent.call("bash", command="rm keep/c.txt")
    question(page).wait_for()
    page.keyboard.press("1")
    for key in "oslnw":
        page.keyboard.press(key)
        page.wait_for_timeout(20)
    assert len(reviewed.pending()) == 1, "a key only selects"
    page.keyboard.press("o")
    assert page.evaluate("document.activeElement.value") == "once"
    page.keyboard.press("Enter")
    assert "Exit status 0" in reply.result(40)
    assert not (reviewed.root / "keep/c.txt").exists()


def test_n2_keys_labels_and_header_agree_and_live_questions_come_first(reviewed: Reviewed, agent: Agent, page: Page):
    for n in (1, 2):
        ask(reviewed.store, n)  # no call waits for them
        expect(page.locator("[data-question]")).to_have_count(n)
    reply = agent.call("bash", command="rm keep/a.txt")
    expect(page.locator("[data-goto]")).to_have_count(3)
    (live,) = [each.id for each in reviewed.pending() if each.session == "coupons"]
    expect(page.locator("[data-goto]").first).to_have_attribute("data-goto", live)
    expect(question(page)).to_have_attribute("data-question", live)
    for n in range(3):
        expect(question(page, n).locator("header .num").first).to_have_text(f"Question {n + 1}")
        goto = page.locator("[data-goto]").nth(n).get_attribute("data-goto")
        page.keyboard.press(str(n + 1))
        assert page.evaluate("document.activeElement.dataset.question") == goto
        expect(page.locator(":focus form")).to_have_attribute("aria-label", f"Answer question {n + 1}")
    page.keyboard.press("1")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    assert "did not approve" in reply.result(40)
    expect(page.locator("[data-goto]")).to_have_count(2)
    for n in range(2):
        expect(question(page, n).locator("header .num").first).to_have_text(f"Question {n + 1}")


def test_of_two_tabs_one_wins_and_the_other_is_told(reviewed: Reviewed, agent: Agent, page: Page, browser: Browser):
    other_context = new_context(browser)
    deaf = reviewed.enter(other_context)
    deaf.locator("#live .live").wait_for()
    reply = agent.call("bash", command="rm keep/a.txt")
    question(page).wait_for()
    question(deaf).wait_for()
    button = question(deaf).get_by_role("button", name="Allow once")
    form = deaf.evaluate("Object.fromEntries(new FormData(document.querySelector('[data-question] form')))")
    question(page).locator("button[value=no]").click()
    assert "did not approve" in reply.result(40)
    expect(deaf.locator("[data-answered]")).to_contain_text("Already answered.")
    expect(button).to_have_count(0)
    # A click that was already on its way is told the same, and is not used.
    (answered,) = reviewed.workspace.store.list_answered(1)
    status = deaf.evaluate(
        """async ([url, form]) => (await fetch(url, {method: "POST", body: new URLSearchParams({...form, answer: "once"})})).status""",
        [f"{reviewed.url}/question/{answered.id}/answer", form],
    )
    assert status == 409
    assert (reviewed.root / "keep/a.txt").exists()
    other_context.close()


def test_several_questions_at_once_are_counted_and_each_is_answered_by_itself(
    reviewed: Reviewed, agent: Agent, page: Page
):
    replies = [agent.call("bash", command=f"rm keep/{name}.txt") for name in "abc"]
    expect(page.locator("[data-question]")).to_have_count(3)
    expect(page).to_have_title(re.compile(r"^\(3\) Now"))
    expect(page.locator("#cells li")).to_have_count(3)
    page.locator("[data-question]", has_text="keep/b.txt").get_by_role("button", name="Allow once").click()
    until(lambda: sum(reply.done() for reply in replies) == 1, "one is answered")
    assert "Exit status 0" in replies[1].result(1)
    for _ in range(2):
        question(page).locator("button[value=no]").click()
        page.wait_for_timeout(100)
    assert all("did not approve" in replies[n].result(40) for n in (0, 2))
    assert [path.name for path in sorted((reviewed.root / "keep").iterdir())] == ["a.txt", "c.txt"]


def test_live_output_of_a_command_appears_while_it_runs(reviewed: Reviewed, agent: Agent, page: Page):
    command = "printf '\\033[32mtick one\\033[0m\\n'; sleep 8; echo tick two"
    reply = agent.call("bash", command=command)
    log = page.get_by_role("log")
    expect(log).to_contain_text("tick one")
    expect(log.locator(".g")).to_have_text("tick one")
    assert not reply.done()
    page.locator("#side a.go").first.click()
    expect(page.locator("#output")).to_contain_text("tick one")
    expect(page.locator("#output")).to_contain_text("tick two", timeout=20_000)
    assert "tick two" in reply.result(40)


def test_without_a_page_a_call_does_not_wait_and_the_question_stays(
    reviewed: Reviewed, agent: Agent, context: BrowserContext
):
    assert "handhold approve" in agent.call("bash", command="rm keep/a.txt").result(40)
    page = reviewed.enter(context)
    expect(question(page)).to_contain_text("the call has ended")
    question(page).get_by_role("button", name="Allow once").click()
    expect(page.locator("[data-answered]")).to_contain_text("counts when the same call is repeated")
    assert "Exit status 0" in agent.call("bash", command="rm keep/a.txt").result(40)


def test_a_lost_connection_switches_answers_off(reviewed: Reviewed, agent: Agent, page: Page):
    reply = agent.call("bash", command="rm keep/a.txt")
    question(page).wait_for()
    page.context.set_offline(True)
    page.evaluate("document.querySelector('#retry').click()")
    expect(page.locator("#offline")).to_be_visible()
    expect(question(page).get_by_role("button", name="Allow once")).to_be_disabled()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try now").click()
    expect(question(page).get_by_role("button", name="Allow once")).to_be_enabled()
    question(page).locator("button[value=no]").click()
    reply.result(40)


def test_where_commands_share_the_loopback_allowing_asks_for_the_token_and_refusing_does_not(
    reviewed: Reviewed, page: Page
):
    with Agent(reviewed.shop, "--session", "coupons", "--shell", "brokered") as agent:
        first, second = (agent.call("bash", command=f"rm keep/{name}.txt") for name in "ab")
        expect(page.locator("[data-question]")).to_have_count(2)
        card = page.locator("[data-question]", has_text="keep/a.txt")
        card.get_by_label("Token from your terminal").fill("0000-0000-0000")
        card.get_by_role("button", name="Allow once").click()
        expect(page.get_by_role("alert").filter(has_text="That token is not right")).to_be_visible()
        assert len(reviewed.pending()) == 2
        card = page.locator("[data-question]", has_text="keep/a.txt")
        card.get_by_label("Token from your terminal").fill(reviewed.server.keys.approval_token)
        card.get_by_role("button", name="Allow once").click()
        assert "Exit status 0" in first.result(40)
        page.locator("[data-question]", has_text="keep/b.txt").locator("button[value=no]").click()
        assert "did not approve" in second.result(40)
    assert [path.name for path in sorted((reviewed.root / "keep").iterdir())] == ["b.txt", "c.txt"]
