"""The dialect `codex`: one tool that changes files, in three spellings, and commands."""

import json
import shlex

import pytest

from handhold import Toolbox
from handhold.core.errors import BadArguments, HunkMismatch, NotOnlyPatch, Region, UnknownTool
from handhold.core.facts import CommandOutput, ExitStatus, SandboxStatus
from handhold.core.ports.dialect import Dialect
from handhold.core.requests import AddFile, DeleteFile, Patch, Run, UpdateFile
from handhold.core.results import PatchedFile, PatchResult, RunResult
from handhold.core.text.patch import parse_patch
from handhold.core.text.text_index import to_plain_text
from handhold.dialects.codex import dialect
from handhold.dialects.handhold import dialect as handhold
from handhold.testing import DialectSuite
from tests.dialects.sources import piece

PATCH = "*** Begin Patch\n*** Add File: hello.txt\n+Hello, world!\n*** End Patch\n"
MEANT = Patch((AddFile("hello.txt", "Hello, world!\n"),))


class TestCodex(DialectSuite):
    dialect = dialect
    calls = (
        (
            "apply_patch",
            {
                "input": "*** Begin Patch\n*** Update File: README.md\n@@\n-Say hello.\n+Say good morning.\n*** End Patch\n"
            },
        ),
        ("shell", {"command": ["ls", "-a"], "workdir": "src", "timeout_ms": 5000}),
        ("shell", {"command": ["bash", "-lc", "cat app.py | head -1"], "workdir": "src"}),
    )
    long_read = ("shell", {"command": ["cat", "long.txt"]})
    wide_search = ("shell", {"command": "ls many"})


def test_the_dialect_fulfils_its_port():
    port: Dialect = dialect
    assert (port.name, port.options.matching, port.options.hints, port.options.requires_read) == (
        "codex",
        "safe",
        False,
        False,
    )
    assert [spec.name for spec in port.specs] == ["apply_patch", "shell"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("apply_patch", {"input": PATCH}),
        ("apply_patch", {"patch": PATCH}),
        ("apply_patch", PATCH),
        ("apply_patch", json.dumps({"input": PATCH})),
        ("shell", {"command": ["apply_patch", PATCH]}),
        ("shell", {"command": json.dumps(["apply_patch", PATCH])}),
        ("shell", {"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}EOF"], "timeout_ms": "1000"}),
        ("shell", {"command": f"apply_patch <<'EOF'\n{PATCH}EOF"}),
        ("shell", {"cmd": ["apply_patch", PATCH]}),
    ],
)
def test_a_patch_has_several_spellings(tool, arguments):
    assert dialect.decode(tool, arguments) == MEANT


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ({"command": ["ls", "-la"]}, Run("ls -la", 120, 80_000)),
        ({"command": ["grep", "a b", "c"]}, Run("grep 'a b' c", 120, 80_000)),
        ({"command": ["bash", "-lc", "ls | wc -l"]}, Run("ls | wc -l", 120, 80_000)),
        ({"command": ["/bin/bash", "-c", "ls"], "timeout_ms": 2500}, Run("ls", 2.5, 80_000)),
        ({"command": ["sh", "-c", "ls; pwd"]}, Run("sh -c 'ls; pwd'", 120, 80_000)),
        ({"command": "ls && pwd"}, Run("ls && pwd", 120, 80_000)),
        ({"command": ["ls"], "workdir": "my src"}, Run("cd -- 'my src' || exit\nls", 120, 80_000)),
        ({"command": ["ls"], "workdir": "/"}, Run("ls", 120, 80_000)),
    ],
    ids=str,
)
def test_a_command_that_is_no_patch_is_run(arguments, meant):
    assert dialect.decode("shell", arguments) == meant


@pytest.mark.parametrize(
    "script", ["ls; apply_patch 'x'", "apply_patch 'x' | cat", "if true; then apply_patch 'x'; fi", "apply_patch $X"]
)
def test_c63_a_command_that_calls_apply_patch_in_another_form_is_not_run(script):
    with pytest.raises(NotOnlyPatch):
        dialect.decode("shell", {"command": ["bash", "-lc", script]})


def test_paths_are_seen_from_the_folder_of_the_command():
    text = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Delete File: /ws/c\n*** End Patch\n"
    request = dialect.decode("shell", {"command": f"cd src && apply_patch '{text}'", "workdir": "lib/"})
    assert request == Patch((UpdateFile("lib/src/a", (), "lib/src/b"), DeleteFile("/ws/c")), "lib/src")


@pytest.mark.parametrize(
    ("folder", "path"), [("", "a"), (".", "a"), ("d", "d/a"), ("d/..", "a"), ("/ws/d", "d/a"), ("/ws", "a"), ("/", "a")]
)
def test_a_folder_may_be_spelled_in_many_ways(folder: str, path: str):
    box = Toolbox.in_memory({"a": "x\n", "d/a": "x\n"}, dialect="codex")
    arguments = {"command": ["apply_patch", "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch"]}
    reply = box.call("shell", {**arguments, "workdir": folder} if folder else arguments)
    assert reply.status == "success", reply.text
    assert box.files.read(path).data == b"y\n"


def test_a_command_has_at_most_an_hour():
    hour = {"command": ["ls"], "timeout_ms": 3_600_000}
    assert dialect.decode("shell", hour) == Run("ls", 3600, 80_000)
    with pytest.raises(BadArguments):
        dialect.decode("shell", hour | {"timeout_ms": 3_600_001})


@pytest.mark.parametrize(
    ("end", "handle", "advice"),
    [
        (ExitStatus(None, timed_out=True, seconds=120.1), "", "Set a longer `timeout_ms`."),
        (ExitStatus(0, seconds=0.1), "/large_tool_results/a.txt", "Print parts of it, or search it, with shell."),
    ],
    ids=["time", "output"],
)
def test_what_a_command_ran_out_of_comes_with_advice(end: ExitStatus, handle: str, advice: str):
    output = CommandOutput("x\n", total_bytes=10**6, total_lines=500_000, omitted_lines=499_999, handle=handle)
    held = SandboxStatus("bubblewrap", shadow=True, network=False)
    said = dialect.encode("shell", Run("x", 120, 80_000), RunResult("x", end, output, held, "all", "all"), hints=False)
    assert said.count(advice) == 1


def test_what_is_neither_is_refused():
    with pytest.raises(BadArguments):
        dialect.decode("apply_patch", {})
    with pytest.raises(BadArguments):
        dialect.decode("shell", {"command": []})
    with pytest.raises(UnknownTool):
        dialect.decode("read_file", {"path": "a"})


def test_success_lists_the_files_as_the_family_prints_them():
    files = (
        PatchedFile("deleted", "d", 0, 1),
        PatchedFile("updated", "m", 1, 1, ("exact",)),
        PatchedFile("added", "a", 1, 0),
        PatchedFile("moved", "new", 0, 0, source="old"),
    )
    said = dialect.encode("apply_patch", MEANT, PatchResult(files, ""), hints=False)
    assert said == "Success. Updated the following files:\nA a\nM m\nM new\nD d"


def test_a_long_list_is_cut_with_a_count():
    files = tuple(PatchedFile("added", f"{n}{'x' * 500}", 1, 0) for n in range(5000))
    for speaker in (dialect, handhold):
        said = speaker.encode("apply_patch", MEANT, PatchResult(files, ""), hints=True)
        assert len(said) < 80_000
        assert "not listed" in said


@pytest.mark.parametrize(("count", "rest"), [(300, ""), (301, "\n[1 more files not listed.]")])
def test_a_list_has_300_files(count: int, rest: str):
    files = tuple(PatchedFile("added", f"{n}", 1, 0) for n in range(count))
    said = dialect.encode("apply_patch", MEANT, PatchResult(files, ""), hints=False)
    assert said.endswith(f"\nA 299{rest}")


def test_the_nearest_lines_are_shown_without_hints_since_nothing_else_shows_them():
    error = HunkMismatch("a.py", 2, 14, "x\ny", "", Region(4, ("x", "z")))
    text = dialect.refuse("apply_patch", error, hints=False)
    assert "Hunk 2 of a.py (line 14 of the patch)" in text
    assert text.endswith("     4→x\n     5→z")


# --- the source


@pytest.mark.parametrize("speaker", [dialect, handhold], ids=["codex", "handhold"])
def test_grammar_and_example_are_verbatim(speaker: Dialect):
    description = next(spec.description for spec in speaker.specs if spec.name == "apply_patch")
    assert piece("000", "patch.grammar") in description
    assert piece("000", "patch.example") in description
    assert len(parse_patch(piece("000", "patch.example"))) == 3


def test_the_argument_of_handhold_names_the_first_and_the_last_line_of_the_example():
    begin, *_, end = piece("000", "patch.example").split("\n")
    schema = next(spec.input_schema for spec in handhold.specs if spec.name == "apply_patch")
    assert schema["properties"]["patch"]["description"] == (
        f"The patch, from {begin} to {end}. Paths are relative to the workspace or absolute inside it."
    )


def test_the_call_of_the_source_is_taken():
    call = piece("000", "patch.call")
    assert dialect.decode("shell", call) == MEANT
    description = next(spec.description for spec in dialect.specs if spec.name == "shell")
    assert f"shell {json.dumps(call, separators=(',', ':'))}\n" in description


def test_the_heredoc_of_the_source_is_in_the_description():
    program, flag, script = shlex.split(piece("000", "patch.heredoc_after_cd"))
    call = json.dumps({"command": [program, flag, script]}, separators=(",", ":"))
    description = next(spec.description for spec in dialect.specs if spec.name == "shell")
    assert f"shell {call}\n" in description


@pytest.mark.parametrize(
    ("name", "folder"), [("patch.direct", ""), ("patch.heredoc", ""), ("patch.heredoc_after_cd", "subdir/")]
)
def test_the_spellings_of_the_source_are_taken(name: str, folder: str):
    rest = PATCH.removeprefix("*** Begin Patch\n")
    script = piece("000", name).replace("...\n*** End Patch\n", rest)
    script = script.replace("\\n...", "\n" + rest.removesuffix("\n"))
    request = dialect.decode("shell", {"command": script})
    assert isinstance(request, Patch)
    assert request.operations == (AddFile(f"{folder}hello.txt", "Hello, world!\n"),)


def test_the_unsafe_form_of_the_source_is_refused():
    unsafe = piece("000", "patch.unsafe").replace("...", f"'EOF'\n{PATCH}EOF")
    with pytest.raises(NotOnlyPatch):
        dialect.decode("shell", {"command": ["bash", "-lc", unsafe]})


def test_the_scopes_of_the_source_are_taken():
    text = f"*** Begin Patch\n*** Update File: a\n{piece('000', 'patch.scopes')}\n-x\n+y\n*** End Patch"
    (update,) = parse_patch(text)
    assert isinstance(update, UpdateFile)
    assert [scope.strip() for scope in update.hunks[0].scopes] == ["class BaseClass", "def method():"]


def test_the_punctuation_of_the_source_is_plain():
    assert len(piece("000", "patch.levels")) == 4
    for typographic, plainly in piece("000", "patch.plain").items():
        assert to_plain_text(typographic) == plainly, f"U+{ord(typographic):04X}"
