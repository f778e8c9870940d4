"""How long pages take and how large they are: a session of ten thousand calls, a diff of fifty thousand lines."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.journal import Call, CallDecision, Outcome
from tests.hub.servers import Postgres, SeaweedFS, running
from tests.review.hosting import Reviewed, new_context
from tests.review.hub_hosting import ShippedReview, reviewing_on_hub
from tests.server.hosting import Shop

pytestmark = [pytest.mark.alone, pytest.mark.timeout(120)]
CALLS, LINES = 10_000, 50_000
MAX_SECONDS, MAX_BYTES, MAX_TASK_MS = 1.0, 150_000, 200
ALLOWED = CallDecision("allowed", "mode edit")
WATCH_TASKS = """window.longest = 0; new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
}).observe({type: "longtask", buffered: true});"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Postgres, SeaweedFS]]:
    """Not those of the whole run: they would be there when later tests count processes and time."""
    folder = tmp_path_factory.mktemp("servers")
    postgres, seaweed = Postgres(folder / "postgres"), SeaweedFS(folder / "seaweed")
    with running(postgres), running(seaweed):
        yield postgres, seaweed


@pytest.fixture(params=["journal", "hub"])
def recorded(request: pytest.FixtureRequest, shop: Shop, tmp_path: Path) -> Iterator[Reviewed | ShippedReview]:
    if request.param == "journal":
        yield request.getfixturevalue("reviewed")
        return
    postgres, seaweed = request.getfixturevalue("servers")
    with reviewing_on_hub(shop, postgres, seaweed, tmp_path) as shipped:
        yield shipped


def fill(reviewed: Reviewed | ShippedReview, calls: int) -> None:
    store = reviewed.store
    tools = ("read_file", "grep", "bash", "edit_file", "read_file")
    with store.one_transaction(durable=True):
        for n in range(calls):
            arguments = json.dumps({"path": f"src/module_{n % 97}.py", "command": f"make target-{n}"})
            call = Call("long", f"{n // 40}", f"c-{n:05}", tools[n % 5], arguments, "handhold")
            if n % 5 == 3 and n > calls - 400:
                seq = store.begin(call)
                change = FileChange(
                    f"{reviewed.root}/m{n % 7}.py",
                    InlineContent(b"a\nb\n" * 50),
                    InlineContent(b"a\nc\n" * 50 + b"%d" % n),
                )
                store.record_intent(seq, "t", [change], decision=ALLOWED)
                store.record_outcome(seq, Outcome("success", None, 3.0, None), durable=True)
                store.mark_cleaned_up(seq)
            else:
                outcome = Outcome("success" if n % 50 else "error", None if n % 50 else "NO_MATCH", 12.0, None)
                store.record_call(call, outcome, decision=ALLOWED)


def test_the_first_screen_of_ten_thousand_calls_takes_a_second_and_150_kb(
    recorded: Reviewed | ShippedReview, browser: Browser
):
    fill(recorded, CALLS)
    context = new_context(browser)
    recorded.enter(context)
    taken: list[float] = []
    sizes: list[int] = []
    for _ in range(3):
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        received: list[int] = []
        session.on(
            "Network.loadingFinished", lambda event, received=received: received.append(event["encodedDataLength"])
        )
        page.goto(f"{recorded.url}/timeline?session=long", wait_until="load")
        while not page.evaluate("performance.getEntriesByType('paint').length"):
            page.wait_for_timeout(20)
        taken.append(page.evaluate("performance.getEntriesByType('paint').at(-1).startTime / 1000"))
        page.wait_for_timeout(100)
        sizes.append(sum(received))
        assert page.locator(".calls li").count() == 60
        page.close()
    assert min(taken) <= MAX_SECONDS, taken
    assert max(sizes) <= MAX_BYTES, sizes
    print(f"first paint {min(taken):.2f} s, {max(sizes):,} bytes")
    context.close()


def test_a_diff_of_fifty_thousand_lines_pages_and_never_freezes(recorded: Reviewed | ShippedReview, browser: Browser):
    old = "".join(f"value_{n} = {n}\n" for n in range(LINES // 2)).encode()
    new = "".join(f"value_{n} = {n + 1}  # changed\n" for n in range(LINES // 2)).encode()
    store = recorded.store
    seq = store.begin(Call("long", "", "c", "write_file", "{}", "handhold"))
    store.record_intent(
        seq, "t", [FileChange(f"{recorded.root}/big.py", InlineContent(old), InlineContent(new))], decision=ALLOWED
    )
    store.record_outcome(seq, Outcome("success", None, 3.0, None), durable=True)
    store.mark_cleaned_up(seq)
    context = new_context(browser)
    context.add_init_script(WATCH_TASKS)
    page = recorded.enter(context, f"/call/{seq}")
    longest = [page.evaluate("window.longest")]
    page.locator("a", has_text="more lines of this file").click()
    seen = 0
    for _ in range(4):
        page.wait_for_load_state("load")
        seen += page.locator(".diff .l").count()
        page.mouse.wheel(0, 5000)
        page.wait_for_timeout(100)
        longest.append(page.evaluate("window.longest"))
        page.locator("#next-lines").last.click()
    page.locator("a", has_text="Last 500").first.click()
    page.wait_for_load_state("load")
    longest.append(page.evaluate("window.longest"))
    assert "50,000 lines." in page.content()
    assert seen >= 4 * 500
    assert max(longest) <= MAX_TASK_MS, longest
    print(f"longest task {max(longest):.0f} ms")
    context.close()
