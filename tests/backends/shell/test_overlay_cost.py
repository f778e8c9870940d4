"""The cost of reading a layer, compared with the same system calls alone."""

import os
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from tests.backends.shell.shadows import Desk
from tests.counting import system_calls
from tests.scale import nightly, scaled

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("who", ["ourselves"], indirect=True)]

CHANGED = 400
FOLDERS = scaled(50, 200)  # folders of a hundred files
ROUNDS = 3


def best(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ROUNDS))


def spent(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def test_a_changed_file_takes_few_system_calls(place: Path):
    desk = Desk(place)
    desk.lay("mkdir a; for ((i = 0; i < 60; i++)); do echo $i >a/f$i; done")

    def taken(files: str) -> int:
        shadow = desk.shadow()
        desk.bash(shadow, f"for f in {files}; do echo more >>$f; done")
        calls = system_calls(lambda: shadow.collect_effects(lambda _: False))
        shadow.discard()
        return calls

    few, many = taken("a/f1 a/f2 a/f3 a/f4 a/f5 a/f6 a/f7 a/f8 a/f9 a/f10"), taken("a/*")
    print(f"{few} system calls for 10 changed files, {many} for 60")
    assert (many - few) / 50 <= 16


@nightly(sampled_by="tests/backends/shell/test_overlay_cost.py::test_a_changed_file_takes_few_system_calls")
@pytest.mark.alone
def test_a_changed_file_costs_little_more_than_its_system_calls(place: Path):
    desk = Desk(place)
    desk.lay(f"mkdir a; for ((i = 0; i < {CHANGED}; i++)); do echo $i >a/f$i; done")

    def ours() -> float:
        shadow = desk.shadow()
        desk.bash(shadow, "for f in a/*; do echo more >>$f; done")
        took = spent(lambda: shadow.collect_effects(lambda _: False))
        shadow.discard()
        return took

    def bare() -> float:
        shadow = desk.shadow()
        desk.bash(shadow, "for f in a/*; do echo more >>$f; done")
        (place / "to").mkdir(exist_ok=True)
        upper, lower, to = (
            os.open(path, os.O_RDONLY) for path in (f"{shadow.mounts[0].upper}/a", desk.ws / "a", place / "to")
        )
        took = spent(lambda: [one(upper, lower, to, name) for name in os.listdir(upper)])
        for fd in (upper, lower, to):
            os.close(fd)
        shadow.discard()
        return took

    def one(upper: int, lower: int, to: int, name: str) -> None:
        for directory in (upper, lower):
            os.stat(name, dir_fd=directory, follow_symlinks=False)
            fd = os.open(name, os.O_RDONLY, dir_fd=directory)
            sha256(os.read(fd, 100)).hexdigest()
            if directory == upper:
                for attribute in os.listxattr(fd):
                    os.removexattr(fd, attribute)
            os.close(fd)
        os.rename(name, name, src_dir_fd=upper, dst_dir_fd=to)

    took, least = best(ours), best(bare)
    print(f"{took / CHANGED * 1e6:.0f} µs a changed file, {least / CHANGED * 1e6:.0f} µs of them system calls")
    assert took < 2.5 * least


@pytest.mark.alone
def test_a_new_tree_costs_little_more_than_reading_it(place: Path):
    desk = Desk(place)
    script = f"mkdir n; cd n; for ((i = 0; i < {FOLDERS}; i++)); do mkdir $i; for ((j = 0; j < 100; j++)); do echo $i $j >$i/$j; done; done"
    shadow = desk.shadow()
    desk.bash(shadow, script)

    def read() -> None:
        for folder, _, files in os.walk(shadow.mounts[0].upper):
            for name in files:
                path = os.path.join(folder, name)
                os.lstat(path)
                os.listxattr(path, follow_symlinks=False)
                sha256(Path(path).read_bytes()).digest()

    least = best(lambda: spent(read))
    took = spent(lambda: shadow.collect_effects(lambda _: False))
    shadow.discard()
    print(f"{took:.2f} s for {101 * FOLDERS:,} new files, {least:.2f} s for reading them")
    assert took < 1.5 * least


@pytest.mark.alone
def test_a_shadow_is_made_in_less_than_a_few_milliseconds(place: Path):
    desk = Desk(place)
    desk.lay("mkdir a; echo 1 >a/b")
    desk.shadow().discard()

    def made() -> float:
        begun = time.perf_counter()
        shadow = desk.shadow()
        took = time.perf_counter() - begun
        shadow.discard()
        return took

    took = sorted(made() for _ in range(50))[25]
    print(f"{took * 1e3:.2f} ms")
    assert took < 0.003
