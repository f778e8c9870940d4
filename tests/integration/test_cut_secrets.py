"""C-89: a token is not shown in part either, where a reply cuts a line, a page or an output."""

import json
import random
import re
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

import pytest

from handhold import Toolbox
from handhold.backends.shell import jobs
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]
LINES = wrap(b64encode(random.Random(7).randbytes(1190)).decode(), 64)
BEGIN, END = (f"-----{word} PRIVATE KEY-----" for word in ("BEGIN", "END"))
KEY = "\n".join((BEGIN, *LINES, END, ""))
TOKEN = "ghp_" + "Zq8Lw2Xv5Rt9Ns3Bk7Mf1Hd6Jp4Cy0GaE2uT"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Toolbox]:
    (root := tmp_path / "ws").mkdir()
    (root / "account.txt").write_text(json.dumps({"private_key": KEY, "client_email": "a-b@c-d.iam"}, indent=1))
    (root / "key.txt").write_text(KEY)
    (root / "token.txt").write_text(f"{TOKEN}\n")
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open") as opened:
        yield opened


def find_leaks(text: str) -> list[str]:
    return [line for line in LINES if line[:20] in text or line[-20:] in text]


@pytest.mark.parametrize(
    "command",
    [
        "cat account.txt; seq 20000",
        "seq 20000; cat account.txt",
        "cat key.txt; seq 20000",
        "seq 20000; head -n -1 key.txt",
        "seq 20000; cat key.txt",
        "tr '\\n' ' ' < account.txt; seq 20000 | tr '\\n' ' '",
        "seq 20000 | tr '\\n' ' '; tr '\\n' ' ' < account.txt",
    ],
)
def test_both_ends_of_a_long_output(box: Toolbox, command: str):
    reply = box.call("bash", {"command": command})
    assert reply.data["output"]["handle"]
    assert not find_leaks(f"{reply.text}{reply.data}{reply.result}")


@pytest.mark.parametrize("dialect", ["claude", "codex", "deepagents", "tiny"])
def test_dialects_that_cut_in_other_ways(tmp_path: Path, box: Toolbox, dialect: str):
    root = box.files.roots[0]
    with Toolbox.open(root, state=tmp_path / dialect, settings=False, policy="open", dialect=dialect) as other:
        spec = next(each for each in other.specs if each.name in ("Bash", "shell", "execute", "bash"))
        command = "cat account.txt; seq 20000; cat account.txt"
        reply = other.call(spec.name, {"command": ["bash", "-c", command] if spec.name == "shell" else command})
        assert reply.ok, reply.text
        assert not find_leaks(f"{reply.text}{reply.data}{reply.result}")


def test_the_counts_of_lines_stay_true(box: Toolbox):
    reply = box.call("bash", {"command": "cat key.txt; seq 20000; cat key.txt"})
    output = reply.data["output"]
    shown = reply.result.output  # pyright: ignore[reportAttributeAccessIssue, reportOptionalMemberAccess]
    assert output["lines"] == 20000 + 2 * KEY.count("\n")
    assert shown.head.count("\n") + shown.tail.count("\n") + 2 + shown.omitted_lines == output["lines"]


def test_the_reply_that_starts_a_background_command(box: Toolbox, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jobs, "EARLY_EXIT_SECONDS", 60)  # until it has ended, on a busy machine too
    command = {"command": "cat token.txt", "background": True}
    reply = box.call("bash", command, call_id="c1")
    assert "[redacted: github-token]" in reply.text
    assert TOKEN not in f"{reply.text}{reply.data}{reply.result}"
    again = box.call("bash", command, call_id="c1")  # the reply that the journal keeps
    assert again.replayed
    assert TOKEN not in f"{again.text}{again.data}"


def test_what_a_background_command_printed_since_an_offset(box: Toolbox, monkeypatch: pytest.MonkeyPatch):
    command = "cat key.txt; tr -d '\\n' < account.txt; echo; echo end"
    monkeypatch.setattr(jobs, "EARLY_EXIT_SECONDS", 60)
    job = box.call("bash", {"command": command, "background": True}).data["job"]
    for offset in range(0, 2 * len(KEY), 150):
        page = box.call("bash_output", {"job": job, "offset": offset})
        assert not find_leaks(f"{page.text}{page.data}{page.result}"), offset
        assert "end" in page.text


@pytest.mark.parametrize("pattern", ["private_key", re.escape(LINES[12][10:22])])
def test_a_hit_in_a_long_line(box: Toolbox, pattern: str):
    reply = box.call("grep", {"pattern": pattern, "mode": "content", "regex": True, "path": "account.txt"})
    assert "[redacted: private-key]" in reply.text
    assert not find_leaks(f"{reply.text}{reply.data}{reply.result}")


def test_a_hit_in_a_long_line_without_a_token_is_shown_as_before(box: Toolbox):
    line = f"{'a b ' * 2000}needle{' c d' * 2000}"
    (Path(box.files.roots[0]) / "long.txt").write_text(f"x\n{line}\n")
    before = box.call("grep", {"pattern": "needle", "mode": "content"})
    (Path(box.files.roots[0]) / "long.txt").write_text(f"x\n{TOKEN} {line}\n")
    after = box.call("grep", {"pattern": "needle", "mode": "content"})
    assert "needle c d c d" in after.text
    assert after.text.partition("needle")[2][:100] == before.text.partition("needle")[2][:100]


def test_pages_of_a_kept_output(box: Toolbox):
    kept = box.call("bash", {"command": "cat key.txt account.txt; seq 60000"}).data["output"]["handle"]
    for offset in (2, 5, 20, KEY.count("\n") + 2):
        page = box.call("read_file", {"path": kept, "offset": offset, "limit": 12})
        assert page.ok, page.text
        assert not find_leaks(f"{page.text}{page.data}{page.result}"), offset
    assert "    40→10\n" in page.text  # numbers of lines stay true
