"""Nothing lost: uplinks under load while hubs are killed, both stores restarted and connections cut.

python -m tests.hub.chaos --uplinks 200 --seconds 600
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from handhold.core.shipped_records import parse_record
from handhold.hub.service import open_stores
from handhold.hub.tenants import TenantLimits
from tests.hub.cutting_proxy import CuttingProxy
from tests.hub.hubs import Hub, read_content
from tests.hub.servers import Postgres, SeaweedFS, Server, find_program, free_port, running

PROJECT = Path(__file__).parents[2]
HUBS = 3
HUB_KILL_SECONDS = 2.0
CUT_SHARE = 0.8
HAPROXY = """
global
    maxconn 4000
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    option redispatch
    retries 2
frontend hub
    bind 127.0.0.1:{port}
    default_backend hubs
backend hubs
    balance roundrobin
    option httpchk GET /healthz
    default-server check inter 500ms fall 1 rise 1
"""


@dataclass
class Found:
    """What the chaos did, and what is wrong afterwards."""

    uplinks: int
    records: int = 0
    contents: int = 0
    hub_kills: int = 0
    postgres_restarts: int = 0
    seaweed_restarts: int = 0
    cuts: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)


def start_again(server: Server) -> None:
    """A killed server may need several starts: its children end a moment later."""
    for _ in range(100):
        server.start(wait=False)
        for _ in range(600):
            if server.has_ended():
                break
            if server.is_ready():
                return
            time.sleep(0.05)
        server.kill()
        time.sleep(0.3)
    raise TimeoutError(server.argv[0])


def run(
    folder: Path,
    uplinks: int,
    seconds: float,
    *,
    restarts: int,
    processes: int,
    compare: bool = True,
    seed: int = 1,
) -> Found:
    found, choose = Found(uplinks), random.Random(seed)
    started = time.monotonic()
    with ExitStack() as stack:
        postgres, seaweed = Postgres(folder / "postgres"), SeaweedFS(folder / "seaweed")
        stack.enter_context(running(seaweed))
        stack.enter_context(running(postgres))
        database = postgres.make_database()
        os.environ.update(seaweed.environment)
        env = {
            **seaweed.environment,
            "PYTHONPATH": str(PROJECT),
            "HANDHOLD_TEST_WITHOUT_COMPARE": "" if compare else "1",
        }
        tokens = make_tokens(database, seaweed.url, uplinks)
        hubs = [
            Hub(database, seaweed.url, folder / f"hub{n}.log", env=env, module="tests.hub.hub_process")
            for n in range(HUBS)
        ]
        for hub in hubs:
            stack.callback(hub.kill)
            hub.start()
        haproxy = make_haproxy(folder, hubs)
        stack.enter_context(running(haproxy))
        proxy = CuttingProxy(free_port(), haproxy.port, share=CUT_SHARE, seed=seed)
        proxy.start()
        stack.callback(proxy.stop)
        workers = start_workers(folder, tokens, f"http://127.0.0.1:{proxy.port}", processes)
        for each in workers:
            stack.callback(each.kill)
        rage(found, hubs, postgres, seaweed, seconds, restarts, choose)
        proxy.share = 0.0
        end_work(workers)
        reports = [json.loads(each.communicate(timeout=240)[0]) for each in workers]
        found.cuts = proxy.cuts
        check(found, database, seaweed, [report for part in reports for report in part])
    found.seconds = time.monotonic() - started
    return found


def make_tokens(database: str, contents: str, uplinks: int) -> list[tuple[str, str]]:
    with open_stores(database, contents) as stores:
        assert stores.tenants
        tenant = stores.tenants.add_tenant("chaos", TenantLimits())
        return [(f"w{n}", stores.tokens.create_token(tenant, "agent", f"w{n}").token) for n in range(uplinks)]


def make_haproxy(folder: Path, hubs: list[Hub]) -> Server:
    port = free_port()
    lines = [f"    server hub{n} 127.0.0.1:{hub.port}\n" for n, hub in enumerate(hubs)]
    (folder / "haproxy.cfg").write_text(HAPROXY.format(port=port) + "".join(lines))
    return Server([find_program("haproxy"), "-db", "-f", str(folder / "haproxy.cfg")], port, folder / "haproxy.log")


def start_workers(folder: Path, tokens: list[tuple[str, str]], url: str, processes: int) -> list[subprocess.Popen[str]]:
    workers: list[subprocess.Popen[str]] = []
    for n in range(processes):
        place = folder / f"worker{n}"
        place.mkdir()
        argv = [sys.executable, "-m", "tests.hub.chaos_worker", str(place), url, "120"]
        with (place / "log").open("wb") as log:
            worker = subprocess.Popen(
                argv, cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert worker.stdin
        worker.stdin.write("".join(f"{name} {token}\n" for name, token in tokens[n::processes]) + "\n")
        worker.stdin.flush()
        workers.append(worker)
    return workers


def end_work(workers: list[subprocess.Popen[str]]) -> None:
    for worker in workers:
        assert worker.stdin
        worker.stdin.close()
        worker.stdin = None


def rage(
    found: Found,
    hubs: list[Hub],
    postgres: Postgres,
    seaweed: SeaweedFS,
    seconds: float,
    restarts: int,
    choose: random.Random,
) -> None:
    """Kill a hub every two seconds; restart PostgreSQL and SeaweedFS in turns, the first time by kill -9.

    A hub that is being started is left alone, so a slow machine needs more time for the same number of kills.
    """
    kills = seconds / (2 * HUB_KILL_SECONDS)
    until = time.monotonic() + seconds
    pause = seconds / (2 * restarts + 1)
    next_restart = time.monotonic() + pause
    turn = 0
    with ThreadPoolExecutor(32) as pool:
        pending: dict[int, Future[None]] = {}  # by port

        def is_started(server: Server) -> bool:
            return server.port not in pending or pending[server.port].done()

        while time.monotonic() < until or turn < 2 * restarts or found.hub_kills < kills:
            time.sleep(HUB_KILL_SECONDS)
            for each in [each for each in pending.values() if each.done()]:
                each.result()
            if ready := [hub for hub in hubs if is_started(hub)]:
                hub = choose.choice(ready)
                hub.kill(signal.SIGKILL)
                found.hub_kills += 1
                pending[hub.port] = pool.submit(start_again, hub)
            server = (postgres, seaweed)[turn % 2]
            if time.monotonic() >= next_restart and turn < 2 * restarts and is_started(server):
                server.kill(signal.SIGINT if server is postgres and turn else signal.SIGKILL)
                found.postgres_restarts += server is postgres
                found.seaweed_restarts += server is seaweed
                pending[server.port] = pool.submit(start_again, server)
                turn += 1
                next_restart += pause
        for each in pending.values():
            each.result()
    for hub in hubs:
        if hub.has_ended():
            start_again(hub)


def check(found: Found, database: str, seaweed: SeaweedFS, reports: list[dict]) -> None:
    """Every record and every content that was acknowledged is there once, in order, and the chain is whole."""
    assert len(reports) == found.uplinks
    with psycopg.connect(database) as connection, open_stores(database, seaweed.url) as stores:
        for report in reports:
            name = report["name"]
            if report["diverged_at"] or report["regressions"] or report["acknowledged"] != report["records"]:
                found.problems.append(f"{name}: {report}")
            rows = connection.execute(
                "SELECT records.record, line FROM records JOIN workspaces ON id = workspace WHERE name = %s"
                " ORDER BY records.record, received",
                (name,),
            ).fetchall()
            found.records += len(rows)
            digest, wanted = bytes(32), set[str]()
            for place, (number, line) in enumerate(rows, 1):
                record = parse_record(line)
                if (number, record.number, record.previous) != (place, place, digest):
                    found.problems.append(
                        f"{name}: record {number} is at place {place}, or does not follow the one before"
                    )
                    break
                digest = record.digest
                wanted |= {change.after for change in record.changes if change.after}
            if len(rows) != report["acknowledged"] or (rows and digest.hex() != report["head"]):
                found.problems.append(f"{name}: {len(rows)} records, {report['acknowledged']} acknowledged")
            found.contents += len(wanted)
            chain = stores.records.find_chain(1, name)
            assert chain
            if lost := wanted - stores.records.select_present(chain, wanted):
                found.problems.append(f"{name}: {len(lost)} contents are missing")
            for hash in sorted(wanted)[:5]:
                if read_content(stores, chain, hash) is None:  # HashMismatch if it is damaged
                    found.problems.append(f"{name}: the object of {hash} is missing or damaged")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--uplinks", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--without-compare", action="store_true")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        found = run(
            Path(folder),
            given.uplinks,
            given.seconds,
            restarts=given.restarts,
            processes=given.processes,
            compare=not given.without_compare,
        )
    print(found)
    sys.exit(bool(found.problems))


if __name__ == "__main__":
    main()
