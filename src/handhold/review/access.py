"""Who may use the page, and from where.

On this machine, a link with a one-time token is exchanged for a cookie, which is sent to this server's own path only:
cookies do not know ports, and other local servers would get it otherwise. On a hub, a token in a form is exchanged.
Every request must name this server in Host. One that changes something must come from one of our own pages (Origin, and
a token in its form). Nothing may frame a page, and no page runs a script that is not one of our files.
"""

import hmac
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_urlsafe
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from handhold.backends.state.approval_rules import TYPED_ID_TABLE, new_id
from handhold.http_listener.listener import assign_client

COOKIE_NAME = "handhold-review"
CSRF_FIELD = "csrf"
LINK_SECONDS = 600.0  # a link that nobody opened expires
COOKIE_SECONDS = 12 * 3600.0  # since it was last used
MAX_BODY_BYTES = 64 * 1024
MAX_WRONG_TOKENS, WRONG_TOKEN_SECONDS = 5, 60.0
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "cache-control": "no-store",
}
Clock = Callable[[], float]


@dataclass
class BrowserSession:
    csrf: str
    used_at: float
    client: str = "browser"  # all browsers of this page together


@dataclass
class AccessKeys:
    """The secrets of one run of the server; none of them is on disk, except the link while it can be used."""

    clock: Clock = time.monotonic
    link_token: str = field(default_factory=lambda: token_urlsafe(24), repr=False)
    approval_token: str = field(default_factory=new_id, repr=False)
    _sessions: dict[str, BrowserSession] = field(default_factory=dict[str, BrowserSession], repr=False)
    _wrong_at: list[float] = field(default_factory=list[float], repr=False)
    _link_until: float = 0.0

    def __post_init__(self) -> None:
        self._link_until = self.clock() + LINK_SECONDS

    def renew_link(self) -> str:
        """A new link, for another browser."""
        self.link_token, self._link_until = token_urlsafe(24), self.clock() + LINK_SECONDS
        return self.link_token

    def exchange(self, token: str) -> str | None:
        """A cookie for the link's token, once; None if it is wrong, used or expired."""
        is_right = hmac.compare_digest(token.encode(), self.link_token.encode())
        if not self.link_token or not is_right or self.clock() > self._link_until:
            return None
        self.link_token = ""
        cookie = token_urlsafe(32)
        self._sessions[_hash(cookie)] = BrowserSession(token_urlsafe(24), self.clock())
        return cookie

    def find_session(self, cookie: str) -> BrowserSession | None:
        found = self._sessions.get(_hash(cookie)) if cookie else None
        if found is None:
            return None
        if self.clock() - found.used_at > COOKIE_SECONDS:
            self._sessions.pop(_hash(cookie), None)
            return None
        found.used_at = self.clock()
        return found

    def is_approval_token(self, typed: str) -> bool:
        """Whether this is the token that the terminal shows. After five wrong ones, none is right for a minute."""
        now = self.clock()
        self._wrong_at = [at for at in self._wrong_at if now - at < WRONG_TOKEN_SECONDS]
        if len(self._wrong_at) >= MAX_WRONG_TOKENS:
            return False
        given, wanted = (text.strip().lower().translate(TYPED_ID_TABLE) for text in (typed, self.approval_token))
        if hmac.compare_digest(given.encode(), wanted.encode()):
            return True
        self._wrong_at.append(now)
        return False


def has_value(form: FormData, name: str, expected: str) -> bool:
    """Whether a field of a form has this value; takes the same time for every other value."""
    return hmac.compare_digest(str(form.get(name, "")).encode(), expected.encode())


def _hash(cookie: str) -> str:
    return sha256(cookie.encode()).hexdigest()


class FormSession(Protocol):
    """Whoever is known by a cookie. `csrf` must come with each of their forms."""

    @property
    def csrf(self) -> str: ...

    @property
    def client(self) -> str:
        """Whose connections are counted together."""
        ...


class AccessMiddleware:
    """Checks every request before a page sees it, and adds the headers that protect each response."""

    def __init__(
        self,
        app: ASGIApp,
        find_session: Callable[[str], FormSession | None],
        base: str,
        origins: Sequence[str],
        denied: ASGIApp,
    ) -> None:
        """`base` is the path of all pages, `origins` how browsers name this server.

        `find_session` knows whose cookie this is; `denied` answers a request without a valid one.
        """
        self._app = app
        self._find_session = find_session
        self._base = base
        self._hosts = {origin: origin.partition("://")[2] for origin in origins}
        self._denied = denied

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": 1008})
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        answer = self._find_objection(scope) or await self._choose(scope)
        await answer(scope, receive, send_protected)

    def _find_objection(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        # DNS rebinding: a web page can point its own name at this server, but cannot forge Host and Origin.
        host = headers.get("host", "").lower()
        if len(headers.getlist("host")) != 1 or host not in self._hosts.values():
            return PlainTextResponse("This server is not known under that name.", 421)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("Method not allowed.", 405)
        if headers.get("sec-fetch-dest") in ("iframe", "frame", "object", "embed"):
            return PlainTextResponse("Pages are not shown in frames.", 403)
        if scope["method"] == "POST":
            if [self._hosts.get(origin) for origin in headers.getlist("origin")] != [host]:
                return PlainTextResponse("This form was sent from another origin.", 403)
            if headers.get("sec-fetch-site", "same-origin") != "same-origin":
                return PlainTextResponse("This form was sent from another site.", 403)
            length = headers.get("content-length", "")
            if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
                return PlainTextResponse("The form is too long.", 413)
        return None

    async def _choose(self, scope: Scope) -> ASGIApp:
        path = scope["path"]
        if not path.startswith(f"{self._base}/"):
            return PlainTextResponse("Not found.", 404)
        if path.startswith(f"{self._base}/static/") or path == f"{self._base}/enter":
            return self._app
        session = await run_in_threadpool(self._find_session, read_cookie(Headers(scope=scope)))
        if session is None:
            return self._denied
        if not assign_client(scope.get("state", {}), session.client):
            return PlainTextResponse("Too many open connections.", 503)
        scope.setdefault("state", {})["session"] = session
        return self._app


def read_cookie(headers: Headers) -> str:
    """Empty if there is none; also if there are several, since another page on this host may have set one."""
    found = [
        cookie_parser(line)[COOKIE_NAME] for line in headers.getlist("cookie") if COOKIE_NAME in cookie_parser(line)
    ]
    pairs = [pair for line in headers.getlist("cookie") for pair in line.split(";")]
    many = sum(pair.partition("=")[0].strip() == COOKIE_NAME for pair in pairs)
    return found[0] if many == 1 else ""
