"""Results stay within the token budget, whatever they contain, and the full text is kept."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handhold.core.choices import DIALECTS
from handhold.server.budget import estimate_tokens, is_within_budget, truncate_to_budget
from tests.scale import sampled
from tests.server.hosting import Shop, talk, text_of

BUDGET = 25_000
FILES = {
    "code.py": "    total = price * quantity  # in cents\n" * 8_000,
    "chinese.txt": "这是一个很长的文件，里面有很多字。\n" * 6_000,
    "digits.csv": "3141592,6535897,9323846\n" * 8_000,
    "one_line.json": '{"key":[1,2,3]},' * 20_000,
    "faces.txt": "😀😃😄😁😆😅🤣😂\n" * 6_000,
}


def huge(dialect: str, root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The calls that show most of each file."""
    for name in FILES:
        path, show = str(root / name), f"cat {name}"
        match dialect:
            case "handhold":
                yield "read_file", {"path": name}
                yield "read_files", {"paths": [name, "code.py"]}
                yield "grep", {"pattern": ".", "regex": True, "path": name, "mode": "content", "limit": 1000}
                yield "bash", {"command": show}
            case "claude":
                yield "Read", {"file_path": path, "limit": 2000}
                yield "Read", {"file_path": path, "limit": 700}
                yield "Grep", {"pattern": ".", "path": path, "output_mode": "content", "head_limit": 1000}
                yield "Bash", {"command": show}
            case "deepagents":
                yield "read_file", {"file_path": path, "limit": 2000}
                yield "grep", {"pattern": "e", "path": path, "output_mode": "content"}
                yield "execute", {"command": show}
            case "codex":
                yield "shell", {"command": ["bash", "-lc", show]}
            case "tiny":
                yield "read_file", {"path": path}
                yield "bash", {"command": show}
            case "hello":
                yield "read_file", {"file_path": path, "limit": 100_000}
            case "mycode":
                yield "Read", {"path": name, "limit": 2000}
                yield "Grep", {"pattern": ".", "path": name}
            case "anthropic":
                yield "str_replace_based_edit_tool", {"command": "view", "path": path}
                yield "bash", {"command": show}
            case _:
                yield "read_file", {"file_path": path, "limit": 2000}
                yield "search_file_content", {"pattern": ".", "dir_path": str(root)}
                yield "run_shell_command", {"command": show}


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sampled(DIALECTS, 3))
def test_no_result_of_any_dialect_is_longer_than_clients_take(shop: Shop, dialect: str):
    for name, content in FILES.items():
        (shop.root / name).write_text(content)

    async def run() -> None:
        async with talk(shop.serving(dialect=dialect)) as client:
            for tool, arguments in huge(dialect, shop.root):
                text = text_of(await client.call_tool(tool, arguments))
                assert estimate_tokens(text) <= BUDGET, (tool, arguments, len(text))
                assert len(text) <= 4 * BUDGET

    asyncio.run(run())


def test_what_does_not_fit_is_kept_where_the_same_tools_read_it(shop: Shop):
    (shop.root / "chinese.txt").write_text("".join(f"第{n}行这是一个很长的文件里面有很多字\n" for n in range(2000)))

    async def run() -> None:
        async with talk(shop.serving(budget=5000)) as client:
            shown = text_of(await client.call_tool("read_file", {"path": "chinese.txt"}))
            assert estimate_tokens(shown) <= 5000
            assert "第0行" in shown
            assert "第1999行" not in shown
            kept = shown.split("The full result is in ")[1].split(";")[0]
            last = text_of(await client.call_tool("grep", {"pattern": "第1999行", "path": kept, "mode": "content"}))
            assert "第1999行" in last
            over = await client.call_tool("write_file", {"path": "chinese.txt", "content": "all of it\n"})
            assert over.is_error  # truncated content does not count as read
            assert "Only part" in text_of(over)

    asyncio.run(run())


def test_an_ordinary_result_is_sent_as_it_is(shop: Shop):
    async def run() -> None:
        async with talk(shop.serving()) as client:
            assert text_of(await client.call_tool("read_file", {"path": "a.py"})) == "     1→price = 1"

    asyncio.run(run())
    assert not list((shop.serving().state_folder / "results").glob("*.txt"))


@given(st.text(max_size=2000), st.integers(300, 1000))
def test_what_is_shown_of_too_long_a_text_always_fits_and_is_its_beginning(
    tmp_path_factory: pytest.TempPathFactory, text: str, budget: int
):
    text = text.replace("\ud800", "") * 5
    if is_within_budget(text, budget):
        return
    shown = truncate_to_budget(text, budget, tmp_path_factory.mktemp("results"))
    assert estimate_tokens(shown) <= budget
    beginning = shown.rpartition("\n[")[0]
    assert text.encode("utf-8", "replace").startswith(beginning.encode("utf-8", "replace")[:-4])


@given(st.text(max_size=300), st.text(max_size=300))
def test_more_text_is_never_fewer_tokens(text: str, more: str):
    assert estimate_tokens(text) <= estimate_tokens(text + more) <= estimate_tokens(text) + estimate_tokens(more) + 1
    assert estimate_tokens(text) <= 2 * len(text)
