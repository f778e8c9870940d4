"""Put a server under load, kill its clients or the server, and check what is left. Exits with 0 if all is well."""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.load.runs import loaded, survived
from bench.load.sleepers import among


def main() -> int:
    parser = argparse.ArgumentParser(prog="just load", description=__doc__)
    parser.add_argument("minutes", type=float, nargs="?", default=2.0)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--pause", type=float, default=0.2, help="average seconds between the calls of a client")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--kill-server", type=int, metavar="ROUNDS", help="kill the server this many times instead, with 8 clients"
    )
    parser.add_argument(
        "--sleepers", action="store_true", help="send 1,000 calls at once instead, 50 of them sleeping commands"
    )
    parser.add_argument("--at", type=Path, help="new folder for all files; it is kept")
    chosen = parser.parse_args()
    if chosen.at:
        chosen.at.mkdir()
    with nullcontext(chosen.at) if chosen.at else TemporaryDirectory(prefix="load-") as folder:
        top = Path(folder)
        if chosen.sleepers:
            report = among(top)
        elif chosen.kill_server:
            report = survived(top, rounds=chosen.kill_server, clients=8, seed=chosen.seed, told=print)
        else:
            how = {"clients": chosen.clients, "pause": chosen.pause, "seed": chosen.seed}
            report = loaded(top, minutes=chosen.minutes, told=print, **how)
    print(report)
    return bool(report.wrong)


if __name__ == "__main__":
    sys.exit(main())
