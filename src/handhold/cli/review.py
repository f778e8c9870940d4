"""`handhold review`: the review page, in a browser on this machine."""

import sys
from ipaddress import ip_address
from pathlib import Path

import click

from handhold.cli import options
from handhold.cli.state import default_root, get_user_at_host
from handhold.logs import log_swallowed

PREFERRED_PORT = 8764
BROWSER_CODE = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"


@click.command()
@click.option(
    "--listen",
    default="",
    metavar="HOST:PORT",
    help=f"Loopback address to listen on. Default: 127.0.0.1:{PREFERRED_PORT}, or a free port if that is taken.",
)
@click.option("--no-browser", is_flag=True, help="Print the address without opening a browser.")
@options.root
@options.state
def review(listen: str, no_browser: bool, root: tuple[Path, ...], state: Path | None) -> None:  # noqa: FBT001
    """Open the review page: what runs, what waits for an answer, what happened, and how to take it back.

    While the page is open, a call that needs approval waits for your answer there. The address works once, and from
    this machine only. Stop the page with Ctrl+C; the agents go on.
    """
    host, port = parse_loopback(listen)
    from handhold.http_listener.listener import bind_socket
    from handhold.review.server import ReviewServer
    from handhold.review.workspace import ReviewedWorkspace

    try:
        sock = bind_socket(host, port or PREFERRED_PORT if not listen else port)
    except OSError as error:
        if listen:
            raise click.ClickException(f"Cannot listen on {listen}: {error.strerror}") from error
        sock = bind_socket(host, 0)
    workspace = ReviewedWorkspace([str(each) for each in root or (default_root(state),)], state)
    try:
        server = ReviewServer(workspace, sock, get_user_at_host())

        def show_address() -> None:
            click.echo(f"Review page of {workspace.roots[0]}:\n  {server.link}")
            click.echo(f"Token for approvals where commands can reach the page: {server.keys.approval_token}")
            click.echo("The address works once. Ctrl+C stops the page.", err=True)
            sys.stdout.flush()
            if not no_browser:
                open_browser(server.write_opening_file())

        server.run(show_address)
    finally:
        workspace.close()


def parse_loopback(listen: str) -> tuple[str, int]:
    """The address to listen on; 127.0.0.1 and port 0 if it is not given."""
    if not listen:
        return "127.0.0.1", 0
    host, _, port = listen.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter("expected HOST:PORT, for example 127.0.0.1:8764", param_hint="--listen")
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise click.BadParameter("the page is served on loopback addresses only", param_hint="--listen")
    return host, int(port)


def open_browser(file: Path) -> None:
    """In a process of its own: browsers are looked for by their names, which the workspace must not answer to."""
    from handhold.backends.programs import build_user_environment, find_interpreter, start_program

    argv = (find_interpreter(), "-I", "-S", "-c", BROWSER_CODE, file.as_uri())
    try:
        with start_program(argv, env=build_user_environment(), stdin=None, stdout=None, stderr=None) as process:
            failed = process.wait()
    except OSError:
        log_swallowed()
        failed = True
    if failed:
        click.echo("No browser was found. Open the address yourself.", err=True)
