"""The trees that snapshots are tried on: real ones, made by the programs that make them.

A sample of each is small enough for every change. `LARGE` has those that take minutes or need a network.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.faults.disks import mounted

PROJECT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "handhold/trees"
MIB = 1024 * 1024
NODE_PACKAGES = ("typescript@5.9.2", "eslint@9.34.0", "express@5.1.0", "lodash@4.17.21")
PYTHON_PACKAGES = ("click", "pytest", "hypothesis")  # of our own .venv
CASEFOLD = Path("/sys/fs/ext4/features/casefold")  # exists if the kernel can ignore case

REGENERABLE = ("node_modules", ".venv", "target", "__pycache__")

MakeTree = Callable[[Path], None]


def lay_this_project(root: Path) -> None:
    run(root.parent, "git", "clone", "--quiet", "--no-hardlinks", PROJECT, root)


def lay_node(root: Path) -> None:
    """A project whose dependencies are folders beside it: npm copies them, as it does with those from a registry."""
    for n in range(20):
        library = root / f"packages/lib{n}"
        write(library / "package.json", f'{{"name": "lib{n}", "version": "1.0.0", "bin": {{"lib{n}": "cli.js"}}}}')
        write(library / "cli.js", "#!/usr/bin/env node\n")
        for part in range(5):
            write(library / f"lib/part{part}.js", f"exports.n = {n * part};\n")
    write_sources(root, "js", 60)
    write(root / "package.json", '{"name": "app", "version": "1.0.0", "private": true}')
    npm(root, "--offline", "--install-links", *(f"./packages/lib{n}" for n in range(20)))
    start_repository(root, "node_modules")


def lay_node_from_registry(root: Path) -> None:
    write_sources(root, "js", 400)
    write(root / "package.json", '{"name": "app", "version": "1.0.0", "private": true}')
    modules = CACHE / "-".join(NODE_PACKAGES)
    if not (modules / "made").exists():
        modules.mkdir(parents=True, exist_ok=True)
        npm(modules, *NODE_PACKAGES)
        write(modules / "made", "")
    shutil.copytree(modules / "node_modules", root / "node_modules", symlinks=True)
    start_repository(root, "node_modules")


def lay_virtual_environment(root: Path) -> None:
    """Some packages of the environment that runs the tests."""
    write_sources(root, "py", 80)
    venv.create(root / ".venv", with_pip=False)
    (target,) = (root / ".venv/lib").glob("python*/site-packages")
    for package in PYTHON_PACKAGES:
        source = sys.modules.get(package) or __import__(package)
        assert source.__file__
        shutil.copytree(Path(source.__file__).parent, target / package, symlinks=True)
    start_repository(root, ".venv", "__pycache__")


def lay_whole_virtual_environment(root: Path) -> None:
    write_sources(root, "py", 400)
    shutil.copytree(sys.prefix, root / ".venv", symlinks=True)
    start_repository(root, ".venv", "__pycache__")


def lay_rust(root: Path) -> None:
    root.mkdir()
    run(root, "cargo", "init", "--quiet", "--vcs", "none", "--name", "app", ".")
    write(root / "src/main.rs", 'fn main() { println!("{}", (1..=10).sum::<i32>()); }\n')
    run(root, "cargo", "build", "--offline", "--quiet")
    start_repository(root, "target")


def lay_small_files(root: Path, files: int = 1_000) -> None:
    for n in range(files):
        write(root / f"p{n // 1000}/q{n // 20}/f{n}.txt", f"file {n}\n" * (1 + n % 50))


def lay_many_small_files(root: Path) -> None:
    lay_small_files(root, 100_000)


def lay_large_files(root: Path, unit: int = 1024, large: int = 8, sources: int = 700) -> None:
    """Large files beside many sources."""
    write_sources(root, "py", sources)
    (root / "data").mkdir()
    block = os.urandom(unit)
    for n in range(large):
        with (root / f"data/set{n}.bin").open("wb") as file:
            for _ in range(100 if n % 4 == 0 else 60):
                file.write(block)


def lay_3_gb(root: Path) -> None:
    lay_large_files(root, MIB, 44, 5_000)


def lay_nested_repositories(root: Path) -> None:
    """A repository with a submodule, another repository inside, and one of whose files none is tracked."""
    elsewhere = root.parent / f"{root.name}-submodule"
    write_sources(elsewhere, "c", 20)
    start_repository(elsewhere)
    write_sources(root, "c", 40)
    start_repository(root)
    run(root, *GIT, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", elsewhere, "vendor/sub")
    run(root, *GIT, "commit", "--quiet", "--message", "submodule")
    write_sources(root / "inner", "c", 40)
    start_repository(root / "inner")
    write(root / "inner/untracked", "untracked")
    run(root, *GIT, "init", "--quiet", "inner/empty")
    run(root, *GIT, "pack-refs", "--all")
    run(root, *GIT, "gc", "--quiet")


def lay_other_owners(root: Path) -> None:
    """What a container that ran as somebody else leaves behind."""
    write_sources(root, "py", 300)
    for n, (uid, gid, mode) in enumerate(((65534, 65534, 0o600), (1234, 0, 0o644), (0, 1234, 0o4755))):
        write(root / f"logs/file{n}", f"of {uid}\n")
        os.chown(root / f"logs/file{n}", uid, gid)
        os.chmod(root / f"logs/file{n}", mode)
    (root / "logs/private").mkdir()
    write(root / "logs/private/file", "private\n")
    os.chown(root / "logs/private", 1234, 1234)
    os.chmod(root / "logs/private", 0o700)
    os.symlink("file0", root / "logs/link")
    os.chown(root / "logs/link", 1234, 1234, follow_symlinks=False)


def lay_database(root: Path) -> None:
    write_sources(root, "py", 700)
    for name, mode in (("wal.db", "WAL"), ("rollback.db", "DELETE")):
        database = sqlite3.connect(root / name)
        database.execute(f"PRAGMA journal_mode={mode}")
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
        database.commit()
        database.close()


SAMPLES: dict[str, MakeTree] = {
    "this project": lay_this_project,
    "node": lay_node,
    "venv": lay_virtual_environment,
    "rust": lay_rust,
    "small files": lay_small_files,
    "nested repositories": lay_nested_repositories,
    "other owners": lay_other_owners,
}
LARGE: dict[str, MakeTree] = {
    "node from the registry": lay_node_from_registry,
    "whole venv": lay_whole_virtual_environment,
    "100,000 small files": lay_many_small_files,
    "3 GB": lay_3_gb,
}


# --- a database that is written all the time

WRITER = """
import sqlite3, sys, time
databases = [sqlite3.connect(path, timeout=30) for path in sys.argv[1:]]
while True:
    for database in databases:
        with database:
            database.execute("INSERT INTO t (text) VALUES (?)", ("x" * 500,))
"""


@contextmanager
def constant_writing(*databases: Path) -> Iterator[None]:
    writer = subprocess.Popen([sys.executable, "-c", WRITER, *databases])
    try:
        yield
    finally:
        writer.kill()
        writer.wait()


# --- a folder in which `a` and `A` are one name


@contextmanager
def case_folding_disk(home: Path) -> Iterator[Path]:
    image, point = home / "folding.img", home / "folding"
    with image.open("wb") as file:
        file.truncate(64 * MIB)
    run(home, "mkfs.ext4", "-q", "-F", "-m", "0", "-O", "casefold", image)
    with mounted("-o", "loop", str(image), point=point):
        (point / "folding").mkdir()
        run(point, "chattr", "+F", "folding")
        yield point / "folding"


# --- parts

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "init.defaultBranch=main")


def run(folder: Path, *command: str | Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def npm(folder: Path, *arguments: str) -> None:
    run(folder, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", *arguments)


def start_repository(root: Path, *ignored: str) -> None:
    """Everything committed but what is ignored; then one file dirty and one untracked."""
    if ignored:
        write(root / ".gitignore", "".join(f"{name}/\n" for name in ignored))
    run(root, *GIT, "init", "--quiet")
    run(root, *GIT, "add", ".")
    run(root, *GIT, "commit", "--quiet", "--message", "one")
    write(root / "dirty.txt", "not committed\n")


def write_sources(root: Path, suffix: str, files: int) -> None:
    """Sources, and one of each thing that a version control system does not keep."""
    random = Random(suffix)
    for n in range(files):
        write(root / f"src/part{n // 10}/file{n}.{suffix}", f"line {n}\n" * random.randrange(1, 200))
    write(root / "src/run", "#!/bin/sh\n")
    os.chmod(root / "src/run", 0o750)
    (root / "empty/folder").mkdir(parents=True)
    os.symlink("src/run", root / "link")
    os.symlink("absent", root / "dangling")
    os.link(root / "src/run", root / "second-name")
    write(root / "odd \u20ac\nname", "odd")
    write(root / "nothing", "")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
