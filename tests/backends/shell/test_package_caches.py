"""Package caches in the user's home: usable offline, never written to, and without the files next to them."""

import base64
import hashlib
import io
import json
import os
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest import mock

import pytest

from handhold.backends.shell import package_caches
from handhold.backends.shell.sandbox_support import detect_sandbox_support
from tests.backends.shell.people import ROOT, USERS, Person, each_person, person, said
from tests.scale import sampled

found = detect_sandbox_support().bubblewrap
pytestmark = pytest.mark.skipif(found is None or not found.overlay, reason="no overlay on this machine")

# What a tool writes to, and private files next to it.
BESIDE = {
    ".cargo/registry": (".cargo/credentials.toml", ".cargo/credentials"),
    ".cargo/git": (".cargo/config.toml",),
    ".npm/_cacache": (".npmrc", ".npm/_logs/debug.log"),
    ".m2/repository": (".m2/settings.xml", ".m2/settings-security.xml"),
    ".gradle/caches": (".gradle/gradle.properties",),
    ".gradle/wrapper/dists": (".gradle/init.gradle",),
    "go/pkg/mod": ("go/src/private.go",),
    ".cache/uv": (".cache/browser/session",),
    ".cache/pip": (".config/pip/pip.conf",),
    ".local/share/pnpm/store": (".config/pnpm/rc",),
    ".yarn/berry/cache": (".yarnrc.yml",),
}

VARIABLES = {cache.variable for cache in package_caches.PACKAGE_CACHES}


who = pytest.fixture(each_person, params=USERS)


def inventory(top: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every name with its mode, its times and its content."""
    listed: dict[str, tuple[int, int, bytes]] = {}
    for folder, _, files in os.walk(top):
        for path in (folder, *(os.path.join(folder, name) for name in files)):
            seen = os.lstat(path)
            held = Path(path).read_bytes() if path != folder else b""
            listed[path] = (seen.st_mode, seen.st_mtime_ns, held)
    return listed


def in_home(who: Person, *names: str) -> str:
    return " ".join(f"'{who.home}/{name}'" for name in names)


# --- with real package managers


def packed() -> bytes:
    """A package of one file, as npm packs it."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, text in (
            ("package.json", '{"name": "left", "version": "1.0.0"}'),
            ("index.js", "module.exports = 7"),
        ):
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return data.getvalue()


def wheel() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("left.py", "value = 7\n")
        archive.writestr("left-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: left\nVersion: 1.0\n")
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr("left-1.0.dist-info/WHEEL", tags)
        archive.writestr("left-1.0.dist-info/RECORD", "left.py,,\n")
    return data.getvalue()


@contextmanager
def registry() -> Iterator[str]:
    """An npm and a Python registry on this machine, with one package each."""
    archive, built = packed(), wheel()

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            top = f"http://127.0.0.1:{self.server.server_port}"  # pyright: ignore[reportAttributeAccessIssue]
            sri = "sha512-" + base64.b64encode(hashlib.sha512(archive).digest()).decode()
            dist = {"tarball": f"{top}/left-1.0.0.tgz", "integrity": sri}
            versions = {"1.0.0": {"name": "left", "version": "1.0.0", "dist": dist}}
            document = {"name": "left", "dist-tags": {"latest": "1.0.0"}, "versions": versions}
            answers = {
                "/left": ("application/json", json.dumps(document).encode()),
                "/left-1.0.0.tgz": ("application/octet-stream", archive),
                "/simple/left/": ("text/html", b'<a href="/left-1.0-py3-none-any.whl">left-1.0-py3-none-any.whl</a>'),
                "/left-1.0-py3-none-any.whl": ("application/zip", built),
            }
            kind, body = answers.get(self.path, ("", b""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "max-age=3600")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_e13_npm_installs_from_the_users_cache_without_a_network(who: Person):
    if not shutil.which("npm", path="/usr/bin:/bin:/usr/local/bin"):
        pytest.skip("no npm of the system's")
    who.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    with registry() as address:
        who.write(who.root / ".npmrc", f"registry={address}\n")
        who.write(who.home / ".npmrc", "//127.0.0.1/:_authToken=the-token\n")
        who.write(who.root / "package.json", '{"dependencies": {"left": "1.0.0"}}')
        quiet = "--no-audit --no-fund --loglevel warn"
        said(who.bare(f"npm install {quiet}"))
        said(who.bare("rm -rf node_modules package-lock.json"))
    cache = who.home / ".npm"
    before = inventory(cache)
    done = who.contained(f"npm install {quiet} && node -p 'require(\"left\")'")
    assert said(done).endswith("7\n")
    assert done.stderr == ""  # nothing that it could not write
    assert inventory(cache) == before
    assert not os.path.lexists(who.state / "home/.npm/_cacache")
    assert "the-token" not in said(who.contained(f"cat {in_home(who, '.npmrc')}; true"))


def test_e13_uv_installs_from_the_users_cache_without_a_network():
    if not shutil.which("uv") or not ROOT:
        pytest.skip("no uv that this user could run")
    who = person("root")
    try:
        with registry() as address:
            install = f"uv pip install --quiet --link-mode copy --index-url {address}/simple --target x left"
            said(who.bare(install))
            said(who.bare("rm -rf x"))
        before = inventory(who.home / ".cache/uv")
        assert said(who.contained(f"{install} && cat x/left.py")) == "value = 7\n"
        assert inventory(who.home / ".cache/uv") == before
    finally:
        shutil.rmtree(who.base)


def test_e13_cargo_builds_with_what_the_user_has_fetched():
    if not shutil.which("cargo") or not ROOT:
        pytest.skip("no cargo that this user could run")
    who = person("root")
    who.environment["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
    try:
        left = who.base / "left"
        who.write(left / "Cargo.toml", '[package]\nname = "left"\nversion = "1.0.0"\nedition = "2021"\n')
        who.write(left / "src/lib.rs", "pub const VALUE: u32 = 7;\n")
        commit = "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm one"
        said(who.bare(commit, cwd=left))
        needs = f'left = {{ git = "file://{left}" }}\n'
        package = '[package]\nname = "work"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\n'
        who.write(who.root / "Cargo.toml", package + needs)
        who.write(who.root / "src/main.rs", 'fn main() { println!("{}", left::VALUE); }\n')
        said(who.bare("cargo fetch --quiet"))
        before = inventory(who.home / ".cargo")
        assert said(who.contained("cargo run --quiet")) == "7\n"
        assert inventory(who.home / ".cargo") == before
    finally:
        shutil.rmtree(who.base)


# --- what is visible and what is not


def test_e13_caches_are_there_and_credentials_beside_them_are_not(who: Person):
    secrets = [name for names in BESIDE.values() for name in names]
    for cache in BESIDE:
        who.write(who.home / cache / "some/file", "cached\n")
    for name in secrets:
        who.write(who.home / name, "the secret\n")
    before = inventory(who.home)
    files = in_home(who, *(f"{cache}/some/file" for cache in BESIDE))
    assert said(who.contained(f"cat {files}")) == "cached\n" * len(BESIDE)
    assert "the secret" not in said(
        who.contained(f"cat {in_home(who, *secrets)}; grep -rs 'the secret' {who.home}; true")
    )
    written = " && ".join(
        f"echo x > '{who.home}/{cache}/some/file' && mkdir '{who.home}/{cache}/new'" for cache in BESIDE
    )
    assert said(who.contained(f"{written} && rm -r {in_home(who, *BESIDE)}; echo done")) == "done\n"
    assert inventory(who.home) == before


def test_e13_the_variables_say_where_the_caches_are(who: Person):
    for cache in BESIDE:
        who.write(who.home / cache / "file", "")
    shown = dict(line.split("=", 1) for line in said(who.contained("env")).splitlines())
    home = who.home
    assert {name: shown.get(name) for name in VARIABLES} == {
        "CARGO_HOME": f"{home}/.cargo",
        "GOMODCACHE": f"{home}/go/pkg/mod",
        "GRADLE_USER_HOME": f"{home}/.gradle",
        "MAVEN_OPTS": f"-Dmaven.repo.local={home}/.m2/repository",
        "PIP_CACHE_DIR": f"{home}/.cache/pip",
        "PNPM_HOME": f"{home}/.local/share/pnpm",
        "UV_CACHE_DIR": f"{home}/.cache/uv",
        "YARN_GLOBAL_FOLDER": f"{home}/.yarn/berry",
        "npm_config_cache": f"{home}/.npm",
    }


def test_e13_without_a_cache_nothing_is_said_and_nothing_made(who: Person):
    before = inventory(who.home)
    shown = dict(line.split("=", 1) for line in said(who.contained("env")).splitlines())
    assert not shown.keys() & VARIABLES
    assert inventory(who.home) == before


def test_e13_with_a_network_commands_have_caches_of_their_own(who: Person):
    """What they download must be available to the next command."""
    who.write(who.home / ".npm/_cacache/file", "")
    done = who.contained(f"echo $npm_config_cache; ls {who.home}/.npm/_cacache", network=True)
    assert done.stdout == "\n"


@pytest.mark.parametrize(
    ("variable", "folder", "shows"),
    [
        ("CARGO_HOME", "tools/rust", "tools/rust/registry"),
        ("npm_config_cache", "tools/npm", "tools/npm/_cacache"),
        ("XDG_CACHE_HOME", "tools/cache", "tools/cache/uv"),
        ("GOPATH", "tools/go", "tools/go/pkg/mod"),
    ],
)
def test_e13_variables_of_the_user_are_honoured_in_the_home(who: Person, variable: str, folder: str, shows: str):
    who.write(who.home / shows / "file", "cached\n")
    who.write(who.home / folder / "secret", "the secret\n")
    who.environment[variable] = str(who.home / folder)
    assert said(who.contained(f"cat {in_home(who, f'{shows}/file')}")) == "cached\n"
    assert who.contained(f"cat {in_home(who, f'{folder}/secret')}").returncode


@pytest.mark.parametrize("folder", sampled([".", ".ssh", ".config", ".ssh/deeper", "../outside", "relative"], 3))
def test_e13_variables_show_nothing_that_is_hidden(who: Person, folder: str):
    for name in (".ssh/key", ".ssh/deeper/key", ".config/gh/hosts.yml", ".config/key"):
        who.write(who.home / name, "the secret\n")
    place = folder if folder == "relative" else os.path.normpath(who.home / folder)
    for variable in ("UV_CACHE_DIR", "PIP_CACHE_DIR", "GOMODCACHE"):
        who.environment[variable] = str(place)
    shown = said(who.contained(f"echo $UV_CACHE_DIR; grep -rs 'the secret' {who.home}; true"))
    assert shown == "\n"


@pytest.mark.parametrize("link", [".cargo", ".cargo/registry"])
def test_e13_links_on_the_way_to_a_cache_are_not_followed(who: Person, link: str):
    for place in (who.base / "elsewhere", who.home / ".ssh"):
        who.write(place / "file", "the secret\n")
        who.write(place / "registry/file", "the secret\n")
        path = who.home / link
        path.parent.mkdir(exist_ok=True)
        path.symlink_to(place)
        assert "the secret" not in said(who.contained(f"cat {who.home}/.cargo/registry/file; true"))
        path.unlink()


def test_e13_a_command_may_choose_another_cache(who: Person):
    who.write(who.home / ".cargo/registry/file", "")
    assert said(who.contained("echo $CARGO_HOME", env={"CARGO_HOME": "/tmp/mine"})) == "/tmp/mine\n"


def test_e13_a_rule_hides_a_file_in_a_cache(who: Person):
    """A denied name in the workspace may be a link into a cache."""
    kept = who.write(who.home / ".cargo/registry/file", "the secret\n")
    closed = who.write(who.state / "closed")
    closed.chmod(0)
    assert "the secret" not in said(who.contained(f"cat {kept}; true", masks={str(kept): str(closed)}))


def test_e13_a_command_on_the_workspace_itself_finds_them_too(who: Person):
    kept = who.write(who.home / ".cargo/registry/file", "cached\n")
    assert said(who.contained(f"cat {kept}; echo x > {kept}", shadow=False)) == "cached\n"
    assert kept.read_text() == "cached\n"


def test_e13_looking_for_caches_takes_one_call_each(tmp_path: Path):
    for folder in BESIDE:
        (tmp_path / folder).mkdir(parents=True)
    with (
        mock.patch.object(package_caches, "openat2", wraps=package_caches.openat2) as calls,
        mock.patch.object(os, "stat", wraps=os.stat) as stats,
        mock.patch.object(os, "lstat", wraps=os.lstat) as lstats,
    ):
        seen = package_caches.find_caches(str(tmp_path), {}, ())
    assert {os.path.relpath(place, tmp_path) for place in seen.paths} == {*BESIDE}
    assert calls.call_count <= len(BESIDE)
    assert (stats.call_count, lstats.call_count) == (0, 0)
