"""Two hundred hostile strings in twelve places: no script runs, and nothing is displayed as something else."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markupsafe import Markup
from playwright.sync_api import BrowserContext, Page

from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.approvals import Effect, PendingApproval
from handhold.core.ports.journal import Call, CallDecision, Outcome
from handhold.core.problems import Problem, Problems
from handhold.core.text.path_escaping import is_visible
from handhold.review.display import show, show_output, show_path
from tests.hub.servers import Postgres, SeaweedFS
from tests.review.hostile_strings import HOSTILE
from tests.review.hosting import Reviewed, make_shop, reviewing
from tests.review.hub_hosting import ShippedReview, reviewing_on_hub
from tests.scale import examples

pytestmark = pytest.mark.timeout(120)

Place = Reviewed | ShippedReview
ALLOWED = CallDecision("allowed", "mode edit")
# What is in the document besides our own elements and characters.
FIND_FOREIGN = """() => {
  const found = [];
  if (window.pwned) found.push("a script ran");
  const hidden = /[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]/;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (hidden.test(walker.currentNode.data)) found.push("raw: " + JSON.stringify(walker.currentNode.data.slice(0, 80)));
  for (const element of document.querySelectorAll("*")) {
    const name = element.tagName.toLowerCase();
    if (["iframe", "object", "embed", "base", "style", "marquee", "video", "audio", "math", "template"].includes(name)) found.push(name);
    if (name === "script" && !element.src.startsWith(location.origin)) found.push("script");
    for (const {name: attribute, value} of element.attributes) {
      if (attribute.startsWith("on") || attribute.startsWith("hx-on") || attribute === "style") found.push(attribute);
      if (/^(href|src|action|formaction)$/.test(attribute) && !/^[/#?]/.test(value)) found.push(attribute + "=" + value);
      if (attribute === "hx-vals") found.push(attribute);
    }
    if (["input", "textarea"].includes(name) && element.type !== "hidden" && hidden.test(element.value)) found.push("raw in a field");
  }
  return found;
}"""


def spelled(text: str) -> str:
    """The text as people must see it."""
    return "".join(char if is_visible(char) else _token(char) for char in text)


def _token(char: str) -> str:
    code = ord(char)
    return f"0x{code - 0xDC00:02X}" if 0xDC80 <= code <= 0xDCFF else f"U+{code:04X}"


class Looker:
    """A browser that notices whatever a page does on its own."""

    def __init__(self, reviewed: Place, context: BrowserContext) -> None:
        self.reviewed = reviewed
        self.problems: list[str] = []
        self.page: Page = reviewed.enter(context)
        self.page.on("dialog", self._dismiss)
        self.page.on("request", self._look_at)

    def _dismiss(self, dialog: Any) -> None:
        self.problems.append("a dialog")
        dialog.dismiss()

    def _look_at(self, request: Any) -> None:
        if not request.url.startswith(self.reviewed.origin):
            self.problems.append(f"it asked for {request.url}")

    def look(self, path: str, expected: Sequence[str] = (), chars: int = 60) -> None:
        self.reviewed.publish()
        response = self.page.goto(self.reviewed.url + path)
        assert response is not None
        assert response.status == 200, (path, response.status)
        assert self.page.evaluate(FIND_FOREIGN) == [], path
        text = self.page.evaluate("document.body.textContent + document.title").replace("\n", " ")
        missing = [each for each in expected if spelled(each)[:chars] not in text]
        assert not missing, (path, len(missing), missing[:3])
        assert self.problems == []


@pytest.fixture(scope="module")
def reviewed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reviewed]:
    with reviewing(make_shop(tmp_path_factory.mktemp("hostile"))) as reviewed:
        yield reviewed


@pytest.fixture
def looker(reviewed: Reviewed, context: BrowserContext) -> Looker:
    return Looker(reviewed, context)


@pytest.fixture(scope="module")
def on_hub(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, seaweed: SeaweedFS) -> Iterator[ShippedReview]:
    folder = tmp_path_factory.mktemp("hostile-hub")
    with reviewing_on_hub(make_shop(folder), postgres, seaweed, folder) as shipped:
        yield shipped


@pytest.fixture(params=["journal", "hub"])
def place(request: pytest.FixtureRequest) -> Place:
    """The page of a journal on this machine, and of one that was shipped to a hub."""
    return request.getfixturevalue("reviewed" if request.param == "journal" else "on_hub")


@pytest.fixture
def recorded_looker(place: Place, context: BrowserContext) -> Looker:
    return Looker(place, context)


def record(
    reviewed: Place,
    *,
    session: str = "s",
    turn: str = "",
    tool: str = "edit_file",
    arguments: Any = None,
    files: Sequence[FileChange] = (),
    decision: CallDecision = ALLOWED,
    reply: str = "done",
    data: Any = None,
) -> int:
    store = reviewed.store
    seq = store.begin(Call(session, turn, "c", tool, json.dumps(arguments or {}), "handhold"))
    outcome = Outcome("success", None, 1.0, json.dumps({"text": reply, "data": data or {}}))
    if files:
        store.record_intent(seq, "t", files, decision=decision)
        store.record_outcome(seq, outcome, durable=False)
        store.mark_cleaned_up(seq)
    else:
        store.record_outcome(seq, outcome, durable=False, decision=decision)
    return seq


def in_parts(strings: Sequence[str], many: int) -> Iterator[Sequence[str]]:
    return (strings[start : start + many] for start in range(0, len(strings), many))


def is_name(text: str) -> bool:
    return len(text) < 200 and "/" not in text and "\\" not in text and text not in (".", "..")


def test_in_lines_of_a_diff(place: Place, recorded_looker: Looker):
    body = "".join(f"{each}\n".replace("\r", "") for each in HOSTILE).encode("utf-8", "surrogatepass")
    body = "".join(f"{each}\n" for each in HOSTILE if "\ud800" not in each and "\r" not in each).encode(errors="ignore")
    change = FileChange(f"{place.root}/a.html", InlineContent(b"old\n"), InlineContent(body))
    seq = record(place, files=[change])
    expected = [each for each in HOSTILE if not any("\ud800" <= char <= "\udfff" for char in each) and "\r" not in each]
    recorded_looker.look(f"/call/{seq}/file/0", expected)
    recorded_looker.look(f"/call/{seq}/file/0?side=after", expected)


def test_in_names_of_files(place: Place, recorded_looker: Looker):
    names = place.sample([each for each in HOSTILE if is_name(each) and "\ud800" not in each], 40)
    for part in in_parts(names, 40):
        files = [FileChange(f"{place.root}/{name}", None, InlineContent(b"x\n")) for name in part]
        recorded_looker.look(f"/call/{record(place, files=files)}", part)
    recorded_looker.look("/timeline?session=s")


def test_in_arguments_and_replies(place: Place, recorded_looker: Looker):
    for part in in_parts(HOSTILE, 100):
        seq = record(place, arguments={f"x{n}": each for n, each in enumerate(part)}, reply="\n".join(part))
        shown = [each for each in part if each.isprintable() and "\\" not in each and '"' not in each]
        recorded_looker.look(f"/call/{seq}", shown)


def test_in_problems(place: Place, recorded_looker: Looker):
    few = place.sample([each for each in HOSTILE if "\ud800" not in each], 50)
    for part in in_parts(few, 50):
        told = [Problem(each, 1, 1, each, each, source=each, cell=each) for each in part]
        problems = Problems(tuple(told), len(told), len(told), tuple(part))
        recorded_looker.look(f"/call/{record(place, data={'problems': problems.facts()})}", part)
    for broken in ({"problems": 1}, {"problems": {"told": [1]}}, {"problems": [{"x": 1}], "total": 1, "files": 1}):
        recorded_looker.look(f"/call/{record(place, data=broken)}")


def test_in_names_of_tools_turns_sessions_rules_and_approvers(place: Place, recorded_looker: Looker):
    few = place.sample([each for each in HOSTILE if len(each) < 200], 50)
    for each in few:
        decision = CallDecision("approved", rule=each, by=each)
        record(place, session="many", turn=each, tool=each, decision=decision)
    cursor = ""
    for n in range(4):
        recorded_looker.look(f"/timeline?session=many{cursor}")
        link = recorded_looker.page.locator("a.btn", has_text="Older calls")
        if n < 3 and link.count():
            cursor = "&before=" + str(link.get_attribute("href")).partition("before=")[2]
    for each in few[::8]:
        seq = record(place, session=each, turn=each, tool=each, decision=CallDecision("approved", each, each))
        recorded_looker.look(f"/call/{seq}", [each])
    recorded_looker.look("/timeline", few[::8][-3:])


def test_in_output_with_terminal_sequences(reviewed: Reviewed, looker: Looker):
    seq = record(reviewed, tool="bash", arguments={"command": "x"})
    with reviewed.workspace.store.review_presence.hold():
        watch = reviewed.workspace.store.watch_output(seq, None)
        assert watch is not None
        watch("".join(f"{each}\n" for each in HOSTILE))
    looker.look(
        f"/call/{seq}",
        [each for each in HOSTILE if "\x1b" not in each and "\ud800" not in each and "\udcff" not in each],
    )
    assert "writes to the clipboard" in looker.page.content()


def test_in_commands_effects_links_and_diffs_of_questions(reviewed: Reviewed, looker: Looker):
    store = reviewed.workspace.store
    for n, part in enumerate(in_parts([each for each in HOSTILE if "\ud800" not in each], 50)):
        lines = [each.replace("\n", " ").replace("\r", " ") for each in part]
        diff = f"--- a/x\n+++ b/x\n@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
        effects = [Effect("x.html", "new", size=1, diff_lines=diff.count("\n"))]
        effects += [Effect(each, "new", "link", target=each, leads_out=True) for each in part]
        question = PendingApproval(
            id="",
            hash=f"{n:064x}",
            session=part[0],
            at=time.time(),
            tool=part[1],
            because=part[2],
            command="\n".join(part),
            diff=diff,
            rule=part[3],
            allows=(f"create {part[4]}",),
            patterns=(f"run {part[5]}",),
            effects=tuple(effects),
            effect_count=len(effects),
        )
        pending = store.enqueue(question)
        assert pending is not None
        looker.look(f"/question/{pending.id}", [each for each in part if "\r" not in each])
        looker.look("/now")
        store.answer(pending.hash, "no", by=part[6], word=part[7])
        looker.look("/now")


def test_in_filters_that_a_link_brings(place: Place, recorded_looker: Looker):
    record(place)
    for each in place.sample(HOSTILE[::10], 5):
        text = quote(each, safe="", errors="surrogatepass")
        for path in (f"/timeline?session=s&q={text}", f"/timeline?session={text}&path={text}&tool={text}"):
            response = recorded_looker.page.goto(place.url + path)
            assert response is not None
            assert response.status in (200, 400), path
            assert recorded_looker.page.evaluate(FIND_FOREIGN) == [], path
    assert recorded_looker.problems == []


def test_an_image_is_pixels_and_an_svg_is_text(place: Place, recorded_looker: Looker, tmp_path: Path):
    from PIL import Image

    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    polyglot = (tmp_path / "a.png").read_bytes() + b"<script>window.pwned=1</script>"
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.pwned=1'><script>window.pwned=1</script></svg>\n"
    files = [
        FileChange(f"{place.root}/a.png", None, InlineContent(polyglot)),
        FileChange(f"{place.root}/b.svg", None, InlineContent(svg)),
        FileChange(f"{place.root}/c.png", None, InlineContent(svg)),
    ]
    seq = record(place, files=files)
    recorded_looker.look(f"/call/{seq}", ["<script>window.pwned=1</script>"])
    image = recorded_looker.page.context.request.get(f"{place.url}/call/{seq}/image/0/after")
    assert image.headers["content-type"] in ("image/png", "image/jpeg")
    assert b"script" not in image.body()
    assert "sandbox" in image.headers["content-security-policy"]
    for number in (1, 2):
        recorded_looker.page.goto(f"{place.url}/call/{seq}/image/{number}/after")
        assert recorded_looker.page.evaluate("window.pwned") is None


ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60) | st.sampled_from(HOSTILE)


@given(ANY_TEXT)
@settings(max_examples=examples(2_000))
def test_every_text_is_shown_as_visible_characters_and_nothing_else(text: str):
    displays: list[Callable[[str], Markup]] = [show, show_path, show_output, lambda each: show(each, lines=False)]
    for display in displays:
        shown = display(text)
        assert all(is_visible(char) or char in "\n\t" for char in text_content(shown)), text
        assert "<script" not in shown
    assert text_content(show(text, lines=False)) == spelled(text)


def text_content(shown: Markup) -> str:
    """What is left without the tags."""
    return Markup("".join(part.partition(">")[2] for part in f">{shown}".split("<"))).unescape()
