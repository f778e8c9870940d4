"""`handhold mcp`: the tools for a client that starts this command and speaks the Model Context Protocol with it."""

from typing import Unpack

import click

from handhold.cli.server_options import ServerOptions, add_server_options, build_config


@click.command()
@click.option("--session", default="", help="The conversation this is. Default: a new one.")
@click.option("--handles", is_flag=True, help="Tools also take `session` and `call_id`.")
@add_server_options
def mcp(session: str, handles: bool, **options: Unpack[ServerOptions]) -> None:  # noqa: FBT001
    """Serve the tools over standard input and output, for a client that starts this command."""
    config = build_config(options, session=session, handles=handles)
    from handhold.server.stdio import serve

    serve(config)
