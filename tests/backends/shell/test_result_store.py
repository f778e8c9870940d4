import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from handhold.backends.shell.result_store import ResultStore, SpillFile
from handhold.core.errors import OutsideWorkspace, ReadOnly
from handhold.core.plans import FileChange, InlineContent
from tests.backends.shell.shells import bench


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    return ResultStore(tmp_path / "results", max_bytes=1_000)


def kept(results: ResultStore, size: int, *, age: int = 0) -> SpillFile:
    spill = results.create()
    assert spill
    spill.write(b"x" * size)
    results.finish(spill)
    path = results.folder / spill.name
    when = path.stat().st_mtime_ns - age * 1_000_000_000
    os.utime(path, ns=(when, when))
    return spill


def names(results: ResultStore) -> set[str]:
    return set(os.listdir(results.folder))


def test_an_offloaded_output_is_for_its_owner_alone_and_has_a_short_name(results: ResultStore):
    spill = kept(results, 10)
    path = results.folder / spill.name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(results.folder.stat().st_mode) == 0o700
    assert spill.handle == f"/large_tool_results/{spill.name}"
    assert len(spill.name) == len("0123abcd.txt")
    assert kept(results, 10).name != spill.name


def test_the_oldest_make_room_and_the_newest_stays_however_large(results: ResultStore):
    oldest, older = kept(results, 400, age=20), kept(results, 400, age=10)
    newest = kept(results, 900)
    assert names(results) == {newest.name}
    assert oldest.name != older.name
    larger = kept(results, 5_000)
    assert names(results) == {larger.name}


def test_only_as_many_go_as_must(results: ResultStore):
    oldest, older, young = (kept(results, 300, age=age) for age in (30, 20, 10))
    newest = kept(results, 300)
    assert names(results) == {older.name, young.name, newest.name}
    assert oldest.name not in names(results)


def test_the_file_of_a_running_command_never_goes(results: ResultStore):
    running = results.create()
    assert running
    running.write(b"x" * 2_000)
    os.utime(results.folder / running.name, (1, 1))
    kept(results, 900)
    assert running.name in names(results)
    running.close()
    kept(results, 901)
    assert running.name not in names(results)


def test_the_file_of_a_command_of_another_process_never_goes(results: ResultStore):
    script = """if True:
        import sys
        from pathlib import Path
        from handhold.backends.shell.result_store import ResultStore
        spill = ResultStore(Path(sys.argv[1]), max_bytes=1_000).create()
        spill.write(b"x" * 2_000)
        print(spill.name, flush=True)
        sys.stdin.read()
    """
    with subprocess.Popen(
        [sys.executable, "-c", script, str(results.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        theirs = other.stdout.readline().strip()
        os.utime(results.folder / theirs, (1, 1))
        kept(results, 900)
        assert theirs in names(results)
        other.communicate()
    kept(results, 901)
    assert theirs not in names(results)


def test_what_is_no_file_of_ours_is_left_alone(results: ResultStore):
    kept(results, 10)
    (results.folder / "conflicts").mkdir()
    (results.folder / "link").symlink_to("/etc/passwd")
    kept(results, 5_000)
    assert {"conflicts", "link"} < names(results)


def test_c5_a_model_reads_what_was_offloaded_and_cannot_change_it(tmp_path: Path):
    with bench(tmp_path) as shell:
        output = shell("seq 100000").output
        assert shell.files.read(output.handle).data == b"".join(b"%d\n" % n for n in range(1, 100_001))
        assert not shell.files.is_writable(output.handle)
        place = shell.files.resolve(output.handle)
        with (
            pytest.raises((ReadOnly, OutsideWorkspace)),
            shell.files.transaction([FileChange(place, None, InlineContent(b""))]),
        ):
            pass
        assert shell.shows(f"head -2 {output.handle}; echo x > {output.handle} || echo no").startswith("1\n2\n")
        assert shell.shows(f"echo x 2>/dev/null > {output.handle} || echo no").endswith("no\n")
