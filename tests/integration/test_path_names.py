"""C-96 (V-3, V-4): a file is judged under every name by which it is reached, and that known links give it.

Random trees of folders, links and hard links, with renames in between, against `path_names_model.py`.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st

from handhold import Rule, Toolbox
from handhold.core.ports.policy import Verb
from tests.integration.path_names_model import hard_links, may_be_covered, must_be_covered, reached_names
from tests.scale import examples

pytestmark = pytest.mark.timeout(180)

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)  # each example opens a toolbox
# Making a tree takes long, and the fixtures of a test are the same for all its examples.
SLOW_TREES = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.differing_executors)
FOLDERS = ("a", "b", "b/d", "a/s", "s")
NAMES = ("s", "S", "k", "l", ".envrc", ".claude")
PARENTS = ("", "a", "b", "b/d")
RULES = ("s", "k", "a/s", "b/d/k", "l/k", "a/l/k")
PROTECTED = (".envrc", ".claude")
CHANGES = ("change", "create", "delete")


class Link(NamedTuple):
    parent: str
    name: str
    target: str
    absolute: bool = False
    hard: bool = False

    def make(self, root: Path) -> None:
        path, target = root / self.parent / self.name, root / self.target
        with suppress(OSError):
            if self.hard:
                os.link(target, path, follow_symlinks=False)
            else:
                path.symlink_to(target if self.absolute else os.path.relpath(target, path.parent))


class Move(NamedTuple):
    old: str
    new: str

    def make(self, root: Path) -> None:
        with suppress(OSError):
            (root / self.old).rename(root / self.new)


paths = st.builds(lambda parent, name: f"{parent}/{name}".lstrip("/"), st.sampled_from(PARENTS), st.sampled_from(NAMES))
targets = st.one_of(paths, st.sampled_from((*FOLDERS, "a/f", "b/f", "f")))
links = st.builds(
    Link,
    st.sampled_from(PARENTS),
    st.sampled_from(NAMES),
    targets,
    st.booleans(),
    st.sampled_from((False, False, True)),
)
more_links = st.lists(links, max_size=3)
moves = st.builds(Move, targets, paths)
asked_paths = st.lists(st.sampled_from((*NAMES, "a", "b", "d", "f", "..")), min_size=1, max_size=4).map("/".join)


class Case(NamedTuple):
    """A rule or protected name, and links, one of them at a path that it covers."""

    rule: str
    links: list[Link]


@st.composite
def cases(draw: st.DrawFn, rules: Sequence[str]) -> Case:
    rule = draw(st.sampled_from(rules))
    parent, _, name = rule.rpartition("/")
    link = draw(links)._replace(name=name)
    return Case(rule, [link._replace(parent=parent) if parent in PARENTS and parent else link, *draw(more_links)])


def fill(root: Path, given: Sequence[Link]) -> None:
    for folder in ("a", "b/d"):
        (root / folder).mkdir(parents=True)
    for file in ("f", "a/f", "b/f", "b/d/f"):
        (root / file).write_text(f"needle in {file}\n")
    for link in given:
        link.make(root)


def deny(verbs: Sequence[str], path: str) -> Rule:
    covered = path if "/" in path else f"x/{path}"
    return Rule(f"no {path}", "deny", map(Verb, verbs), "kept apart", [covered], ["other"], paths=[path])


def open_box(root: Path, rule: Rule, **options: Any) -> Toolbox:
    state = root.parent / "state"
    return Toolbox.open(root, state=state, settings=False, policy="open", session="s", rules=[rule], **options)


def find_files(root: Path, wanted: Sequence[str]) -> list[str]:
    """Those of some paths, and all plain ones, that lead to a file below the root."""
    everything = [os.path.relpath(os.path.join(top, name), root) for top, _, names in os.walk(root) for name in names]
    return [path for path in dict.fromkeys((*everything, *wanted)) if leads_inside(root, path)]


def leads_inside(root: Path, path: str) -> bool:
    """Whether a path leads to a file without leaving the root on its way."""
    try:
        return (root / path).is_file() and all(
            os.path.commonpath((root, os.path.realpath(root.joinpath(*path.split("/")[:n])))) == str(root)
            for n in range(1, len(path.split("/")) + 1)
        )
    except OSError:
        return False


@settings(max_examples=examples(120), deadline=None, phases=UNSHRUNK, suppress_health_check=SLOW_TREES)
@given(
    case=cases(RULES),
    later=st.lists(st.one_of(links, moves), max_size=2),
    asked=st.lists(asked_paths, max_size=4),
)
@example(case=Case("s", [Link("a", "s", "b/d/f")]), later=[], asked=[])  # known only by how it was reached
@example(case=Case("s", [Link("a", "s", "b/d", absolute=True)]), later=[Move("a/s", "a/k")], asked=["a/s/../d/f"])
@example(case=Case("b/d/k", [Link("b/d", "k", "a/f"), Link("", "l", "b/d/k")]), later=[Move("a/f", "f")], asked=[])
@example(case=Case("l/k", [Link("", "l", "a"), Link("a", "k", "b/f")]), later=[], asked=["a/k"])
def test_c96_v4_what_a_rule_denies_reading_is_read_under_no_name(
    case: Case, later: list[Link | Move], asked: list[str]
):
    with TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        fill(root, case.links)
        with open_box(root, deny(["read"], case.rule)) as box:
            for change in ((), later):
                for each in change:
                    each.make(root)
                check_reading(box, root, case.rule, asked)


def check_reading(box: Toolbox, root: Path, rule: str, asked: Sequence[str]) -> None:
    denied: set[str] = set()
    for path in find_files(root, asked):
        code = box.call("read_file", {"path": path}).code
        note(f"read {path}: {code}")
        if must_be_covered(root, rule, path):
            assert code == "DENIED", path
        if code == "DENIED":
            assert may_be_covered(root, rule, path, hard_links=True), path
            denied.add(os.path.realpath(root / path))
    shown = box.call("grep", {"pattern": "needle", "hidden": True}).text
    for path in find_files(root, ()):
        if not (root / path).is_symlink() and must_be_covered(root, rule, path):
            assert f"needle in {path}\n" not in f"{shown}\n"


@settings(max_examples=examples(120), deadline=None, phases=UNSHRUNK, suppress_health_check=SLOW_TREES)
@given(
    case=cases((*RULES, *PROTECTED)),
    later=st.lists(st.one_of(links, moves), max_size=2),
    asked=st.lists(asked_paths, max_size=4),
)
@example(case=Case(".envrc", [Link("", ".envrc", "a/f", hard=True)]), later=[], asked=[])
@example(case=Case(".envrc", [Link("a", ".envrc", "b/d/f")]), later=[], asked=[])
@example(case=Case(".claude", [Link("", ".claude", "b"), Link("b", "k", "a/f")]), later=[], asked=["b/k"])
@example(case=Case("a/s", [Link("a", "s", "b/new")]), later=[], asked=[])  # a link that leads to nothing yet
def test_c96_v4_what_a_rule_or_protected_name_covers_is_changed_and_created_under_no_name(
    case: Case, later: list[Link | Move], asked: list[str]
):
    with TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        fill(root, case.links)
        with open_box(root, deny(CHANGES, "unused" if case.rule in PROTECTED else case.rule)) as box:
            for change in ((), later):
                for each in change:
                    each.make(root)
                for path in find_files(root, asked):
                    check_changing(box, root, case.rule, path)
                for folder in dict.fromkeys(os.path.dirname(path) for path in find_files(root, asked)):
                    check_changing(box, root, case.rule, f"{folder}/new".lstrip("/"))


def check_changing(box: Toolbox, root: Path, rule: str, path: str) -> None:
    place = Path(os.path.realpath(root / path))
    names = [path, *hard_links(root, place)]
    must = any(must_be_covered(root, rule, name) for name in names)
    others = PROTECTED if rule not in PROTECTED else [each for each in PROTECTED if each != rule]
    may = any(may_be_covered(root, each, name, hard_links=True) for each in (rule, *others) for name in names)
    if place.exists():
        box.call("read_file", {"path": path})
    code = box.call("write_file", {"path": path, "content": f"needle, {path}\n"}).code
    note(f"write {path}: {code}")
    if must:
        assert code in ("DENIED", "NOT_APPROVED"), path
    if code in ("DENIED", "NOT_APPROVED"):
        assert may, path
    if path.endswith("new"):
        place.unlink(missing_ok=True)


@pytest.mark.parametrize("shell", ["contained", "brokered"])
@settings(max_examples=examples(40), deadline=None, phases=UNSHRUNK, suppress_health_check=SLOW_TREES)
@given(
    case=cases((*RULES, *PROTECTED)),
    asked=st.lists(asked_paths, max_size=2),
)
@example(case=Case("a/s", [Link("a", "s", "b/d")]), asked=["a/s/f"])
@example(case=Case(".claude", [Link("", ".claude", "b")]), asked=["b/f"])
def test_c96_v4_a_command_changes_nothing_that_a_rule_or_protected_name_covers_under_another_name(
    shell: str, case: Case, asked: list[str]
):
    with TemporaryDirectory() as folder:
        root = Path(folder) / "ws"
        fill(root, case.links)
        with open_box(root, deny(CHANGES, "unused" if case.rule in PROTECTED else case.rule), shell=shell) as box:
            for path in find_files(root, asked)[-4:]:
                place = Path(os.path.realpath(root / path))
                before, must = place.read_text(), must_be_covered(root, case.rule, list(reached_names(root, path))[-1])
                reply = box.call("bash", {"command": f"echo more >> '{path}'"})
                note(f"echo >> {path}: {reply.code} {reply.text}")
                if must:
                    assert place.read_text() == before, path
                elif not any(may_be_covered(root, each, path, hard_links=True) for each in (case.rule, *PROTECTED)):
                    assert place.read_text() != before, path
