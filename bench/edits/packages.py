"""Real edits from published packages.

Two consecutive releases of a package differ by edits that people really made: each hunk of that difference is
one. Debian's packages of sources (Go, Rust, C) come in one version only; there an edit is made up by renaming,
inserting or deleting lines of real code.

Packages are named, never copied: pip, npm and apt-get fetch them from wherever they are set up to.
"""

import difflib
import hashlib
import random
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.edits.corpus import write_rows


@dataclass(frozen=True)
class Package:
    """`client` fetches it; `releases` are the older and the newer one, or empty if there is only one."""

    client: str
    name: str
    releases: tuple[str, ...] = ()


SETS: dict[str, tuple[Package, ...]] = {
    "dev": (
        Package("pip", "rich", ("13.9.4", "14.0.0")),
        Package("pip", "httpx", ("0.27.2", "0.28.1")),
        Package("pip", "textual", ("0.80.1", "0.85.2")),
        Package("pip", "fastapi", ("0.110.0", "0.115.0")),
        Package("pip", "attrs", ("23.2.0", "25.1.0")),
        Package("pip", "black", ("24.2.0", "25.1.0")),
        Package("pip", "scrapy", ("2.11.0", "2.12.0")),
        Package("pip", "networkx", ("3.2.1", "3.4.2")),
        Package("pip", "flask", ("2.3.3", "3.1.0")),
        Package("npm", "rxjs", ("7.5.0", "7.8.1")),
        Package("npm", "zod", ("4.0.0", "4.1.0")),
        Package("npm", "three", ("0.170.0", "0.172.0")),
        Package("npm", "svelte", ("5.1.0", "5.10.0")),
        Package("npm", "preact", ("10.19.0", "10.25.0")),
        Package("npm", "immer", ("9.0.21", "10.1.1")),
        Package("npm", "mobx", ("6.10.0", "6.13.5")),
        Package("npm", "express", ("4.18.0", "5.0.0")),
        Package("apt", "golang-github-spf13-cobra-dev"),
        Package("apt", "golang-golang-x-net-dev"),
        Package("apt", "librust-serde-dev"),
        Package("apt", "librust-regex-dev"),
        Package("apt", "librust-clap-3-dev"),
        Package("apt", "librust-tokio-dev"),
        Package("apt", "librust-hyper-dev"),
        Package("apt", "librust-syn-dev"),
        Package("apt", "linux-libc-dev"),
        Package("apt", "libc6-dev"),
    ),
    "second": (
        Package("pip", "click", ("8.0.4", "8.1.8")),
        Package("pip", "pydantic", ("2.6.4", "2.10.6")),
        Package("pip", "aiohttp", ("3.9.5", "3.11.11")),
        Package("pip", "sphinx", ("7.2.6", "8.1.3")),
        Package("pip", "sympy", ("1.12", "1.13.3")),
        Package("pip", "twisted", ("23.10.0", "24.11.0")),
        Package("pip", "django", ("4.2.16", "5.1.4")),
        Package("npm", "vue", ("3.4.0", "3.5.13")),
        Package("npm", "date-fns", ("3.3.0", "4.1.0")),
        Package("npm", "lit-html", ("2.8.0", "3.2.1")),
        Package("npm", "@reduxjs/toolkit", ("2.0.1", "2.5.0")),
        Package("npm", "fastify", ("4.26.0", "5.2.0")),
        Package("npm", "undici", ("6.6.0", "7.2.0")),
        Package("npm", "typeorm", ("0.3.17", "0.3.20")),
        Package("npm", "effect", ("3.10.0", "3.12.0")),
        Package("apt", "golang-github-gorilla-mux-dev"),
        Package("apt", "golang-github-sirupsen-logrus-dev"),
        Package("apt", "golang-golang-x-tools-dev"),
        Package("apt", "librust-rayon-dev"),
        Package("apt", "librust-rand-dev"),
        Package("apt", "librust-futures-util-dev"),
        Package("apt", "librust-nom-dev"),
        Package("apt", "libglib2.0-dev"),
        Package("apt", "libboost1.74-dev"),
        Package("apt", "libssl-dev"),
    ),
    "third": (
        Package("pip", "werkzeug", ("2.2.3", "3.1.3")),
        Package("pip", "tornado", ("6.2", "6.4.2")),
        Package("pip", "celery", ("5.2.7", "5.4.0")),
        Package("pip", "pytest", ("7.4.4", "8.3.4")),
        Package("pip", "sqlalchemy", ("2.0.20", "2.0.36")),
        Package("pip", "poetry-core", ("1.7.0", "1.9.1")),
        Package("npm", "viem", ("2.7.0", "2.21.0")),
        Package("npm", "ethers", ("6.9.0", "6.13.0")),
        Package("npm", "@tanstack/query-core", ("5.17.0", "5.62.0")),
        Package("npm", "eslint", ("8.50.0", "9.10.0")),
        Package("npm", "webpack", ("5.88.0", "5.97.0")),
        Package("npm", "mongoose", ("7.6.0", "8.9.0")),
        Package("npm", "axios", ("1.4.0", "1.7.9")),
        Package("apt", "golang-github-stretchr-testify-dev"),
        Package("apt", "golang-google-grpc-dev"),
        Package("apt", "librust-nix-dev"),
        Package("apt", "librust-image-dev"),
        Package("apt", "librust-crossbeam-utils-dev"),
        Package("apt", "libx11-dev"),
        Package("apt", "libpython3-dev"),
        Package("apt", "libpng-dev"),
        Package("apt", "libcurl4-openssl-dev"),
        Package("apt", "libgtk-3-dev"),
    ),
}
LANGUAGES = {
    ".py": "python", ".ts": "typescript", ".tsx": "typescript", ".js": "javascript", ".mjs": "javascript",
    ".cjs": "javascript", ".go": "go", ".rs": "rust", ".md": "markdown", ".yml": "yaml", ".yaml": "yaml",
    ".json": "json", ".toml": "toml", ".c": "c", ".h": "c", ".css": "css", ".html": "html", ".svelte": "html",
}  # fmt: skip
PER_LANGUAGE = 450
SKIP = re.compile(r"\.min\.|/dist/|/umd/|/cjs/|/esm\d*/|bundle|\.lock|package-lock|RECORD|METADATA", re.IGNORECASE)
MAX_BYTES, MAX_LINE = 200_000, 600
ALIGN_MOST = 12_000_000
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{3,}")
SEED = 1

Hunk = tuple[int, int, list[str]]  # start, lines removed, lines added
Raw = tuple[str, str, str, str, list[Hunk]]  # language, package, path, text, hunks


# --- fetching


def download(package: Package, release: str | None, into: Path) -> Path:
    """The unpacked tree of one release."""
    box = into / re.sub(r"\W", "_", f"{package.name}-{release}")
    tree = box / "tree"
    tree.mkdir(parents=True)
    match package.client:
        case "pip":
            pip = shutil.which("pip") or shutil.which("pip3") or "pip"
            run(pip, "download", "-q", "--no-deps", "--only-binary", ":all:", f"{package.name}=={release}", cwd=box)
        case "npm":
            run("npm", "pack", "--silent", f"{package.name}@{release}", cwd=box)
        case _:
            run("apt-get", "download", package.name, cwd=box)
    for archive in [path for path in box.iterdir() if path.is_file()]:
        unpack(archive, tree)
    return tree


def run(*command: str, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def unpack(archive: Path, into: Path) -> None:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            wheel.extractall(into)
    elif archive.suffix == ".deb":
        run("dpkg", "-x", str(archive), str(into), cwd=into)
    else:
        with tarfile.open(archive) as tar:
            tar.extractall(into, filter="data")


# --- finding edits


def sources(tree: Path) -> Iterator[tuple[str, str]]:
    """Files by the name that is the same in both releases, with their paths."""
    for path in sorted(tree.rglob("*")):
        where = path.relative_to(tree).as_posix()
        if path.suffix in LANGUAGES and not SKIP.search("/" + where):
            yield re.sub(r"^[\w.]+-[\d.]+\.dist-info/", "dist-info/", where), where


def readable(path: Path) -> str | None:
    if not path.is_file() or path.is_symlink() or path.stat().st_size > MAX_BYTES:
        return None
    return usable_text(path.read_bytes())


def usable_text(raw: bytes) -> str | None:
    if b"\r" in raw or b"\0" in raw or raw.startswith(b"\xef\xbb\xbf"):
        return None
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    lines = text.split("\n")
    return text if len(lines) > 12 and all(len(line) <= MAX_LINE for line in lines) else None


def hunks(before: list[str], after: list[str]) -> list[Hunk]:
    if len(before) * len(after) > ALIGN_MOST:
        return []
    opcodes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(a, b - a, after[c:d]) for kind, a, b, c, d in opcodes if kind != "equal"]


def made_up(lines: list[str], rng: random.Random) -> list[Hunk]:
    """A typical edit on a block of real lines."""
    size = rng.randint(1, 6)
    start = rng.randrange(max(1, len(lines) - size))
    gone = lines[start : start + size]
    words = WORD.findall("\n".join(gone))
    if not words:
        return []
    word = rng.choice(words)
    renamed = [re.sub(rf"\b{word}\b", word + rng.choice(("_new", "2", "_or_default")), line) for line in gone]
    kind = rng.choice(("rename", "insert", "delete"))
    if kind == "delete" and size > 1:
        return [(start, size, gone[:-1])]
    return [(start, size, [*gone, renamed[-1]] if kind == "insert" else renamed)]


def usable(lines: list[str], hunk: Hunk) -> bool:
    start, removed, added = hunk
    gone = lines[start : start + removed]
    small = removed <= 14 and len(added) <= 18 and all(len(line) <= MAX_LINE for line in added)
    return small and gone != added and bool("".join(gone + added).strip())


def raw_edits(package: Package, box: Path, rng: random.Random) -> Iterator[Raw]:
    trees = [download(package, release, box) for release in package.releases or (None,)]
    newer = dict(sources(trees[-1]))
    for key, where in sources(trees[0]):
        text = readable(trees[0] / where)
        if text is None:
            continue
        lines = text.split("\n")
        if len(trees) == 1:
            found = made_up(lines, rng)
        else:
            other = readable(trees[1] / newer[key]) if key in newer else None
            found = hunks(lines, other.split("\n")) if other and other != text else []
        if found := [hunk for hunk in found if usable(lines, hunk)]:
            yield LANGUAGES[Path(where).suffix], package.name, where, text, found


# --- choosing


def collect(name: str, folder: Path) -> None:
    """Write the edits of a set of packages into `folder`."""
    rng = random.Random(SEED)
    raw: list[Raw] = []
    with tempfile.TemporaryDirectory() as box:
        for package in SETS[name]:
            try:
                raw += raw_edits(package, Path(box), rng)
            except subprocess.CalledProcessError as error:
                print(f"left out: {package.name} {package.releases} ({error.cmd[0]} failed)", file=sys.stderr)
    files, edits = chosen(raw, rng)
    folder.mkdir(parents=True, exist_ok=True)
    write_rows(folder / "files.jsonl.gz", ({"file": key, "text": text} for key, text in sorted(files.items())))
    write_rows(folder / "edits.jsonl.gz", edits)


def chosen(raw: Sequence[Raw], rng: random.Random) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """About the same number of edits of each language, taking packages in turn, at most two per file."""
    pool: dict[str, dict[str, list[tuple[str, str, list[Hunk]]]]] = defaultdict(lambda: defaultdict(list))
    for lang, name, where, text, found in raw:
        pool[lang][name].append((where, text, found))
    files: dict[str, str] = {}
    edits: list[dict[str, Any]] = []
    for lang, by_name in sorted(pool.items()):
        names, before = sorted(by_name), len(edits)
        for name in names:
            rng.shuffle(by_name[name])
        while names and len(edits) - before < PER_LANGUAGE:
            for name in list(names):
                if not by_name[name]:
                    names.remove(name)
                    continue
                where, text, found = by_name[name].pop()
                key = hashlib.sha256(text.encode()).hexdigest()[:16]
                files[key] = text
                for start, removed, added in rng.sample(found, min(2, len(found))):
                    row = {"id": f"e{len(edits):05d}", "repo": name, "path": where, "lang": lang, "file": key}
                    edits.append({**row, "start": start, "removed": removed, "added": added})
    return files, edits
