"""`handhold serve`: a Model Context Protocol server over HTTP, with bearer tokens."""

import os
from dataclasses import replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Unpack

import click

from handhold.cli.options import format_error
from handhold.cli.server_options import ServerOptions, add_server_options, build_config
from handhold.core.errors import SettingsBroken

if TYPE_CHECKING:
    from handhold.server.server_config import ServerConfig
    from handhold.server.tokens import AccessTokens

TOKEN_FILE_KEYS = {"root": "roots", "host": "network"}  # options with another name in the token file
SERVER_ONLY_OPTIONS = ("state", "budget", "hub", "durable")  # options of the server that a token cannot set


@click.command()
@add_server_options
@click.option(
    "--listen",
    default="127.0.0.1:8765",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on. Port 0 picks a free port.",
)
@click.option("--tokens", "file", type=click.Path(), help="File of tokens, each with its own roots.")
@click.option("--new-token", metavar="NAME", help="Create a token for the given roots and options, print it and exit.")
@click.option("--no-token", is_flag=True, help="Accept requests without a token. Loopback addresses only.")
@click.option("--allow-host", multiple=True, metavar="NAME", help="Also accept this Host header; repeat for several.")
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="URL",
    help="Also accept requests from this web origin; repeat for several.",
)
@click.option("--calls", type=click.IntRange(min=1), default=256, show_default=True, help="Maximum concurrent calls.")
@click.option(
    "--body", type=click.IntRange(min=1), default=4 * 1024**2, show_default=True, help="Maximum request size in bytes."
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="Seconds to wait for running calls on shutdown.",
)
@click.option("--log", is_flag=True, help="Log each request to standard error, as one line of JSON.")
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
    **options: Unpack[ServerOptions],
) -> None:
    """Run an MCP server over HTTP, at the path /mcp.

    Clients send a bearer token. Tokens come from the file --tokens, or without --root from tokens.toml in your settings
    folder, if it exists. Otherwise the server creates one token, prints it, and accepts it until the server stops.
    """
    host, port = parse_address(listen)
    default, token_file = build_config(options), file or get_default_token_file()
    try:
        if new_token:
            from handhold.server.tokens import add_token

            given_options = [
                name for name in options if is_on_command_line(context, name) and name not in SERVER_ONLY_OPTIONS
            ]
            keys = {"roots", *(TOKEN_FILE_KEYS.get(name, name) for name in given_options)}
            click.echo(add_token(token_file, replace(default, name=new_token), sorted(keys)))
            click.echo(f"Save this token: it is not shown again. Its hash was added to {token_file}.", err=True)
            return
        if file and (no_token or options["root"]):
            raise click.UsageError("--tokens cannot be combined with --no-token or --root: the file sets the roots.")
        if file and not os.path.lexists(file):
            raise click.ClickException(f"{file} does not exist. Create it with --tokens {file} --new-token NAME.")
        if no_token and not is_loopback(host):
            raise click.UsageError("--no-token requires a loopback address such as 127.0.0.1.")
        if not (is_loopback(host) or allow_host):
            raise click.UsageError(f"Listening on {host} requires --allow-host with the host name that clients use.")
        if options["hub"] and file:
            raise click.UsageError("--hub cannot be combined with --tokens: a hub's token is for one workspace.")
        needs_no_file = no_token or options["root"] or options["hub"]
        has_token_file = bool(file) or (not needs_no_file and os.path.lexists(token_file))
        tokens, printed_token = resolve_tokens(default, token_file if has_token_file else "", no_token=no_token)
    except SettingsBroken as error:
        raise click.ClickException(format_error(error)) from error

    from handhold.http_listener.listener import bind_socket, create_listener, tune_process
    from handhold.server.admission import ServerLimits
    from handhold.server.http import LOOPBACK_HOSTS, HostAllowlist, HTTPApp, log_to_stderr

    hosts = tuple(name.lower() for name in (*LOOPBACK_HOSTS, *allow_host))
    origins = tuple(url.lower().rstrip("/") for url in (*HostAllowlist.origins, *allow_origin))
    app = HTTPApp(
        tokens,
        limits=ServerLimits(max_calls=calls, max_body_bytes=body),
        allowlist=HostAllowlist(hosts, origins),
        log=log_to_stderr if log else None,
    )
    try:
        sock = bind_socket(host, port)
    except OSError as error:
        raise click.ClickException(f"Cannot listen on {listen}: {error.strerror}") from error
    name = f"[{host}]" if ":" in host else host

    def ready() -> None:
        for each in tokens.configs:
            click.echo(f"{each.name}: {', '.join(each.roots)}", err=True)
            each.log_warnings()
        click.echo(f"Serving at http://{name}:{sock.getsockname()[1]}/mcp", err=True)
        if printed_token:
            click.echo(f"Token: {printed_token}", err=True)

    listener = create_listener(app, max_connections=app.limits.max_connections, grace=grace, on_stop=app.stop_accepting)
    tune_process()
    listener.run_on(sock, ready)


def resolve_tokens(default: "ServerConfig", file: str, *, no_token: bool) -> "tuple[AccessTokens, str]":
    """The accepted tokens, and the token created for this run, or "". Raises SettingsBroken if the file is invalid."""
    from handhold.server.tokens import AccessToken, AccessTokens, generate_token, hash_token, load_tokens

    if file:
        return load_tokens(file, replace(default, roots=())), ""
    if no_token:
        return AccessTokens(anonymous_config=replace(default, name="everybody")), ""
    token = generate_token()
    return AccessTokens((AccessToken(hash_token(token), replace(default, name="this-start")),)), token


def get_default_token_file() -> str:
    """tokens.toml, next to the user's settings file."""
    from handhold.backends.settings import find_user_file

    return os.path.join(os.path.dirname(find_user_file()[0]), "tokens.toml")


def is_on_command_line(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def parse_address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter("expected HOST:PORT, for example 127.0.0.1:8765", param_hint="--listen")
    return host.strip("[]"), int(port)


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
