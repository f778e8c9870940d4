"""Connection limits: the oldest idle connection is closed, and no client locks out others."""

import subprocess
import sys
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from handhold.http_listener.connections import NO_CLIENT, Connections

MOST = 16


@dataclass(eq=False)
class Line:
    number: int
    is_idle: bool = True
    is_closed: bool = field(default=False)

    def close(self) -> None:
        self.is_closed = True


def test_r21_the_oldest_idle_connection_of_nobody_makes_room_for_a_new_one():
    connections = Connections(MOST)
    lines = [Line(n, is_idle=n != 1) for n in range(7)]
    assert all(connections.add(line) for line in lines)
    assert [line.number for line in lines if line.is_closed] == [0, 2, 3]


def test_r21_a_token_whose_connections_are_all_busy_gets_no_more_and_others_do():
    connections = Connections(MOST)
    busy = [Line(n, is_idle=False) for n in range(MOST)]
    assert [connections.add(line, "mallory") for line in busy] == [True] * (MOST // 2) + [False] * (MOST // 2)
    assert connections.add(Line(0), "anna")
    assert connections.add(Line(0))


@given(st.lists(st.tuples(st.sampled_from([NO_CLIENT, "anna", "ben", "carla"]), st.booleans(), st.booleans())))
def test_r21_no_share_is_ever_exceeded_and_nothing_is_refused_while_others_are_idle(
    steps: list[tuple[str, bool, bool]],
):
    connections, live = Connections(MOST), dict[Line, str]()
    for number, (token, is_idle, ends) in enumerate(steps):
        line = Line(number, is_idle)
        owned = [each for each, owner in live.items() if owner == token]
        if connections.add(line, token):
            live[line] = token
        else:
            share = MOST // 2 if token else MOST // 4
            crowd = owned if len(owned) >= share else list(live)
            assert not any(each.is_idle for each in crowd)
        live = {each: owner for each, owner in live.items() if not each.is_closed}
        if ends and live:
            connections.discard(gone := next(iter(live)))
            del live[gone]
        counts = [list(live.values()).count(owner) for owner in ("anna", "ben", "carla")]
        assert len(live) <= MOST
        assert max(counts) <= MOST // 2
        assert list(live.values()).count(NO_CLIENT) <= MOST // 4


def test_r21_connections_never_take_more_than_a_half_of_the_files_that_a_process_may_open():
    script = "from handhold.http_listener.connections import raise_file_limit; print(raise_file_limit(1024))"
    for limit, room in (("256:1024", 512), ("1024:1024", 512), ("256:4096", 1024), ("8192:8192", 1024)):
        command = ["prlimit", f"--nofile={limit}", sys.executable, "-c", script]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == f"{room}\n", limit
