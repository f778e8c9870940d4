"""A review page on a hub: PostgreSQL, SeaweedFS, a hub process, and a workspace whose journal is shipped there."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

import psycopg
import pytest
from playwright.sync_api import BrowserContext, Page

from handhold.backends.state.sqlite import SqliteStore
from handhold.hub.access import Role
from handhold.hub.migrations import migrate
from handhold.hub.postgres_pool import open_pool
from handhold.hub.tenants import PostgresTenants, TenantLimits
from handhold.toolbox import Toolbox
from tests.hub.hubs import Hub
from tests.hub.servers import Postgres, SeaweedFS, wait_until
from tests.scale import sampled
from tests.server.hosting import Shop

WORKSPACE = "the shop"


@dataclass(frozen=True)
class ShippedReview:
    """The page of a workspace on a hub, in place of `Reviewed`. What is recorded in `store` is shipped."""

    shop: Shop
    hub: Hub
    box: Toolbox
    token: str  # of a reader

    @property
    def store(self) -> SqliteStore:
        assert isinstance(self.box.store, SqliteStore)
        return self.box.store

    @property
    def root(self) -> Path:
        return self.shop.root

    @property
    def origin(self) -> str:
        return self.hub.url

    @property
    def url(self) -> str:
        return f"{self.origin}/review/w/the%20shop"

    def publish(self) -> None:
        wait_until(lambda: (status := self.store.hub_status()) is not None and not status.lag, "the hub has it all")

    def sample(self, values: list[str], many: int) -> list[str]:
        """The journal of this machine is shown all of them, by the same views."""
        return sampled(values, many)

    def enter(self, context: BrowserContext, path: str = "/timeline") -> Page:
        self.publish()
        page = context.new_page()
        page.goto(f"{self.origin}/review/")
        page.get_by_label("Token of a reader or an admin").fill(self.token)
        page.get_by_role("button", name="Open").click()
        page.wait_for_url("**/review/")
        page.goto(self.url + path)
        return page


@contextmanager
def reviewing_on_hub(shop: Shop, postgres: Postgres, seaweed: SeaweedFS, folder: Path) -> Generator[ShippedReview]:
    database, bucket = postgres.make_database(), f"{seaweed.url}/{token_hex(8)}"
    with psycopg.connect(database) as connection:
        migrate(connection)
    with open_pool(database, max_size=2) as pool:
        tenants = PostgresTenants(pool, pool)
        tenant = tenants.add_tenant("acme", TenantLimits())

        def new_token(role: Role) -> str:
            return tenants.create_token(tenant, role, WORKSPACE).token

        agent, reader = new_token("agent"), new_token("reader")
    hub = Hub(database, bucket, folder / "hub.log", env={**os.environ, **seaweed.environment})
    hub.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HANDHOLD_HUB_TOKEN", agent)
            with Toolbox.open(shop.root, state=shop.state, session="uplink", hub=hub.url) as box:
                yield ShippedReview(shop, hub, box, reader)
    finally:
        hub.kill()  # it would wait for the connections of the browser
