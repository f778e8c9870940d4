"""What is asked about, by what a call would do, and what an answer is good for."""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from handhold import Question, Rule, Toolbox
from handhold.core.ports.approvals import ConsentName
from tests.integration import coding_task
from tests.suites.held_by import held_by  # noqa: F401 — a fixture

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("held_by"),
]

Opened = Callable[..., Toolbox]


class Person:
    """Somebody who answers, and remembers what was asked."""

    name = "the tester"

    def __init__(self, *answers: bool | ConsentName, otherwise: bool | ConsentName = "no") -> None:
        self.answers = list(answers)
        self.otherwise: bool | ConsentName = otherwise
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> bool | ConsentName:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else self.otherwise


class Broad(Person):
    """Allows the like of it if that can be said, else for the session."""

    def __call__(self, question: Question) -> bool | ConsentName:
        self.asked.append(question)
        return "pattern" if question.patterns else "session" if question.session else "once"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def opened(tmp_path: Path, ws: Path):
    boxes: list[Toolbox] = []

    def open_it(**options: object) -> Toolbox:
        boxes.append(Toolbox.open(ws, state=tmp_path / "state", **{"session": "s", **options}))  # pyright: ignore[reportArgumentType]
        return boxes[-1]

    yield open_it
    for box in boxes:
        box.close()


# --- fewer questions


def by_words_alone(calls: tuple[tuple[str, dict[str, str]], ...]) -> tuple[int, int]:
    """Questions if every change and every command asks, but for those whose first word only reads.

    First each of them; then with an answer for the session that is good for the same first word, or for all edits.
    """
    reads = {"ls", "cat", "grep", "head", "tail", "wc", "find", "diff"}
    asked: list[str] = []
    for tool, arguments in calls:
        if tool == "bash":
            word = arguments["command"].split()[0]
            asked += [word] if word not in reads else []
        elif tool in ("edit_file", "write_file", "multi_edit", "apply_patch"):
            asked.append("edit")
    return len(asked), len(set(asked))


def test_c90_sixty_ordinary_calls_ask_at_most_three_times(ws: Path, opened: Opened):
    coding_task.lay(ws)
    for command in (
        "git init -q -b main",
        "git config user.name a",
        "git config user.email a@b.example",
        "git add -A",
        "git commit -qm start",
    ):
        subprocess.run(command.split(), cwd=ws, check=True)
    person = Broad()
    box = opened(approver=person)
    refused = [
        (arguments, reply.text)
        for tool, arguments in coding_task.CALLS
        if (reply := box.call(tool, arguments)).status == "error"
    ]
    each, remembered = by_words_alone(coding_task.CALLS)
    print(f"{len(coding_task.CALLS)} calls in mode ask: asked {len(person.asked)} times, by effects")
    print(f"by command words alone: {each} times; {remembered} if each first word is allowed for the session")
    for question in person.asked:
        print(f"  {question.tool}: {question.because} {question.patterns}")
    assert len(coding_task.CALLS) == 60
    assert not refused
    assert 1 <= len(person.asked) <= 3
    assert len(person.asked) < remembered


# --- what an answer is good for


def test_c90_once_is_once(ws: Path, opened: Opened):
    person = Person("once", "no")
    box = opened(approver=person)
    assert box.call("write_file", {"path": "a", "content": "1"}).status == "success"
    assert box.call("write_file", {"path": "b", "content": "1"}).code == "NOT_APPROVED"
    assert len(person.asked) == 2


def test_c90_for_the_session_is_for_all_that_nothing_sets_apart(ws: Path, opened: Opened):
    person = Person("session")
    box = opened(approver=person)
    assert box.call("write_file", {"path": "a", "content": "1"}).status == "success"
    assert box.call("bash", {"command": "echo 2 >b"}).status == "success"
    assert len(person.asked) == 1
    assert box.call("write_file", {"path": ".vscode/tasks.json", "content": "{}"}).code == "NOT_APPROVED"
    assert len(person.asked) == 2
    other = opened(approver=person, session="another")
    assert other.call("write_file", {"path": "c", "content": "1"}).code == "NOT_APPROVED"


INSTALLS_ASK = Rule(
    "installs", "ask", ("run",), commands=("pip install", "pip download", "curl"), because="look at it first",
    covers=("pip install x",), does_not_cover=("pip list",),
)  # fmt: skip


def with_patterns(person: Person) -> list[Question]:
    """Without those about the hosts that a program was refused."""
    return [question for question in person.asked if question.patterns]


def test_c90_a_pattern_is_as_long_as_the_command_is(ws: Path, opened: Opened):
    person = Person("pattern")
    box = opened(approver=person, policy="edit", rules=[INSTALLS_ASK])
    box.call("bash", {"command": "pip install attrs"})
    box.call("bash", {"command": "pip install -U pytest"})
    assert [question.patterns for question in with_patterns(person)] == [("pip install",)]
    assert box.call("bash", {"command": "pip download attrs"}).code == "NOT_APPROVED"
    assert box.call("bash", {"command": "pip install x; curl -s http://example.org"}).code == "NOT_APPROVED"


def test_c90_a_pattern_allowed_in_the_sandbox_is_asked_about_where_it_could_not_be_undone(ws: Path, opened: Opened):
    person = Person("pattern", "no")
    box = opened(approver=person, policy="edit", rules=[INSTALLS_ASK])
    box.call("bash", {"command": "pip install attrs"})
    assert box.call("bash", {"command": "pip install attrs", "background": True}).code == "NOT_APPROVED"
    assert [question.patterns for question in with_patterns(person)] == [("pip install",)] * 2


@pytest.mark.parametrize("command", ["python3 -c 'print(1)'", "bash -c 'curl x.example'", "$(cat cmd)", "sudo ls"])
def test_c90_no_pattern_is_offered_for_what_could_be_anything(opened: Opened, command: str):
    person = Person("no")
    opened(approver=person, policy="edit").call("bash", {"command": command, "background": True})
    assert [question.patterns for question in person.asked] == [()]


def test_c91_the_journal_says_who_allowed_it_and_by_which_rule(ws: Path, opened: Opened):
    box = opened(approver=Person("session"))
    box.call("write_file", {"path": "a", "content": "1"})
    box.call("write_file", {"path": "b", "content": "1"})
    box.call("read_file", {"path": "a"})
    box.call("write_file", {"path": ".envrc", "content": "1"})
    told = [(entry.decision, entry.rule, entry.approver) for entry in box.log()]
    assert told == [
        ("approved", "mode ask", "the tester (session)"),
        ("approved", "mode ask", "the tester (session)"),
        ("allowed", "mode ask", ""),
        ("refused", "protected names (built in)", ""),
    ]


# --- answered by somebody else


def test_c90_a_question_that_waits_can_be_answered_by_another_process(ws: Path, tmp_path: Path, opened: Opened):
    box = opened(policy="ask")
    asked = box.call("write_file", {"path": "a", "content": "1"})
    assert (asked.code, asked.data["asked"]) == ("NOT_APPROVED", False)
    waiting = asked.data["approval"]
    assert f"handhold approve {waiting}" in asked.text
    command = [
        Path(sys.executable).with_name("handhold"),
        "approve",
        waiting,
        "--yes",
        "--root",
        str(ws),
        "--state",
        str(tmp_path / "state"),
        "--json",
    ]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert box.call("write_file", {"path": "a", "content": "2"}).code == "NOT_APPROVED", "it was for something else"
    assert box.call("write_file", {"path": "b", "content": "1"}).code == "NOT_APPROVED"
    assert box.call("write_file", {"path": "a", "content": "1"}).status == "success"
    assert (ws / "a").read_text() == "1"
    (ws / "a").unlink()
    assert box.call("write_file", {"path": "a", "content": "1"}).code == "NOT_APPROVED", "and it was for once"


def test_c90_an_approval_is_of_the_change_and_not_of_the_words(ws: Path, opened: Opened):
    (ws / "a").write_text("one\n")
    box = opened(policy="ask")
    asked = box.call("bash", {"command": "sed -i s/o/0/ a"})
    box.store.answer(asked.data["approval"], "once", by="me")
    (ws / "a").write_text("two\n")  # the same command would now do something else
    assert box.call("bash", {"command": "sed -i s/o/0/ a"}).code == "NOT_APPROVED"
    assert (ws / "a").read_text() == "two\n"
    (ws / "a").write_text("one\n")
    assert box.call("bash", {"command": "sed -i s/o/0/ a"}).status == "success"
    assert (ws / "a").read_text() == "0ne\n"


def test_r15_a_session_that_asks_too_much_is_refused_and_told_why(opened: Opened):
    box = opened(policy="ask")
    first, *_, last = [box.call("write_file", {"path": f"{n}", "content": "1"}, call_id=f"{n}") for n in range(101)]
    assert (last.code, last.data["asked"], last.data["approval"]) == ("NOT_APPROVED", False, "")
    assert last.data["unasked"].startswith("too many questions")
    assert box.store.list_pending()[0].id == first.data["approval"]
    box.store.answer(first.data["approval"], "once", by="ann")
    again = box.call("write_file", {"path": "100", "content": "1"}, call_id="100")
    assert again.data["approval"], "a refusal for lack of room is not replayed"
    assert box.call("write_file", {"path": "0", "content": "1"}, call_id="0").status == "success"


def test_c90_no_is_an_answer(ws: Path, opened: Opened):
    box = opened(policy="ask")
    asked = box.call("write_file", {"path": "a", "content": "1"})
    box.store.answer(asked.data["approval"], "no", by="me")
    reply = box.call("write_file", {"path": "a", "content": "1"})
    assert (reply.code, reply.data["asked"]) == ("NOT_APPROVED", True)


# --- effects


@pytest.mark.parametrize("has_approver", [False, True])
def test_c90_w6_what_can_be_undone_is_not_asked_about_however_many_files_it_touches(
    ws: Path, opened: Opened, has_approver: bool
):
    contents = {f"{n}.txt": f"{n}\n" for n in range(100)}
    for name, content in contents.items():
        (ws / name).write_text(content)
    person = Person()
    box = opened(policy="edit", **({"approver": person} if has_approver else {}))
    assert box.call("bash", {"command": "rm *.txt"}).status == "success"
    assert not list(ws.iterdir())
    assert not person.asked
    assert box.undo().status == "success"
    assert {each.name: each.read_text() for each in ws.iterdir()} == contents


@pytest.mark.parametrize(("policy", "ran"), [("read-only", False), ("ask", False), ("edit", False), ("open", True)])
def test_c90_what_is_dangerous_by_its_words_runs_unasked_in_open_alone(opened: Opened, policy: str, ran: bool):
    reply = opened(policy=policy).call("bash", {"command": "ls ~/Documents; expr 6 '*' 7"})
    assert (re.search("^42$", reply.text, re.MULTILINE) is not None) is ran
    assert ran or reply.code in ("NOT_APPROVED", "DENIED")


def test_c84_what_nobody_can_see_is_refused_in_every_mode(opened: Opened):
    person = Person(otherwise="once")
    for policy in ("read-only", "ask", "edit", "open"):
        reply = opened(policy=policy, approver=person).call("bash", {"command": "ls\u200b -la"})
        assert reply.code == "DENIED"
        assert "U+200B" in reply.text
    assert not person.asked


def test_c90_a_question_about_a_command_shows_it_before_it_ran(ws: Path, opened: Opened):
    person = Person("no")
    box = opened(approver=person, policy="edit")
    reply = box.call("bash", {"command": "touch made; sudo ls"})
    assert reply.code == "NOT_APPROVED"
    assert [(question.command, question.files) for question in person.asked] == [("touch made; sudo ls", ())]
    assert json.loads(box.log()[-1].call.arguments)["command"].startswith("touch made")
    assert not (ws / "made").exists()


def test_c90_a_file_with_a_name_outside_is_asked_about_and_one_with_two_inside_is_not(
    ws: Path, tmp_path: Path, opened: Opened
):
    (tmp_path / "outside").write_text("one\n")
    (ws / "a").hardlink_to(tmp_path / "outside")
    (ws / "b").write_text("one\n")
    (ws / "c").hardlink_to(ws / "b")
    box = opened()
    for name in ("a", "b"):
        box.call("read_file", {"path": name})
    refused = box.call("edit_file", {"path": "a", "old_string": "one", "new_string": "two"})
    assert (refused.code, refused.data["asked"]) == ("NOT_APPROVED", False)
    assert "outside the workspace" in refused.data["because"]
    assert (tmp_path / "outside").read_text() == "one\n"
    assert box.call("edit_file", {"path": "b", "old_string": "one", "new_string": "two"}).status == "success"
    assert (ws / "c").read_text() == "two\n"
    person = Person("once")
    asking = opened(approver=person, policy="edit")
    asking.call("read_file", {"path": "a"})
    assert asking.call("edit_file", {"path": "a", "old_string": "one", "new_string": "two"}).status == "success"
    assert len(person.asked) == 1
    assert (tmp_path / "outside").read_text() == "two\n"


@pytest.mark.parametrize("answer", ["once", "session", "no"])
def test_c95_a_command_that_was_refused_a_host_and_failed_runs_again_once_it_is_allowed(
    ws: Path, opened: Opened, answer: ConsentName
):
    person = Person(answer)
    box = opened(approver=person, policy="edit")
    tried = "echo tried >> tries; curl -sSf http://a.example.org:8080/"
    reply = box.call("bash", {"command": tried})
    assert reply.ok
    (question,) = person.asked
    assert "a.example.org:8080" in question.because
    assert question.session == "connect a.example.org:8080"
    assert (ws / "tries").read_text() == "tried\n", "what the first attempt changed is discarded"
    assert reply.data["refused_hosts"] == (["a.example.org:8080"] if answer == "no" else [])
    box.call("bash", {"command": tried})
    box.call("bash", {"command": "curl -sSf http://a.example.org/; curl -sSf http://b.example.org:8080/"})
    asked = [question.session for question in person.asked[1:]]
    others = "connect a.example.org:80, connect b.example.org:8080"
    assert asked == ([others] if answer == "session" else ["connect a.example.org:8080", others])


def test_c95_an_answer_about_a_host_never_opens_an_address_or_the_whole_network(ws: Path, opened: Opened):
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        port = server.getsockname()[1]
        person = Person(otherwise="session")
        around = f"curl -s --noproxy '*' -m 2 http://127.0.0.1:{port}/ || curl -s -m 2 http://127.0.0.1:{port}/"
        reply = opened(approver=person, policy="edit").call(
            "bash", {"command": f"curl -s http://a.example.org/; {around}; exit 1"}
        )
        assert [question.session for question in person.asked] == ["connect a.example.org:80"]
        assert reply.data["exit_status"] == 1
        with pytest.raises(TimeoutError):
            server.accept()


def test_c95_a_command_that_succeeds_names_what_it_could_not_reach_and_asks_nothing(ws: Path, opened: Opened):
    person = Person(otherwise="session")
    reply = opened(approver=person, policy="edit").call(
        "bash", {"command": "curl -s http://telemetry.example.org/; true"}
    )
    assert (person.asked, reply.data["refused_hosts"]) == ([], ["telemetry.example.org:80"])
    assert "telemetry.example.org:80" in reply.text


def test_c95_a_host_that_a_rule_denies_is_not_asked_about(ws: Path, opened: Opened):
    never = Rule(
        "no uploads", "deny", ("connect",), hosts=("*.example.org",), because="nothing leaves",
        covers=("a.example.org",), does_not_cover=("example.net",),
    )  # fmt: skip
    person = Person(otherwise="session")
    box = opened(approver=person, policy="edit", rules=[never])
    reply = box.call("bash", {"command": "curl -sSf http://a.example.org/"})
    assert (person.asked, reply.data["refused_hosts"]) == ([], [])
    assert "nothing leaves" in reply.text


def test_r30_a_background_command_stays_without_network_and_nobody_says_otherwise(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    asked: list[Question] = []

    def approver(question: Question) -> bool:
        asked.append(question)
        return True

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        program = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2)"
        command = f'curl -s -m 2 http://host.invalid/; python3 -c "{program}" || echo closed'
        with Toolbox.open(tmp_path / "ws", state=tmp_path / "state", approver=approver, policy="edit") as box:
            started = box.call("bash", {"command": command, "background": True})
            printed, until = started.text, time.monotonic() + 30
            while "closed" not in printed:
                assert time.monotonic() < until, printed
                printed += box.call("bash_output", {"job": started.data["job"]}).text
                time.sleep(0.1)
        assert not any("opens the network" in question.because for question in asked)
        with pytest.raises(TimeoutError):
            server.accept()
