"""`handhold trust`: show a project's rules and trust its allow rules, which have no effect before."""

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict, cast

import click

from handhold.cli import options
from handhold.core.text.display_text import to_single_line

if TYPE_CHECKING:
    from handhold.backends.settings.settings_file import FileSettings
    from handhold.core.policy.rules import Rule


class RuleJSON(TypedDict):
    """A rule, without its empty fields."""

    name: str
    verdict: str
    verbs: list[str]
    because: str
    covers: list[str]
    spares: list[str]
    paths: NotRequired[list[str]]
    commands: NotRequired[list[str]]
    hosts: NotRequired[list[str]]
    but: NotRequired[list[str]]


class TrustJSON(TypedDict):
    folder: str
    trusted: bool
    file: str
    mode: str | None
    rules: list[RuleJSON]


class ForgetJSON(TypedDict):
    folder: str
    trusted: bool
    before: bool


JSON_OUTPUT = {"": TrustJSON, "--forget": ForgetJSON}
JSON_KEYS = {"does_not_cover": "spares", "exclude": "but"}  # older names that --json keeps


@click.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), default=".")
@click.option("--forget", is_flag=True, help="Stop trusting the allow rules.")
@options.as_json
@options.report_errors
def trust(folder: Path, forget: bool, as_json: bool) -> int:  # noqa: FBT001
    """Show the rules in FOLDER/handhold.toml and trust its allow rules until the file changes.

    Deny and ask rules apply without trust. A trusted allow rule skips the question that the mode would ask; it cannot
    override your own settings.
    """
    from handhold.backends.settings import FILE_NAME
    from handhold.backends.settings.settings_file import MAX_PROJECT_FILE_BYTES, parse_settings, read_regular_file
    from handhold.backends.state import trust as records

    root = os.path.realpath(folder)
    if forget:
        was_trusted = records.forget_trust(root)
        if as_json:
            options.print_json(ForgetJSON(folder=root, trusted=False, before=was_trusted))
        else:
            click.echo(f"{to_single_line(root)} {'is no longer trusted' if was_trusted else 'was not trusted'}.")
        return 0
    file = os.path.join(root, FILE_NAME)
    data = read_regular_file(file, follow_links=False, max_bytes=MAX_PROJECT_FILE_BYTES)
    if data is None:
        raise FileNotFoundError(f"There is no {FILE_NAME} in {to_single_line(root)}.")
    settings = parse_settings(data, file, is_project=True)
    records.record_trust(root, data)
    if as_json:
        rules = [build_rule(rule) for rule in settings.rules]
        options.print_json(TrustJSON(folder=root, trusted=True, file=file, mode=settings.mode, rules=rules))
        return 0
    for line in format_rules(settings):
        click.echo(to_single_line(line))
    click.echo(f"{to_single_line(file)} is now trusted until it changes.")
    return 0


def build_rule(rule: "Rule") -> RuleJSON:
    values: dict[str, Any] = {JSON_KEYS.get(each.name, each.name): getattr(rule, each.name) for each in fields(rule)}
    return cast(RuleJSON, {name: value for name, value in values.items() if value})


def format_rules(settings: "FileSettings") -> Iterator[str]:
    if settings.mode:
        yield f"mode {settings.mode}, unless yours is stricter"
    for rule in settings.rules:
        yield f"{rule.verdict} {', '.join(rule.verbs)}: {', '.join((*rule.paths, *rule.commands, *rule.hosts))}"
        if rule.exclude:
            yield f"    except {', '.join(rule.exclude)}"
        yield f"    {rule.name}: {rule.because}"
    if not settings.mode and not settings.rules:
        yield "The file sets no mode and no rules."
