"""The same sixty calls, by every official client over both transports, get the same replies as from the toolbox."""

from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from tests.clients.party import (
    CONVERSATION,
    EVERYBODY,
    HANDHOLD,
    QUESTIONS,
    Client,
    Told,
    conversation,
    here,
    lay,
    over_http,
    told,
    tree,
    without_a_server,
)
from tests.scale import sampled

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.usefixtures("clients")]


@pytest.fixture(scope="module")
def clients() -> None:
    here()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Told:
    place = tmp_path_factory.mktemp("toolbox")
    return without_a_server(lay(place / "root"), place / "state")


def heard_by(client: Client, about: Path, over: str, root: Path, state: Path, *options: str) -> dict[str, Any]:
    if over == "stdio":
        return client.talk(about, command=[*HANDHOLD, "mcp", "--root", str(root), "--state", str(state), *options])
    with over_http(root, state, *options) as where:
        return client.talk(about, **where)


# The two that are sampled have different languages and protocols.
@pytest.mark.parametrize("over", ["stdio", "http"])
@pytest.mark.parametrize("client", sampled(EVERYBODY, 2), ids=str)
def test_every_client_hears_what_the_toolbox_says(client: Client, over: str, expected: Told, tmp_path: Path):
    root, state = lay(tmp_path / "root"), tmp_path / "state"
    heard = heard_by(client, CONVERSATION, over, root, state)
    assert heard["protocol"] == client.protocol
    got = told(heard["tools"], heard["answers"], heard["kept"], root)
    for call, answer, wanted in zip(conversation()["calls"], got.answers, expected.answers, strict=True):
        assert answer == wanted, call
    assert got.tools == expected.tools
    assert got.tree == expected.tree


def test_the_conversation_has_sixty_calls_and_meets_every_tool(expected: Told):
    calls = conversation()["calls"]
    assert len(calls) == 60
    assert {tool["name"] for tool in expected.tools} < {call["tool"] for call in calls}
    assert sum(answer.get("isError", True) for answer in expected.answers) >= 15
    assert any(block["type"] == "image" for answer in expected.answers for block in answer.get("content", ()))


# Each client over one transport, and each revision over both.
PAIRS = [*zip(EVERYBODY, cycle(["http", "stdio"]), strict=False)]


@pytest.mark.parametrize(("client", "over"), sampled(PAIRS, 2, lambda pair: pair[0].protocol), ids=str)
def test_u21_every_client_puts_the_same_questions_to_its_person(client: Client, over: str, tmp_path: Path):
    root = lay(tmp_path / "root", QUESTIONS)
    heard = heard_by(client, QUESTIONS, over, root, tmp_path / "state", "--policy", "ask")
    assert [answer["isError"] for answer in heard["answers"]] == [False, False, True, True, False]
    assert tree(root) == {"a.txt": b"one\n", "allowed.txt": b"yes\n", "copied.txt": b"one\n"}
    allowed, refused, declined, copied = heard["asked"]
    assert ("+yes" in allowed, "+no" in refused, "-one\n+two" in declined) == (True, True, True)
    assert "cp a.txt copied.txt" in copied
