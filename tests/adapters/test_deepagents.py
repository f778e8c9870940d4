import asyncio
import mimetypes
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import aclosing
from io import BytesIO
from typing import Any

import pytest
from deepagents import create_deep_agent
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from PIL import Image

from handhold import Rule, Toolbox
from handhold.adapters.deepagents import backend, raw, workspace_backend
from handhold.adapters.langchain import approve_by_interrupt
from handhold.testing import FILES
from tests.adapters.scripted import Model, Turn, Use, scripted
from tests.adapters.shop import (
    CART,
    DONE,
    FIXED,
    PIXEL,
    Person,
    Shop,
    edit_at,
    is_the_picture,
    mending_by_paths,
    read_at,
)
from tests.adapters.test_langchain import GIVEN, HERE, Run, awaited, chat, messages, run, streamed
from tests.backends.convert.papers import plain
from tests.backends.convert.pictures import quartered, saved

AWAITED = pytest.mark.parametrize("run", [awaited, streamed])
RUNS = pytest.mark.parametrize("run", [run, awaited, streamed])
ENDLESS = Use("execute", {"command": "echo first; sleep 1000"})
FORMS = {"gif": "GIF", "webp": "WEBP", "jpg": "JPEG", "jpeg": "WEBP"}  # of which one lies
MODELS = pytest.mark.parametrize("by", [chat, messages])


def agent(model: Model, box: Toolbox, by: Callable[[Model], Any] = messages, **options: Any) -> Any:
    return create_deep_agent(model=by(model), backend=backend(box), **options)


def changing(shop: Shop) -> list[Turn]:
    return [read_at(shop, "cart.py"), edit_at(shop, "RATE = 91", "RATE = 19"), DONE]


def told(state: dict[str, Any]) -> list[ToolMessage]:
    return [each for each in state["messages"] if isinstance(each, ToolMessage)]


@MODELS
@AWAITED
def test_c102_an_agent_mends_a_repository_and_runs_its_tests(shop: Shop, run: Run, by: Any):
    with scripted(*mending_by_paths(shop)) as model, shop.open(dialect=raw) as box:
        state = run(agent(model, box, by))
    assert state["messages"][-1].text == DONE
    assert [each.status for each in told(state)] == ["success"] * 8
    assert shop.cart == FIXED
    assert all(str(shop.root / "cart.py") in each.text for each in model.results[:3])
    assert "RATE = 91" in model.results[3].text
    assert "OK" in model.results[7].text
    assert "exit code 0" in model.results[7].text


def test_the_same_without_an_event_loop(shop: Shop):
    """There calls of one turn start in any order: the tests have a turn of their own."""
    with scripted(*mending_by_paths(shop, at_once=False)) as model, shop.open(dialect=raw) as box:
        assert run(agent(model, box))["messages"][-1].text == DONE
    assert shop.cart == FIXED
    assert "OK" in model.results[7].text


@RUNS
def test_failures_are_marked(shop: Shop, run: Run):
    outside = Use("write_file", {"file_path": "/etc/handhold", "content": "x"})
    unread = edit_at(shop, "RATE = 91", "RATE = 19")
    with scripted([read_at(shop, "cart"), outside, unread], DONE) as model, shop.open(dialect=raw) as box:
        state = run(agent(model, box))
    assert [each.status for each in told(state)] == ["error"] * 3
    texts = [each.text for each in model.results]
    assert [text.count("Error: ") for text in texts] == [1, 1, 1]
    assert "not found" in texts[0]
    assert "escapes" in texts[1]
    assert shop.cart == CART


@RUNS
def test_what_a_command_did_to_the_workspace_can_be_taken_back(shop: Shop, run: Run):
    command = Use("execute", {"command": "rm cart.py; exit 3"})
    with scripted(command, DONE) as model, shop.open(dialect=raw) as box:
        run(agent(model, box))
        assert not (shop.root / "cart.py").exists()
        assert "exit code 3" in model.results[0].text
        box.undo()
    assert shop.cart == CART


@pytest.mark.parametrize(
    ("name", "size"), [("a.png", 60), ("a.gif", 60), ("a.webp", 60), ("a.jpg", 60), ("a.jpeg", 60), ("noise.png", 1500)]
)
def test_a_picture_comes_in_the_format_that_its_name_says(name: str, size: int):
    image = quartered(size, size)
    data = saved(image.effect_spread(300) if size > 1000 else image, FORMS.get(name[2:], "PNG"))
    read = workspace_backend(Toolbox.in_memory({name: data}, dialect=raw, root="/ws")).read(f"/ws/{name}")
    assert read.file_data
    assert read.file_data["encoding"] == "base64"
    with Image.open(BytesIO(b64decode(read.file_data["content"]))) as seen:
        assert seen.get_format_mimetype() == mimetypes.guess_type(name)[0]
        assert seen.size == (size, size)
    assert len(read.file_data["content"]) < 5_000_000


def test_a_pdf_comes_as_it_is_and_a_notebook_by_its_cells():
    files = {
        "a.pdf": plain("text"),
        "b.png": plain("text"),
        "c": PIXEL,
        "n.ipynb": FILES["book.ipynb"],
        "broken.pdf": b"%PDF-1.7\n\0",
    }
    here = workspace_backend(Toolbox.in_memory(files, dialect=raw, root="/ws"))
    assert here.read("/ws/a.pdf").file_data == {"content": b64encode(files["a.pdf"]).decode(), "encoding": "base64"}
    assert "copy it to a name that is right" in (here.read("/ws/b.png").error or "")
    assert "copy it to a name that is right" in (here.read("/ws/c").error or "")
    assert "cannot be shown as a PDF" in (here.read("/ws/broken.pdf").error or "")
    cells = here.read("/ws/n.ipynb").file_data
    assert cells
    assert "# Greetings" in cells["content"]
    assert cells["encoding"] == "utf-8"


def test_a_picture_is_read(shop: Shop):
    with scripted(read_at(shop, "pixel.png"), DONE) as model, shop.open(dialect=raw) as box:
        run(agent(model, box))
    (image,) = model.results[0].images
    assert is_the_picture(image)


# --- approvals


@RUNS
@pytest.mark.parametrize("approve", [True, False])
def test_a_run_stops_at_a_change_until_it_is_approved(shop: Shop, run: Run, approve: bool):
    with scripted(*changing(shop)) as model, shop.open(dialect=raw, approver=approve_by_interrupt) as box:
        here = agent(model, box, checkpointer=InMemorySaver())
        (asked,) = run(here)["__interrupt__"]
        assert "+RATE = 19" in asked.value["diff"]
        assert shop.cart == CART
        state = run(here, Command(resume=approve))
        assert state["messages"][-1].text == DONE
    assert ("RATE = 19" in shop.cart) is approve
    assert [each.error for each in model.results] == [False, not approve]


@RUNS
def test_a_command_that_is_not_approved_says_so_and_nothing_of_it_counts(shop: Shop, run: Run):
    command = Use("execute", {"command": "echo new > new.py"})
    with scripted(command, DONE) as model, shop.open(dialect=raw, approver=approve_by_interrupt) as box:
        here = agent(model, box, checkpointer=InMemorySaver())
        run(here)
        run(here, Command(resume=False))
    assert model.results[0].text.startswith("Error: ")
    assert "succeeded" not in model.results[0].text
    assert not (shop.root / "new.py").exists()


@pytest.mark.parametrize("says", [True, False])
def test_another_approver_is_asked_with_the_change(shop: Shop, says: bool):
    person = Person(says=says)
    with scripted(*changing(shop)) as model, shop.open(dialect=raw, approver=person) as box:
        assert run(agent(model, box))["messages"][-1].text == DONE
    assert ["+RATE = 19" in question.diff for question in person.asked] == [True]
    assert ("RATE = 19" in shop.cart) is says


# --- while it runs


def test_what_a_command_prints_is_seen_while_it_runs(shop: Shop):
    async def seen() -> list[Any]:
        pieces: list[Any] = []
        async for piece in agent(model, box).astream(GIVEN, HERE, stream_mode="custom"):
            pieces.append(piece)
            box.interrupt()
        return pieces

    with scripted(ENDLESS, DONE) as model, shop.open(dialect=raw) as box:
        assert asyncio.run(seen()) == [{"tool": "execute", "printed": "first\n", "dropped": 0}]


def test_a_run_that_is_cancelled_leaves_no_command_behind(shop: Shop):
    async def cancelled() -> None:
        async with aclosing(agent(model, box).astream(GIVEN, HERE, stream_mode="custom")) as pieces:
            async for _ in pieces:
                break

    with scripted(ENDLESS, DONE) as model, shop.open(dialect=raw) as box:
        asyncio.run(cancelled())
        assert [entry.outcome.status for entry in box.log() if entry.outcome] == ["interrupted"]


# --- what is large


def test_a_large_result_is_put_aside_and_not_into_the_workspace(shop: Shop):
    @tool
    def many() -> str:
        """Says much."""
        return "needle\n" * 30_000

    aside = Use("read_file", {"file_path": "/deepagents/large_tool_results/many", "offset": 2000, "limit": 2})
    before = sorted(path.name for path in shop.root.iterdir())
    with scripted(Use("many", {}, id="many"), aside, DONE) as model, shop.open(dialect=raw) as box:
        assert run(agent(model, box, tools=[many]))["messages"][-1].text == DONE
    assert "/deepagents/large_tool_results/many" in model.results[0].text
    assert "needle" in model.results[1].text
    assert sorted(path.name for path in shop.root.iterdir()) == before


def test_a_command_that_prints_much_says_where_the_rest_is(shop: Shop):
    def rest(body: Any) -> Use:
        (told,) = re.findall(r"is in (/\S+)\. ", str(body["messages"]))
        return Use("read_file", {"file_path": told, "offset": 99_999, "limit": 1})

    much = Use("execute", {"command": "seq 1 200000"})
    with scripted(much, rest, DONE) as model, shop.open(dialect=raw) as box:
        assert run(agent(model, box))["messages"][-1].text == DONE
    assert "100000" in model.results[1].text


# --- the protocol itself


def both(box: Toolbox) -> tuple[SandboxBackendProtocol, Callable[[Any], Any]]:
    return workspace_backend(box), asyncio.run


def test_a_page_says_where_it_stands_and_where_it_goes_on(shop: Shop):
    (shop.root / "long").write_bytes(b"one\r\ntwo\r\nthree")
    (shop.root / "empty").write_bytes(b"")
    with shop.open(dialect=raw) as box:
        here, wait = both(box)
        path = str(shop.root / "long")
        for read in (here.read, lambda *given: wait(here.aread(*given))):
            first, last = read(path, 0, 2), read(path, 2, 2)
            assert first.file_data == {"content": "one\ntwo\n", "encoding": "utf-8"}
            assert (first.start_line, first.end_line, first.next_offset) == (1, 2, 2)
            assert last.file_data == {"content": "three", "encoding": "utf-8"}
            assert (last.start_line, last.end_line, last.next_offset, last.total_lines) == (3, 3, None, 3)
            assert read(path, -5, 1).start_line == 1
            assert read(path, 0, 0).no_lines_requested
            assert "3 lines" in (read(path, 9, 1).error or "")
            assert read(str(shop.root / "empty"), 0, 9).file_data == {"content": "", "encoding": "utf-8"}


def test_patterns_mean_what_the_framework_says(shop: Shop):
    (shop.root / "deep").mkdir()
    (shop.root / "deep/inner.py").write_text("RATE = 1\n")
    with shop.open(dialect=raw) as box:
        here, wait = both(box)

        def found(pattern: str, path: str | None = None) -> list[str]:
            result = here.glob(pattern, path)
            assert result == wait(here.aglob(pattern, path))
            return sorted(each["path"].removeprefix(f"{shop.root}/") for each in result.matches or ())

        assert found("*.py") == ["cart.py", "deep/inner.py", "test_cart.py"]
        assert found("/*.py") == ["cart.py", "test_cart.py"]
        assert found("deep/*.py") == ["deep/inner.py"]
        assert found("*.py", str(shop.root / "deep")) == ["deep/inner.py"]
        assert here.glob("*.py", "/etc").error


def test_matches_are_literal_and_bounded(shop: Shop):
    (shop.root / "many").write_text("a.c\nabc\n" * 5)
    with shop.open(dialect=raw) as box:
        here, wait = both(box)
        for grep in (here.grep, lambda *given, **more: wait(here.agrep(*given, **more))):
            assert grep("nowhere at all").matches == []
            every = grep("a.c", "/", "many")
            assert [each["line"] for each in every.matches or ()] == [1, 3, 5, 7, 9]
            assert not every.truncated
            some = grep("a.c", None, "many", max_count=2)
            assert ([each["line"] for each in some.matches or ()], some.truncated) == ([1, 3], True)


def test_a_folder_is_deleted_whole_and_comes_back_whole(shop: Shop):
    (shop.root / "deep/er").mkdir(parents=True)
    (shop.root / "deep/er/a b.py").write_text("x\n")
    with shop.open(dialect=raw) as box:
        here, wait = both(box)
        assert here.delete(str(shop.root / "deep")).error is None
        assert not (shop.root / "deep").exists()
        box.undo()
        assert wait(here.adelete(str(shop.root / "deep/er/a b.py"))).error is None
        assert not (shop.root / "deep/er/a b.py").exists()
        for path in (str(shop.root / "nothing"), "/", str(shop.root), "/etc/passwd"):
            assert here.delete(path).error
            assert wait(here.adelete(path)).error
    assert shop.cart == CART


def test_files_come_to_the_application_byte_for_byte(shop: Shop):
    data = bytes(range(256))
    (shop.root / "odd").write_bytes(data)
    with shop.open(dialect=raw) as box:
        paths = [str(shop.root / "odd"), str(shop.root / "none"), str(shop.root), "/etc/passwd"]
        got = workspace_backend(box).download_files(paths)
    assert got[0].content == data
    assert [each.error for each in got] == [None, "file_not_found", "is_directory", "invalid_path"]


def test_a_denied_file_comes_under_none_of_its_names(shop: Shop):
    (shop.root / "secret").write_text("hush")
    (shop.root / "hard").hardlink_to(shop.root / "secret")
    (shop.root / "soft").symlink_to("secret")
    denied = Rule("secret", "deny", ["read"], "mine", ["secret"], ["a"], paths=["secret", "gone"])
    names = ("secret", "hard", "soft", "gone")  # the last: not even that it is missing
    with shop.open(dialect=raw, rules=[denied]) as box:
        got = workspace_backend(box).download_files([str(shop.root / name) for name in names])
    assert [(each.content, each.error) for each in got] == [(None, "permission_denied")] * len(names)


def test_a_replacement_counts_its_places(shop: Shop):
    with shop.open(dialect=raw) as box:
        here, wait = both(box)
        path = str(shop.root / "cart.py")
        assert "read" in (here.edit(path, "RATE", "R").error or "").lower()
        here.read(path)
        assert here.edit(path, "RATE", "R", True).occurrences == 2
        assert wait(here.aedit(path, "R", "RATE", True)).occurrences == 2
        assert here.write(str(shop.root / "new.py"), "a\n").path == str(shop.root / "new.py")
        assert wait(here.awrite(str(shop.root / "newer.py"), "a\n")).error is None
        assert [each["path"] for each in wait(here.als("/")).entries] == [
            str(shop.root / name) for name in ("cart.py", "new.py", "newer.py", "pixel.png", "test_cart.py")
        ]


def test_a_timeout_is_the_commands(shop: Shop):
    with shop.open(dialect=raw) as box:
        here = workspace_backend(box)
        assert "Timed out" in here.execute("sleep 100", timeout=1).output
        with pytest.raises(ValueError, match="3600"):
            here.execute("true", timeout=4000)


def test_a_toolbox_of_another_dialect_is_no_backend(shop: Shop):
    with shop.open() as box, pytest.raises(ValueError, match="raw"):
        workspace_backend(box)


@pytest.mark.parametrize("root", ["/deepagents", "/deepagents/ws"])
def test_a_workspace_that_would_be_hidden_is_refused(root: str):
    with pytest.raises(ValueError, match="hidden"):
        backend(Toolbox.in_memory({}, root=root, dialect=raw))
