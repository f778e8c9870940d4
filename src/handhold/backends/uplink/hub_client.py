"""The hub's protocol from the side of a sandbox, over one connection that is kept while it is used."""

import http.client
import json
import ssl
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from handhold.backends.uplink.hub_token import HubToken
from handhold.core.errors import SettingsBroken
from handhold.version import VERSION

TIMEOUT_SECONDS = 30.0  # for each step of a request
IDLE_SECONDS = 60.0  # after which a connection is not used again: a proxy may have forgotten it
MAX_ANSWER_BYTES = 256 * 1024 * 1024
DEFAULT_RETRY_SECONDS = 1.0


class HubAway(Exception):
    """The hub did not answer, or not as a hub does. `wait` is how long it wants to be left alone."""

    def __init__(self, because: str, wait: float = 0.0) -> None:
        super().__init__(because)
        self.because, self.wait = because, wait


class HubRefused(Exception):
    """The hub answered with a refusal. `facts` are the members of its answer."""

    def __init__(self, status: int, facts: Mapping[str, Any]) -> None:
        self.status, self.facts = status, facts
        self.code = str(facts.get("error", f"HTTP {status}"))
        super().__init__(f"{self.code}: {facts.get('message', 'no reason given')}")


@dataclass(frozen=True)
class HubHead:
    """The end of a chain at the hub."""

    record: int
    digest: bytes
    diverged_at: int

    @classmethod
    def parse(cls, answer: Mapping[str, Any]) -> "HubHead":
        try:
            return cls(int(answer["record"]), bytes.fromhex(answer["digest"]), int(answer.get("diverged_at", 0)))
        except (KeyError, ValueError, TypeError):
            raise HubAway("it does not answer as a hub does") from None


class HubClient:
    """Thread-safe: one request at a time."""

    def __init__(self, url: str, token: HubToken, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self._is_secure, self._host, self._port = parts.scheme == "https", parts.hostname or "", parts.port
        self._path = parts.path
        self._token = token
        self._timeout = timeout
        self._lock = Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._used_at = 0.0

    # --- for an uplink

    def read_head(self) -> HubHead:
        return HubHead.parse(self._send_json("GET", "/v1/chain"))

    def append(self, lines: Sequence[bytes], claimed: int) -> HubHead:
        """The new head. HubRefused with GAP or DIVERGED has the hub's."""
        headers = {"content-type": "application/x-ndjson", "handhold-head": str(claimed)}
        return HubHead.parse(self._send_json("POST", "/v1/records", b"\n".join(lines), headers))

    def select_missing(self, hashes: Collection[str]) -> list[str]:
        """Which of these contents the hub wants."""
        body = json.dumps({"hashes": list(hashes)}).encode()
        present = self._send_json("POST", "/v1/contents/have", body).get("present", ())
        return [each for each in hashes if each not in present]

    def upload(self, hash: str, data: bytes) -> None:
        self._send_json("PUT", f"/v1/contents/{hash}", data)

    # --- for readers

    def fetch(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return self._send("GET", path + ("?" + urlencode(given) if given else ""), b"", {})

    def fetch_json(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        return _parse_object(self.fetch(path, query))

    def fetch_workspace(self, name: str, rest: str, query: Mapping[str, Any] | None = None) -> bytes:
        return self.fetch(f"/v1/workspaces/{quote(name, safe='')}/{rest}", query)

    # --- requests

    def _send_json(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        return _parse_object(self._send(method, path, body, headers or {}))

    def _send(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The body of the answer. Every request may be repeated, so one on a stale connection is."""
        try:
            sent = {"authorization": f"Bearer {self._token.read()}", "user-agent": f"handhold/{VERSION}", **headers}
        except SettingsBroken as error:
            raise HubAway(f"the token in {error.path} cannot be read: {error.because}") from None
        with self._lock:
            is_fresh = self._connection is None or time.monotonic() - self._used_at > IDLE_SECONDS
            if is_fresh:
                self._disconnect()
            try:
                try:
                    status, answer, wait = self._exchange(method, path, body, sent)
                except (http.client.RemoteDisconnected, ConnectionError):
                    self._disconnect()
                    if is_fresh:
                        raise
                    status, answer, wait = self._exchange(method, path, body, sent)
            except (OSError, http.client.HTTPException) as error:
                self._disconnect()
                raise HubAway(str(error) or type(error).__name__) from error
        if status >= 500 or status in (408, 429):
            reason = _describe_refusal(status, answer)
            raise HubAway(reason, wait)
        if status >= 400:
            raise HubRefused(status, _parse_object(answer, or_else={}))
        return answer

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes, float]:
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, self._path + path, body or None, dict(headers))
        response = self._connection.getresponse()
        answer = response.read(MAX_ANSWER_BYTES)
        if response.will_close or not response.isclosed():
            self._disconnect()
        self._used_at = time.monotonic()
        given = response.headers.get("retry-after", "")
        return response.status, answer, float(given) if given.isdecimal() else DEFAULT_RETRY_SECONDS

    def _connect(self) -> http.client.HTTPConnection:
        if self._is_secure:
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def close(self) -> None:
        """Not while a request is under way: its thread ends with the process."""
        if self._lock.acquire(blocking=False):
            try:
                self._disconnect()
            finally:
                self._lock.release()


def _parse_object(answer: bytes, or_else: dict[str, Any] | None = None) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found  # pyright: ignore[reportUnknownVariableType]
    if or_else is None:
        raise HubAway("it does not answer as a hub does")
    return or_else


def _describe_refusal(status: int, answer: bytes) -> str:
    facts = _parse_object(answer, or_else={})
    return f"it answers {status}: {facts.get('message', 'no reason given')}"
