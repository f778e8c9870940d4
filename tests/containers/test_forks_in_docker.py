"""Forks in a default Docker container: copies at another path, merged and undone like any other."""

from pathlib import Path

import pytest

from tests.containers.engine import Engine, install_handhold, missing_programs, read_json_lines

pytestmark = [
    pytest.mark.skipif(bool(missing_programs()), reason=f"not installed: {', '.join(missing_programs())}"),
    pytest.mark.root,
    pytest.mark.slow,
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("user", "folder"), [("0", "/root-ws/work"), ("1000", "/ws/work")], ids=["root", "uid 1000"])
def test_a_fork_is_a_copy_in_a_default_container(engine: Engine, image: str, tmp_path: Path, user: str, folder: str):
    install_handhold(tmp_path / "app")
    files: dict[str, bytes | Path] = {
        "app": tmp_path / "app",
        "driver.py": Path(__file__).with_name("fork_driver.py").read_bytes(),
    }
    argv = ["env", "PYTHONPATH=/app", "HOME=/tmp", "python3", "/driver.py", folder]
    (report,) = read_json_lines(engine.run_default(image, argv, files, user=user, tmpfs=("/ws",), seconds=300))
    assert report["user"] == int(user)
    assert report["status"] == 3
    assert report["shown"] != folder
    assert report["untouched"]
    assert "+two" in str(report["diff"])
    assert "one\ntwo" in str(report["reply"])
    assert report["merged"] == ["c", "c/d", "c/d/e", "src", "src/a.txt", "tool.txt"]
    assert report["a"] == "one\ntwo\n"
    assert report["dropped"]
    assert report["undone"]
    assert report["restored"]
