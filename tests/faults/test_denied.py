"""One rule denies reading one file. We try every way we could think of, as root and as a plain user: none works.

A way that never works proves nothing, so each is first tried without the rule, and must work there.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handhold import Reply, Toolbox
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from handhold.core.policy.rules import Rule
from handhold.core.ports.policy import Verb, Verdict
from tests.backends.shell.forked import as_user, place, who  # noqa: F401 — fixtures
from tests.scale import sampled, scaled
from tests.suites.machine import has_shadows

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.skipif(not has_shadows(), reason="no overlay on this machine"),
]

SECRET = "conf/secret.txt"
TOKEN = "hunter2hunter2"
CONTENT = f"KEY={TOKEN}\n"
RULE = Rule(
    name="one secret",
    verdict=Verdict.DENY,
    verbs=(Verb.READ,),
    paths=("conf/secret.txt",),
    because="it is none of a model's business",
    covers=(SECRET,),
    does_not_cover=("conf/other.txt",),
)
GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
PYTHON = "/usr/bin/python3"


def lay(ws: Path) -> None:
    """The file, never committed, in a repository; with links and a second name from before it was denied."""
    (ws / "conf").mkdir(parents=True)
    (ws / "sub").mkdir()
    (ws / SECRET).write_text(CONTENT)
    (ws / "conf/other.txt").write_text("harmless\n")
    os.link(ws / SECRET, ws / "twin.txt")
    (ws / "link.txt").symlink_to(SECRET)
    (ws / "chain.txt").symlink_to("link.txt")
    (ws / "way").symlink_to("conf")
    script = f"{GIT} init -q . && {GIT} add conf/other.txt && {GIT} commit -qm one"
    subprocess.run(["bash", "-ec", script], cwd=ws, check=True, capture_output=True)


@dataclass
class Desk:
    place: Path
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def ws(self) -> Path:
        return self.place / "ws"

    @contextmanager
    def box(self, dialect: str = "handhold", **options: Any) -> Iterator[Toolbox]:
        given = {"policy": "open", "settings": False, "session": "s", **self.options, **options}
        with Toolbox.open(self.ws, state=self.place / "state", dialect=dialect, **given) as box:
            yield box

    @property
    def untouched(self) -> bool:
        return (self.ws / SECRET).read_text() == CONTENT and os.stat(self.ws / SECRET).st_nlink == 2


def desks(place: Path) -> tuple[Desk, Desk]:  # noqa: F811
    """Without the rule, and with it."""
    for name in ("free", "denied"):
        lay(place / name / "ws")
    return Desk(place / "free"), Desk(place / "denied", {"rules": [RULE]})


def shows(reply: Reply) -> bool:
    return TOKEN in f"{reply.text} {reply.data} {reply.ui_extra}"


# --- by tools

SPELLINGS = {
    "its name": SECRET,
    "a dot and two slashes": f"./{SECRET.replace('/', '//')}",
    "a dot on the way": "conf/./secret.txt",
    "up and down again": "sub/../conf/secret.txt",
    "in full": "{ws}/conf/secret.txt",
    "in full, and up again": "{ws}/sub/../conf/secret.txt",
    "a link": "link.txt",
    "a link to a link": "chain.txt",
    "a link to its folder": "way/secret.txt",
    "up from a link": "way/../conf/secret.txt",
    "a hard link": "twin.txt",
}
SPECIAL = {
    "upper case": "CONF/SECRET.TXT",
    "an escape": "conf/secret\\x2etxt",
    "a full-width letter": "conf/ｓecret.txt",
    "a space behind": f"{SECRET} ",
}
READS = [
    ("handhold", "read_file", "path", {}),
    ("handhold", "read_file", "path", {"offset": 1, "limit": 1}),
    ("handhold", "grep", "path", {"pattern": "KEY", "mode": "content"}),
    ("handhold", "grep", "path", {"pattern": "K.Y", "regex": True, "mode": "content", "hidden": True, "ignored": True}),
    ("claude", "Read", "file_path", {}),
    ("claude", "Read", "file_path", {"offset": 1, "limit": 2}),
    ("claude", "Grep", "path", {"pattern": "KEY", "output_mode": "content"}),
]


@pytest.mark.parametrize("spelling", sampled([*SPELLINGS, *SPECIAL], 6))
def test_u21_no_spelling_is_read(tmp_path: Path, spelling: str):
    free, denied = desks(tmp_path.resolve())
    for dialect, tool, argument, more in READS:
        for desk in (free, denied):
            path = (SPELLINGS | SPECIAL)[spelling].format(ws=desk.ws)
            with desk.box(dialect) as box:
                reply = box.call(tool, {argument: path, **more})
            if desk is denied:
                assert not shows(reply), (tool, reply.text)
                assert reply.code == "DENIED" or spelling in SPECIAL, (tool, reply.text)
                assert spelling in SPECIAL or RULE.name in str(reply.data["rule"])
                assert "harmless" not in reply.text
            elif spelling in SPELLINGS:
                assert shows(reply), (tool, reply.text)


GREPS: list[dict[str, Any]] = [
    {"pattern": TOKEN, "mode": mode, "regex": regex, "hidden": True, "ignored": True, "sort": sort}
    for mode in ("content", "count", "files_with_matches")
    for regex in (False, True)
    for sort in ("modified", "none")
]


@pytest.mark.parametrize("engine", ["ripgrep", "walk"])
def test_no_search_tells_what_is_in_it(tmp_path: Path, engine: str):
    """The reply does not reveal whether a guess is right, neither for the file nor for its other name."""
    from handhold.backends.search import DiskSearch

    free, denied = desks(tmp_path.resolve())
    for search in sampled(GREPS, 4, lambda search: search["mode"]):
        told: list[str] = []
        for guess in (TOKEN, "f" * len(TOKEN)):
            with denied.box() as box:
                box.searcher = DiskSearch(box.files, engines=(engine,))  # pyright: ignore[reportArgumentType]
                reply = box.call("grep", {**search, "pattern": guess})
                told.append(
                    str({**reply.data, "time_ms": 0}).replace(guess, "GUESS") + reply.text.replace(guess, "GUESS")
                )
        assert told[0] == told[1], search
        assert "twin" not in told[0]
        with free.box() as box:
            box.searcher = DiskSearch(box.files, engines=(engine,))  # pyright: ignore[reportArgumentType]
            assert "twin.txt" in box.call("grep", search).text


def test_no_search_pages_over_another_name_of_it(tmp_path: Path):
    """In path order and page by page, a hidden file takes no place on a page."""
    _, denied = desks(tmp_path.resolve())
    for n in range(5):
        (denied.ws / f"s{n}").write_text(CONTENT)
        (denied.ws / f"u{n}").write_text(CONTENT)
    for mode, sort in (("content", "none"), ("files_with_matches", "none"), ("content", "modified"), ("count", "none")):
        seen: list[str] = []
        with denied.box() as box:
            cursor: dict[str, str] = {}
            while True:
                reply = box.call("grep", {"pattern": "KEY", "mode": mode, "sort": sort, "limit": 2, **cursor})
                items = reply.data.get("matches") or reply.data.get("counts") or reply.data["paths"]
                seen += [item if isinstance(item, str) else item["path"] for item in items]
                if not reply.data["cursor"]:
                    break
                cursor = {"cursor": reply.data["cursor"]}
        assert sorted(seen) == sorted([f"{letter}{n}" for letter in "su" for n in range(5)]), (mode, sort)


@pytest.mark.parametrize(
    ("dialect", "tool", "arguments"),
    [
        ("handhold", "list_files", {"path": "conf", "hidden": True, "ignored": True}),
        ("handhold", "list_files", {"path": ".", "depth": 5, "hidden": True, "ignored": True}),
        ("handhold", "list_files", {"path": "way"}),
        ("handhold", "glob", {"pattern": "**/sec*"}),
        ("handhold", "glob", {"pattern": "conf/*", "hidden": True, "ignored": True}),
        ("handhold", "glob", {"pattern": "*", "path": "way"}),
        ("handhold", "read_file", {"path": "conf/secre.txt"}),
        ("claude", "LS", {"path": "{ws}/conf"}),
        ("claude", "Glob", {"pattern": "**/*.txt"}),
        ("claude", "Grep", {"pattern": "KEY", "path": "{ws}", "output_mode": "files_with_matches"}),
    ],
)
def test_its_name_is_not_told(tmp_path: Path, dialect: str, tool: str, arguments: dict[str, Any]):
    for desk in desks(tmp_path.resolve()):
        given = {
            name: value.format(ws=desk.ws) if isinstance(value, str) else value for name, value in arguments.items()
        }
        with desk.box(dialect) as box:
            reply = box.call(tool, given)
        assert ("secret.txt" in reply.text) is ("rules" not in desk.options), reply.text


OTHERS = {
    "edit": ("handhold", "edit_file", {"path": "{path}", "old_string": "{guess}", "new_string": "x"}),
    "several edits": ("handhold", "multi_edit", {"path": "{path}", "edits": [{"old_string": "{guess}", "new_string": "x"}]}),
    "write": ("handhold", "write_file", {"path": "{path}", "content": "{guess}"}),
    "claude's edit": ("claude", "Edit", {"file_path": "{path}", "old_string": "{guess}", "new_string": "x"}),
    "claude's write": ("claude", "Write", {"file_path": "{path}", "content": "{guess}"}),
    "patch": ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Update File: {path}\n@@\n-KEY={guess}\n+x\n*** End Patch"}),
    "patch that moves": ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Update File: {path}\n*** Move to: moved\n@@\n-KEY={guess}\n+KEY={guess}\n*** End Patch"}),
    "patch that deletes": ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
    "patch that adds": ("codex", "apply_patch", {"input": "*** Begin Patch\n*** Add File: {path}\n+{guess}\n*** End Patch"}),
    "patch by a command": ("codex", "shell", {"command": ["bash", "-lc", "apply_patch <<'E'\n*** Begin Patch\n*** Update File: {path}\n@@\n-KEY={guess}\n+x\n*** End Patch\nE\n"]}),
}  # fmt: skip


def filled(value: Any, path: str, guess: str) -> Any:
    match value:
        case str():
            return value.replace("{path}", path).replace("{guess}", guess)
        case list():
            return [filled(each, path, guess) for each in value]
        case dict():
            return {name: filled(each, path, guess) for name, each in value.items()}
        case _:
            return value


@pytest.mark.parametrize("way", OTHERS)
@pytest.mark.parametrize("spelling", ["its name", "a link", "a link to its folder", "a hard link"])
def test_nothing_that_changes_files_feels_it_out(tmp_path: Path, way: str, spelling: str):
    """A right guess gets the same answer as a wrong one, and the file stays unchanged."""
    dialect, tool, arguments = OTHERS[way]
    _, denied = desks(tmp_path.resolve())
    path = SPELLINGS[spelling]
    told: list[str] = []
    for guess in (TOKEN, "f" * len(TOKEN)):
        with denied.box(dialect) as box:
            reply = box.call(tool, filled(arguments, path, guess))
        assert reply.status == "error", reply.text
        assert denied.untouched
        told.append(reply.text.replace(guess, "GUESS"))
        if spelling == "its name" or "link.txt" not in path:
            assert reply.code in ("DENIED", "ALREADY_EXISTS"), reply.text
    assert told[0] == told[1]
    assert not (denied.ws / "moved").exists()


def test_a_second_root_shows_no_other_way(tmp_path: Path):
    _, denied = desks(tmp_path.resolve())
    given = {"policy": "open", "settings": False, "session": "s", "rules": [RULE]}
    roots = [denied.ws, denied.ws / "conf"]
    with Toolbox.open(roots, state=tmp_path / "state", **given) as box:  # pyright: ignore[reportArgumentType]
        for path in (SECRET, str(denied.ws / SECRET), "twin.txt"):
            assert box.call("read_file", {"path": path}).code == "DENIED"
        assert not shows(box.call("bash", {"command": "cat conf/secret.txt twin.txt; cd conf; cat secret.txt"}))


def test_what_a_session_read_before_it_was_denied_is_not_shown_again(tmp_path: Path):
    """The state folder has the old content: neither a command nor a refusal shows it."""
    _, denied = desks(tmp_path.resolve())
    with denied.box(rules=[]) as box:
        assert shows(box.call("read_file", {"path": SECRET}))
    (denied.ws / SECRET).write_text(CONTENT.replace("KEY", "OTHER"))
    with denied.box() as box:
        for call in (
            ("read_file", {"path": SECRET}),
            ("edit_file", {"path": SECRET, "old_string": "a", "new_string": "b"}),
        ):
            reply = box.call(*call)
            assert not shows(reply)
            assert reply.code == "DENIED"
        look = "grep -rl hunter2 /large_tool_results /home /var/tmp /dev/shm {state} {above} 2>/dev/null"
        reply = box.call("bash", {"command": look.format(state=denied.place / "state", above=denied.place)})
        assert reply.data["output"]["bytes"] == 0, reply.text


def test_a_link_that_is_turned_meanwhile_leads_nowhere(tmp_path: Path):
    """The policy is asked about the file that was opened, not the one checked before."""
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    subprocess.run([cc, "-O2", "-o", tmp_path / "swap", Path(__file__).with_name("swap.c")], check=True)
    _, denied = desks(tmp_path.resolve())
    (denied.ws / "shift").symlink_to("conf/other.txt")
    (denied.ws / "spare").symlink_to(SECRET)
    swapping = subprocess.Popen([tmp_path / "swap", denied.ws / "shift", denied.ws / "spare"])
    try:
        with denied.box() as box:
            replies = [box.call("read_file", {"path": "shift"}) for _ in range(scaled(600, 3000))]
    finally:
        swapping.kill()
        swapping.wait()
    assert {reply.code for reply in replies} >= {None, "DENIED"}  # the link pointed both ways
    assert not any(map(shows, replies))


# --- by commands


def python(*lines: str) -> str:
    return f"{PYTHON} - <<'END'\nimport ctypes, mmap, os\nF = '{SECRET}'\n" + "\n".join(lines) + "\nEND"


COMMANDS: dict[str, Sequence[str]] = {
    "cat": [f"cat {SECRET}"],
    "cat in full": [f"cat $PWD/{SECRET}"],
    "cat by a redirection": [f"cat <{SECRET}"],
    "a link": ["cat link.txt"],
    "a link to a link": ["cat chain.txt"],
    "a link to its folder": ["cat way/secret.txt"],
    "a hard link made before": ["cat twin.txt"],
    "bash: $(<f)": [f'echo "$(<{SECRET})"'],
    "bash: read": [f'read -r line <{SECRET}; echo "$line"'],
    "bash: mapfile": [f'mapfile -t lines <{SECRET}; echo "${{lines[@]}}"'],
    "bash: source": [f". ./{SECRET}; echo $KEY"],
    "bash: run it": [f"bash -x {SECRET}"],
    "env -S": [f"env -S 'cat {SECRET}'"],
    "xargs": [f"echo {SECRET} | xargs cat"],
    "xargs -a": [f"xargs -a {SECRET} echo"],
    "head": [f"head -c 50 {SECRET}"],
    "tail": [f"tail -n 5 {SECRET}"],
    "tac": [f"tac {SECRET}"],
    "sed": [f"sed -n p {SECRET}"],
    "awk": [f"awk 1 {SECRET}"],
    "sort": [f"sort {SECRET}"],
    "cut": [f"cut -c 1- {SECRET}"],
    "tee": [f"tee <{SECRET}"],
    "dd": [f"dd if={SECRET} 2>&1"],
    "base64": [f"base64 {SECRET} | base64 -d"],
    "od": [f"od -An -v -tx1 {SECRET} | {PYTHON} -c 'import sys; print(bytes.fromhex(sys.stdin.read()))'"],
    "split": [f"split {SECRET} /tmp/part && cat /tmp/partaa"],
    "diff": [f"diff /dev/null {SECRET}; true"],
    "grep": [f"grep KEY {SECRET}"],
    "grep -r": ["grep -rh KEY ."],
    "find -exec": ["find . -name 'secret*' -exec cat {} +"],
    "find everywhere": ["find / -maxdepth 6 -path /proc -prune -o -name secret.txt -exec cat {} + 2>/dev/null; true"],
    "tar": ["tar cf - conf | tar xOf -"],
    "zip": [f"{PYTHON} -m zipfile -c /tmp/x.zip {SECRET} && {PYTHON} -c 'import zipfile; print(zipfile.ZipFile(\"/tmp/x.zip\").read(\"secret.txt\"))'"],
    "git diff --no-index": [f"git diff --no-index /dev/null {SECRET}; true"],
    "git hash-object": [f"git cat-file -p $(git hash-object -w {SECRET})"],
    "git add and git show": [f"git add -f {SECRET} && git show :{SECRET}"],
    "git stash": [f"{GIT} stash -u && {GIT} show 'stash@{{0}}^3'"],
    "git grep": ["git grep --untracked -h KEY"],
    "git commit, then git show": [f"git add -A; {GIT} commit -qm two; true", "git show"],
    "python": [python("print(open(F).read())")],
    "python: mmap": [python("with open(F, 'r+b' if os.access(F, os.W_OK) else 'rb') as f: print(mmap.mmap(f.fileno(), 0, prot=mmap.PROT_READ)[:])")],
    "python: O_PATH, opened again": [python("fd = os.open(F, os.O_PATH)", "print(open(f'/proc/self/fd/{fd}').read())")],
    "python: from a folder's descriptor": [python("fd = os.open('conf', os.O_RDONLY)", "print(os.read(os.open('secret.txt', os.O_RDONLY, dir_fd=fd), 99))")],
    "python: run it": [f"{PYTHON} {SECRET}; true"],
    "python: sendfile": [python("fd = os.open(F, os.O_RDONLY)", "os.sendfile(1, fd, 0, 99)")],
    "node": [f"node -e 'console.log(require(\"fs\").readFileSync(\"{SECRET}\", \"utf8\"))'"],
    "perl": [f"perl -pe 1 {SECRET}"],
    "sqlite": [f"sqlite3 :memory: \"select readfile('{SECRET}')\""],
    "the preprocessor of C": [f"gcc -E -x c {SECRET}"],
    "curl": [f"curl -s file://$PWD/{SECRET}"],
    "rsync": [f"rsync {SECRET} /tmp/y && cat /tmp/y"],
    "rg": [f"{{rg}} --no-config -uuu --no-heading KEY {SECRET}"],
    "/proc/self/fd": [f"exec 5<{SECRET} && cat /proc/self/fd/5"],
    "/proc/self/root": [f"cat /proc/self/root$PWD/{SECRET}"],
    "/proc/self/cwd": [f"cat /proc/self/cwd/{SECRET}"],
    "/proc/…/root of others": [f"for each in /proc/[0-9]*/root; do cat $each$PWD/{SECRET} 2>/dev/null; done; true"],
    "copied, then read": [f"cp {SECRET} copy; true", "cat copy"],
    "copied to /tmp, then read": [f"cp {SECRET} /tmp/copy; true", "cat /tmp/copy"],
    "copied to HOME, then read": [f"cp {SECRET} ~/copy; true", "cat ~/copy"],
    "copied with its folder, then read": ["cp -r conf conf2; true", "cat conf2/secret.txt"],
    "moved, then read": [f"mv {SECRET} moved; true", "cat moved"],
    "moved with its folder, then read": ["mv conf conf2; true", "cat conf2/secret.txt"],
    "linked, then read": [f"ln {SECRET} linked; true", "cat linked"],
    "linked by a symbolic link, then read": [f"ln -s {SECRET} soft; true", "cat soft"],
    "its mode changed, then read": [f"chmod 777 {SECRET}; cat {SECRET}"],
    "reflink, then read": [f"cp --reflink=auto {SECRET} cow; true", "cat cow"],
    "a core of ours": [f"cat {SECRET} {SECRET} | cat"],
}  # fmt: skip
HELPLESS: dict[str, str] = {  # ways that do not work without the rule either, on most machines
    "umount": f"umount -l {SECRET}; cat {SECRET}",
    "umount in a namespace of its own": f"unshare -Urm sh -c 'umount -l {SECRET}; cat {SECRET}'",
    "bind mount in a namespace of its own": "unshare -Urm sh -c 'mount --rbind conf sub; cat sub/secret.txt'",
    "another mount namespace": f"nsenter -t 1 -m cat $PWD/{SECRET}",
    "fresh proc": f"unshare -Urpmf --mount-proc sh -c 'cat /proc/1/root$PWD/{SECRET}'",
    "open by handle": python(
        "libc = ctypes.CDLL(None, use_errno=True)",
        "class Handle(ctypes.Structure): _fields_ = [('size', ctypes.c_uint), ('kind', ctypes.c_int), ('data', ctypes.c_ubyte * 128)]",
        "for name in (F, 'conf'):",
        "    handle, mount = Handle(128), ctypes.c_int()",
        "    libc.name_to_handle_at(-100, name.encode(), ctypes.byref(handle), ctypes.byref(mount), 0)",
        "    fd = libc.open_by_handle_at(os.open('.', os.O_RDONLY), ctypes.byref(handle), os.O_RDONLY)",
        "    if fd >= 0: print(os.read(fd, 99) if name == F else os.read(os.open('secret.txt', os.O_RDONLY, dir_fd=fd), 99))",
    ),
    "open_tree": python(
        "libc = ctypes.CDLL(None, use_errno=True)",
        "fd = libc.syscall(428, -100, b'conf', 1)",  # OPEN_TREE_CLONE, without what is mounted in it
        "print(os.read(os.open('secret.txt', os.O_RDONLY, dir_fd=fd), 99))",
    ),
    "another overlay": f"unshare -Urm sh -c 'mkdir /tmp/u /tmp/w; mount -t overlay o -o lowerdir=$PWD,upperdir=/tmp/u,workdir=/tmp/w,userxattr sub; cat sub/{SECRET}'",
    "ptrace": f"strace -f -e trace=openat cat {SECRET}; cat {SECRET}",
    "swap": "cat /dev/mem /dev/kmem /proc/kcore | grep -a -m1 KEY=hunter",
}  # fmt: skip


def programs_missing(rg: RipgrepBinary | str) -> set[str]:
    """Ways that need a program that is not installed here."""
    needed = {
        "node": "node",
        "perl": "perl",
        "sqlite": "sqlite3",
        "the preprocessor of C": "gcc",
        "curl": "curl",
        "rsync": "rsync",
    }
    missing = {way for way, program in needed.items() if not shutil.which(program)}
    seen = isinstance(rg, RipgrepBinary) and os.access(rg.path, os.X_OK) and rg.path.startswith("/usr/")
    return missing if seen else missing | {"rg"}  # one elsewhere may be hidden in the sandbox


def tried(desk: Desk, commands: Sequence[str], **arguments: Any) -> Reply:
    """The reply to the last of some commands, in a workspace of its own, which is restored afterwards."""
    with desk.box(session="s") as box:
        replies = [box.call("bash", {"command": command, **arguments}) for command in commands]
        for reply in replies:
            assert reply.code in (None, "NOT_APPROVED"), reply.text
            assert not shows(reply) or reply is replies[-1] or "rules" not in desk.options
        while box.undo().status == "success":
            pass
    return replies[-1]


@pytest.mark.slow
def test_u21_no_command_reads_it(who: str, place: Path):  # noqa: F811
    """Neither the command nor anything it starts."""
    rg = find_ripgrep()

    def work() -> None:
        free, denied = desks(place)
        left_out = programs_missing(rg)
        ways = {name: each for name, each in COMMANDS.items() if name not in left_out}
        arrived: list[str] = []
        useless: list[str] = []
        for name, commands in sampled(list(ways.items()), 14):
            commands = [each.replace("{rg}", rg.path if isinstance(rg, RipgrepBinary) else "") for each in commands]
            if not shows(tried(free, commands)):
                useless.append(name)
            reply = tried(denied, commands)
            if shows(reply):
                arrived.append(name)
            assert reply.data["sandbox"]["hidden"] == (SECRET, "twin.txt"), name
            assert denied.untouched, name
        for name, command in sampled(list(HELPLESS.items()), 4):
            if shows(tried(denied, [command])):
                arrived.append(name)
        print(
            f"\n{who}: {len(ways) + len(HELPLESS)} ways by commands, {len(arrived)} arrive; not here: {sorted(left_out)}"
        )
        assert (arrived, useless) == ([], [])
        assert len(ways) + len(HELPLESS) >= 60

    as_user(who, work)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["background", "direct", "preview"])
def test_no_command_reads_it_wherever_it_runs(who: str, place: Path, how: str):  # noqa: F811
    """In the background and without an overlay, directly on the workspace: neither the hidden file nor its folder can
    be moved, so the next command cannot read it under another name."""
    moves = (
        f"mv {SECRET} moved; ln {SECRET} linked; cp {SECRET} copy; rm -f {SECRET}; mv conf conf2; mv twin.txt other; "
        f"chmod 777 {SECRET}; echo x >{SECRET}; mount --bind conf sub; true"
    )
    reads = f"sleep 0.05; cat {SECRET} twin.txt moved linked copy conf2/secret.txt other /proc/self/root/$PWD/{SECRET}; grep -r KEY ."

    def work() -> None:
        _, denied = desks(place)
        if how == "direct":
            subprocess.run(["bash", "-c", "mkdir home && ln -s x home/x"], cwd=denied.place, check=True)
        for command in (reads, moves, reads):
            with denied.box() as box:
                if how == "direct":
                    from handhold.core.requests import Run

                    with box.shell.run(Run(command, 20, chars=20_000, direct=True)) as finished:
                        shown, held = finished.output.head, finished.sandbox
                    assert held.hidden == (SECRET, "twin.txt")
                else:
                    reply = box.call("bash", {"command": command, how: True})
                    assert reply.status == "success", reply.text
                    assert SECRET in reply.text
                    shown = reply.text
                    while how == "background" and box.call("bash_output", {"job": reply.data["job"]}).data["running"]:
                        pass
                    if how == "background":
                        shown += box.call("bash_output", {"job": reply.data["job"], "offset": 0}).text
            assert TOKEN not in shown, shown
            assert "denied" in shown or command is moves, shown
            assert denied.untouched

    as_user(who, work)


def test_a_folder_is_hidden_with_all_that_is_in_it(who: str, place: Path):  # noqa: F811
    rule = Rule(
        name="the vault", verdict=Verdict.DENY, verbs=(Verb.READ,), paths=("conf",), because="closed",
        covers=("conf/a", "conf"), does_not_cover=("sub",),
    )  # fmt: skip

    def work() -> None:
        _, denied = desks(place)
        with denied.box(rules=[rule]) as box:
            reply = box.call(
                "bash", {"command": "ls conf; cat conf/secret.txt; cat twin.txt; cd conf; rm -rf conf; ls -ld conf"}
            )
            assert not shows(reply)
            assert "d---------" in reply.text
            assert "other.txt" not in reply.text
            assert reply.data["sandbox"]["hidden"] == ("conf", "twin.txt")
            assert not shows(box.call("read_file", {"path": "twin.txt"}))
        assert denied.untouched

    as_user(who, work)


def test_u21_a_folder_is_hidden_though_other_rules_are_about_part_of_it_and_a_similar_name(tmp_path: Path):
    patterns = ("conf/**", "conf.d/**", "conf/keys/**")
    rules = [
        Rule(
            name=pattern, verdict=Verdict.DENY, verbs=(Verb.READ,), paths=(pattern,), because="closed",
            covers=(pattern.replace("**", "a"),), does_not_cover=("sub",),
        )
        for pattern in patterns
    ]  # fmt: skip
    _, denied = desks(tmp_path.resolve())
    with denied.box(rules=rules) as box:
        reply = box.call("bash", {"command": "cat conf/*; cat twin.txt; grep -r KEY"})
        assert not shows(reply)
        assert "harmless" not in reply.text  # of conf/other.txt; a secret might only be redacted
        assert reply.data["sandbox"]["hidden"] == ("conf/other.txt", SECRET, "twin.txt")


def test_what_comes_later_is_hidden_from_the_next_command(tmp_path: Path):
    _, denied = desks(tmp_path.resolve())
    os.unlink(denied.ws / SECRET)
    with denied.box() as box:
        assert (
            box.call("bash", {"command": "cat twin.txt"}).data["sandbox"]["hidden"] == ()
        )  # this is its only name now
        (denied.ws / SECRET).write_text(CONTENT)
        reply = box.call("bash", {"command": f"cat {SECRET}"})
        assert not shows(reply)
        assert reply.data["sandbox"]["hidden"] == (SECRET,)


def test_a_denied_link_hides_what_it_leads_to_outside(tmp_path: Path):
    """Commands see many files of the machine that no tool shows."""
    _, denied = desks(tmp_path.resolve())
    # Below a folder that commands can see.
    outside = Path("/var/lib") if os.geteuid() == 0 else tmp_path
    target = outside / f"handhold-test-{os.getpid()}"
    target.write_text(CONTENT)
    try:
        (denied.ws / SECRET).unlink()
        (denied.ws / SECRET).symlink_to(target)
        with denied.box() as box:
            assert not shows(box.call("bash", {"command": f"cat {SECRET} {target}"}))
            assert box.call("read_file", {"path": SECRET}).code in ("DENIED", "OUTSIDE_WORKSPACE")
    finally:
        target.unlink()


@pytest.mark.root
def test_another_mount_of_the_workspace_shows_nothing(who: str, place: Path):  # noqa: F811
    """A bind mount is masked at its second place too, as long as something in it is denied."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    other = Path(f"/mnt/handhold-test-{os.getpid()}")
    part = Path(f"/opt/handhold-test-{os.getpid()}")
    free, denied = desks(place)
    for path in place.rglob("*"):
        if who == "nobody":
            os.lchown(path, 65534, 65534)

    def mount() -> None:
        for target, source in ((other, place), (part, denied.ws / "conf")):
            target.mkdir()
            subprocess.run(["mount", "--bind", source, target], check=True)

    def work() -> None:
        assert shows(tried(free, [f"cat {other}/free/ws/{SECRET}"]))
        for look in (f"{other}/denied/ws/{SECRET}", f"{other}/denied/ws/twin.txt", f"{part}/secret.txt"):
            reply = tried(denied, [f"cat {look}"])
            assert not shows(reply), reply.text

    try:
        as_user(who, work, first=mount)
    finally:
        for target in (other, part):
            if target.exists():
                target.rmdir()


@pytest.mark.parametrize("shell", ["external", "unconfined"])
def test_where_nothing_can_be_hidden_nothing_runs(tmp_path: Path, shell: str):
    _, denied = desks(tmp_path.resolve())
    with denied.box(shell=shell) as box:
        for more in ({}, {"background": True}):
            reply = box.call("bash", {"command": f"cat {SECRET}; touch ran", **more})
            assert reply.code == "NO_SHELL", reply.text
            assert SECRET in reply.text
        assert SECRET in " ".join(box.shell.sandbox.why_not)
        assert not (denied.ws / "ran").exists()
        for name in (SECRET, "twin.txt"):
            os.unlink(denied.ws / name)
        assert box.call("bash", {"command": "echo free"}).status == "success"  # nothing is left to hide


def test_too_many_to_hide_are_a_reason_not_to_run(tmp_path: Path):
    from handhold.backends.shell.masks import MAX_MASKS

    rule = Rule(
        name="many", verdict=Verdict.DENY, verbs=(Verb.READ,), paths=("s*",), because="no",
        covers=("s1",), does_not_cover=("t1",),
    )  # fmt: skip
    desk = Desk(tmp_path.resolve(), {"rules": [rule]})
    desk.ws.mkdir()
    for n in range(MAX_MASKS + 1):
        (desk.ws / f"s{n}").touch()
    with desk.box() as box:
        assert box.call("bash", {"command": "true"}).code == "NO_SHELL"
        (desk.ws / "s0").unlink()
        reply = box.call("bash", {"command": "cat s1 s300 s499; true"})
        assert reply.text.count("Permission denied") == 3
        assert (len(reply.data["sandbox"]["hidden"]), reply.data["sandbox"]["hidden_total"]) == (100, MAX_MASKS)


# --- why


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_explain_names_the_rule_for_every_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelling: str):
    """The files hidden from a command can be explained by the names in its reply."""
    from click.testing import CliRunner

    from handhold.cli.commands import handhold

    ws = tmp_path.resolve() / "ws"
    lay(ws)
    settings = tmp_path / "config/handhold/handhold.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[[rule]]\nname = "{RULE.name}"\nverdict = "deny"\nverbs = ["read"]\npaths = ["{SECRET}"]\n'
        f'because = "{RULE.because}"\ncovers = ["{SECRET}"]\nspares = ["README.md"]\n'
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("HANDHOLD_CONFIG", raising=False)
    path = SPELLINGS[spelling].format(ws=ws)
    said = CliRunner().invoke(handhold, ["explain", "--json", "--root", str(ws), "--path", path])
    assert said.exit_code == 0, said.output
    facts = json.loads(said.output)
    assert (facts["decision"], facts["rule"], facts["source"]) == ("deny", RULE.name, str(settings))


def test_r24_a_denied_link_hides_the_folder_outside_that_it_leads_to(tmp_path: Path):
    root, outside = tmp_path / "ws", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "f").write_text("SECRET")
    (root / "vault").symlink_to(outside)
    (root / ".env").symlink_to("/usr")  # what commands need to run is not hidden
    (root / ".env.local").symlink_to(tmp_path)
    rule = Rule("vault", "deny", ["read"], "kept apart", covers=["vault"], does_not_cover=["a"], paths=["vault"])
    with Toolbox.open(root, state=tmp_path / "state", settings=False, policy="open", rules=[rule]) as box:
        assert box.masked_paths() == (str(outside),)
        reply = box.call("bash", {"command": f"cat vault/f {outside}/f; echo ran"})
    assert "SECRET" not in reply.text
    assert "ran" in reply.text
