"""Whether a patch made from two releases of a package turns one into the other, byte for byte.

    python -m bench.patches [--package Django] [--old 4.2] [--new 5.0] [--cache FOLDER]

The releases are fetched by name. Files that are not UTF-8 text are left out of both: the format cannot represent them.
"""

import argparse
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from time import perf_counter
from zipfile import ZipFile

from handhold import Toolbox
from handhold.core.requests import UpdateFile
from handhold.core.text.patch import parse_patch
from tests.suites.patches import patch_of, sayable

Tree = dict[str, bytes]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", default="Django")
    parser.add_argument("--old", default="4.2")
    parser.add_argument("--new", default="5.0")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "handhold-bench")
    arguments = parser.parse_args()
    before, after = (
        released(arguments.package, version, arguments.cache) for version in (arguments.old, arguments.new)
    )
    print(f"{arguments.package} {arguments.old} to {arguments.new}")
    left_out = {path for tree in (before, after) for path, data in tree.items() if not is_text(data)}
    for tree in (before, after):
        for path in left_out & tree.keys():
            del tree[path]
    report(before, after)
    print(f"left out as no text: {len(left_out)} files")


def released(package: str, version: str, cache: Path) -> Tree:
    """All files of a release, by their relative path."""
    folder = cache / f"{package}-{version}"
    if not folder.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
        subprocess.run([*command, f"{package}=={version}"], check=True)
    (archive,) = folder.iterdir()
    if archive.suffix == ".whl":
        with ZipFile(archive) as wheel:
            return {
                name: wheel.read(name)
                for name in wheel.namelist()
                if not name.endswith("/") and ".dist-info/" not in name
            }
    with tarfile.open(archive) as source:
        members = [member for member in source.getmembers() if member.isfile()]
        return {member.name.partition("/")[2]: read(source, member) for member in members}


def read(source: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = source.extractfile(member)
    assert file is not None
    return file.read()


def is_text(data: bytes) -> bool:
    try:
        return b"\0" not in data and data.decode() is not None
    except UnicodeDecodeError:
        return False


def report(before: Tree, after: Tree) -> None:
    changed = [path for path in before.keys() & after.keys() if before[path] != after[path]]
    rewritten = [path for path in changed if not sayable(before[path].decode(), after[path].decode())]
    patch = patch_of(before, after)
    started = perf_counter()
    operations = parse_patch(patch)
    parsing = perf_counter() - started
    hunks = sum(len(each.hunks) for each in operations if isinstance(each, UpdateFile))
    print(
        f"{len(after.keys() - before.keys())} files added, {len(before.keys() - after.keys())} deleted, "
        f"{len(changed)} changed ({len(rewritten)} of them as delete and add) among {len(before)}; "
        f"{hunks} hunks, {len(patch) / 1e6:.1f} MB of patch"
    )
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        for path, data in before.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        with Toolbox.open(root, state=Path(folder) / "state", dialect="codex") as box:
            started = perf_counter()
            reply = box.call("apply_patch", patch)
            whole = perf_counter() - started
            print(f"{reply.status}: {reply.text[:300]!r}" if reply.status != "success" else "applied")
            print(f"byte for byte the newer release: {tree(root) == after}")
            loose = {rung for each in reply.data.get("files", ()) for rung in each["matched_by"]} - {"exact"}
            print(f"rungs besides exact: {sorted(loose) or 'none'}")
            print(f"parsing {parsing:.2f} s, the whole call {whole:.2f} s")
            box.undo()
            print(f"byte for byte the older release after undo: {tree(root) == before}")


def tree(root: Path) -> Tree:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


if __name__ == "__main__":
    main()
