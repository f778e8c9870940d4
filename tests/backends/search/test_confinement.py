"""R-12: a search reveals nothing about a hidden file or one outside the folder, even if entries are swapped."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from handhold import Toolbox
from handhold.backends.files.workspace import Workspace
from handhold.backends.search.confinement import confine, find_needed_files, find_unconfined_reason
from handhold.backends.search.ripgrep import RipgrepSearch
from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep
from handhold.backends.search.search_folder import open_search_folder
from handhold.backends.state.sqlite import SqliteStore
from handhold.core.facts import SearchOutcome
from handhold.core.plans import Search
from handhold.core.policy.rules import Rule
from handhold.core.ports.policy import Verb, Verdict
from handhold.core.requests import Grep
from tests.backends.search.looking import looking, planted
from tests.scale import scaled

TOKEN = "tok_5f3a"
CALLS = scaled(10, 60)
RULE = Rule(
    name="a vault",
    verdict=Verdict.DENY,
    verbs=(Verb.READ,),
    paths=("secrets/**",),
    because="it is private",
    covers=("secrets/vault.txt",),
    does_not_cover=("open.txt",),
)


def ripgrep() -> RipgrepBinary:
    program = find_ripgrep()
    if not isinstance(program, RipgrepBinary):
        pytest.skip(program)
    if why := find_unconfined_reason(program.path):
        pytest.skip(why)
    return program


@pytest.fixture(scope="module")
def swap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (cc := shutil.which("cc")):
        pytest.skip("no C compiler to build swap.c with")
    built = tmp_path_factory.mktemp("swap") / "swap"
    subprocess.run([cc, "-O2", "-o", built, Path(__file__).parents[2] / "faults/swap.c"], check=True)
    return built


@contextmanager
def swapping(swap: Path, one: Path, other: Path) -> Iterator[None]:
    program = subprocess.Popen([swap, one, other])
    try:
        yield
    finally:
        program.kill()
        program.wait()


MODES: dict[str, dict[str, Any]] = {
    "files": {"mode": "files_with_matches"},
    "files, newest first": {"mode": "files_with_matches", "sort": "modified"},
    "counts": {"mode": "count"},
    "lines": {"mode": "content"},
    "lines around": {"mode": "content", "before": 1, "after": 1},
    "a regular expression": {"mode": "files_with_matches", "regex": True},
    "counts by a regular expression": {"mode": "count", "regex": True},
    "the file by its name": {"mode": "files_with_matches", "below": "shift"},
}


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("mode", MODES)
def test_r12_a_file_that_changes_places_with_a_link_tells_nothing_of_where_it_leads(
    tmp_path: Path, swap: Path, mode: str
):
    ripgrep()
    ws = planted(tmp_path / "ws", {"shift": "nothing\n" * 40, "other": "nothing\n"})
    (tmp_path / "private").write_text(f"{TOKEN}\n" + "x" * 70_000 + TOKEN + "\n")
    (ws / "spare").symlink_to(tmp_path / "private")
    shown: list[SearchOutcome] = []
    with swapping(swap, ws / "shift", ws / "spare"), looking(ws, "ripgrep") as look:
        for _ in range(CALLS):
            try:
                shown.append(look.grep(TOKEN, **{"sort": "none", **MODES[mode]}))
            except Exception:  # noqa: BLE001 — the name of a link that leads outside, or of a file that is none
                assert "below" in MODES[mode]
    assert not [scan.hits for scan in shown if scan.hits]


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_r12_names_in_a_folder_outside_are_not_found_through_a_link_that_changes_places(tmp_path: Path, swap: Path):
    ripgrep()
    ws = planted(tmp_path / "ws", {"shift/a": "x\n"})
    planted(tmp_path / "private", {f"{TOKEN}{n}": "x\n" for n in range(50)})
    (ws / "spare").symlink_to(tmp_path / "private")
    with swapping(swap, ws / "shift", ws / "spare"), looking(ws, "ripgrep") as look:
        for pattern in ("**/tok*", "shift/*"):
            for _ in range(CALLS):
                scan = look.glob(pattern)
                assert not [name for name in look.names(scan) if TOKEN in name]
                assert scan.unstable_count <= 1  # if the names had been seen, fifty would be missing


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("tool", ["glob", "grep"])
def test_r12_names_in_a_denied_folder_are_not_counted_through_a_link_that_changes_places(
    tmp_path: Path, swap: Path, tool: str
):
    ripgrep()
    ws = planted(tmp_path / "ws", {"shift/a": "x\n", "secrets/vault.txt": "x\n"})
    (ws / "spare").symlink_to("secrets")
    arguments = {"glob": {"pattern": "shift/v*"}, "grep": {"pattern": "x", "glob": "v*"}}[tool]
    options = {"policy": "open", "settings": False, "rules": [RULE]}
    with (
        swapping(swap, ws / "shift", ws / "spare"),
        Toolbox.open(ws, state=tmp_path / "state", **options) as box,  # pyright: ignore[reportArgumentType]
    ):
        for _ in range(CALLS):
            reply = box.call(tool, arguments)
            assert not reply.data["paths"]
            assert reply.data["unsteady"] == 0
            assert {each["rule"] for each in reply.data["skipped"]} <= {"denied", "unreadable"}


# --- without a race


def test_r12_a_search_program_can_open_nothing_but_what_it_searches(tmp_path: Path):
    """Even a failed match reveals something, so the search program may not read any other file."""
    ripgrep()
    cat = shutil.which("cat") or ""
    ws = planted(tmp_path / "ws", {"a": "1", "sub/b": "2", "secrets/vault.txt": "3", "secrets/spared": "4", "c d": "5"})
    (tmp_path / "private").write_text("6")
    (ws / "link").symlink_to("../private")
    (ws / "way").symlink_to("secrets")
    os.link(ws / "secrets/vault.txt", ws / "sub/twin")
    rule = replace(RULE, exclude=("secrets/spared",))
    options = {"policy": "open", "settings": False, "rules": [rule]}
    with Toolbox.open(ws, state=tmp_path / "state", **options) as box:  # pyright: ignore[reportArgumentType]
        assert isinstance(box.files, Workspace)
        with open_search_folder(box.files, str(ws), lambda _: True, box.hidden_paths) as (folder, _):
            argv = confine(folder, cat, b"", ignored=False)
            named = confine(folder, cat, b"a", ignored=False)

        def reads(argv: list[str | bytes], *paths: str) -> str:
            return subprocess.run([*argv, cat, *paths], cwd=ws, capture_output=True, text=True, check=False).stdout

        assert reads(argv, "a", "sub/b", "secrets/spared", "c d") == "1245"
        for path in (
            "secrets/vault.txt",
            "sub/twin",
            "way/vault.txt",
            "link",
            "../private",
            "/etc/hostname",
            "/proc/1/environ",
        ):
            assert reads(argv, path) == ""
        assert reads(named, "a", "sub/b") == "1"
        bare = reads([], "secrets/vault.txt", "sub/twin", "way/vault.txt", "link")
        assert bare == "3336"  # otherwise the test proves nothing


@contextmanager
def searching(root: Path, program: str) -> Iterator[Callable[..., SearchOutcome]]:
    """Searches with another program instead of ripgrep."""
    workspace = Workspace([root], SqliteStore.in_memory())

    def search(pattern: str, **how: Any) -> SearchOutcome:
        request = Grep(pattern=pattern, limit=100, chars=10_000, **how)
        plan = Search(request, workspace.roots[0], 20.0)
        return RipgrepSearch(workspace, RipgrepBinary(program, "15.0")).search(plan, lambda _: True, monotonic() + 20)

    try:
        yield search
    finally:
        workspace.close()


LIES = {
    "files": ({"mode": "files_with_matches"}, "printf './%s\\0' match plain gone link"),
    "files, newest first": ({"mode": "files_with_matches", "sort": "modified"}, "printf './%s\\0' match plain gone link"),
    "counts": ({"mode": "count"}, "printf './%s\\0007\\n' match plain gone link"),
    "lines": ({"mode": "content"}, "cat"),
}  # fmt: skip
LINE = (
    '{{"type":"begin","data":{{"path":{{"text":"./{name}"}}}}}}\n'
    '{{"type":"match","data":{{"path":{{"text":"./{name}"}},"lines":{{"text":"{token}\\n"}},"line_number":{number},'
    '"absolute_offset":{offset},"submatches":[{{"match":{{"text":"{token}"}},"start":0,"end":8}}]}}}}\n'
    '{{"type":"end","data":{{"path":{{"text":"./{name}"}},"binary_offset":null}}}}\n'
)


@pytest.mark.parametrize("lie", LIES)
def test_r12_a_hit_is_shown_only_if_the_file_at_that_place_matches(tmp_path: Path, lie: str):
    """A program that reports the same hit in files that do not match, are gone, or have become links."""
    ws = planted(tmp_path / "ws", {"match": f"one\n{TOKEN}\n", "plain": "one\ntwo\n", "else": f"one\n{TOKEN}\n"})
    (ws / "link").symlink_to("else")
    how, say = LIES[lie]
    if say == "cat":
        said = "".join(LINE.format(name=n, token=TOKEN, number=2, offset=4) for n in ("match", "plain", "gone", "link"))
        # Another line number: that of another file's line.
        said += LINE.format(name="else", token=TOKEN, number=9, offset=4)
        (ws / "said").write_text(said)
        say = "cat ./said"
    program = tmp_path / "program"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\n{say}\n')
    program.chmod(0o755)
    with searching(ws, str(program)) as search:
        scan = search(TOKEN, **how)
    assert [os.path.basename(hit.place) for hit in scan.hits] == ["match"]
    if lie == "counts":
        assert scan.hits[0].count == 1  # and not seven


def test_r12_a_match_in_a_line_too_long_to_be_compared_is_looked_for_again(tmp_path: Path):
    """Its length and position could be those of another file's line."""
    program = ripgrep()
    inside = "x" * 100_000 + "\n"
    ws = planted(tmp_path / "ws", {"a": inside})
    planted(tmp_path / "other", {"a": inside.replace("xx\n", "y.\n")})
    script = tmp_path / "program"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exit 0\ncase "$*" in */proc/self/fd/*) exec {program.path} "$@";; esac\n'
                      f"cat ./said\n")  # fmt: skip
    script.chmod(0o755)
    bare = [program.path, "--no-config", "--json", "-e", "y[.]", "./a"]
    (ws / "said").write_bytes(subprocess.run(bare, cwd=tmp_path / "other", capture_output=True, check=True).stdout)
    with searching(ws, str(script)) as search:
        for pattern in ("y.", "y[.]"):
            assert not search(pattern, mode="content", regex=pattern != "y.", glob="a").hits


@pytest.mark.parametrize("engine", ["ripgrep", "walk"])
@pytest.mark.parametrize("where", ["outside", "denied", "denied, by a second name"])
def test_r12_lines_of_a_private_file_are_no_ignore_rules(tmp_path: Path, engine: str, where: str):
    """Otherwise a file named like one of its lines would not be found."""
    from handhold.backends.search import DiskSearch

    ripgrep()
    ws = planted(tmp_path / "ws", {"secrets/vault.txt": f"{TOKEN}\n", TOKEN: "needle\n", "other": "needle\n"})
    (ws / ".git").mkdir()
    (tmp_path / "private").write_text(f"{TOKEN}\n")
    if where == "denied, by a second name":
        os.link(ws / "secrets/vault.txt", ws / ".gitignore")
    else:
        (ws / ".gitignore").symlink_to(tmp_path / "private" if where == "outside" else "secrets/vault.txt")
    options = {"policy": "open", "settings": False, "rules": [RULE]}
    with Toolbox.open(ws, state=tmp_path / "state", **options) as box:  # pyright: ignore[reportArgumentType]
        box.searcher = DiskSearch(box.files, engines=(engine,))  # pyright: ignore[reportArgumentType]
        assert sorted(box.call("grep", {"pattern": "needle"}).data["paths"]) == ["other", TOKEN]
        assert TOKEN in box.call("glob", {"pattern": "*"}).data["paths"]


def test_r12_what_is_hidden_is_neither_opened_nor_counted(tmp_path: Path):
    """Ripgrep cannot open it; the reply is as if it did not exist, except for the count that is always shown."""
    ripgrep()
    ws = planted(tmp_path / "ws", {"secrets/vault.txt": TOKEN, "secrets/more/deep.txt": TOKEN, "a/b": TOKEN, "c": "x"})
    options = {"policy": "open", "settings": False, "rules": [RULE]}
    with Toolbox.open(ws, state=tmp_path / "state", **options) as box:  # pyright: ignore[reportArgumentType]
        for mode in ("files_with_matches", "content", "count"):
            reply = box.call("grep", {"pattern": TOKEN, "mode": mode})
            assert "secrets" not in str(reply.data)
            assert (reply.data["unsteady"], reply.data["skipped"]) == (0, [])
        missed = box.call("grep", {"pattern": "nowhere"})
        assert missed.data["searched"] == 2
        assert [each["rule"] for each in missed.data["skipped"]] == ["denied"]


def test_r12_ignore_files_above_the_folder_still_count(tmp_path: Path):
    ripgrep()
    planted(tmp_path, {".ignore": "above\n", "ws/.ignore": "below\n", "ws/sub/above": "needle\n"})
    planted(tmp_path / "ws/sub", {"below": "needle\n", "other": "needle\n"})
    for root, below in ((tmp_path / "ws", "sub"), (tmp_path / "ws/sub", "")):
        with looking(root, "ripgrep") as look:
            assert [os.path.basename(name) for name in look.names(look.grep("needle", below=below))] == ["other"]


def test_r12_a_program_that_cannot_be_confined_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A failed probe does not permit an unconfined search; the next search probes again."""
    program = ripgrep()
    planted(tmp_path, {"a": "needle\n"})
    find_needed_files.cache_clear()
    with looking(tmp_path) as look, monkeypatch.context() as failing:
        failing.setattr("handhold.backends.search.confinement.can_start", lambda _: False)
        scan = look.grep("needle")
        assert look.names(scan) == ["a"]
        assert scan.engine.startswith("the built-in search")
        assert "does not start under Landlock" in scan.fallback_reason
        assert find_unconfined_reason(program.path)
    with looking(tmp_path) as look:
        assert look.grep("needle").engine.startswith("ripgrep")
