"""`handhold serve`: the tools over HTTP, for clients that bring a token."""

import os
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Unpack

import click

from handhold.cli.served import Options, serving, what_is_served
from handhold.core.errors import SettingsBroken
from handhold.dialects.plain import plain

if TYPE_CHECKING:
    from handhold.server.serving import Serving
    from handhold.server.tokens import Tokens

WRITTEN = {"root": "roots", "host": "network"}  # options that a file of tokens calls something else
NOT_WRITTEN = ("state", "budget")  # those that are the server's, whoever comes


@click.command()
@what_is_served
@click.option(
    "--listen", default="127.0.0.1:8765", show_default=True, metavar="HOST:PORT", help="Port 0: any that is free."
)
@click.option("--tokens", "file", type=click.Path(), help="A file of tokens, each with roots of its own.")
@click.option("--new-token", metavar="NAME", help="Make a token for the roots and options given, print it, and stop.")
@click.option("--no-token", is_flag=True, help="Let everybody on this machine in. Only on loopback.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="A name that clients may know this server by.")
@click.option("--allow-origin", multiple=True, metavar="URL", help="Where a page may come from that calls this server.")
@click.option("--calls", type=click.IntRange(min=1), default=256, show_default=True, help="How many at once.")
@click.option("--body", type=click.IntRange(min=1), default=4 * 1024**2, show_default=True, help="Bytes of a request.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds that calls may go on when the server is to stop.",
)
@click.option("--log", is_flag=True, help="One line of JSON for each request, to standard error.")
@click.pass_context
def serve(
    context: click.Context,
    listen: str,
    file: str | None,
    new_token: str | None,
    no_token: bool,  # noqa: FBT001
    allow_host: tuple[str, ...],
    allow_origin: tuple[str, ...],
    calls: int,
    body: int,
    grace: float,
    log: bool,  # noqa: FBT001
    **options: Unpack[Options],
) -> None:
    """Serve the tools over HTTP, at /mcp. Without --tokens, one token is made for as long as the server runs."""
    host, port = parsed(listen)
    default, given = serving(options), file or default_file()
    try:
        if new_token:
            from handhold.server.tokens import added

            said = [name for name in options if given_by_hand(context, name) and name not in NOT_WRITTEN]
            keys = {"roots", *(WRITTEN.get(name, name) for name in said)}
            click.echo(added(given, replace(default, name=new_token), sorted(keys)))
            click.echo(f"This is shown once. Its hash is in {given}.", err=True)
            return
        if file and (no_token or options["root"]):
            raise click.UsageError("--tokens says whom and what to serve: leave out --no-token and --root.")
        if no_token and not is_loopback(host):
            raise click.UsageError("--no-token is for loopback only.")
        if not (is_loopback(host) or allow_host):
            raise click.UsageError("Say by --allow-host what clients call this server, besides its loopback names.")
        known = bool(file) or (not (no_token or options["root"]) and os.path.lexists(given))
        tokens, shown = let_in(default, given if known else "", no_token=no_token)
    except SettingsBroken as error:
        raise click.ClickException(plain(error)) from error

    from handhold.server.admission import Limits
    from handhold.server.http import LOOPBACK, Access, Face, to_stderr
    from handhold.server.listening import bound
    from handhold.server.listening import listen as listened

    hosts = tuple(name.lower() for name in (*LOOPBACK, *allow_host))
    origins = tuple(url.lower().rstrip("/") for url in (*Access.origins, *allow_origin))
    face = Face(
        tokens, limits=Limits(calls=calls, body=body), access=Access(hosts, origins), log=to_stderr if log else None
    )
    try:
        at = bound(host, port)
    except OSError as error:
        raise click.ClickException(f"Nobody can listen at {listen}: {error.strerror}") from error
    name = f"[{host}]" if ":" in host else host

    def ready() -> None:
        for each in tokens.servings:
            click.echo(f"{each.name}: {', '.join(each.roots)}", err=True)
            each.log_warnings()
        click.echo(f"Handhold serves at http://{name}:{at.getsockname()[1]}/mcp", err=True)
        if shown:
            click.echo(f"Token: {shown}", err=True)

    listened(face, at, grace=grace, ready=ready)


def let_in(default: "Serving", file: str, *, no_token: bool) -> "tuple[Tokens, str]":
    """Who is, and the token that was made for this once. SettingsBroken if the file is."""
    from handhold.server.tokens import Token, Tokens, hash_of, load, minted

    if file:
        return load(file, replace(default, roots=())), ""
    if no_token:
        return Tokens(open_to=replace(default, name="everybody")), ""
    token = minted()
    return Tokens((Token(hash_of(token), replace(default, name="this-start")),)), token


def default_file() -> str:
    """Beside the user's settings."""
    from handhold.world.settings import user_file

    return os.path.join(os.path.dirname(user_file()[0]), "tokens.toml")


def given_by_hand(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def parsed(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter("it is HOST:PORT, as in 127.0.0.1:8765", param_hint="--listen")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
