"""`handhold hub`: the service that keeps the journals of many sandboxes, and its tenants and tokens."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from handhold.cli.serve import parse_address

if TYPE_CHECKING:
    from handhold.hub.access import Role
    from handhold.hub.service import HubStores
    from handhold.hub.tenants import PostgresTenants

JSON_OUTPUT: dict[str, Any] = {}
LOCAL_TENANT_NAME = "local"
ROLE_NAMES = ("agent", "reader", "admin")

DATABASE_OPTIONS = (
    click.option(
        "--database",
        required=True,
        envvar="HANDHOLD_HUB_DATABASE",
        metavar="URL",
        help="postgresql://…; or a folder, for a hub on one machine. Default: $HANDHOLD_HUB_DATABASE.",
    ),
    click.option(
        "--contents",
        default="",
        envvar="HANDHOLD_HUB_CONTENTS",
        metavar="URL",
        help="Bucket for contents, such as s3://contents. Default: $HANDHOLD_HUB_CONTENTS.",
    ),
)
tenant_option = click.option(
    "--tenant", default=LOCAL_TENANT_NAME, show_default=True, help="Name of the tenant. A folder has only this one."
)


def add_database_options(command: Any) -> Any:
    for option in reversed(DATABASE_OPTIONS):
        command = option(command)
    return command


@click.group()
def hub() -> None:
    """Run a hub: it keeps the journals of many sandboxes, on PostgreSQL and an object store."""


@contextmanager
def open_hub(database: str, contents: str) -> "Generator[HubStores]":
    from psycopg import Error

    from handhold.hub.migrations import UnsuitableDatabase
    from handhold.hub.service import open_stores

    if database.startswith(("postgresql:", "postgres:")) and not contents:
        raise click.UsageError("PostgreSQL needs --contents, the bucket for contents.")
    if contents and "://" not in contents:
        raise click.BadParameter("expected a URL, such as s3://BUCKET or file:///FOLDER", param_hint="--contents")
    try:
        with open_stores(database, contents) as stores:
            yield stores
    except Error as error:
        raise click.ClickException(f"The database does not answer: {error}") from None
    except UnsuitableDatabase as error:
        raise click.ClickException(f"A hub cannot use the database: {error}.") from None


def require_tenants(stores: "HubStores") -> "PostgresTenants":
    if stores.tenants is None:
        raise click.UsageError("A hub in a folder has one tenant; several need PostgreSQL.")
    return stores.tenants


def find_tenant(stores: "HubStores", name: str) -> int:
    from handhold.hub.local_records import LOCAL_TENANT

    if stores.tenants is None:
        if name != LOCAL_TENANT_NAME:
            require_tenants(stores)
        return LOCAL_TENANT
    from handhold.hub.tenants import UnknownTenant

    try:
        return stores.tenants.find_tenant(name)
    except UnknownTenant as error:
        raise click.ClickException(f"{error}. Make it with `handhold hub add-tenant`.") from None


@hub.command()
@add_database_options
@click.option(
    "--listen",
    default="127.0.0.1:8790",
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on. Port 0 picks a free port.",
)
@click.option(
    "--review-url",
    default="",
    envvar="HANDHOLD_HUB_REVIEW_URL",
    metavar="URL",
    help="Address of this hub in browsers, such as https://hub.example: it serves the review page there, at /review/."
    " Default: $HANDHOLD_HUB_REVIEW_URL, or the address to listen on if that is loopback.",
)
@click.option("--quiet", is_flag=True, help="Do not log each request to standard error.")
def serve(database: str, contents: str, listen: str, review_url: str, quiet: bool) -> None:  # noqa: FBT001
    """Run a hub. Any number of them may share one database and one bucket."""
    host, port = parse_address(listen)
    check_review_url(review_url)
    from handhold.hub.app import log_to_stderr
    from handhold.hub.service import serve as run_service

    with open_hub(database, contents) as stores:
        try:
            run_service(
                stores,
                host,
                port,
                log=None if quiet else log_to_stderr,
                review_url=review_url,
                on_ready=lambda url: click.echo(f"Hub at {url}", err=True),
            )
        except OSError as error:
            raise click.ClickException(f"Cannot listen on {listen}: {error.strerror}") from error


def check_review_url(url: str) -> None:
    """Cookies go over TLS, except on this machine."""
    from urllib.parse import urlsplit

    from handhold.hub.service import is_loopback

    if not url:
        return
    parts = urlsplit(url)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    is_origin = parts.netloc and parts.path in ("", "/") and not parts.query and "@" not in parts.netloc
    if not is_safe or not is_origin:
        raise click.BadParameter("expected https://HOST[:PORT], or http:// for this machine", param_hint="--review-url")


@hub.command()
@add_database_options
@click.argument("name")
@click.option("--retention-days", type=click.IntRange(min=1), help="Remove older records and contents. Default: never.")
@click.option("--max-records", type=click.IntRange(min=0), help="Quota in records. Default: none.")
@click.option("--max-bytes", type=click.IntRange(min=0), help="Quota in bytes, of records and contents. Default: none.")
def add_tenant(
    database: str,
    contents: str,
    name: str,
    retention_days: int | None,
    max_records: int | None,
    max_bytes: int | None,
) -> None:
    """Add the tenant NAME, or set the limits of an existing one."""
    from handhold.hub.tenants import TenantLimits

    with open_hub(database, contents) as stores:
        require_tenants(stores).add_tenant(name, TenantLimits(retention_days, max_records, max_bytes))
    click.echo(f"Tenant {name} is ready.")


@hub.command()
@add_database_options
@click.argument("name")
@click.confirmation_option(prompt="Delete the tenant with all records and contents?")
def delete_tenant(database: str, contents: str, name: str) -> None:
    """Delete the tenant NAME: its tokens, records and contents."""
    with open_hub(database, contents) as stores:
        find_tenant(stores, name)
        require_tenants(stores).delete_tenant(name, stores.contents)
    click.echo(f"Tenant {name} is deleted.")


@hub.command()
@add_database_options
@tenant_option
@click.option("--workspace", help="Workspace that the token is for. Default: all, for readers and admins.")
@click.option("--role", type=click.Choice(ROLE_NAMES), default="agent", show_default=True, help="What it may do.")
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="Days until it expires. Default: never.")
def new_token(
    database: str, contents: str, tenant: str, workspace: str | None, role: "Role", days: float | None
) -> None:
    """Create a token and print it. An agent's token ships the journal of one workspace."""
    from handhold.hub.app import is_workspace_name

    if role == "agent" and not workspace:
        raise click.UsageError("A token for an agent needs --workspace.")
    if workspace is not None and not is_workspace_name(workspace):
        raise click.BadParameter("expected a name without slashes", param_hint="--workspace")
    with open_hub(database, contents) as stores:
        made = stores.tokens.create_token(find_tenant(stores, tenant), role, workspace, days)
    click.echo(made.token)
    click.echo(f"Save this token: it is not shown again. Its number is {made.id}.", err=True)


@hub.command()
@add_database_options
@tenant_option
@click.argument("number", type=int)
def revoke_token(database: str, contents: str, tenant: str, number: int) -> None:
    """Revoke the token with this NUMBER. Hubs that have just seen it accept it for ten more seconds."""
    with open_hub(database, contents) as stores:
        if not stores.tokens.revoke_token(find_tenant(stores, tenant), number):
            raise click.ClickException(f"There is no token {number}.")


@hub.command()
@add_database_options
@tenant_option
@click.argument("workspace")
def accept_chain(database: str, contents: str, tenant: str, workspace: str) -> None:
    """Accept the diverged journal of WORKSPACE: what the hub has stays as it is, and a new chain begins."""
    with open_hub(database, contents) as stores:
        chain = stores.records.find_chain(find_tenant(stores, tenant), workspace)
        if chain is None:
            raise click.ClickException(f"There is no workspace {workspace!r}.")
        if not stores.records.restart(chain):
            raise click.ClickException(f"The journal of {workspace} did not diverge: there is nothing to accept.")
