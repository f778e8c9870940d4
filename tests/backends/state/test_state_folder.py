from pathlib import Path

import pytest

from handhold.backends.state import state_folder as state
from handhold.backends.state.state_folder import default_state_root, ensure_state_folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path / "home"


def test_f2_state_lies_in_the_users_state_directory(home: Path, monkeypatch: pytest.MonkeyPatch):
    assert default_state_root() == home / ".local/state/handhold"
    monkeypatch.setenv("XDG_STATE_HOME", "/elsewhere")
    assert default_state_root() == Path("/elsewhere/handhold")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    assert default_state_root() == home / ".local/state/handhold"
    monkeypatch.setattr(state.sys, "platform", "darwin")
    assert default_state_root() == home / "Library/Application Support/handhold"


def test_f2_each_workspace_has_a_private_folder_of_its_own(home: Path, tmp_path: Path):
    one, two = ensure_state_folder(None, [str(tmp_path / "one")]), ensure_state_folder(None, [str(tmp_path / "two")])
    assert one != two
    assert one.parent == two.parent == home / ".local/state/handhold"
    assert [path.stat().st_mode & 0o777 for path in (one, two, one.parent)] == [0o700] * 3
    assert (one / "roots.txt").read_text() == f"{tmp_path / 'one'}\n"


def test_f2_a_folder_that_was_there_keeps_its_mode(tmp_path: Path):
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o2755)
    made = ensure_state_folder(state, ["/ws"])
    assert [path.stat().st_mode & 0o777 for path in (state, made)] == [0o755, 0o700]


def test_f2_the_folder_of_a_workspace_is_closed_to_others_whoever_made_it(tmp_path: Path):
    folder = ensure_state_folder(tmp_path, ["/ws"])
    folder.chmod(0o775)
    assert ensure_state_folder(tmp_path, ["/ws"]) == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_f2_state_moves_the_whole_folder(tmp_path: Path):
    assert ensure_state_folder(tmp_path / "moved", ["/ws"]).parent == tmp_path / "moved"


def test_u15_a_link_to_a_root_leads_to_the_same_state(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    (tmp_path / "link").symlink_to("ws")
    top = tmp_path / "state"
    assert ensure_state_folder(top, [str(tmp_path / "link")]) == ensure_state_folder(top, [str(tmp_path / "ws")])


def test_the_first_root_names_the_workspace(tmp_path: Path):
    assert ensure_state_folder(tmp_path, ["/ws", "/lib"]) == ensure_state_folder(tmp_path, ["/ws"])


def test_a_relative_state_folder_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    folder = ensure_state_folder(Path("kept"), [str(tmp_path / "ws")])
    assert folder.is_absolute()
    assert folder.parent == tmp_path / "kept"
