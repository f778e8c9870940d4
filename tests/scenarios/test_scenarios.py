"""Whole behaviour, words included: each folder here is one scenario, played on disk and in memory.

    before/     the workspace at the start
    call.json   the dialect, what is covered (`cites`), and the calls in order; the reply to the last one is compared
    after/      the workspace at the end, byte for byte; without it, only `outside` may have changed files
    reply.txt   the reply that the model reads, and one newline

To write `reply.txt` from the actual reply, delete it (or leave it out) and run

    HANDHOLD_WRITE_REPLIES=1 .venv/bin/pytest -n 0 tests/scenarios -k NAME

then read it before you commit it. Without the variable, a scenario that has no `reply.txt` fails and shows the reply.

In a reply, `{{root}}` is the root of the workspace, `{{seconds}}` the time of a command, `{{name}}` the name of a file or
a job, `{{number}}` any number, `{{question}}` the id of a question, and `{{cursor}}` the cursor of this reply; in a call,
`{{cursor}}` is the one of the reply before. `{{rows 1-9}}line {n}` is nine such lines in a reply. `{x*80}` is x eighty
times, in a reply, an argument and a made file.

`"make"` makes files that cannot be kept here because they are too large or mean something to git, `"many"` makes a number
of empty files in a folder. Files are made in the order of their paths, so the last one is the newest.
`{"outside": {path: content}}` between calls rewrites a file without the tools; null deletes it. `"id"` next to a tool is
the id of that call. `"world": "disk"` is for commands, which do not run in memory.
"""

import json
import re
from collections.abc import Iterator, Mapping
from os import environ, utime
from pathlib import Path
from typing import Any, Protocol

import pytest

from handhold import Reply, Toolbox
from tests.suites.machine import has_shadows

HERE = Path(__file__).parent
FOLDERS = sorted(call.parent for call in HERE.glob("*/call.json"))


class World(Protocol):
    root: str
    box: Toolbox

    def outside(self, path: str, data: bytes | None) -> None: ...

    def files(self) -> dict[str, bytes]: ...


class Disk:
    clock = 1_700_000_000_000_000_000

    def __init__(self, folder: Path, files: Mapping[str, bytes], options: Mapping[str, Any]) -> None:
        self.folder = folder / "root"
        self.folder.mkdir()
        self.root = str(self.folder)
        for path, data in files.items():
            self.outside(path, data)
        self.box = Toolbox.open(self.folder, session="scenario", state=folder / "state", **options)

    def outside(self, path: str, data: bytes | None) -> None:
        target = self.folder / path
        if data is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        self.clock += 1_000_000_000
        utime(target, ns=(self.clock, self.clock))

    def files(self) -> dict[str, bytes]:
        return contents(self.folder)


class Memory:
    root = "/ws"

    def __init__(self, folder: Path, files: Mapping[str, bytes], options: Mapping[str, Any]) -> None:
        self.box = Toolbox.in_memory(files, root=self.root, session="scenario", **options)
        self.world: Any = self.box.files

    def outside(self, path: str, data: bytes | None) -> None:
        self.world.put(path, data)

    def files(self) -> dict[str, bytes]:
        return dict(self.world.files)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def repeat(template: str) -> str:
    return re.sub(r'\{([^{}*"]+)\*(\d+)\}', lambda found: found[1] * int(found[2]), template)


def filled(template: str, n: int) -> str:
    return repeat(template).replace("{n}", str(n))


def made(recipes: Mapping[str, Any]) -> dict[str, bytes]:
    """Each is the content itself, or a line and how often it stands there."""
    return {path: content(recipe).encode() for path, recipe in recipes.items()}


def made_many(scenario: Mapping[str, Any]) -> dict[str, bytes]:
    many = scenario.get("many", {"folder": "", "count": 0})
    return {f"{many['folder']}/{n}": b"" for n in range(many["count"])}


def content(recipe: Any) -> str:
    if isinstance(recipe, str):
        return recipe
    return "".join(filled(recipe["text"], n) + "\n" for n in range(1, recipe["lines"] + 1))


def spelled_out(reply: str, root: str, cursor: str) -> str:
    def rows(found: re.Match[str]) -> str:
        return "\n".join(f"{n:>6}→{filled(found[3], n)}" for n in range(int(found[1]), int(found[2]) + 1))

    reply = re.sub(r"^\{\{rows (\d+)-(\d+)\}\}(.*)$", rows, reply, flags=re.MULTILINE)
    return repeat(reply).removesuffix("\n").replace("{{root}}", root).replace("{{cursor}}", cursor)


UNFORESEEN = {
    "{{seconds}}": r"\d+\.\d\d s",
    "{{name}}": r"[0-9a-f]+(?:\.txt)?",
    "{{number}}": r"\d+",
    "{{question}}": r"[0-9a-z]{4}(?:-[0-9a-z]{4}){2}",
}


def reads_like(reply: str, wanted: str) -> bool:
    """Whether a reply is the one wanted, apart from what nobody can foresee."""
    pattern = re.escape(wanted)
    for placeholder, any_of in UNFORESEEN.items():
        pattern = pattern.replace(re.escape(placeholder), any_of)
    return re.fullmatch(pattern, reply) is not None


def template_of(reply: str, root: str, cursor: str) -> str:
    """A reply as `reply.txt` has it: placeholders in place of what differs from run to run."""
    for word, placeholder in ((root, "{{root}}"), (cursor, "{{cursor}}")):
        reply = reply.replace(word, placeholder) if word else reply
    varying = {
        r"\d+\.\d\d s\b": "{{seconds}}",
        r"(?<=/large_tool_results/)[0-9a-f]+\.txt": "{{name}}",
        r"\b[0-9a-f]{6}(?= runs in the background)": "{{name}}",
        r"(?<=handhold approve )[0-9a-z]{4}(?:-[0-9a-z]{4}){2}": "{{question}}",
        r'(?<="time_ms": )\d+': "{{number}}",
        r'(?<="file_mtime_ms": )\d+': "{{number}}",
    }
    for pattern, placeholder in varying.items():
        reply = re.sub(pattern, placeholder, reply)
    return reply + "\n"


def read_reply(file: Path, reply: str, root: str, cursor: str) -> str:
    """The reply that is expected; with HANDHOLD_WRITE_REPLIES, a missing file is written first."""
    if not file.exists() and environ.get("HANDHOLD_WRITE_REPLIES"):
        file.write_text(template_of(reply, root, cursor), "utf-8")
    if not file.exists():
        pytest.fail(
            f"{file.parent.name} has no reply.txt. To write it, set HANDHOLD_WRITE_REPLIES=1. The reply is:\n{reply}"
        )
    return spelled_out(file.read_bytes().decode(), root, cursor)


def placed(value: Any, root: str, cursor: str) -> Any:
    """The same arguments, with the root, the cursor and what is repeated in place."""
    return json.loads(repeat(json.dumps(value)).replace("{{root}}", root).replace("{{cursor}}", cursor))


def play(calls: list[dict[str, Any]], world: World) -> Iterator[Reply]:
    cursor = ""
    for step in calls:
        for path, text in step.get("outside", {}).items():
            world.outside(path, None if text is None else text.encode())
        if "tool" in step:
            reply = world.box.call(
                step["tool"], placed(step["arguments"], world.root, cursor), call_id=step.get("id", "")
            )
            cursor = reply.data.get("cursor") or ""
            yield reply


def expected(folder: Path, begin: dict[str, bytes], scenario: Mapping[str, Any]) -> dict[str, bytes]:
    if (folder / "after").exists():
        return made(scenario.get("make", {})) | contents(folder / "after")
    end: dict[str, bytes | None] = dict(begin)
    for step in scenario["calls"]:
        end |= {path: None if text is None else text.encode() for path, text in step.get("outside", {}).items()}
    return {path: data for path, data in end.items() if data is not None}


def played() -> Iterator[Any]:
    """Each scenario on each world that can play it."""
    for folder in FOLDERS:
        needs_shell = json.loads((folder / "call.json").read_text("utf-8")).get("world") == "disk"
        marks = [pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")] if needs_shell else []
        if not needs_shell:
            yield pytest.param(folder, Memory, id=f"{folder.name}-memory")
        yield pytest.param(folder, Disk, id=f"{folder.name}-disk", marks=marks)


@pytest.mark.parametrize(("folder", "world"), list(played()))
def test_scenario(folder: Path, world: type[Memory] | type[Disk], tmp_path: Path) -> None:
    scenario = json.loads((folder / "call.json").read_text("utf-8"))
    begin = dict(sorted((contents(folder / "before") | made(scenario.get("make", {})) | made_many(scenario)).items()))
    options = {
        name: scenario[name]
        for name in ("dialect", "matching", "hints", "policy", "search_seconds")
        if name in scenario
    }
    if "answer" in scenario:
        options["approver"] = lambda _: scenario["answer"]
    here = world(tmp_path, begin, options)
    with here.box:
        *_, reply = play(scenario["calls"], here)
        cursor = reply.data.get("cursor") or ""
        wanted = read_reply(folder / "reply.txt", reply.text, here.root, cursor)
        assert reply.text == wanted or reads_like(reply.text, wanted)
        assert here.files() == expected(folder, begin, scenario)


def test_r37_a_scenario_without_a_reply_shows_it_or_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "reply.txt"
    monkeypatch.delenv("HANDHOLD_WRITE_REPLIES", raising=False)
    with pytest.raises(pytest.fail.Exception, match="one line"):
        read_reply(file, "one line of /ws", "/ws", "")
    monkeypatch.setenv("HANDHOLD_WRITE_REPLIES", "1")
    assert read_reply(file, "one line of /ws, 0.12 s", "/ws", "") == "one line of /ws, {{seconds}}"
    assert file.read_text() == "one line of {{root}}, {{seconds}}\n"


def test_every_scenario_says_what_it_covers():
    for folder in FOLDERS:
        scenario = json.loads((folder / "call.json").read_text("utf-8"))
        assert scenario["cites"], folder.name
        assert folder.name.startswith(f"{scenario['dialect']}_")
