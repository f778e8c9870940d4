"""`handhold explain`: the policy decision for a path or a command, and the rule behind it."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, NotRequired, TypedDict

import click

from handhold.cli import options
from handhold.cli.programs import find_on_path
from handhold.cli.terminal import colour_text
from handhold.core.change_diff import shorten_path
from handhold.core.choices import Mode
from handhold.core.errors import NoShell, ToolError
from handhold.core.ports.policy import Decision, Verb, Verdict
from handhold.core.text.display_text import escape_invisible
from handhold.toolbox import Toolbox

if TYPE_CHECKING:
    from handhold.backends.files.roots import Root
    from handhold.core.policy.rule_policy import RulePolicy
    from handhold.core.policy.rules import Rule

MAX_EXAMPLES = 3  # examples of each kind
VERDICT_COLOURS: dict[str, str] = {Verdict.ALLOW: "green", Verdict.ASK: "yellow", Verdict.DENY: "red"}
KIND_LABELS = {"nothing": "does not exist", "outside": "outside the workspace"}
PATH_VERBS = (Verb.READ, Verb.CHANGE, Verb.CREATE, Verb.DELETE)


@dataclass(frozen=True)
class Explanation:
    """`kind` is the class of a command, or the type of the file at a path."""

    target: str
    comparable: str  # what examples are compared with
    kind: str
    decision: Decision
    place: str = ""
    verb_decisions: tuple[tuple[Verb, Decision], ...] = ()
    commands: tuple[tuple[str, ...], ...] = ()
    patterns: tuple[str, ...] = ()
    is_advisory: bool = False  # there is no sandbox here, so the rule does not bind commands


class VerbJSON(TypedDict):
    decision: Verdict
    rule: str


# Not a class, because one field has the name of a keyword.
ExplainJSON = TypedDict(
    "ExplainJSON",
    {
        "decision": Verdict,
        "class": str,
        "because": str,
        "rule": str,
        "source": str,
        "remedy": str,
        "asked": str,
        "covers": list[str],
        "spares": list[str],
        "remarks": list[str],
        "place": NotRequired[str],
        "advisory": NotRequired[bool],
        "verbs": NotRequired[dict[Verb, VerbJSON]],
        "commands": NotRequired[tuple[tuple[str, ...], ...]],
        "patterns": NotRequired[tuple[str, ...]],
    },
)
JSON_OUTPUT = {"": ExplainJSON}


@click.command()
@click.argument("target", required=False)
@click.option("--path", help="Explain this path.")
@click.option("--command", help="Explain this command. It is not run.")
@click.option(
    "--verb",
    type=click.Choice([verb.value for verb in PATH_VERBS]),
    help="What is done to the path. Default: the action with the strictest decision.",
)
@options.root
@options.policy
@options.as_json
@options.report_errors
def explain(
    target: str | None,
    path: str | None,
    command: str | None,
    verb: str | None,
    root: tuple[Path, ...],
    policy: Mode | None,
    as_json: bool,  # noqa: FBT001
) -> int:
    """Explain what the policy decides for TARGET, a path or a command, and which rule decides. Nothing is run.

    TARGET is guessed to be a path or a command; use --path or --command to be explicit.
    """
    if sum(each is not None for each in (target, path, command)) != 1:
        raise click.UsageError("Give exactly one of TARGET, --path and --command.")
    roots = root or (Path.cwd(),)
    if target is not None:
        path, command = (target, None) if is_path(target, roots) else (None, target)
    with open_stateless_toolbox(roots, policy) as (box, rules, opened):
        explanation = (
            explain_command(box, opened, command or "")
            if path is None
            else explain_path(box, path, Verb(verb) if verb else None)
        )
    rule = find_rule(explanation.decision, rules)
    if as_json:
        options.print_json(build_facts(explanation, rule, rules.warnings))
    else:
        for line in format_explanation(explanation, rule, rules.warnings):
            click.echo(line)
    return 0


@contextmanager
def open_stateless_toolbox(
    roots: Sequence[Path], policy: Mode | None
) -> "Generator[tuple[Toolbox, RulePolicy, Sequence[Root]]]":
    """A toolbox for asking the policy, which keeps no state on disk; its policy and its roots."""
    from handhold.backends.files.workspace import Workspace
    from handhold.backends.settings import CodeSettings, load_policy
    from handhold.backends.state.sqlite import SqliteStore

    store = SqliteStore.in_memory()
    files = Workspace(roots, store)
    try:
        rules = load_policy(files.roots, CodeSettings(policy, "edit"))
        yield Toolbox.on(files, store, policy=rules), rules, files.open_roots
    finally:
        files.close()


def is_path(target: str, roots: Sequence[Path]) -> bool:
    """Guess: an existing file is a path; text with spaces and names of programs are commands."""
    if any(os.path.lexists(os.path.join(root, target)) for root in roots):
        return True
    return not any(char.isspace() for char in target) and not find_on_path(target)


def explain_command(box: Toolbox, roots: "Sequence[Root]", command: str) -> Explanation:
    no_undo = explain_no_undo(roots)
    analysis, decision = box.decide_command(command, contained=True, no_undo=no_undo)
    return Explanation(
        command, command, analysis.kind, decision, commands=analysis.commands, patterns=analysis.patterns
    )


def explain_path(box: Toolbox, path: str, verb: Verb | None) -> Explanation:
    try:
        place, stat = box.files.resolve(path), box.files.stat(path)
        verbs = tuple((each, box.decide(each, path)) for each in PATH_VERBS)
    except ToolError as error:  # outside the workspace, a symlink loop, or an invalid path: no rule applies
        because = f"tools can reach only paths in the workspace ({error.code})"
        return Explanation(path, path, "outside", Decision(Verdict.DENY, because, "workspace"))
    kind = {"file": "file", "directory": "folder"}.get(stat.kind, stat.kind) if stat else "nothing"
    applicable_verbs = (Verb.READ, Verb.CHANGE, Verb.DELETE) if stat else (Verb.READ, Verb.CREATE)
    decisions = [decision for each, decision in verbs if each is verb or (verb is None and each in applicable_verbs)]
    worst = max(decisions, key=lambda each: list(Verdict).index(each.verdict))
    is_read_denied = dict(verbs)[Verb.READ].verdict is Verdict.DENY
    return Explanation(
        path,
        shorten_path(place, box.files.roots),
        kind,
        worst,
        place,
        verbs,
        is_advisory=is_read_denied and not has_sandbox(),
    )


def has_sandbox() -> bool:
    from handhold.backends.shell.sandbox_support import detect_sandbox_support

    return detect_sandbox_support().bubblewrap is not None


def explain_no_undo(roots: "Sequence[Root]") -> str:
    """Why what a command changes could not be undone; empty if it can."""
    from handhold.backends.shell import obstacles

    try:
        return obstacles.explain_no_undo(roots)
    except NoShell as error:
        return error.because


def find_rule(decision: Decision, policy: "RulePolicy") -> "Rule | None":
    rules = ((rule, rule_set) for rule_set in policy.rule_sets for rule in rule_set.rules)
    named = (rule for rule, rule_set in rules if (rule.name, rule_set.source) == (decision.rule, decision.source))
    return next(named, None)


def find_nearest(target: str, examples: Sequence[str]) -> list[str]:
    """The examples most similar to the target, most similar first."""
    alike = sorted(examples, key=lambda each: -SequenceMatcher(None, target, each, autojunk=False).ratio())
    return alike[:MAX_EXAMPLES]


# --- output


def build_facts(explanation: Explanation, rule: "Rule | None", remarks: Sequence[str]) -> ExplainJSON:
    decision = explanation.decision
    found: ExplainJSON = {
        "decision": decision.verdict,
        "class": explanation.kind,
        "because": decision.because,
        "rule": decision.rule,
        "source": decision.source,
        "remedy": decision.remedy,
        "asked": explanation.target,
        "covers": find_nearest(explanation.comparable, rule.covers) if rule else [],
        "spares": find_nearest(explanation.comparable, rule.does_not_cover) if rule else [],
        "remarks": list(remarks),
    }
    if explanation.verb_decisions:
        found["place"], found["advisory"] = explanation.place, explanation.is_advisory
        found["verbs"] = {
            verb: VerbJSON(decision=each.verdict, rule=each.rule) for verb, each in explanation.verb_decisions
        }
    if explanation.commands:
        found["commands"], found["patterns"] = explanation.commands, explanation.patterns
    return found


def format_explanation(explanation: Explanation, rule: "Rule | None", remarks: Sequence[str]) -> Iterator[str]:
    decision = explanation.decision
    verdict = colour_text(f"{decision.verdict}:", VERDICT_COLOURS[decision.verdict])
    kind = KIND_LABELS.get(explanation.kind, explanation.kind)
    yield f"{verdict} {colour_text(escape_invisible(explanation.target), 'bold')} [{kind}]"
    for label, text in list_rows(explanation, rule):
        colour = VERDICT_COLOURS.get(text.partition(" ")[0], "")
        yield f"  {colour_text(f'{label:8}', 'dim')} {colour_text(escape_invisible(text), colour)}"
    if explanation.is_advisory:
        yield "Advisory for commands: there is no sandbox on this machine. File tools follow the rule."
    if decision.remedy:
        yield escape_invisible(decision.remedy)
    yield from map(escape_invisible, remarks)


def list_rows(explanation: Explanation, rule: "Rule | None") -> Iterator[tuple[str, str]]:
    decision = explanation.decision
    source = f" ({decision.source})" if decision.source else ""
    yield "rule", f"{decision.rule}{source}"
    yield "because", decision.because
    if explanation.place:
        yield "path", explanation.place
    yield from ((verb, f"{each.verdict} ({each.rule})") for verb, each in explanation.verb_decisions)
    yield from (("command", " ".join(each)) for each in explanation.commands)
    if rule:
        yield "covers", ", ".join(find_nearest(explanation.comparable, rule.covers))
        yield "excludes", ", ".join(find_nearest(explanation.comparable, rule.does_not_cover))
