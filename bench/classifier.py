"""How often the command classifier and a simple one decide differently, and where the difference matters.

python -m bench.classifier [--show CORPUS | --without]

Commands are classified and never run. Two simple classifiers parse a command with the same grammar, look up each
program and its first argument in one table, and classify what they cannot parse as unknown. *names* does no more.
*names and paths* also classifies a path outside the workspace or a protected name as dangerous, and a word that the
shell would expand as unknown.

Verdicts are those of the default mode with nobody to ask. *asks*: ours asks. *laxer*: ours asks and the simple one
allows; *harm*: how many of those do harm that nothing else stops in that run mode. *stricter*: the reverse;
*questions*: how many of those are about harmless commands.

`--without` removes one part of ours at a time, and lists the hostile commands that are then allowed (on the overlay,
and unconfined) and the harmless and everyday commands that then ask.
"""

import argparse
import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from handhold.core.policy.modes import ModePolicy
from handhold.core.policy.shell import (
    CLASSES_BY_SEVERITY,
    ShellContext,
    analyze_command,
    arithmetic,
    predicted_output,
    programs,
    variables,
)
from handhold.core.policy.shell.analyzer import ShellAnalyzer
from handhold.core.policy.shell.grammar import AnalysisError, SyntaxTree, iter_nodes
from handhold.core.policy.shell.invisible import find_invisible
from handhold.core.policy.shell.paths import classify_path, looks_like_path
from handhold.core.policy.shell.programs import DANGEROUS_PROGRAMS, git, interpreters, packages, wrappers
from handhold.core.policy.shell.simple_command import SimpleCommand
from handhold.core.policy.shell.words import split_words
from handhold.core.ports.policy import CommandAnalysis, CommandClass, Verdict

TESTS = Path(__file__).parents[1] / "tests"
STANDING = ShellContext(roots=("/ws/project",), cwd="/ws/project", home="/home/user")
HARMLESS = ("read-only", "workspace-write")
FORMAT = "{:<20} {:<16} {:<11} {:>5} {:>5} {:>5} {:>5} {:>5} {:>8} {:>9}"

UNSTOPPED: dict[str, frozenset[str]] = {
    "overlay": frozenset(),  # the sandbox protects what is outside; the rest is reviewed before it is applied
    "network": frozenset(("network",)),  # the same, with a network
    "background": frozenset(("mass-delete",)),  # sandboxed, protected names locked, but on the workspace itself
    # No containment:
    "direct": split_words("network mass-delete protected-name delete-outside write-outside read-secret persist"),
}
"""The effects that only the command classifier can stop, by run mode."""


@dataclass(frozen=True)
class Command:
    text: str
    effects: frozenset[str]  # empty: harmless; several: the list does not say which


# --- the simple classifiers

WRAPPERS = split_words("env xargs parallel find flock watch entr hyperfine eval source . exec su script").union(
    wrappers.WRAPPER_VALUE_OPTIONS
)
INTERPRETERS = (*interpreters.SHELLS, *interpreters.OTHER_SHELLS, *interpreters.INTERPRETERS)
PROGRAMS: dict[str, CommandClass] = {
    **dict.fromkeys((*WRAPPERS, *INTERPRETERS), "unknown"),
    **dict.fromkeys(packages.NETWORK_PROGRAMS, "network"),
    **dict.fromkeys((*DANGEROUS_PROGRAMS, *wrappers.DANGEROUS_WRAPPERS), "dangerous"),
    **{f"git {verb}": "network" for verb in git.NETWORK_COMMANDS},
    **{f"git {verb}": "dangerous" for verb in git.CODE_COMMANDS},
    **{
        f"{name} {verb}": "network"
        for name, each in packages.PACKAGE_MANAGERS.items()
        for verb in each.network_commands
    },
    **{
        f"{name} {verb}": "dangerous"
        for name, each in packages.PACKAGE_MANAGERS.items()
        for verb in each.dangerous_commands
    },
}
SPELLED = ("word", "number", "raw_string", "string_content")
EXPANDED = ("simple_expansion", "expansion", "command_substitution", "ansi_c_string", "brace_expression")


def classify_simply(text: str, *, paths: bool) -> CommandAnalysis:
    if unseen := find_invisible(text):
        return CommandAnalysis(text, "unknown", "", invisible=unseen)
    source = SyntaxTree.from_text(text)
    found: list[CommandClass] = ["unknown" if source.root.has_error else "read-only"]
    for node in iter_nodes(source.root):
        if node.type == "command":
            name, *words = [part for part in node.named_children if part.type != "variable_assignment"]
            known = [part.type for part in name.named_children] == ["word"]
            program = interpreters.normalize_program_name(source.get_text(name).rpartition("/")[2])
            verb = f"{program} {source.get_text(words[0])}" if words else program
            found.append(PROGRAMS.get(program, PROGRAMS.get(verb, "workspace-change")) if known else "unknown")
        elif paths and node.type in SPELLED:
            spelled = source.get_text(node).strip("'")
            at = classify_path(spelled, STANDING.cwd, STANDING)
            outside = looks_like_path(spelled) and at.region in ("home", "outside", "private", "root")
            if outside or at.protection_reason:
                found.append("dangerous")
        elif paths and node.type in EXPANDED:
            found.append("unknown")
    return CommandAnalysis(
        text, max(found, key=CLASSES_BY_SEVERITY.index), "", connects="yes" if "network" in found else ""
    )


# --- the corpora


def read_corpora() -> dict[str, list[Command]]:
    known, hostile, ours = (
        json.loads((TESTS / f"core/policy/{name}.json").read_text(encoding="utf-8"))
        for name in ("known_commands", "hostile_commands", "commands")
    )
    rows = {"effect": [*map(_command, hostile)], "": [*map(_command, (*known, *ours))]}
    return {
        "hostile": [row for row in rows["effect"] if row.effects],
        "hostile, no effect": [row for row in rows[""] if row.effects],
        "harmless": [row for each in rows.values() for row in each if not row.effects],
        "everyday": list(dict.fromkeys(_everyday())),
    }


def _command(row: dict[str, Any]) -> Command:
    """If a list does not name the effect, it may be any except those that only connect."""
    if row["expect"] in HARMLESS:
        return Command(row["command"], frozenset())
    kind = row["effect"]["kind"] if "effect" in row else "network" if row["expect"] == "network" else ""
    return Command(row["command"], frozenset((kind,)) if kind else UNSTOPPED["direct"])


def _everyday() -> Iterator[Command]:
    """All rows except those that say that a person is asked."""
    for group in tomllib.loads((TESTS / "integration/everyday_commands.toml").read_text(encoding="utf-8"))["group"]:
        for row in group["commands"]:
            if isinstance(row, str) or "refused" not in row:
                yield Command(row if isinstance(row, str) else row["command"], frozenset())
    for file in sorted((TESTS / "everyday/workloads").glob("*.toml")):
        for workload in tomllib.loads(file.read_text(encoding="utf-8")).get("workload", ()):
            texts = [row if isinstance(row, str) else row.get("background", "") for row in workload["commands"]]
            yield from (Command(text, frozenset()) for text in texts if text and "asks" not in workload)


# --- the comparison


def is_allowed(found: CommandAnalysis, mode: str) -> bool:
    return ModePolicy("edit").decide_command(replace(found, contained=mode == "overlay")).verdict is Verdict.ALLOW


def compare(command: Command, ours: CommandAnalysis, simple: CommandAnalysis, mode: str) -> str:
    if is_allowed(ours, mode) == is_allowed(simple, mode):
        return "same"
    if is_allowed(simple, mode):
        return "harm" if command.effects & UNSTOPPED[mode] else "laxer"
    return "stricter" if command.effects else "questions"


# --- without a part


def _unknown(call: SimpleCommand) -> None:
    call.report_unknown("it is not looked into")


def _unsure(*_: object) -> None:
    raise AnalysisError("it is not looked into")


def _nothing(*_: object, **_named: object) -> None:
    pass


PARTS = {
    "values of variables": patch.object(ShellAnalyzer, "_lookup", _nothing),
    "names that are printed": patch.object(predicted_output, "_is_names_only", _nothing),
    "numbers in arithmetic": patch.object(arithmetic, "evaluate", _unsure),
    "harmless values of PATH …": patch.object(variables, "HARMLESS_VALUES", ()),
    "scripts of sed": patch.dict(programs.PROGRAM_HANDLERS, sed=_unknown),
    "programs of awk": patch.dict(programs.PROGRAM_HANDLERS, awk=_unknown),
    "options of git": patch.object(git, "_analyze_options", _nothing),
    "settings and code of git": patch.object(git, "_analyze_subcommand", _nothing),
    "paths among arguments": patch.object(SimpleCommand, "check_path_arguments", _nothing),
    "programs that run others": patch.dict(
        programs.PROGRAM_HANDLERS, dict.fromkeys(WRAPPERS | interpreters.SHELLS, _unknown)
    ),
}


def print_without() -> None:
    """The names of rows as in the comparison: `laxer` on the overlay and directly, `questions` directly."""
    corpora = read_corpora()
    judged = {
        corpus: [analyze_command(each.text, STANDING) for each in commands] for corpus, commands in corpora.items()
    }
    form = "{:<26} {:>14} {:>14} {:>10} {:>10}"
    print(form.format("without", "laxer, overlay", "laxer, direct", "harmless", "everyday"))
    for part, without in PARTS.items():
        many: Counter[str] = Counter()
        with without:
            for corpus, commands in corpora.items():
                for command, before in zip(commands, judged[corpus], strict=True):
                    after = analyze_command(command.text, STANDING)
                    for mode in ("overlay", "direct"):
                        change = is_allowed(after, mode) - is_allowed(before, mode)
                        many[f"{corpus.split(',')[0]} {mode} {change}"] += 1
        keys = ("hostile overlay 1", "hostile direct 1", "harmless direct -1", "everyday direct -1")
        print(form.format(part, *(many[key] for key in keys)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--show", metavar="CORPUS", help="list the commands on which they differ when unconfined")
    parser.add_argument("--without", action="store_true", help="remove one part of ours at a time")
    options = parser.parse_args()
    if options.without:
        print_without()
        return
    print(
        FORMAT.format("corpus", "simple", "run mode", "all", "asks", "same", "laxer", "harm", "stricter", "questions")
    )
    for corpus, commands in read_corpora().items():
        ours = [analyze_command(each.text, STANDING) for each in commands]
        for name in ("names", "names and paths"):
            simple = [classify_simply(each.text, paths=name != "names") for each in commands]
            for mode in UNSTOPPED:
                found = [compare(*each, mode) for each in zip(commands, ours, simple, strict=True)]
                many = Counter(found)
                laxer, stricter = many["laxer"] + many["harm"], many["stricter"] + many["questions"]
                counts = (len(commands), sum(not is_allowed(each, mode) for each in ours), many["same"])
                print(FORMAT.format(corpus, name, mode, *counts, laxer, many["harm"], stricter, many["questions"]))
                if options.show == corpus and mode == "direct":
                    for how, each in zip(found, commands, strict=True):
                        print(end="" if how == "same" else f"  {how}: {each.text!r}\n")


if __name__ == "__main__":
    main()
