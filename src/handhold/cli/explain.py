"""Which rule decides about a path or a command, where it is written, and what it would do to others like it."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from handhold.cli import where
from handhold.cli.doctor import on_path
from handhold.cli.screen import painted
from handhold.core.choices import Mode
from handhold.core.errors import ToolError
from handhold.core.history import short
from handhold.core.ports import Judgement, Verb, Verdict
from handhold.core.text.visible import visible
from handhold.toolbox import Toolbox

if TYPE_CHECKING:
    from handhold.core.policy.rules import Rule, RulePolicy

NEAREST = 3  # examples of each kind
COLOURS: dict[str, str] = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red"}
VERBS = (Verb.READ, Verb.CHANGE, Verb.CREATE, Verb.DELETE)


@dataclass(frozen=True)
class Explanation:
    """`kind` is the class of a command, or what stands at a path."""

    asked: str
    like: str  # what examples are compared with
    kind: str
    judgement: Judgement
    place: str = ""
    verbs: tuple[tuple[Verb, Judgement], ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    patterns: tuple[str, ...] = ()
    advisory: bool = False  # commands are not kept from it here, whatever the rule says


@click.command()
@click.argument("target", required=False)
@click.option("--path", help="A path, whatever it looks like.")
@click.option("--command", help="A command, whatever it looks like. It is not run.")
@click.option(
    "--verb",
    type=click.Choice([verb.value for verb in VERBS]),
    help="What would be done to the path. Default: the worst of all.",
)
@where.root
@where.policy
@where.as_json
@where.told
def explain(
    target: str | None,
    path: str | None,
    command: str | None,
    verb: str | None,
    root: tuple[Path, ...],
    policy: Mode | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Say what would be decided about TARGET, a path or a command, by which rule, and why. Nothing is done."""
    if sum(each is not None for each in (target, path, command)) != 1:
        raise click.UsageError("give a path or a command, and only one of them")
    roots = root or (Path.cwd(),)
    if target is not None:
        path, command = (target, None) if is_path(target, roots) else (None, target)
    with box_on(roots, policy) as (box, rules):
        told = of_command(box, command or "") if path is None else of_path(box, path, Verb(verb) if verb else None)
    rule = rule_of(told.judgement, rules)
    if as_json:
        where.show(facts(told, rule, rules.remarks))
    else:
        for line in words(told, rule, rules.remarks):
            click.echo(line)
    return 0


@contextmanager
def box_on(roots: Sequence[Path], policy: Mode | None) -> "Generator[tuple[Toolbox, RulePolicy]]":
    """Tools that are only asked what they would do: they have no state, and leave none."""
    from handhold.world.files.workspace import Workspace
    from handhold.world.settings import Wanted, load
    from handhold.world.state.sqlite import SqliteStore

    store = SqliteStore.in_memory()
    files = Workspace(roots, store)
    try:
        rules = load(files.roots, Wanted(policy, "edit"))
        yield Toolbox.on(files, store, policy=rules), rules
    finally:
        files.close()


def is_path(target: str, roots: Sequence[Path]) -> bool:
    """A guess: what is there is a path; what has several words is not, nor what could be run by its name."""
    if any(os.path.lexists(os.path.join(root, target)) for root in roots):
        return True
    return not any(char.isspace() for char in target) and not on_path(target)


def of_command(box: Toolbox, command: str) -> Explanation:
    study, judgement = box.decide_command(command, contained=has_overlay() and not box.policy.connects)
    return Explanation(command, command, study.kind, judgement, commands=study.commands, patterns=study.patterns)


def of_path(box: Toolbox, path: str, verb: Verb | None) -> Explanation:
    try:
        place, look = box.files.place(path), box.files.look(path)
        verbs = tuple((each, box.decide(each, path)) for each in VERBS)
    except ToolError as error:  # outside, a loop of links, no path at all: no rule is asked
        because = f"{error.code}: it is no place in the workspace"
        return Explanation(path, path, "outside", Judgement(Verdict.DENY, because, "workspace"))
    kind = {"file": "file", "directory": "folder"}.get(look.kind, look.kind) if look else "nothing"
    there = (Verb.READ, Verb.CHANGE, Verb.DELETE) if look else (Verb.READ, Verb.CREATE)
    meant = [judgement for each, judgement in verbs if each is verb or (verb is None and each in there)]
    worst = max(meant, key=lambda each: list(Verdict).index(each.verdict))
    denied = dict(verbs)[Verb.READ].verdict is Verdict.DENY
    return Explanation(
        path, short(place, box.files.roots), kind, worst, place, verbs, advisory=denied and not contained()
    )


def contained() -> bool:
    from handhold.world.shell.abilities import abilities

    return abilities().bubblewrap is not None


def has_overlay() -> bool:
    from handhold.world.shell.abilities import abilities

    bubblewrap = abilities().bubblewrap
    return bubblewrap is not None and bubblewrap.overlay


def rule_of(judgement: Judgement, policy: "RulePolicy") -> "Rule | None":
    rules = ((rule, book) for book in policy.books for rule in book.rules)
    named = (rule for rule, book in rules if (rule.name, book.source) == (judgement.rule, judgement.source))
    return next(named, None)


def nearest(target: str, examples: Sequence[str]) -> list[str]:
    """Those that are most like it, most alike first."""
    alike = sorted(examples, key=lambda each: -SequenceMatcher(None, target, each, autojunk=False).ratio())
    return alike[:NEAREST]


# --- words


def facts(told: Explanation, rule: "Rule | None", remarks: Sequence[str]) -> dict[str, Any]:
    said = asdict(told.judgement)
    found: dict[str, Any] = {
        "decision": said.pop("verdict"),
        "class": told.kind,
        **said,
        "asked": told.asked,
        "covers": nearest(told.like, rule.covers) if rule else [],
        "spares": nearest(told.like, rule.spares) if rule else [],
        "remarks": list(remarks),
    }
    if told.verbs:
        found |= {"place": told.place, "advisory": told.advisory}
        found["verbs"] = {verb: {"decision": each.verdict, "rule": each.rule} for verb, each in told.verbs}
    if told.commands:
        found |= {"commands": told.commands, "patterns": told.patterns}
    return found


def words(told: Explanation, rule: "Rule | None", remarks: Sequence[str]) -> Iterator[str]:
    judgement = told.judgement
    verdict = painted(f"{judgement.verdict}:", COLOURS[judgement.verdict])
    yield f"{verdict} {painted(visible(told.asked), 'bold')} [{told.kind}]"
    for label, said in rows(told, rule):
        colour = COLOURS.get(said.partition(" ")[0], "")
        yield f"  {painted(f'{label:8}', 'dim')} {painted(visible(said), colour)}"
    if told.advisory:
        yield "This is advisory for commands: nothing contains them on this machine. Tools that read files obey it."
    if judgement.remedy:
        yield visible(judgement.remedy)
    yield from map(visible, remarks)


def rows(told: Explanation, rule: "Rule | None") -> Iterator[tuple[str, str]]:
    judgement = told.judgement
    written = f" ({judgement.source})" if judgement.source else ""
    yield "rule", f"{judgement.rule}{written}"
    yield "because", judgement.because
    if told.place:
        yield "place", told.place
    yield from ((verb, f"{each.verdict} ({each.rule})") for verb, each in told.verbs)
    yield from (("command", " ".join(each)) for each in told.commands)
    if rule:
        yield "covers", ", ".join(nearest(told.like, rule.covers))
        yield "spares", ", ".join(nearest(told.like, rule.spares))
