"""A review page in a thread of this process, a browser on it, and a real MCP client whose calls wait for it."""

import asyncio
import http.client
import threading
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mcp import Client
from playwright.sync_api import Browser, BrowserContext, Page

from handhold.backends.state.sqlite import SqliteStore
from handhold.core.ports.approvals import Effect, PendingApproval
from handhold.http_listener.listener import bind_socket
from handhold.review.server import ReviewServer
from handhold.review.workspace import ReviewedWorkspace
from tests.server.hosting import Shop, text_of

ASK_ABOUT_RM = """\
[[rule]]
name = "look at deletions"
verdict = "ask"
verbs = ["delete"]
paths = ["keep/**"]
because = "these files are the only copy"
covers = ["keep/a.txt"]
does_not_cover = ["other.txt"]

[[rule]]
name = "look at make"
verdict = "ask"
verbs = ["run"]
commands = ["make release"]
because = "targets may do anything"
covers = ["make release one"]
does_not_cover = ["make test"]
"""


@dataclass(frozen=True)
class Reviewed:
    """A running page."""

    shop: Shop
    server: ReviewServer
    workspace: ReviewedWorkspace

    @property
    def root(self) -> Path:
        return self.shop.root

    @property
    def store(self) -> SqliteStore:
        return self.workspace.store

    @property
    def origin(self) -> str:
        return self.server.origin

    @property
    def url(self) -> str:
        return self.server.origin + self.server.base

    def publish(self) -> None:
        """The page reads the journal itself."""

    def sample(self, values: list[str], many: int) -> list[str]:
        """All of them."""
        return values

    @property
    def port(self) -> int:
        return int(self.server.origin.rpartition(":")[2])

    def pending(self) -> list[PendingApproval]:
        return list(self.workspace.store.list_pending())

    def enter(self, context: BrowserContext, path: str = "/now") -> Page:
        """A page of a browser that opened a link."""
        self.server.keys.renew_link()
        page = context.new_page()
        page.goto(self.server.link)
        page.wait_for_url("**/now")
        if path != "/now":
            page.goto(self.url + path)
        return page

    def enter_plainly(self) -> "PlainClient":
        """A client without a browser that has a valid cookie."""
        self.server.keys.renew_link()
        client = PlainClient(self.port, self.server.base)
        response = client.get(f"/enter?token={self.server.keys.link_token}")
        client.cookie = response.headers["set-cookie"].partition(";")[0]
        return client


@dataclass(frozen=True)
class PlainResponse:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class PlainClient:
    """Sends exactly what it is told."""

    port: int
    base: str
    cookie: str = ""

    def request(
        self, method: str, path: str, body: str = "", headers: Mapping[str, str] | None = None
    ) -> PlainResponse:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            given = {"Cookie": self.cookie} if self.cookie else {}
            connection.request(method, self.base + path, body or None, {**given, **(headers or {})})
            response = connection.getresponse()
            told = {name.lower(): value for name, value in response.getheaders()}
            return PlainResponse(response.status, told, response.read().decode())

    def get(self, path: str, **headers: str) -> PlainResponse:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None) -> PlainResponse:
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://127.0.0.1:{self.port}"}
        return self.request("POST", path, urlencode(fields), {**form, **(headers or {})})


def ask(store: SqliteStore, n: int) -> None:
    """A question, as a call would ask it."""
    question = PendingApproval(
        id="",
        hash=f"{n:064x}",
        session="secret-session",
        at=time.time(),
        tool="bash",
        because="secret-reason",
        command="echo secret-command",
        rule="secret-rule",
        diff="--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+secret-line\n",
        effects=(Effect("secret-file", "new", size=1, diff_lines=4),),
        effect_count=1,
    )
    assert store.enqueue(question)


def make_shop(folder: Path) -> Shop:
    shop = Shop.below(folder)
    (shop.root / "handhold.toml").write_text(ASK_ABOUT_RM)
    (shop.root / "keep").mkdir()
    for name in "abc":
        (shop.root / f"keep/{name}.txt").write_text(f"{name}\n")
    return shop


@contextmanager
def reviewing(shop: Shop, by: str = "ann@desk") -> Generator[Reviewed]:
    workspace = ReviewedWorkspace([str(shop.root)], shop.state)
    server = ReviewServer(workspace, bind_socket("127.0.0.1", 0), by)
    ready = threading.Event()
    thread = threading.Thread(target=lambda: server.run(ready.set))
    thread.start()
    try:
        assert ready.wait(20)
        yield Reviewed(shop, server, workspace)
    finally:
        server.stop()
        thread.join(20)
        assert not thread.is_alive(), "the page did not stop"
        workspace.close()


class Agent:
    """An MCP client of `handhold mcp`, in a process of its own. Calls wait in the background."""

    def __init__(self, shop: Shop, *options: str, **env: str) -> None:
        self._shop, self._options, self._env = shop, options, env
        self._loop = asyncio.new_event_loop()
        self._queue: asyncio.Queue[tuple[str, Mapping[str, Any], Future[str]] | None] = asyncio.Queue()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))

    async def _run(self) -> None:
        async with Client(self._shop.in_a_process(*self._options, **self._env), mode="legacy") as client:
            tasks: list[asyncio.Task[None]] = []
            while (item := await self._queue.get()) is not None:
                tasks.append(asyncio.create_task(self._call(client, *item)))
            for task in tasks:
                task.cancel()

    async def _call(self, client: Client, tool: str, arguments: Mapping[str, Any], reply: Future[str]) -> None:
        try:
            reply.set_result(text_of(await client.call_tool(tool, dict(arguments))))
        except asyncio.CancelledError:
            reply.cancel()
            raise
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            reply.set_exception(error)

    def call(self, tool: str, **arguments: Any) -> Future[str]:
        reply: Future[str] = Future()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (tool, arguments, reply))
        return reply

    def __enter__(self) -> "Agent":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._queue.put_nowait, None)
        self._thread.join(30)
        assert not self._thread.is_alive(), "the client did not stop"
        self._loop.close()


def until(true: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


def new_context(browser: Browser, **options: Any) -> BrowserContext:
    context = browser.new_context(**{"viewport": {"width": 1440, "height": 900}, **options})
    context.set_default_timeout(15_000)
    return context
