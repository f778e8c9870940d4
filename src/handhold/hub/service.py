"""A hub process: its stores by their addresses, its HTTP server, and its upkeep once an hour."""

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from threading import Event, Thread

from psycopg import Error as PostgresError
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from handhold.core.ports.record_store import RecordStore
from handhold.http_listener.listener import Listener, bind_socket, create_listener, tune_process
from handhold.hub.access import TokenStore
from handhold.hub.app import HubApp, LogLine, log_to_stderr
from handhold.hub.browser_sessions import BrowserSessions
from handhold.hub.local_records import SqliteRecordStore
from handhold.hub.migrations import add_partitions, migrate
from handhold.hub.object_contents import ObjectContents, ObjectStoreError
from handhold.hub.postgres import PostgresRecordStore
from handhold.hub.postgres_pool import open_pool, open_upkeep_pool
from handhold.hub.tenants import PostgresTenants

UPKEEP_SECONDS = 3600
KEEP_ALIVE_SECONDS = 120  # longer than an idle uplink keeps its connection
GRACE_SECONDS = 10  # for requests under way, when a hub is stopped
AUTHENTICATION_CONNECTIONS = 4  # to the database, for tokens and cookies only
MAX_CONNECTIONS = 16_384  # a tenant gets half of them, whoever has not shown a token a quarter


@dataclass(frozen=True)
class HubStores:
    """`tenants` is None on one machine: there is one tenant, without quotas and retention."""

    records: RecordStore
    tokens: TokenStore
    contents: ObjectContents
    tenants: PostgresTenants | None
    upkeep: Callable[[], None]
    browsers: BrowserSessions | None = None  # of the review page, which needs PostgreSQL


@contextmanager
def open_stores(database: str, contents: str) -> Generator[HubStores]:
    """By the address of a PostgreSQL database and of a bucket; or by a folder, and the contents go there too."""
    if not database.startswith(("postgresql:", "postgres:")):
        folder = Path(database).absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        store = SqliteRecordStore(folder / "hub.db")
        objects = ObjectContents.open(contents or (folder / "contents").as_uri())
        try:
            yield HubStores(store, store, objects, None, lambda: None)
        finally:
            store.close()
        return
    with (
        open_pool(database) as pool,
        open_pool(database, max_size=AUTHENTICATION_CONNECTIONS) as authentication,
        open_upkeep_pool(database) as upkeep,
    ):
        with upkeep.connection() as connection:
            migrate(connection)
        tenants, objects = PostgresTenants(authentication, upkeep), ObjectContents.open(contents)

        def keep_up() -> None:
            with upkeep.connection() as connection:
                add_partitions(connection)
            tenants.apply_retention(objects)
            tenants.finish_deletions(objects)
            objects.sweep_staging()

        yield HubStores(PostgresRecordStore(pool), tenants, objects, tenants, keep_up, BrowserSessions(authentication))


def build_app(stores: HubStores, *, origins: Sequence[str] = (), log: LogLine | None = None) -> ASGIApp:
    """The hub's HTTP interface. With `origins`, how browsers name it, and on PostgreSQL, the review page too."""
    app = HubApp(stores.records, stores.tokens, stores.contents, log=log)
    if not origins or stores.browsers is None:
        return app.asgi
    from handhold.hub.review_app import BASE, HOME, HubReview

    assert isinstance(stores.records, PostgresRecordStore)
    review = HubReview(
        stores.records,
        stores.browsers,
        stores.contents,
        origins,
        pools=app.pools,
        answers=app.answers,
        metrics=app.metrics,
        log=log,
    )

    async def route(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        chosen = review if path.startswith(HOME) else RedirectResponse(HOME) if path == BASE else app.asgi
        await chosen(scope, receive, send)

    return route


def list_origins(host: str, port: int, review_url: str) -> list[str]:
    """How browsers name a hub: as its operator says; or by its own address, if that is loopback."""
    if review_url:
        return [review_url.rstrip("/").lower()]
    if not is_loopback(host):
        return []
    return [f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")]


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    stores: HubStores,
    host: str,
    port: int,
    *,
    log: LogLine | None = log_to_stderr,
    review_url: str = "",
    on_ready: Callable[[str], None],
) -> None:
    """Serve until SIGTERM or SIGINT. `review_url` is how browsers reach the review page."""
    sock = bind_socket(host, port)
    name, bound = sock.getsockname()[:2]
    app = build_app(stores, origins=list_origins(name, bound, review_url), log=log)
    listener = create_hub_listener(app)
    stopped = Event()
    upkeep = Thread(target=_keep_up, args=(stores.upkeep, stopped), daemon=True)
    upkeep.start()
    tune_process()
    address = f"[{name}]" if ":" in name else name
    try:
        listener.run_on(sock, lambda: on_ready(f"http://{address}:{bound}"))
    finally:
        stopped.set()


def create_hub_listener(app: ASGIApp, *, max_connections: int = MAX_CONNECTIONS) -> Listener:
    return create_listener(
        app,
        max_connections=max_connections,
        grace=GRACE_SECONDS,
        keep_alive=KEEP_ALIVE_SECONDS,
        has_lifespan=False,
    )


def _keep_up(work: Callable[[], None], stopped: Event) -> None:
    while True:
        try:
            work()
        except (PostgresError, ObjectStoreError, FileNotFoundError) as error:
            sys.stderr.write(f"upkeep failed, and is tried again: {type(error).__name__}: {error}\n")
        if stopped.wait(UPKEEP_SECONDS):
            return
