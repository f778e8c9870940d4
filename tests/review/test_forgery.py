"""Ten tries at forging an answer: none counts."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext

from handhold.backends.forks.fork_store import ForkStore
from handhold.core.errors import ForkUnavailable, SystemFailure
from handhold.core.ports.approvals import Effect, PendingApproval
from handhold.review.access import COOKIE_NAME, COOKIE_SECONDS, LINK_SECONDS, AccessKeys
from handhold.review.questions import compute_digest
from handhold.toolbox import Toolbox
from tests.faults.trees import NOBODY
from tests.review.hosting import PlainClient, Reviewed, reviewing

pytestmark = pytest.mark.timeout(60)


def test_h14_a_look_at_a_link_does_not_use_it_up(reviewed: Reviewed):
    client = PlainClient(reviewed.port, reviewed.server.base)
    link = f"/enter?token={reviewed.server.keys.renew_link()}"
    looked = client.request("HEAD", link)
    assert "set-cookie" not in looked.headers
    assert "set-cookie" in client.get(link).headers


def ask(
    reviewed: Reviewed, *, command: str = "rm -rf x", shares_loopback: bool = False, hash: str = "1" * 64
) -> PendingApproval:
    question = PendingApproval(
        id="",
        hash=hash,
        session="s",
        at=time.time(),
        tool="bash",
        because="a rule asks",
        command=command,
        diff="",
        shares_loopback=shares_loopback,
        effects=(Effect("x", "deleted"),),
        effect_count=1,
    )
    pending = reviewed.workspace.store.enqueue(question)
    assert pending is not None
    return pending


def form(client: PlainClient, pending: PendingApproval, answer: str = "once") -> dict[str, str]:
    """What our own page would send."""
    page = client.get(f"/question/{pending.id}").text
    fields = dict(re.findall(r'name="(csrf|shown)" value="([^"]+)"', page))
    assert fields.keys() == {"csrf", "shown"}
    return {**fields, "answer": answer}


def path(pending: PendingApproval) -> str:
    return f"/question/{pending.id}/answer"


def is_pending(reviewed: Reviewed, pending: PendingApproval) -> bool:
    return pending.id in [each.id for each in reviewed.pending()]


def test_what_the_page_sends_counts(reviewed: Reviewed):
    """Otherwise the tests below would prove nothing."""
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    assert client.post(path(pending), form(client, pending)).status == 303
    (answered,) = reviewed.workspace.store.list_answered(5)
    assert (answered.id, answered.answer) == (pending.id, "once")


def test_1_another_origin(reviewed: Reviewed, context: BrowserContext):
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    fields = form(client, pending)
    for origin in (
        "http://evil.example",
        "null",
        f"http://localhost:{reviewed.port + 1}",
        f"https://127.0.0.1:{reviewed.port}",
        "",
    ):
        assert client.post(path(pending), fields, {"Origin": origin}).status == 403
    assert client.post(path(pending), fields, {"Sec-Fetch-Site": "cross-site"}).status == 403
    no_origin = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.request("POST", path(pending), "answer=once", no_origin).status == 403
    # In a browser, from a page of another origin on the same machine: the cookie is not sent, or the origin betrays it.
    reviewed.enter(context)
    other = context.new_page()
    other.route("http://127.0.0.1:9/**", lambda route: route.fulfill(content_type="text/html", body="<p>hello</p>"))
    other.goto("http://127.0.0.1:9/")
    other.set_content(
        f'<form method=post action="{reviewed.url}{path(pending)}">'
        + "".join(f'<input name="{name}" value="{value}">' for name, value in fields.items())
        + "<button>go</button></form>"
    )
    with other.expect_navigation():
        other.get_by_role("button").click()
    assert is_pending(reviewed, pending)


def test_2_framed(reviewed: Reviewed, context: BrowserContext):
    pending = ask(reviewed)
    reviewed.enter(context)
    other = context.new_page()
    body = f'<iframe src="{reviewed.url}/question/{pending.id}"></iframe>'
    other.route("http://127.0.0.1:9/**", lambda route: route.fulfill(content_type="text/html", body=body))
    other.goto("http://127.0.0.1:9/")
    other.wait_for_timeout(300)
    assert all("Allow once" not in frame.content() for frame in other.frames if frame != other.main_frame)
    headers = reviewed.enter_plainly().get("/now").headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert "unsafe" not in headers["content-security-policy"]


def test_3_a_replayed_cookie(reviewed: Reviewed):
    client = reviewed.enter_plainly()
    pending = ask(reviewed)
    fields = form(client, pending)
    with reviewing(reviewed.shop) as again:  # the page was started again
        replayed = PlainClient(again.port, again.server.base, client.cookie)
        assert replayed.get("/now").status == 403
        assert replayed.post(path(pending), fields).status == 403
    two = PlainClient(reviewed.port, reviewed.server.base, f"{COOKIE_NAME}=forged; {client.cookie}")
    assert two.post(path(pending), fields).status == 403
    now = [0.0]
    keys = AccessKeys(clock=lambda: now[0])
    cookie = keys.exchange(keys.link_token)
    assert cookie is not None
    assert keys.find_session(cookie)
    now[0] += COOKIE_SECONDS + 1
    assert keys.find_session(cookie) is None
    assert is_pending(reviewed, pending)


def test_4_a_guessed_id_or_token(reviewed: Reviewed):
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    fields = form(client, pending)
    guessed = client.post("/question/0000-0000-0000/answer", fields)
    assert guessed.status == 409
    assert client.post(path(pending), {**fields, "csrf": "x" * 32}).status == 403
    assert client.post(path(pending), {**fields, "csrf": ""}).status == 403
    assert client.post(path(pending), {**fields, "answer": "yes"}).status == 400
    nobody = PlainClient(reviewed.port, reviewed.server.base, f"{COOKIE_NAME}=guess")
    assert nobody.post(path(pending), fields).status == 403
    assert PlainClient(reviewed.port, "/0000000000000000", client.cookie).get("/now").status == 404
    assert is_pending(reviewed, pending)


def test_5_dns_rebinding(reviewed: Reviewed):
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    fields = form(client, pending)
    for host in ("evil.example", f"evil.example:{reviewed.port}", "127.0.0.1", f"127.0.0.1:{reviewed.port + 1}", ""):
        headers = {"Host": host, "Origin": f"http://{host}"}
        assert client.post(path(pending), fields, headers).status in (400, 421)
        assert client.get("/now", Host=host).status in (400, 421)
    assert is_pending(reviewed, pending)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be somebody else")
def test_6_a_second_local_user(reviewed: Reviewed):
    pending = ask(reviewed)
    code = (
        "import http.client, os, sys; 'x'.encode('idna'); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))\n"
        "c = http.client.HTTPConnection('127.0.0.1', int(sys.argv[1])); p = sys.argv[2]\n"
        "for m, path in (('GET', '/now'), ('POST', '/question/%s/answer' % sys.argv[4])):\n"
        "    c.request(m, p + path, 'answer=once' if m == 'POST' else None, {'Origin': 'http://127.0.0.1:' + sys.argv[1]})\n"
        "    r = c.getresponse(); print(r.status); body = r.read(); assert b'rm -rf' not in body\n"
        "for f in ('review.html', 'server.key', 'state.db'):\n"
        "    try: open(os.path.join(sys.argv[5], f)); print('read', f)\n"
        "    except OSError: pass\n"
    )
    reviewed.server.write_opening_file()
    arguments = [str(reviewed.port), reviewed.server.base, str(NOBODY), pending.id, str(reviewed.workspace.folder)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=False, capture_output=True, text=True, timeout=30
    )
    assert (done.stdout.split(), done.stderr) == (["403", "403"], "")
    assert is_pending(reviewed, pending)


def test_7_a_contained_command(reviewed: Reviewed):
    """It has a loopback of its own, and sees neither the token nor the key."""
    with Toolbox.open(reviewed.root, state=reviewed.shop.state, session="s", settings=False) as box:
        code = f"import socket; socket.create_connection(('127.0.0.1', {reviewed.port}), 2)"
        reply = box.call("bash", {"command": f'python3 -c "{code}"; cat {reviewed.workspace.folder}/server.key'})
        assert "refused" in reply.text.lower()
        assert reply.data["exit_status"] != 0
    with socket.create_connection(("127.0.0.1", reviewed.port), 2):
        pass  # from outside it is there


def test_8_an_expired_link(reviewed: Reviewed):
    token = reviewed.server.keys.link_token
    client = PlainClient(reviewed.port, reviewed.server.base)
    assert client.get(f"/enter?token={token}").status == 200
    used = client.get(f"/enter?token={token}")
    assert used.status == 403
    assert "set-cookie" not in used.headers
    assert client.get("/enter?token=").status == 403
    now = [0.0]
    keys = AccessKeys(clock=lambda: now[0])
    now[0] = LINK_SECONDS + 1
    assert keys.exchange(keys.link_token) is None


def test_9_a_question_that_changed_after_it_was_shown(reviewed: Reviewed):
    client, shown = reviewed.enter_plainly(), ask(reviewed, command="rm notes.txt", hash="1" * 64)
    other = ask(reviewed, command="rm -rf ~", hash="2" * 64)
    fields = form(client, shown)
    swapped = client.post(path(other), fields)
    assert swapped.status == 409
    assert "Look again" in swapped.text
    assert is_pending(reviewed, other)
    assert compute_digest(shown) != compute_digest(other)


def test_10_a_double_submit(reviewed: Reviewed):
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    fields = form(client, pending, "no")
    assert client.post(path(pending), fields).status == 303
    second = client.post(path(pending), {**fields, "answer": "once"})
    assert second.status == 409
    assert "Already answered" in second.text
    (answered,) = reviewed.workspace.store.list_answered(5)
    assert answered.answer == "no"


def test_where_commands_can_reach_the_page_guessing_the_token_is_limited(reviewed: Reviewed):
    client, pending = reviewed.enter_plainly(), ask(reviewed, shares_loopback=True)
    fields = form(client, pending)
    assert client.post(path(pending), fields).status == 403
    for _ in range(5):
        assert client.post(path(pending), {**fields, "token": "aaaa-aaaa-aaaa"}).status == 403
    right = {**fields, "token": reviewed.server.keys.approval_token}
    assert client.post(path(pending), right).status == 403, "after five wrong ones, it has to wait"
    assert is_pending(reviewed, pending)
    assert client.post(path(pending), {**fields, "answer": "no"}).status == 303, "refusing needs no token"


def test_a_digest_that_is_no_ascii_is_another_one(reviewed: Reviewed):
    client, pending = reviewed.enter_plainly(), ask(reviewed)
    fields = form(client, pending) | {"shown": "ü" * 64}
    assert client.post(path(pending), fields).status == 409
    with Toolbox.open(reviewed.root, state=reviewed.shop.state, session="s", settings=False) as box:
        box.call("write_file", {"path": "new.txt", "content": "hello\n"})
        seq = box.log(last=1)[0].seq
        box.fork("one").run(["touch", "new2.txt"])
    assert client.post(f"/call/{seq}/undo", {**fields, "file": "0"}).status == 409
    assert client.post("/forks/one/merge", fields).status == 409
    assert is_pending(reviewed, pending)


def test_where_nobody_can_tell_whether_commands_reach_the_page_it_asks_for_the_token(
    reviewed: Reviewed, monkeypatch: pytest.MonkeyPatch
):
    def fail(_: object) -> Iterator[object]:
        raise SystemFailure("forks", "cannot be listed")

    client, pending = reviewed.enter_plainly(), ask(reviewed)
    monkeypatch.setattr(ForkStore, "__iter__", fail)
    fields = form(client, pending)
    assert client.post(path(pending), fields).status == 403
    assert client.post(path(pending), {**fields, "token": reviewed.server.keys.approval_token}).status == 303


@pytest.mark.parametrize("changed", ["tool.bin", "n0599.txt", "committed"])
def test_a_fork_counts_only_as_it_was_shown_even_where_its_diff_does_not_show_it(reviewed: Reviewed, changed: str):
    client = reviewed.enter_plainly()
    subprocess.run(["git", "init", "-q"], cwd=reviewed.root, check=True, timeout=30)
    code = "open('tool.bin', 'wb').write(b'\\0good')\nfor i in range(600): open(f'n{i:04}.txt', 'w').write('x')"
    edits = {
        "tool.bin": ["python3", "-c", "open('tool.bin', 'wb').write(b'\\0evil')"],
        "n0599.txt": ["sh", "-c", "printf y > n0599.txt"],
        "committed": ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-mx"],
    }
    with Toolbox.open(reviewed.root, state=reviewed.shop.state, settings=False) as box:
        fork = box.fork("one")
        assert fork.run(["python3", "-c", code]) == 0
        page = client.get("/forks/one").text
        assert "601 files" in page
        fields = dict(re.findall(r'name="(csrf|shown)" value="([^"]+)"', page))
        assert fork.run(edits[changed]) == 0
        refused = client.post("/forks/one/merge", fields)
        assert refused.status == 409
        assert "The fork changed while you looked at it" in refused.text
        assert not (reviewed.root / "tool.bin").exists()
        with pytest.raises(ForkUnavailable):
            box.forks.get("one").merge(expected_digest=fields["shown"])
        again = dict(re.findall(r'name="(csrf|shown)" value="([^"]+)"', client.get("/forks/one").text))
        assert client.post("/forks/one/merge", again).status == 200
    assert (reviewed.root / "tool.bin").exists()


def test_an_undo_counts_only_as_it_was_shown(reviewed: Reviewed):
    (reviewed.root / "n.txt").write_text("one\n")
    with Toolbox.open(reviewed.root, state=reviewed.shop.state, session="s", settings=False) as box:
        box.call("write_file", {"path": "new.txt", "content": "hello\n"})
        seq = box.log(last=1)[0].seq
    client = reviewed.enter_plainly()
    page = client.get(f"/call/{seq}/undo").text
    fields = dict(re.findall(r'name="(csrf|shown|scope)" value="([^"]*)"', page)) | {"file": "0"}
    assert client.post(f"/call/{seq}/undo", {**fields, "shown": "0" * 64}).status == 409
    assert client.post(f"/call/{seq}/undo", {**fields, "csrf": "x"}).status == 403
    assert (reviewed.root / "new.txt").exists()
    assert client.post(f"/call/{seq}/undo", fields).status == 200
    assert not (reviewed.root / "new.txt").exists()
