"""`handhold allow`: let commands reach a host, by a rule in the user's own settings."""

import json
from collections.abc import Iterable
from typing import TypedDict

import click

from handhold.cli import options
from handhold.core.text.display_text import to_single_line


class AllowJSON(TypedDict):
    file: str
    added: list[str]
    allowed_before: list[str]


JSON_OUTPUT = {"": AllowJSON}
RULE_NAME = "allow {host}"
BECAUSE = "allowed by `handhold allow`"
UNCOVERED_EXAMPLE = "host.invalid"  # no host has this name


@click.command()
@click.argument("hosts", nargs=-1, required=True)
@options.as_json
@options.report_errors
def allow(hosts: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001
    """Let commands reach HOSTS, in every workspace.

    A host is a name such as api.example.org, or *.example.org for all names below it. Without a port, 80 and 443 are
    allowed. Commands can send anything that they can read to an allowed host. To take it back, remove the rule from the
    settings file that is named.
    """
    from handhold.backends.settings import find_user_file
    from handhold.backends.settings.client_config import read_text, replace_file
    from handhold.backends.settings.settings_file import parse_settings
    from handhold.core.policy.hosts import BadHost, HostPattern

    for host in hosts:
        try:
            HostPattern.parse(host)
        except BadHost as error:
            raise click.UsageError(f"{to_single_line(host)} cannot be allowed: {error}.") from None
    file, _ = find_user_file()
    if not file:
        raise FileNotFoundError("There is no home folder for your settings. Set HANDHOLD_CONFIG to a file.")
    before = read_text(file, follow_links=True)
    settings = parse_settings((before or "").encode(), file)
    known = {host for rule in settings.rules if rule.verdict == "allow" for host in rule.hosts}
    added = [host for host in dict.fromkeys(hosts) if host not in known]
    if added:
        after = "\n\n".join(filter(None, [(before or "").rstrip("\n"), *map(_format_rule, added)])) + "\n"
        parse_settings(after.encode(), file)
        replace_file(file, before, after)
    if as_json:
        options.print_json(AllowJSON(file=file, added=added, allowed_before=[each for each in hosts if each in known]))
        return 0
    click.echo("\n".join(_describe(hosts, added, file)))
    return 0


def _format_rule(host: str) -> str:
    fields = {
        "name": RULE_NAME.format(host=host),
        "verdict": "allow",
        "verbs": ["connect"],
        "hosts": [host],
        "because": BECAUSE,
        "covers": [host.replace("*", "any")],
        "does_not_cover": [UNCOVERED_EXAMPLE],
    }
    return "\n".join(("[[rule]]", *(f"{name} = {json.dumps(value)}" for name, value in fields.items())))


def _describe(hosts: Iterable[str], added: Iterable[str], file: str) -> Iterable[str]:
    for host in hosts:
        yield f"{host}: {'allowed from now on' if host in added else 'was allowed already'}"
    if added:
        yield f"Commands can send there anything that they can read. The rule is in {to_single_line(file)}."
