"""Errors that a change just made are told in its reply: new ones, five at most, and nothing when all is well."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from handhold import Checker, Reply, Toolbox
from handhold.backends.checks.syntax import MAX_BYTES
from handhold.core.problems import MAX_TOLD, NO_PROBLEMS
from handhold.core.results import ChangeResult
from tests.integration.conftest import Ground
from tests.suites.machine import has_shadows

Make = Callable[[dict[str, str | bytes]], Ground]
needs_overlay = pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine")


def problems(reply: Reply):
    assert isinstance(reply.result, ChangeResult)
    return reply.result.problems


def edit(box: Toolbox, old: str, new: str, path: str = "a.py", **more: Any) -> Reply:
    box.call("read_file", {"path": path}, **more)
    return box.call("edit_file", {"path": path, "old_string": old, "new_string": new}, **more)


def test_an_edit_that_breaks_the_syntax_is_told(ground: Make):
    box = ground({"a.py": "x = [1]\n"}).open()
    reply = edit(box, "[1]", "[1")
    assert reply.ok
    (problem,) = problems(reply).told
    assert (problem.path, problem.line, problem.text, problem.source) == ("a.py", 1, "x = [1", "syntax")
    assert reply.data["problems"]["told"][0]["line"] == 1
    assert reply.text.endswith("a.py:1:5: '[' was never closed | x = [1")


def test_nothing_is_said_when_all_is_well_or_was_broken_before(ground: Make):
    box = ground({"a.py": "x = [1]\n", "b.py": "x = [1\ny = 2\n"}).open()
    for reply in (edit(box, "1", "2"), edit(box, "y = 2", "y = 3", "b.py")):
        assert problems(reply) == NO_PROBLEMS
        assert "problems" not in reply.data
        assert "error" not in reply.text


def test_the_reply_is_the_same_when_the_call_is_repeated(ground: Make):
    box = ground({"a.py": "x = [1]\n"}).open()
    first = edit(box, "[1]", "[1", turn="t", call_id="")
    again = box.call("write_file", {"path": "b.py", "content": "x = ("}, call_id="c")
    repeated = box.call("write_file", {"path": "b.py", "content": "x = ("}, call_id="c")
    assert "never closed" in first.text
    assert (repeated.text, repeated.data, repeated.replayed) == (again.text, again.data, True)


def test_it_can_be_turned_off(ground: Make):
    box = ground({"a.py": "x = [1]\n"}).open(check_syntax=False)
    assert problems(edit(box, "[1]", "[1")) == NO_PROBLEMS


def test_a_change_that_breaks_the_syntax_can_be_refused(ground: Make):
    here = ground({"a.py": "x = [1]\n", "b.py": "x = [1\n"})
    box = here.open(refuse_broken="syntax")
    reply = edit(box, "[1]", "[1")
    assert (reply.code, reply.error_source) == ("BROKEN_SYNTAX", "model")
    assert reply.data["problems"][0]["line"] == 1
    assert here.read("a.py") == b"x = [1]\n"
    assert edit(box, "x", "y", "b.py").ok  # it was broken before
    assert here.read("b.py") == b"y = [1\n"


def test_a_file_that_is_too_large_is_said_once(ground: Make):
    box = ground({"a.py": "x = [1]\n" + "# more\n" * (MAX_BYTES // 7)}).open()
    first, second = edit(box, "[1]", "[1"), edit(box, "[1", "[2")
    assert (problems(first).total, len(problems(first).unchecked)) == (0, 1)
    assert "a.py was not checked for syntax errors" in first.text
    assert problems(second) == NO_PROBLEMS


def test_generated_folders_are_not_checked(ground: Make):
    box = ground({}).open()
    assert problems(box.call("write_file", {"path": "dist/a.js", "content": "f(("})) == NO_PROBLEMS


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments", "words"),
    [
        ("handhold", "write_file", {"path": "a.py", "content": "x = ("}, "Correct them with edit_file:]\na.py:1:5: "),
        ("claude", "Write", {"file_path": "/ws/a.py", "content": "x = ("}, "<new-diagnostics>The following new"),
        ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Add File: a.py\n+x = (\n*** End Patch"}, "a.py:1:5: error:"),
        ("gemini", "write_file", {"file_path": "/ws/a.py", "content": "x = ("}, "[New errors after your changes:]\n"),
    ],
)  # fmt: skip
def test_each_dialect_has_its_words(dialect: str, tool: str, arguments: dict[str, Any], words: str):
    with Toolbox.in_memory({}, dialect=dialect) as box:
        reply = box.call(tool, arguments)
        assert reply.ok
        assert words in reply.text
        assert "'(' was never closed" in reply.text


# --- commands


@needs_overlay
def test_a_codemod_of_thirty_files_gets_one_reply_with_five_lines(tmp_path: Path):
    root = tmp_path / "ws"
    root.mkdir()
    for n in range(30):
        (root / f"m{n:02}.py").write_text(f"x{n} = [1]\n")
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open") as box:
        reply = box.call("bash", {"command": "sed -i 's/]//' *.py"})
        found = problems(reply)
        assert (len(found.told), found.total, found.files) == (MAX_TOLD, 30, 30)
        assert len({each.path for each in found.told}) == MAX_TOLD
        assert reply.text.count("never closed") == MAX_TOLD
        assert "25 more errors, in 30 files altogether" in reply.text


@needs_overlay
def test_new_folders_of_a_command_are_checked_and_hidden_files_are_not(tmp_path: Path):
    (root := tmp_path / "ws").mkdir()
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open") as box:
        command = "mkdir -p a/b .aws node_modules/m; for f in a/b/c.json .aws/credentials.json node_modules/m/x.json; do echo '{' > $f; done"
        reply = box.call("bash", {"command": command})
        assert [each.path for each in problems(reply).told] == ["a/b/c.json"]


@needs_overlay
@pytest.mark.parametrize(
    "command",
    [
        "mv fixtures data",
        "mv fixtures data; echo '# more' >> data/deep/old.py",
        "mv fixtures/deep/old.py new.py",
        "mv fixtures/deep/old.py new.py; echo '# more' >> new.py",
        "cp -r fixtures data; rm -r fixtures; sed -i 's/y/z/' data/deep/old.py",
    ],
)
def test_what_was_broken_before_it_was_moved_is_not_told(tmp_path: Path, command: str):
    (deep := tmp_path / "ws/fixtures/deep").mkdir(parents=True)
    (deep / "old.py").write_text("x = [1\ny = 2\nw = 3\n")
    (deep / "other.json").write_text("{")
    with Toolbox.open(deep.parents[1], state=tmp_path / "state", settings=False, policy="open") as box:
        assert problems(box.call("bash", {"command": command})) == NO_PROBLEMS


@needs_overlay
def test_what_breaks_while_it_is_moved_is_told(tmp_path: Path):
    (fixtures := tmp_path / "ws/fixtures").mkdir(parents=True)
    (fixtures / "old.py").write_text("x = 1\ny = 2\n")
    (fixtures / "gone.py").write_text("a = [\n")
    with Toolbox.open(fixtures.parent, state=tmp_path / "state", settings=False, policy="open") as box:
        reply = box.call("bash", {"command": "mv fixtures data; echo 'z = [' >> data/old.py; rm data/gone.py"})
        assert [each.path for each in problems(reply).told] == ["data/old.py"]


@needs_overlay
def test_a_file_that_was_too_large_is_said_with_the_size_that_it_had(tmp_path: Path):
    (root := tmp_path / "ws").mkdir()
    size = (root / "a.py").write_text("# more\n" * (MAX_BYTES // 6))
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open") as box:
        reply = box.call("bash", {"command": "echo x = 1 > a.py"})
        assert f"{size:,} bytes, more than {MAX_BYTES:,}" in reply.text


@needs_overlay
def test_a_command_that_breaks_the_syntax_can_be_refused(tmp_path: Path):
    (root := tmp_path / "ws").mkdir()
    (root / "a.py").write_text("x = [1]\n")
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open", refuse_broken="syntax") as box:
        reply = box.call("bash", {"command": "sed -i 's/]//' a.py; echo done"})
        assert reply.code == "BROKEN_SYNTAX"
        assert "done" in reply.text
        assert "its changes were discarded" in reply.text
        assert (root / "a.py").read_text() == "x = [1]\n"


# --- checkers

WORDS = Checker(
    "words", ("*.txt",), "grep -nH BAD *.txt | sed -E 's/^([^:]*):([0-9]*):/\\1:\\2:1: forbidden: /'; echo >> runs"
)


def checked(tmp_path: Path, *checkers: Checker, **options: Any) -> tuple[Path, Toolbox]:
    (root := tmp_path / "ws").mkdir()
    (root / "a.txt").write_text("BAD\nok\n")
    return root, Toolbox.open(
        root, state=tmp_path / "state", settings=False, policy="open", checkers=checkers, **options
    )


@needs_overlay
@pytest.mark.parametrize("shell", ["contained", "brokered"])
def test_a_checker_runs_once_per_turn_and_tells_what_is_new(tmp_path: Path, shell: str):
    root, box = checked(tmp_path, WORDS, shell=shell)
    with box:
        assert "forbidden" not in edit(box, "ok", "ok\nBAD 1", "a.txt", turn="1").text
        assert "forbidden" not in edit(box, "ok\n", "ok\nBAD 2\n", "a.txt", turn="1").text
        told = box.call("read_file", {"path": "none"}, turn="2")
        assert [(each["line"], each["source"]) for each in told.data["problems"]["told"]] == [
            (3, "words"),
            (4, "words"),
        ]
        assert "forbidden: BAD 1 | BAD 1" in told.text
        assert "forbidden" not in box.call("list_files", {}, turn="3").text
        box.call("bash", {"command": "echo BAD 3 > b.txt"}, turn="3")
        assert [each.path for each in box.check().told] == ["b.txt"]
        assert box.check() == NO_PROBLEMS
    assert not (root / "runs").exists()  # what a checker changes is discarded


@needs_overlay
def test_a_checker_of_named_files_and_of_sarif(tmp_path: Path):
    sarif = '{"runs":[{"results":[{"ruleId":"R1","message":{"text":"no"},"locations":[{"physicalLocation":{"artifactLocation":{"uri":"%s"},"region":{"startLine":2}}}]}]}]}'
    command = f"for f in {{files}}; do grep -q BAD2 $f && printf '{sarif}' $f; done; true"
    _, box = checked(tmp_path, Checker("s", ("*.txt",), command))
    with box:
        edit(box, "ok", "BAD2", "a.txt")
        (problem,) = box.check().told
        assert (problem.path, problem.line, problem.message, problem.text) == ("a.txt", 2, "R1 no", "BAD2")


@needs_overlay
def test_a_checker_that_takes_too_long_is_said_once(tmp_path: Path):
    _, box = checked(tmp_path, Checker("slow", ("*.txt",), "sleep 30", timeout_seconds=0.5))
    with box:
        edit(box, "ok", "BAD", "a.txt")
        assert box.check().unchecked
        edit(box, "ok", "BAD", "a.txt")
        assert not box.check()


@needs_overlay
def test_a_checker_does_not_move_a_persistent_shell(tmp_path: Path):
    root, box = checked(tmp_path, Checker("cd", ("*.txt",), "pwd; cd /tmp"), dialect="claude")
    with box:
        box.call("Bash", {"command": "mkdir sub; cd sub; echo x > y.txt"})
        box.check()
        assert f"{root}/sub" in box.call("Bash", {"command": "pwd"}).text


def find_words(*names: str) -> str:
    return f"grep -HnE '{'|'.join(names)}' {{files}} | sed 's/:\\([0-9]*\\):/:\\1:1: /'"


@needs_overlay
@pytest.mark.parametrize("shell", ["contained", "brokered"])
@pytest.mark.parametrize("command", [find_words("BAD"), find_words("BAD").replace("{files}", "*.txt")])
def test_what_others_changed_between_turns_is_not_told(tmp_path: Path, command: str, shell: str):
    root, box = checked(tmp_path, Checker("words", ("*.txt",), command), shell=shell)
    with box:
        edit(box, "ok", "fine", "a.txt")
        assert box.check() == NO_PROBLEMS
        (root / "a.txt").write_text("BAD\nBAD of the user\nfine\n")
        box.call("read_file", {"path": "a.txt"})
        edit(box, "fine", "fine\nBAD of the model", "a.txt")
        assert [each.text for each in box.check().told] == ["BAD of the model"]


@needs_overlay
def test_what_others_changed_does_not_excuse_what_the_turn_changed_before(tmp_path: Path):
    root, box = checked(tmp_path, Checker("words", ("*.txt",), find_words("BAD").replace("{files}", "*.txt")))
    with box:
        (root / "b.txt").write_text("ok\n")
        box.call("bash", {"command": "echo >> b.txt"})
        box.check()
        edit(box, "ok", "BAD of the model", "a.txt", turn="1")
        (root / "b.txt").write_text("BAD of the user\nok\n")
        box.call("read_file", {"path": "b.txt"}, turn="1")
        edit(box, "ok", "fine", "b.txt", turn="1")
        assert [each.text for each in box.check().told] == ["BAD of the model"]


@needs_overlay
def test_a_checker_that_failed_before_the_change_has_nothing_to_tell(tmp_path: Path):
    command = f"test -e ready || sleep 30; {find_words('BAD')}"
    root, box = checked(tmp_path, Checker("words", ("*.txt",), command, timeout_seconds=1))
    with box:
        edit(box, "ok", "BAD of the model", "a.txt")
        (root / "ready").touch()
        assert box.check().told == ()
        edit(box, "BAD of the model", "BAD again", "a.txt")
        assert [each.text for each in box.check().told] == ["BAD again"]


@needs_overlay
def test_a_deleted_file_is_not_given_to_a_checker(tmp_path: Path):
    command = "for f in {files}; do test -e $f || echo $f:1:1: no such file; done"
    _, box = checked(tmp_path, Checker("files", ("*.txt",), command))
    with box:
        box.call("bash", {"command": "rm a.txt; echo > b.txt"})
        assert box.check() == NO_PROBLEMS
        box.call("bash", {"command": "rm b.txt"})
        assert box.check() == NO_PROBLEMS
