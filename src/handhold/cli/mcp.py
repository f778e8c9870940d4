"""`handhold mcp`: a Model Context Protocol server over standard input and output."""

from typing import Unpack

import click

from handhold.cli.server_options import ServerOptions, add_server_options, build_config


@click.command()
@click.option("--session", default="", help="Session name. Default: a new session.")
@click.option("--handles", is_flag=True, help="Add the arguments `session`, `call_id` and `fork` to every tool.")
@click.option("--fork", default="", help="Work in this fork of the workspace, which is made if there is none.")
@add_server_options
def mcp(session: str, handles: bool, fork: str, **options: Unpack[ServerOptions]) -> None:  # noqa: FBT001
    """Run an MCP server over standard input and output, for a client that starts this command."""
    config = build_config(options, session=session, handles=handles, fork=fork)
    from handhold.server.stdio import serve

    serve(config)
