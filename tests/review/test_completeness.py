"""What the pages show of a change is all of it, or they say what they leave out."""

import re
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from typing import Literal

import pytest

from handhold.core.ports.approvals import PendingApproval
from handhold.review.diff_view import build_view, parse_unified, split_by_file
from handhold.review.questions import EffectView, QuestionView, build_question
from handhold.toolbox import Toolbox
from tests.review.hosting import Reviewed, until
from tests.server.hosting import Shop

pytestmark = pytest.mark.timeout(60)
LONG = "line = 1\n" * 40_000 + "the_last_line = 1\n"
CUT_NOTE = re.compile(r"\[[\d,]+ more characters of b\.py are not shown\]")


def open_box(shop: Shop, policy: Literal["ask", "open"] = "open") -> Toolbox:
    return Toolbox.open(shop.root, state=shop.state, session="s", policy=policy, settings=False)


def ask_about(reviewed: Reviewed, tool: str, **arguments: str) -> QuestionView:
    with open_box(reviewed.shop, "ask") as box:
        box.call(tool, arguments)
    (pending,) = reviewed.pending()
    return view(pending)


def view(pending: PendingApproval) -> QuestionView:
    return build_question(pending, is_waiting=False, commands_reach_page=False)


def list_chips(effect: EffectView | QuestionView) -> list[str]:
    return [chip.text for chip in effect.chips]


def read_text(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def test_a_diff_that_is_cut_anywhere_has_no_line_that_is_not_of_the_file():
    diff = "--- a/b.py\n+++ b/b.py\n@@ -1,3 +1,3 @@\n one\n-two\n+[2]\n three\n@@ -20,2 +20,3 @@\n x\n+\n y\n"
    note = "[9 more characters of b.py are not shown]"
    for cut in range(1, len(diff)):
        ((_, piece),), omissions = split_by_file(f"{diff[:cut]}\n{note}\n[7 more files are not shown]\n")
        hunks, notes = parse_unified(piece)
        lines = "\n".join(f"{line.sign}{line.text}" for hunk in hunks for line in hunk.lines)
        assert lines in diff.replace("@@ -20,2 +20,3 @@\n", ""), cut
        assert note in notes, cut
        assert omissions == ["[7 more files are not shown]"], cut
        assert build_view("b.py", hunks, notes=notes).is_cut, cut


def test_a_diff_that_is_not_cut_says_nothing():
    files, omissions = split_by_file(
        "[a: new file, mode 755]\n--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+[1 is not shown]\n"
    )
    assert [name for name, _ in files] == ["a"]
    hunks, notes = parse_unified(files[0][1])
    assert (omissions, build_view("a", hunks, notes=notes).is_cut) == ([], False)


def test_a_question_whose_diff_is_cut_says_so(reviewed: Reviewed):
    question = ask_about(reviewed, "write_file", path="b.py", content=LONG)
    (effect,) = question.effects
    assert question.is_cut
    assert "not all of it is shown" in list_chips(question)
    assert "not all of it is shown" in list_chips(effect)
    assert any(CUT_NOTE.fullmatch(note) for note in effect.diff.notes)
    page = read_text(reviewed.enter_plainly().get("/now").text)
    assert re.search(r"at least \+\d\d,\d\d\d", page)
    assert "Exactly this change, also what is not shown" in page
    last = reviewed.enter_plainly().get(f"/question/{question.id}/effect/0?start=99999").text
    assert CUT_NOTE.search(read_text(last))
    assert 'class="l"><span>0' not in last


def test_a_question_that_is_shown_whole_does_not(reviewed: Reviewed):
    question = ask_about(reviewed, "write_file", path="b.py", content="a = 1\n")
    assert not question.is_cut
    assert "Exactly this change" in (page := reviewed.enter_plainly().get("/now").text)
    for each in ("not shown", "not all", "at least"):
        assert each not in page


def test_a_fork_whose_diff_is_cut_says_so(reviewed: Reviewed):
    with open_box(reviewed.shop) as box:
        box.fork("big").run(["sh", "-c", "yes line | head -60000 > b.py; echo x > c.txt"])
    client = reviewed.enter_plainly()
    for path in ("/forks", "/forks/big", "/forks/big?path=b.py"):
        page = read_text(client.get(path).text)
        assert "not all of it is shown" in page
        assert "at least +" in page
    page = read_text(client.get("/forks/big").text)
    assert CUT_NOTE.search(page)
    assert "[1 more files are not shown]" in page
    assert "Merge 2 files" in page


def test_forks_that_differ_where_their_diffs_do_not_are_not_called_the_same(reviewed: Reviewed):
    with open_box(reviewed.shop) as box:
        for name in ("one", "two"):
            script = f"{{ yes line | head -60000; echo {name}; }} > b.py; echo x > c.txt"
            box.fork(name).run(["sh", "-c", script])
    page = reviewed.enter_plainly().get("/forks?fork=one&fork=two").text
    assert "same change" not in page
    for name in ("one", "two"):
        assert f"{name}: [1 more files are not shown]" in read_text(page)
    assert CUT_NOTE.search(read_text(page.partition("Files that differ")[2]))


def test_binary_files_that_differ_in_two_forks_are_not_called_the_same(reviewed: Reviewed):
    with open_box(reviewed.shop) as box:
        for name in ("one", "two"):
            box.fork(name).run(["python3", "-c", f"open('tool.bin', 'wb').write(b'\\0{name}')"])
    page = reviewed.enter_plainly().get("/forks?fork=one&fork=two").text
    assert "same change" not in page
    assert "[tool.bin: nothing -> binary content]" in read_text(page.partition("Files that differ")[2])


def test_taking_back_a_session_whose_diff_is_cut_says_so(reviewed: Reviewed):
    with open_box(reviewed.shop) as box:
        box.call("write_file", {"path": "c.txt", "content": "x\n"})
        box.call("write_file", {"path": "b.py", "content": LONG})
        seq = box.log(last=1)[0].seq
    page = read_text(reviewed.enter_plainly().get(f"/call/{seq}/undo?scope=session").text)
    assert CUT_NOTE.search(page)
    assert "not all of it is shown" in page
    assert "[1 more files are not shown]" in page
    assert "More than 1 file would change" in page


def test_everything_in_a_new_folder_is_named_and_marked(reviewed: Reviewed):
    script = (
        "mkdir -p newdir/sub; printf '#!/bin/sh\\necho hi\\n' > newdir/run.sh; chmod 755 newdir/run.sh;"
        "head -c 9 /dev/zero > newdir/data.bin; echo 'a = 1' > newdir/sub/a.py; ln -s /etc/passwd newdir/users"
    )
    (reviewed.root / "make.sh").write_text(script)
    question = ask_about(reviewed, "bash", command="sh make.sh")
    assert question.title == "Would create 4 files in your workspace"
    chips = list_chips(question)
    assert "1 new executable" in chips
    assert "1 link that leads out of the workspace" in chips
    assert not question.is_cut
    assert [each.path for each in question.effects[:2]] == ["newdir/users", "newdir/run.sh"], "by risk"
    by_path = {each.path: each for each in question.effects}
    assert by_path.keys() == {
        *("newdir", "newdir/sub"),
        *("newdir/run.sh", "newdir/data.bin", "newdir/sub/a.py", "newdir/users"),
    }
    assert "leads out of the workspace" in list_chips(by_path["newdir/users"])
    assert by_path["newdir/users"].target == "/etc/passwd"
    assert "executable, mode 0755" in list_chips(by_path["newdir/run.sh"])
    assert (by_path["newdir/run.sh"].diff.added, by_path["newdir/sub/a.py"].diff.added) == (2, 1)
    assert by_path["newdir/data.bin"].diff.notes == ("[newdir/data.bin: nothing -> binary content]",)
    assert (question.left_out, question.added) == (0, 3)
    assert "s would create 4 files in your workspace" in read_text(reviewed.enter_plainly().get("/timeline").text)


def test_what_a_long_diff_of_a_new_folder_leaves_out_is_still_named_and_marked(reviewed: Reviewed):
    script = "mkdir newdir; cd newdir; for n in $(seq -w 400); do echo $n > f$n; done; chmod 755 f399; ln -s / f999"
    (reviewed.root / "make.sh").write_text(script)
    question = ask_about(reviewed, "bash", command="sh make.sh")
    assert question.title == "Would create 401 files in your workspace"
    first, second, *_ = question.effects
    assert (first.path, second.path) == ("newdir/f999", "newdir/f399")
    assert "executable, mode 0755" in list_chips(second)
    assert "content not shown" in list_chips(second)
    assert question.is_cut
    assert question.left_out + len(question.effects) == 402


def test_a_deleted_folder_is_counted_in_files(reviewed: Reviewed):
    question = ask_about(reviewed, "bash", command="rm -r keep")
    assert question.title == "Would delete 3 files in your workspace"
    assert {each.path for each in question.effects} == {"keep", "keep/a.txt", "keep/b.txt", "keep/c.txt"}
    assert question.removed == 3


@pytest.fixture
def many(reviewed: Reviewed) -> int:
    """A call that changed 150 files."""
    (reviewed.root / "d").mkdir()
    for n in range(150):
        (reviewed.root / f"d/{n:03}").write_text("a\n")
    with open_box(reviewed.shop) as box:
        box.call("bash", {"command": "for f in d/*; do echo b > $f; done"})
        return box.log(last=1)[0].seq


def read_form(page: str) -> dict[str, str]:
    return dict(re.findall(r'name="(csrf|shown|scope)" value="([^"]*)"', page))


def test_a_call_with_many_files_is_counted_whole(reviewed: Reviewed, many: int):
    page = read_text(reviewed.enter_plainly().get(f"/call/{many}").text)
    assert "Changed 150 files" in page
    assert "Effects, 150 files" in page
    assert "110 more changes not shown here" in page


def test_the_files_of_a_call_with_many_are_taken_back_together_and_the_page_says_so(reviewed: Reviewed, many: int):
    client = reviewed.enter_plainly()
    page = client.get(f"/call/{many}/undo").text
    for each in ("150 files can be restored", "50 more files are not listed here", "Undo all 150 files"):
        assert each in read_text(page)
    assert page.count("data-fixed") == page.count('name="file"') == 100
    done = client.post(f"/call/{many}/undo", {**read_form(page), "file": "3"})
    assert done.status == 200
    assert {file.read_text() for file in (reviewed.root / "d").iterdir()} == {"a\n"}


def test_a_conflict_in_a_file_that_is_not_listed_is_explained(reviewed: Reviewed, many: int):
    (reviewed.root / "d/149").write_text("c\n")
    client = reviewed.enter_plainly()
    page = client.get(f"/call/{many}/undo").text
    assert "d/149" in read_text(page)
    assert "A later change is in the way" in page
    assert 'id="commit"' not in page
    assert client.post(f"/call/{many}/undo", {**read_form(page), "file": "3"}).status == 400
    assert (reviewed.root / "d/003").read_text() == "b\n"


def test_the_lines_of_a_call_are_counted_once_it_has_ended(reviewed: Reviewed):
    client = reviewed.enter_plainly()
    with open_box(reviewed.shop) as box, ThreadPoolExecutor(1) as pool:
        reply = pool.submit(box.call, "bash", {"command": "sleep 3; echo x > new.txt"})
        until(reviewed.workspace.records.list_running, "the command did not start")
        assert 'class="plus"' not in client.get("/timeline?session=s").text
        assert not reply.done(), "it was not listed while it ran"
        reply.result(20)
    assert '<span class="plus">+1</span>' in client.get("/timeline?session=s").text


@pytest.mark.parametrize(("before", "after"), [("a\r\nb\r\n", "a\nb\n"), ("a\nb\n", "a\r\nb\r\n")])
def test_a_change_of_line_endings_is_visible(reviewed: Reviewed, before: str, after: str):
    (reviewed.root / "b.py").write_bytes(before.encode())
    with open_box(reviewed.shop) as box:
        box.call("bash", {"command": f"printf '{after.encode('unicode_escape').decode()}' > b.py"})
        seq = box.log(last=1)[0].seq
    page = reviewed.enter_plainly().get(f"/call/{seq}").text
    removed, added = ("".join(re.findall(rf"<{tag} .*?</{tag}>", page, re.DOTALL)) for tag in ("del", "ins"))
    assert ("U+000D" in removed, "U+000D" in added) == ("\r" in before, "\r" in after)


def test_a_file_with_windows_line_endings_shows_no_tokens(reviewed: Reviewed):
    (reviewed.root / "b.py").write_bytes(b"a = 1\r\nb = 2")
    with open_box(reviewed.shop) as box:
        box.call("bash", {"command": "printf 'a = 2\\r\\nc = 3\\r\\n' > b.py"})
        box.call("bash", {"command": "printf 'a = 3\\r\\nc = 3\\r\\n' > b.py"})
        seq = box.log(last=1)[0].seq
    client = reviewed.enter_plainly()
    for path in (f"/call/{seq}", f"/call/{seq}/file/0?side=after", f"/call/{seq - 1}/file/0?side=before"):
        assert "U+000D" not in client.get(path).text
