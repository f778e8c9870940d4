"""A client: the calls it makes, what it records about them, and how it continues for a killed predecessor."""

import http.client
import json
import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.load.words import WORDS

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "load", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
PLAIN = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}\n'
FULL = 150  # changes per file before a client starts a new one: old work must not slow down new work
PATIENCE = 120.0  # seconds to wait for an answer
GIVEN_UP = 1_800.0  # seconds; a server that is killed repeatedly never finishes a longer call


@dataclass(frozen=True)
class Slot:
    """A client's slot, which outlives the clients that are killed in it."""

    name: str
    dialect: str
    modern: bool
    top: Path
    port: int
    token: str
    pause: float

    @property
    def root(self) -> Path:
        return self.top / "roots" / self.dialect

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def ledger(self) -> Path:
        return self.top / "ledgers" / self.name

    @property
    def session(self) -> Path:
        return self.top / "ledgers" / f"{self.name}.session"


def begun(place: Slot, dice: random.Random) -> int:
    """A client in its own process."""
    place.folder.mkdir(exist_ok=True)
    place.ledger.touch()
    if pid := os.fork():
        return pid
    status = 1
    try:
        Client(place, dice).work()
        status = 0
    except Exception as error:  # noqa: BLE001 - reported at the end
        with (place.top / "broken.log").open("a") as told:
            told.write(f"{place.name}: {type(error).__name__}: {error}\n")
    finally:
        os._exit(status)


@dataclass(frozen=True)
class Step:
    """One call. A call with a mark must write it into the file exactly once. It may start or stop a job."""

    tool: str
    arguments: dict[str, Any]
    mark: str = ""
    file: str = ""
    progress: bool = False
    starts: bool = False
    stops: str = ""


class Client:
    def __init__(self, place: Slot, dice: random.Random) -> None:
        self.place, self.dice, self.words = place, dice, WORDS[place.dialect]
        self.ledger = os.open(place.ledger, os.O_WRONLY | os.O_APPEND)
        self.line: http.client.HTTPConnection | None = None
        self.numbers = 0
        self.ids = os.getpid() * 100_000  # so that a successor does not reuse the ids of its killed predecessor
        self.tries = 0
        self.said: Mapping[str, Any] = {}  # the last answer that was recorded

    def work(self) -> None:
        self.begin()
        self.take_over()
        while not (self.place.top / "stop").exists():
            for step in self.chosen():
                self.carry_out(step)
                time.sleep(self.dice.expovariate(1 / self.place.pause) if self.place.pause else 0)

    def begin(self) -> None:
        """Record the session before doing anything in it."""
        kept = self.place.session
        if kept.exists():
            self.session = kept.read_text()
            return
        if self.place.modern:
            tool, arguments = self.words["list"](str(self.place.folder))
            _, answer = self.tell("tools/call", {"name": tool, "arguments": {**arguments, "session": "new"}}, {})
            self.session = answer["result"]["_meta"]["handhold/session"]
        else:
            who = {"name": "load", "version": "1"}
            params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": who}
            self.session = ""
            headers, _ = self.tell("initialize", params, {})
            self.session = headers["mcp-session-id"]
        kept.with_suffix(".new").write_text(self.session)
        kept.with_suffix(".new").rename(kept)

    def take_over(self) -> None:
        """Resend what the predecessor got no answer to, and end the jobs it left."""
        lines = [json.loads(line) for line in self.place.ledger.read_text().splitlines()]
        self.numbers = 1 + max((said["n"] for said in lines), default=-1)
        answered = {said["id"] for said in lines if "ok" in said}
        for said in lines:
            if "ok" not in said and said["id"] not in answered:
                self.carry_out(Step(**said["step"]), again=said)
        lines = [json.loads(line) for line in self.place.ledger.read_text().splitlines()]
        jobs = {said["job"] for said in lines if said.get("job")} - {said.get("stopped") for said in lines}
        for job in sorted(jobs):
            self.carry_out(Step(*self.words["stop"](job), stops=job))

    def carry_out(self, step: Step, again: Mapping[str, Any] | None = None) -> None:
        number = again["n"] if again else self.numbers
        if not again:
            self.numbers += 1
        known = {"n": number, "id": f"{self.place.name}-{number}"}
        if not again:
            self.note({**known, "step": vars(step)})
        meta: dict[str, Any] = {"handhold/callId": known["id"]}
        if self.place.modern:
            meta["handhold/session"] = self.session
        if step.progress:
            meta["progressToken"] = number
        began = time.perf_counter()
        _, answer = self.tell("tools/call", {"name": step.tool, "arguments": step.arguments}, meta)
        taken = (time.perf_counter() - began) * 1000
        if "result" not in answer:
            raise RuntimeError(f"{step} was answered by {answer}")
        facts, ok = answer["result"].get("structuredContent") or {}, not answer["result"]["isError"]
        said: dict[str, Any] = {**known, "ok": ok, "tool": step.tool, "ms": round(taken, 2), "tries": self.tries}
        said |= {"mark": step.mark, "file": step.file, "again": again is not None, "stopped": step.stops}
        said |= {"job": facts.get("job") if ok and step.starts else None}
        if not ok:
            said |= {"code": f"{step.tool} {facts.get('code')}", "text": answer["result"]["content"][0]["text"][:300]}
        self.note(said)
        self.said = said

    def note(self, said: Mapping[str, Any]) -> None:
        os.write(self.ledger, json.dumps(said).encode() + b"\n")

    def tell(self, method: str, params: dict[str, Any], meta: Mapping[str, Any]) -> tuple[Mapping[str, str], Any]:
        """The headers and the message of an answer; the request is resent unchanged while the server is down."""
        until, self.tries = time.monotonic() + GIVEN_UP, 0
        while True:
            self.tries += 1
            try:
                status, headers, body = self.post(method, params, meta)
            except (OSError, http.client.HTTPException):
                self.hang_up()
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
                continue
            if status != 200:
                raise RuntimeError(f"{status}: {body[:300]!r}")
            text = body.decode()
            if headers.get("content-type", "").startswith("text/event-stream"):
                text = [line[6:] for line in text.splitlines() if line.startswith("data: ")][-1]
            return headers, json.loads(text)

    def post(
        self, method: str, params: dict[str, Any], meta: Mapping[str, Any]
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.ids += 1
        headers = {**PLAIN, "authorization": f"Bearer {self.place.token}"}
        if self.place.modern:
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": params["name"]}
            meta = {**META, **meta}
        elif self.session:
            headers |= {"mcp-protocol-version": HANDSHAKE, "mcp-session-id": self.session}
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": {**params, "_meta": meta}}
        if self.line is None:
            self.line = http.client.HTTPConnection("127.0.0.1", self.place.port, timeout=PATIENCE)
            self.line.connect()
            self.line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line.request("POST", "/mcp", json.dumps(message).encode(), headers)
        response = self.line.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()

    def hang_up(self) -> None:
        if self.line:
            self.line.close()
        self.line = None

    # --- the calls

    def chosen(self) -> Iterator[Step]:
        kinds: dict[Callable[[], Iterator[Step]], int] = {
            self.look: 8,
            self.overwrite: 2,
            self.extend: 4,
            self.extend_shared: 2,
            self.command: 2,
            self.sleep: 1,
            self.job: 1,
        }
        yield from self.dice.choices(list(kinds), list(kinds.values()))[0]()

    def mark(self) -> str:
        return f"<{self.place.name}-{self.numbers}>"

    def path(self, name: str) -> str:
        return str(self.place.folder / name)

    def look(self) -> Iterator[Step]:
        known = [each.name for each in os.scandir(self.place.folder) if each.name.endswith(".txt")]
        some = self.path(self.dice.choice(known)) if known else str(self.place.root / "shared/0.txt")
        what = self.dice.choice([kind for kind in ("read", "reads", "list", "glob", "grep") if kind in self.words])
        yield Step(*self.words[what](some if what.startswith("read") else str(self.place.folder)))

    def overwrite(self) -> Iterator[Step]:
        file = self.path(f"whole{self.dice.randrange(8)}.txt")
        if os.path.exists(file):
            yield Step(*self.words["read"](file))
        mark = self.mark()
        yield Step(*self.words["write"](file, f"{mark}\n" * self.dice.randrange(1, 50)), mark, file)

    def extend(self) -> Iterator[Step]:
        """Add a line to the client's own file, with one of the tools that edit part of a file."""
        how = self.dice.choice([kind for kind in ("edit", "edits", "patch", "cell") if kind in self.words])
        if how == "cell":
            file = self.path(f"{self.numbers // FULL}.ipynb")
            if not os.path.exists(file):
                yield Step(*self.words["write"](file, NOTEBOOK))
                yield Step(*self.words["read"](file))
        else:
            file = self.path(f"lines{self.numbers // FULL}.txt")
            if not os.path.exists(file):
                yield Step(*self.words["write"](file, "END\n"))
                yield Step(*self.words["read"](file))
        yield from self.marked(how, file)

    def extend_shared(self) -> Iterator[Step]:
        file = str(self.place.root / f"shared/{self.dice.randrange(4)}.txt")
        if os.path.getsize(file) > 60_000:
            return  # enough for every client
        yield Step(*self.words["read"](file))
        yield from self.marked("edit", file)

    def marked(self, how: str, file: str) -> Iterator[Step]:
        mark = self.mark()
        yield Step(*self.words[how](file, mark), mark, file)
        if not self.said["ok"]:
            yield Step(*self.words["read"](file))

    def command(self) -> Iterator[Step]:
        file, mark = self.path(f"printed{self.numbers // FULL}.log"), self.mark()
        command = f"echo '{mark}' >> '{file}'; echo done"
        yield Step(*self.words["run"](command), mark, file, progress=self.dice.random() < 0.3)

    def sleep(self) -> Iterator[Step]:
        """Long enough to be killed in, with a process that could be left behind."""
        file, mark = self.path(f"slept{self.numbers // FULL}.log"), self.mark()
        nap = f"sleep {self.dice.uniform(0.1, 1.5):.1f} & cat <(seq 9999) > $TMPDIR/x"
        command = f"{nap}; echo '{mark}' >> '{file}'; wait"
        yield Step(*self.words["run"](command), mark, file)

    def job(self) -> Iterator[Step]:
        command = "read line; echo got $line; sleep 300" if "input" in self.words else "seq 100; sleep 300"
        yield Step(*self.words["start"](command), starts=True)
        if not (job := self.said["job"]):
            return
        if "input" in self.words:
            yield Step(*self.words["input"](job, "one line\n"))
        yield Step(*self.words["output"](job))
        yield Step(*self.words["stop"](job), stops=job)
