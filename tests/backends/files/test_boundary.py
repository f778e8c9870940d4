import errno
import os
import resource
import socket
import stat
from pathlib import Path
from time import perf_counter
from types import SimpleNamespace

import pytest

from handhold.backends.files.workspace import Workspace
from handhold.core.errors import (
    BadPath,
    DanglingLink,
    IsDirectory,
    NotDirectory,
    NotFound,
    NotRegularFile,
    OutsideWorkspace,
    PathError,
    PermissionDenied,
    ReadOnly,
    SymlinkLoop,
    SystemFailure,
)
from handhold.core.plans import FileChange, InlineContent
from tests.backends.files.opening import NoContents, Opener
from tests.scale import scaled


def text(files: Workspace, path: str) -> str:
    return files.read(path).data.decode()


# --- where paths lead


def test_c_4_a_relative_path_is_of_the_first_root(opener: Opener, ws: Path, tmp_path: Path):
    files = opener(ws, tmp_path / "outside")
    assert files.resolve("a.txt") == str(ws / "a.txt")
    assert files.stat("secret.txt") is None


@pytest.mark.parametrize("way", ["a.txt", "./a.txt", "src/../a.txt", "src/.././a.txt", ".//a.txt", "src//../a.txt"])
def test_one_file_has_one_spelling(files: Workspace, ws: Path, way: str):
    assert (
        files.resolve(way) == files.resolve(str(ws / "a.txt")) == files.resolve(f"{ws}//./{way}") == str(ws / "a.txt")
    )
    assert text(files, way) == "one\ntwo\n"


def test_c_4_a_slash_alone_and_the_root_itself_are_the_root(files: Workspace, ws: Path):
    for path in ("/", str(ws)):
        look = files.stat(path)
        assert look
        assert (look.path, look.kind) == (str(ws), "directory")


def test_c_4_an_absolute_path_may_be_spelled_as_the_root_was_given(opener: Opener, ws: Path, tmp_path: Path):
    alias = tmp_path / "alias"
    alias.symlink_to(ws)
    files = opener(alias)
    assert files.roots == (str(ws),)
    assert files.resolve(str(alias / "a.txt")) == files.resolve(str(ws / "a.txt")) == str(ws / "a.txt")


def test_absolute_paths_reach_every_root(opener: Opener, ws: Path, tmp_path: Path):
    files = opener(ws, read_only=[tmp_path / "outside"])
    assert text(files, str(tmp_path / "outside" / "secret.txt")) == "secret\n"
    assert [files.find_root(str(at)).writable for at in (ws / "x", tmp_path / "outside" / "x")] == [True, False]


def test_of_roots_within_each_other_the_inner_one_is_meant(opener: Opener, ws: Path):
    files = opener(ws, read_only=[ws / "src"])
    assert not files.find_root(files.resolve("src/b.py")).writable
    assert files.find_root(files.resolve("a.txt")).writable


@pytest.mark.parametrize("spelling", ["ws", "alias", "ws/../ws", "ws/self"])
def test_a_root_that_is_also_read_only_is_read_only(opener: Opener, ws: Path, tmp_path: Path, spelling: str):
    (tmp_path / "alias").symlink_to(ws)
    (ws / "self").symlink_to(".")
    for files in (opener(ws, read_only=[tmp_path / spelling]), opener(tmp_path / spelling, read_only=[ws])):
        assert files.roots == (str(ws),)
        for path in ("a.txt", "src/b.py", "new.txt", str(ws / "a.txt"), os.path.abspath(tmp_path / spelling / "a.txt")):
            assert not files.find_root(files.resolve(path)).writable
        with pytest.raises(ReadOnly), files.transaction([FileChange(str(ws / "new.txt"), None, InlineContent(b"new"))]):
            pass


def test_a_root_within_a_read_only_one_is_written(opener: Opener, ws: Path):
    files = opener(ws, ws / "src", read_only=[ws])
    assert files.find_root(files.resolve("src/b.py")).writable
    assert not files.find_root(files.resolve("a.txt")).writable


@pytest.mark.parametrize(
    "path", ["", ".", "..", "a/", "src/", "src/.", "src/..", "a\0b", "a.txt\0", "\ud800", "a/\udfff/b"]
)
def test_nasty_25_what_names_no_file_is_refused_before_any_system_call(
    files: Workspace, path: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(files, "_resolver", SimpleNamespace(open=pytest.fail))
    for ask in (files.resolve, files.stat, files.read, files.count_lines, files.fingerprint, files.suggest_paths):
        with pytest.raises(BadPath):
            ask(path)


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "../ws/a.txt",
        "/etc/passwd",
        "/dev/zero",
        "//etc/passwd",
    ],
)
def test_c_2_a_path_that_leads_out_is_refused(files: Workspace, path: str):
    for ask in (files.resolve, files.stat, files.read):
        with pytest.raises(OutsideWorkspace) as refused:
            ask(path)
        assert refused.value.path == path
        assert refused.value.roots == files.roots


def test_nasty_34_a_sibling_with_the_same_prefix_is_outside(files: Workspace, ws: Path):
    for path in (f"{ws}-secrets/secret.txt", "../ws-secrets/secret.txt", f"{ws}/../ws-secrets/secret.txt"):
        with pytest.raises(OutsideWorkspace):
            files.read(path)


def test_nasty_5_proc_is_outside(files: Workspace):
    for path in ("/proc/self/mem", "/proc/kcore", "/proc/self/environ"):
        with pytest.raises(OutsideWorkspace):
            files.read(path)


def test_nasty_5_proc_and_sys_are_outside_even_of_a_workspace_that_is_everything(opener: Opener, ws: Path):
    files = opener("/")
    assert text(files, str(ws / "a.txt")) == "one\ntwo\n"
    assert files.resolve(str(ws / "new.txt")) == str(ws / "new.txt")
    for path in ("/proc/self/environ", "/proc/version", "/sys/kernel/notes", "proc", "proc/self/root/etc/passwd"):
        with pytest.raises(OutsideWorkspace):
            files.stat(path)


# --- links


def test_c_3_links_inside_work_as_what_they_name(files: Workspace, ws: Path):
    (ws / "file").symlink_to("a.txt")
    (ws / "dir").symlink_to("src")
    (ws / "src" / "up").symlink_to("../a.txt")
    (ws / "absolute").symlink_to(ws / "src")
    (ws / "chain").symlink_to("absolute")
    (ws / "self").symlink_to(".")
    (ws / "top").symlink_to(ws)
    for way, real in {
        "file": "a.txt",
        "dir/b.py": "src/b.py",
        "dir/../a.txt": "a.txt",
        "src/up": "a.txt",
        "absolute/b.py": "src/b.py",
        "absolute/up": "a.txt",
        "absolute/../a.txt": "a.txt",
        "chain/b.py": "src/b.py",
        "self/self/a.txt": "a.txt",
        "top/src/b.py": "src/b.py",
        "absolute/new.py": "src/new.py",
        "dir/new/er.py": "src/new/er.py",
    }.items():
        assert files.resolve(way) == str(ws / real)
        if (ws / real).exists():
            assert files.read(way).path == str(ws / real)
            assert text(files, way) == (ws / real).read_text()


def test_c_3_links_lead_from_one_root_to_another(opener: Opener, ws: Path, tmp_path: Path):
    (ws / "absolute").symlink_to(tmp_path / "outside")
    (ws / "src" / "relative").symlink_to("../../outside/secret.txt")
    files = opener(ws, tmp_path / "outside")
    assert text(files, "absolute/secret.txt") == text(files, "src/relative") == "secret\n"
    assert files.resolve("src/relative") == str(tmp_path / "outside" / "secret.txt")
    assert files.resolve("absolute/new/one.txt") == str(tmp_path / "outside" / "new" / "one.txt")


def test_nasty_30_a_link_and_its_target_are_one_file(files: Workspace, ws: Path):
    (ws / "link").symlink_to("a.txt")
    assert files.stat("link") == files.stat("a.txt")


@pytest.mark.parametrize("target", ["../outside/secret.txt", "{}/outside/secret.txt", "src/../../outside/secret.txt"])
def test_nasty_27_a_link_to_the_outside_is_refused(files: Workspace, ws: Path, tmp_path: Path, target: str):
    (ws / "link").symlink_to(target.format(tmp_path))
    for ask in (files.resolve, files.stat, files.read):
        with pytest.raises(OutsideWorkspace):
            ask("link")


@pytest.mark.parametrize("target", ["../outside", "{}/outside", "/", "..", "../ws-secrets"])
def test_nasty_27_a_directory_link_to_the_outside_is_refused(files: Workspace, ws: Path, tmp_path: Path, target: str):
    (ws / "link").symlink_to(target.format(tmp_path))
    for path in ("link/secret.txt", "link", "link/new.txt"):
        with pytest.raises(OutsideWorkspace):
            files.resolve(path)


def test_nasty_26_a_loop_of_links(files: Workspace, ws: Path):
    (ws / "ping").symlink_to("pong")
    (ws / "pong").symlink_to("ping")
    for path in ("ping", "ping/x"):
        with pytest.raises(SymlinkLoop):
            files.stat(path)


def test_forty_links_are_followed(files: Workspace, ws: Path):
    (ws / "link0").symlink_to("a.txt")
    for n in range(1, 41):
        (ws / f"link{n}").symlink_to(f"link{n - 1}")
    assert text(files, "link39") == "one\ntwo\n"
    with pytest.raises(SymlinkLoop):
        files.stat("link40")


@pytest.mark.parametrize("target", ["missing", "src/missing", "missing/deeper", "{}/ws/missing"])
def test_nasty_29_a_dangling_link_is_an_error_of_its_own(files: Workspace, ws: Path, tmp_path: Path, target: str):
    (ws / "link").symlink_to(target.format(tmp_path))
    for ask in (files.resolve, files.stat, files.read):
        with pytest.raises(DanglingLink):
            ask("link")
    with pytest.raises(DanglingLink):
        files.resolve("link/below")


@pytest.mark.parametrize("magic", ["root", "cwd", "fd/0", "exe"])
def test_nasty_6_magic_links_are_refused(opener: Opener, ws: Path, magic: str):
    (ws / "magic").symlink_to(f"/proc/self/{magic}")
    for root in (ws, "/"):
        files = opener(root)
        with pytest.raises(OutsideWorkspace):
            files.stat(str(ws / "magic"))


# --- kinds of entries


def test_a_file_a_directory_and_nothing(files: Workspace, ws: Path):
    look = files.stat("a.txt")
    status = (ws / "a.txt").stat()
    assert look
    assert look.kind == "file"
    assert (look.identity.device, look.identity.inode) == (status.st_dev, status.st_ino)
    assert (look.identity.mtime_ns, look.identity.ctime_ns) == (status.st_mtime_ns, status.st_ctime_ns)
    directory = files.stat("src")
    assert directory
    assert directory.kind == "directory"
    assert files.stat("missing") is files.stat("missing/deeper/still") is None


def test_the_place_of_what_is_missing_starts_with_what_is_there(files: Workspace, ws: Path):
    (ws / "link").symlink_to("src")
    assert files.resolve("link/new/a.txt") == str(ws / "src" / "new" / "a.txt")
    with pytest.raises(BadPath):
        files.resolve("missing/../a.txt")


def test_a_file_is_no_directory(files: Workspace):
    for path in ("a.txt/below", "a.txt/../a.txt"):
        with pytest.raises(NotDirectory):
            files.stat(path)


def test_nasty_1_and_2_a_fifo_never_blocks(files: Workspace, ws: Path):
    os.mkfifo(ws / "pipe")
    refused_as(files, "pipe", "fifo")


def test_nasty_3_a_socket(files: Workspace, ws: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ws)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("s")
        refused_as(files, "s", "socket")


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a device")
@pytest.mark.parametrize(("major", "minor"), [(1, 5), (5, 0), (250, 250)])
def test_nasty_4_a_device_inside_is_not_read(files: Workspace, ws: Path, major: int, minor: int):
    try:
        os.mknod(ws / "device", 0o666 | stat.S_IFCHR, os.makedev(major, minor))
    except PermissionError:
        pytest.skip("not even root may make a device here")
    refused_as(files, "device", "device")


def test_nasty_4_a_device_is_called_one(opener: Opener):
    refused_as(opener("/dev"), "null", "device")


def refused_as(files: Workspace, path: str, kind: str) -> None:
    look = files.stat(path)
    assert look
    assert look.kind == "other"
    for ask in (files.read, files.count_lines, files.fingerprint, lambda path: files.read_page(path, 1, 10, 100)):
        with pytest.raises(NotRegularFile) as refused:
            ask(path)
        assert refused.value.kind == kind


def test_nasty_7_a_directory_is_not_read(files: Workspace):
    for path in ("src", "/"):
        with pytest.raises(IsDirectory):
            files.read(path)
        with pytest.raises(IsDirectory):
            files.read_page(path, 1, 10, 100)


def test_a_missing_file_is_not_read(files: Workspace):
    for path in ("missing", "missing/deeper"):
        with pytest.raises(NotFound):
            files.read(path)


# --- names


@pytest.mark.parametrize(
    "name",
    [
        *["-rf", "--pre=x", "~", "$(id)", "*", " both ", "con", "a:b", "a\nb", "a\tb", "\x1b[31mred", "\u202egnp.exe"],
        *["\udcff\udcfe.txt", "文件.txt", "...", "..a", "a..", "\\", "x (deleted)", "%2e%2e", "é", "e\u0301"],
    ],
)
def test_nasties_19_to_24_odd_names_are_names(files: Workspace, ws: Path, name: str):
    (ws / "src" / name).write_text("odd")
    whole = files.read(f"src/{name}")
    assert whole.data == b"odd"
    assert whole.path == files.resolve(whole.path) == f"{ws}/src/{name}"


def test_nasty_15_a_name_that_is_too_long(files: Workspace):
    for path in ("n" * 256, "src/" + "n" * 256 + "/deeper"):
        with pytest.raises(BadPath):
            files.stat(path)


def test_nasty_15_a_path_longer_than_the_kernel_takes_is_walked(files: Workspace, ws: Path):
    depth = 600
    fd = os.open(ws, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("deep-deep", dir_fd=fd)
        below = os.open("deep-deep", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = below
    made = os.open("a.txt", os.O_WRONLY | os.O_CREAT, dir_fd=fd)
    os.write(made, b"down here")
    os.close(made)
    os.close(fd)
    path = "deep-deep/" * depth + "a.txt"
    assert files.read(path).data == b"down here"
    assert files.resolve(path) == f"{ws}/{path}"
    with files.open_parent(f"{ws}/{path}") as (parent, name):
        assert os.listdir(parent) == [name]


def test_a_name_in_the_middle_that_is_gone_when_the_walk_comes_back(files: Workspace, ws: Path):
    assert files.stat("src/../src/../src/b.py") == files.stat("src/b.py")


# --- permissions and errors


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_nasty_42_what_the_system_forbids_is_said(opener: Opener, ws: Path, tmp_path: Path):
    for above in tmp_path.resolve().parents[:3]:
        if not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
    tmp_path.chmod(0o755)
    (ws / "closed").mkdir()
    (ws / "closed" / "a.txt").write_text("x")
    (ws / "a.txt").chmod(0o600)
    (ws / "closed").chmod(0o700)
    files = opener(ws)
    os.seteuid(65534)
    try:
        assert files.stat("a.txt")
        for path in ("a.txt", "closed/a.txt"):
            with pytest.raises(PermissionDenied):
                files.read(path)
        with pytest.raises(PermissionDenied):
            files.stat("closed/a.txt")
    finally:
        os.seteuid(0)


def test_a_root_that_is_not_there(opener: Opener, ws: Path):
    for root in (ws / "missing", ws / "a.txt"):
        with pytest.raises((NotFound, NotDirectory)):
            opener(root)


def test_without_openat2_the_walk_serves(ws: Path, monkeypatch: pytest.MonkeyPatch):
    from handhold.backends.files import openat2

    def missing(*_: object) -> int:
        raise OSError(errno.ENOSYS, "no such call")

    monkeypatch.setattr(openat2, "openat2", missing)
    files = Opener(None)(ws)
    assert files.resolver_name == "walk"
    assert text(files, "a.txt") == "one\ntwo\n"
    with pytest.raises(NotImplementedError):
        Workspace([ws], NoContents(), "openat2")
    files.close()


# --- the parent directory, for the commit


def test_the_directory_of_a_place_can_be_synced(files: Workspace, ws: Path):
    for place in (ws / "src" / "b.py", ws / "src" / "new.py", ws / "new.py"):
        with files.open_parent(str(place)) as (fd, name):
            os.fsync(fd)
            assert name == place.name
            assert os.path.samestat(os.fstat(fd), place.parent.stat())


def test_the_directory_of_a_place_is_reached_through_no_link(files: Workspace, ws: Path, tmp_path: Path):
    (ws / "out").symlink_to(tmp_path / "outside")
    (ws / "in").symlink_to("src")
    for place in (ws / "out" / "a", ws / "in" / "a", ws / "in" / "deeper" / "a"):
        with pytest.raises(NotDirectory), files.open_parent(str(place)):
            pass


def test_places_without_a_directory_are_refused(files: Workspace, ws: Path, tmp_path: Path):
    for place in (tmp_path / "outside" / "a", Path("/a")):
        with pytest.raises(OutsideWorkspace), files.open_parent(str(place)):
            pass
    for place in (str(ws), f"{ws}/..", f"{ws}/../outside/a"):
        with pytest.raises(BadPath), files.open_parent(place):
            pass
    with pytest.raises(NotFound), files.open_parent(str(ws / "missing" / "a")):
        pass


# --- near matches


def test_a_missing_file_names_those_like_it(opener: Opener, ws: Path, tmp_path: Path):
    for name in ("README.md", "handler.py", "handlers.py", "unlike"):
        (ws / "src" / name).touch()
    files = opener(ws, tmp_path / "outside")
    assert files.suggest_paths("src/readme.md") == ("src/README.md",)
    assert set(files.suggest_paths("src/hander.py")) == {"src/handler.py", "src/handlers.py"}
    assert files.suggest_paths("zzzzzz") == ()
    assert files.suggest_paths(str(tmp_path / "outside" / "secrets.txt")) == (str(tmp_path / "outside" / "secret.txt"),)


def test_few_are_named(files: Workspace, ws: Path):
    for n in range(150):
        (ws / f"module_{n}.py").touch()
        (ws / f"{n}").mkdir()
        (ws / f"{n}" / "MODULE.PY").touch()
    assert len(files.suggest_paths("module_x.py")) == 3
    assert len(files.suggest_paths("module.py")) == 100


def test_nobody_looks_for_a_missing_file_where_tools_fill_folders_or_a_link_leads(files: Workspace, ws: Path):
    for folder in (".git", "node_modules", "src/.cache", "src/build"):
        (ws / folder).mkdir(parents=True, exist_ok=True)
        (ws / folder / "lost.py").touch()
    (ws / "link").symlink_to("src/build")
    assert files.suggest_paths("lost.py") == ()


@pytest.mark.alone
def test_c24_what_may_be_meant_is_found_in_a_tenth_of_a_second_or_not_at_all(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    for n in range(scaled(110, 300)):
        (tmp_path / "ws" / f"{n}").mkdir()
        for m in range(scaled(60, 300)):
            (tmp_path / "ws" / f"{n}" / f"{m}.py").touch()
    files = Workspace([tmp_path / "ws"], NoContents())
    started = perf_counter()
    found = files.suggest_paths("7.py")
    assert perf_counter() - started < 0.3
    assert len(found) == 100
    files.close()


# --- descriptors


def test_nasty_47_ten_thousand_calls_leave_no_descriptor_open(files: Workspace, ws: Path, tmp_path: Path):
    (ws / "link").symlink_to(ws / "src")
    (ws / "out").symlink_to(tmp_path / "outside")
    (ws / "loop").symlink_to("loop")
    os.mkfifo(ws / "pipe")
    paths = [
        "a.txt",
        "link/b.py",
        "src/../a.txt",
        "out/secret.txt",
        "loop",
        "pipe",
        "missing/x",
        "src",
        "a.txt/x",
        "n" * 300,
    ]
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(scaled(50, 250)):
        for path in paths:
            for ask in (files.stat, files.read, files.suggest_paths, lambda path: files.read_page(path, 1, 10, 100)):
                try:
                    ask(path)
                except PathError:
                    pass
    assert len(os.listdir("/proc/self/fd")) == before


def test_nasty_47_without_a_descriptor_left_the_error_is_clean(files: Workspace):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = set(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        for ask in (files.stat, files.read, files.resolve):
            with pytest.raises(SystemFailure):
                ask("src/b.py")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert set(os.listdir("/proc/self/fd")) == before
    assert text(files, "src/b.py") == "b = 1\n"


def test_closing_twice_closes_nobody_elses_descriptor(ws: Path):
    files = Opener("walk")(ws)
    files.close()
    taken = os.open(ws, os.O_RDONLY)
    files.close()
    os.close(taken)


def test_a_root_that_cannot_be_opened_leaves_the_others_closed(ws: Path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotFound):
        Opener("walk")(ws, ws / "missing")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_closed_workspace_has_given_its_descriptors_back(opener: Opener, ws: Path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        opener(ws)
        opener.opened.pop().close()
    assert len(os.listdir("/proc/self/fd")) == before
