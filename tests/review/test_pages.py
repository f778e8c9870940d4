"""The pages in a browser: taking back, forks, widths, themes, accessibility."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from handhold.toolbox import Toolbox
from tests.hub.servers import Postgres, SeaweedFS
from tests.review.hosting import Reviewed, make_shop, new_context, reviewing
from tests.review.hub_hosting import ShippedReview, reviewing_on_hub

pytestmark = pytest.mark.timeout(120)
AXE = Path(__file__).parents[2] / ".ci/clients/node_modules/axe-core/axe.min.js"  # from `just clients`


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    shop = make_shop(tmp_path_factory.mktemp("pages"))
    with reviewing(shop) as reviewed:
        (shop.root / "b.py").write_text("".join(f"line{n} = {n}\n" for n in range(40)))
        with Toolbox.open(shop.root, state=shop.state, session="coupons") as box:

            def call(tool: str, turn: str, **arguments: str) -> None:
                box.call(tool, arguments, call_id=f"c{len(box.log())}", turn=turn)

            call("read_file", "1", path="a.py")  # 1
            call("edit_file", "1", path="a.py", old="price = 1", new="price = 2\nname = 'x'")  # 2
            call(
                "bash", "2", command="echo new > one.txt; echo new > two.txt; sed -i 's/line3 = 3/line3 = 4/' b.py"
            )  # 3
            call("edit_file", "2", path="a.py", old="price = 2", new="price = 3")  # 4
            call("bash", "3", command="exit 3")  # 5
            call("bash", "3", command="rm keep/a.txt")  # 6, asks
            call("grep", "3", pattern="line3")  # 7
            call("write_file", "4", path="undone.txt", content="x\n")  # 8
            box.undo()  # 9
            call("write_file", "5", path="cart.py", content="total = (1\nname = 'x'\n")  # 10, with a syntax error
            for name, text in (("facets", "one = 1\n"), ("index", "two = 2\n")):
                fork = box.fork(name)
                lines = f"seq -f '{name} %.0f' 1500 > long.txt; printf '{name}' > other.txt"
                fork.run(["sh", "-c", f"printf '{text}' > search.py; {lines}; exit {int(name == 'index')}"])
        yield reviewed


@pytest.fixture
def page(reviewed: Reviewed, browser: Browser) -> Iterator[Page]:
    context = new_context(browser)
    yield reviewed.enter(context)
    context.close()


@pytest.fixture(scope="module")
def on_hub(
    reviewed: Reviewed, tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, seaweed: SeaweedFS
) -> Iterator[ShippedReview]:
    """The same journal, shipped."""
    with reviewing_on_hub(reviewed.shop, postgres, seaweed, tmp_path_factory.mktemp("hub")) as shipped:
        yield shipped


@pytest.fixture(params=["journal", "hub"])
def place(request: pytest.FixtureRequest) -> Reviewed | ShippedReview:
    return request.getfixturevalue("reviewed" if request.param == "journal" else "on_hub")


# Those that only read: on a hub, too.
RECORD_PAGES = (
    *("/timeline", "/timeline?session=coupons&q=nothing-like-it", "/timeline?session=coupons&path=a.py", "/call/2"),
    *("/call/3", "/call/10", "/call/2/file/0", "/call/2/file/0?side=before", "/history?path=a.py", "/no-such-page"),
)
PAGES = (
    *("/now", *RECORD_PAGES, "/call/2/undo", "/call/3/undo", "/call/3/undo?scope=turn", "/call/3/undo?scope=session"),
    *("/call/8/undo", "/forks", "/forks/facets", "/forks?fork=facets&fork=index"),
    *("/forks?fork=facets&fork=index&path=long.txt", "/forks/index?path=long.txt"),
)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_violation_and_none_scrolls_sideways(
    place: Reviewed | ShippedReview, browser: Browser, theme: str
):
    width = {"light": 1440, "dark": 390}[theme]
    context = new_context(browser, color_scheme=theme, viewport={"width": width, "height": 800})
    page = place.enter(context)
    paths = list(PAGES)
    if isinstance(place, ShippedReview):
        paths = [*place.sample(list(RECORD_PAGES), 5), "/../../", "/../../enter", "/../../w/none/timeline"]
    for path in paths:
        page.goto(place.url + path)
        page.evaluate(AXE.read_text(encoding="utf-8"))  # not a script element: the policy of the page forbids it
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        bad = [
            (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0].get("failureSummary", "")[:300])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert not bad, (path, theme, json.dumps(bad, indent=1))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
    context.close()


def test_a_phone_of_320_pixels_shows_every_answer_without_scrolling_sideways(reviewed: Reviewed, browser: Browser):
    context = new_context(browser, viewport={"width": 320, "height": 640}, has_touch=True)
    page = reviewed.enter(context)
    wide = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > 320.5).map(e => e.outerHTML.slice(0, 120))"
    assert page.evaluate("document.documentElement.scrollWidth") <= 320, page.evaluate(wide)
    for value in ("once", "no", "word"):
        box = page.locator(f"[data-question] .answers button[value={value}]").bounding_box()
        assert box is not None
        assert box["height"] >= 44
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 320
    context.close()


def test_an_undo_in_conflict_names_the_later_change_and_restores_the_rest_by_choice(reviewed: Reviewed, page: Page):
    page.goto(f"{reviewed.url}/call/2/undo")
    expect(page.locator("h1")).to_contain_text("1 in conflict")
    expect(page.locator("section.card", has_text="A later change is in the way")).to_contain_text("Call #4")
    expect(page.locator("#commit")).to_have_count(0)
    before = (reviewed.root / "a.py").read_text()
    page.goto(f"{reviewed.url}/call/3/undo")
    page.get_by_role("checkbox", name=re.compile("two.txt")).uncheck()
    expect(page.locator("#chosen")).to_have_text("2")
    page.locator("#commit").click()
    expect(page.get_by_role("status").filter(has_text="Done.")).to_be_visible()
    assert not (reviewed.root / "one.txt").exists()
    assert (reviewed.root / "two.txt").exists()
    assert "line3 = 3" in (reviewed.root / "b.py").read_text()
    assert (reviewed.root / "a.py").read_text() == before


def test_n7_a_conflict_is_decided_on_the_page(reviewed: Reviewed, page: Page):
    file = reviewed.root / "decided.txt"
    file.write_text("one\ntwo\nthree\nfour\n")
    with Toolbox.open(reviewed.root, state=reviewed.shop.state, session="decisions", settings=False) as box:
        box.call("read_file", {"path": "decided.txt"})
        assert box.call("edit_file", {"path": "decided.txt", "old": "two", "new": "agent"}).ok
        seq = box.log(last=1)[0].seq
    file.write_text("one\nperson\nthree\nfour\n")
    for scope in ("session", "call"):
        page.goto(f"{reviewed.url}/call/{seq}/undo?scope={scope}")
        for side in ("two", "agent", "person"):
            expect(page.locator("section.card", has_text="A later change is in the way")).to_contain_text(side)
    for name in ("Restore the old version", "Keep what is there now", "Leave it alone"):
        page.get_by_role("link", name=name).click()
        expect(page.locator("#commit")).to_be_visible()
        page.get_by_role("link", name="Decide again").click()
    assert file.read_text() == "one\nperson\nthree\nfour\n"
    page.get_by_role("link", name="save the old version beside it").click()
    page.locator("#commit").click()
    expect(page.get_by_role("status").filter(has_text="Done.")).to_be_visible()
    assert file.read_text() == "one\nperson\nthree\nfour\n"
    assert (reviewed.root / "decided.txt.old").read_text() == "one\ntwo\nthree\nfour\n"


def test_a_call_is_taken_back_and_redone(reviewed: Reviewed, page: Page):
    page.goto(f"{reviewed.url}/call/4/undo")
    page.locator("#commit").click()
    expect(page.get_by_role("status").filter(has_text="Done.")).to_be_visible()
    assert "price = 2" in (reviewed.root / "a.py").read_text()
    page.locator("#redo li", has_text="#4").get_by_role("button").click()
    expect(page.get_by_role("status").filter(has_text="Done.")).to_be_visible()
    assert "price = 3" in (reviewed.root / "a.py").read_text()


def test_forks_are_compared_merged_and_dropped(reviewed: Reviewed, page: Page):
    page.goto(f"{reviewed.url}/forks")
    for name in ("facets", "index"):
        page.get_by_label(f"Select {name}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("row", name=re.compile("^search.py"))).to_contain_text("differ")
    expect(page.locator("tr", has=page.get_by_label("Select index"))).to_contain_text("exit 1")
    differing = page.locator("section", has=page.locator("#h-f")).locator("ol.eff > li")
    expect(differing).to_have_count(3)
    expect(differing.filter(has_text="other.txt")).to_contain_text("index")
    differing.get_by_role("link", name=re.compile("more lines of this file")).click()
    expect(page.locator("h1")).to_contain_text("long.txt")
    page.locator("#next-lines").first.click()
    expect(page.locator(".crumbs")).to_contain_text("index and facets")
    expect(page.locator("main")).to_contain_text("index 501")
    page.goto(f"{reviewed.url}/forks/facets")
    expect(page.locator("main")).to_contain_text("exit 0")
    page.get_by_role("link", name=re.compile("more lines of this file")).click()
    expect(page.locator("main")).to_contain_text("facets 499")
    page.goto(f"{reviewed.url}/forks?fork=facets&fork=index")
    page.locator("section.card", has_text="Merge facets").get_by_role(
        "button", name=re.compile("^Merge 3 files")
    ).click()
    expect(page.get_by_role("status").filter(has_text="Merged facets")).to_be_visible()
    assert (reviewed.root / "search.py").read_text() == "one = 1\n"
    page.goto(f"{reviewed.url}/forks/index")
    page.get_by_role("button", name=re.compile("^Merge")).click()
    expect(page.locator("section.card", has_text="Nothing was merged")).to_contain_text("search.py")
    page.goto(f"{reviewed.url}/forks/index")
    page.locator("summary").click()
    page.get_by_role("button", name="Drop index").click()
    expect(page.get_by_role("status").filter(has_text="dropped")).to_be_visible()
    with Toolbox.open(reviewed.root, state=reviewed.shop.state) as box:
        assert [fork.name for fork in box.forks] == []


def test_a_call_names_the_errors_that_it_made(place: Reviewed | ShippedReview, browser: Browser):
    context = new_context(browser)
    page = place.enter(context)
    page.goto(f"{place.url}/call/10")
    expect(page.locator(".head")).to_contain_text("1 new error")
    row = page.locator("section", has=page.locator("#h-prob")).locator("li")
    expect(row).to_have_count(1)
    for each in ("cart.py", "line 1, column 9", "'(' was never closed", "total = (1"):
        expect(row).to_contain_text(each)
    page.goto(f"{place.url}/call/2")
    expect(page.locator("#h-prob")).to_have_count(0)
    context.close()


def test_filters_and_links_work_without_scripts(place: Reviewed | ShippedReview, browser: Browser):
    context = new_context(browser, java_script_enabled=False)
    page = place.enter(context, "/timeline?session=coupons")
    page.get_by_label("Text in arguments or reply").fill("line3 = 4")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".calls li")).to_have_count(1)
    page.locator(".calls li a").first.click()
    expect(page.locator("h1")).to_contain_text("3 files")
    page.goto(f"{place.url}/timeline?session=coupons&decision=refused")
    expect(page.locator(".calls li")).to_have_count(1)
    page.goto(f"{place.url}/timeline?session=coupons&path=[")
    expect(page.get_by_role("alert")).to_be_visible()
    context.close()


def test_keys_lead_through_the_timeline(reviewed: Reviewed, page: Page):
    page.locator("#live .live").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/timeline")
    page.locator("#live .live").wait_for()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/call/\d+$"))
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
