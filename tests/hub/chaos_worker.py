"""Many sandboxes in one process: each has a journal that grows, and an uplink. Prints what it saw as JSON.

python -m tests.hub.chaos_worker FOLDER URL DRAIN_SECONDS

Names and tokens come on standard input, one pair a line, then an empty line; the work goes on until the input ends.
"""

import json
import os
import random
import select
import sys
import time
from pathlib import Path

from handhold.backends.state.sqlite import SqliteStore
from handhold.backends.uplink import uplink as module
from handhold.backends.uplink.hub_client import HubClient
from handhold.backends.uplink.hub_token import HubToken
from handhold.backends.uplink.uplink import Uplink
from handhold.core.plans import FileChange, InlineContent
from handhold.core.ports.journal import Call, CallDecision, Outcome

ALLOWED = CallDecision("allowed", "mode edit (built in)")
CALLS_A_SECOND = 4.0  # of each sandbox
CONTENT_SHARE = 0.2  # of the calls write a content that nobody has


class NoSecrets:
    """Everything may be shipped."""

    def may_ship(self, path: str, data: bytes) -> bool:
        return True

    def learn(self, path: str, data: bytes) -> None:
        pass


class Sandbox:
    def __init__(self, folder: Path, url: str, token: str) -> None:
        os.environ["HANDHOLD_HUB_TOKEN"] = token
        self.name = folder.name
        self.store = SqliteStore(folder, bound=1 << 34)
        self.state = self.store.open_uplink(self._wake)
        self.regressions: list[tuple[int, int]] = []
        self._watch()
        self.uplink = Uplink(
            self.state,
            HubClient(url, HubToken(), timeout=10),
            str(folder / "uplink"),
            lambda content, _: self.store.get(content.hash),
            NoSecrets(),
        )
        self.uplink.start()

    def _wake(self) -> None:
        self.uplink.wake()

    def _watch(self) -> None:
        """An uplink that has to go back has lost something that was acknowledged."""
        move = self.state.move_to

        def watched(number: int) -> None:
            status = self.state.read_status()
            if status and number < status.acknowledged:
                self.regressions.append((status.acknowledged, number))
            move(number)

        self.state.move_to = watched

    def work(self, choose: random.Random) -> None:
        seq = self.store.begin(Call("s", "t", "", "write_file", "{}", "handhold"))
        data = choose.randbytes(300) if choose.random() < CONTENT_SHARE else b"the same\n"
        change = FileChange(f"/ws/{choose.randrange(50)}", None, InlineContent(data))
        self.store.record_intent(seq, f"x{seq}", (change,), decision=ALLOWED)
        self.store.record_outcome(seq, Outcome("success", None, 1.0, None), durable=True)
        self.store.mark_cleaned_up(seq)

    def report(self) -> dict:
        status = self.state.read_status()
        assert status
        verified = self.store.verify()
        return {
            "name": self.name,
            "records": verified.count,
            "head": verified.head,
            "acknowledged": status.acknowledged,
            "problem": status.problem,
            "diverged_at": status.diverged_at,
            "regressions": self.regressions,
        }


def main() -> None:
    folder, url, drain = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    module.LAST_RETRY_SECONDS = 2.0
    names = [line.split() for line in iter(sys.stdin.readline, "\n")]
    sandboxes = [Sandbox(folder / name, url, token) for name, token in names]
    choose = random.Random(str(folder))
    while not select.select([sys.stdin], [], [], 0)[0]:
        started = time.monotonic()
        for each in choose.sample(sandboxes, len(sandboxes)):
            each.work(choose)
        time.sleep(max(0.0, 1 / CALLS_A_SECOND - (time.monotonic() - started)))
    until = time.monotonic() + drain
    while time.monotonic() < until and any((status := each.state.read_status()) and status.lag for each in sandboxes):
        time.sleep(0.2)
    print(json.dumps([each.report() for each in sandboxes]))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
