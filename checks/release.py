"""Checks that a release is consistent, and writes its software bill of materials (SBOM). Uploads nothing.

    python checks/release.py versions             the version, the changelog and the tag agree
    python checks/release.py sbom dist build      check the files in dist/, write build/handhold-vVERSION.cdx.json

The SBOM is CycloneDX 1.6: each file of the release with its hash, and every package that `handhold[all]` needs, in the
version and with the hashes that requirements.lock pins. docs/decisions/0024-release.md says why it is written here.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

PROJECT = Path(__file__).parents[1]
LIBRARIES, MACHINES = ("manylinux_2_17", "musllinux_1_2"), ("aarch64", "x86_64")
PLATFORMS = ["any", *(f"{library}_{machine}" for library in LIBRARIES for machine in MACHINES)]
Pins = dict[str, tuple[str, list[str]]]
HEADING = re.compile(r"^## (?P<version>\S+) \((?P<date>\d{4}-\d\d-\d\d)\)$", re.M)
PIN = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;\\]+)(?P<rest>(?:[^\n]*\\\n)*[^\n]*)", re.M)


def main(arguments: list[str]) -> int:
    match arguments:
        case ["versions"]:
            problems = list(find_version_problems(PROJECT, current_tag()))
        case ["sbom", dist, folder]:
            problems = list(find_file_problems(Path(dist), read_version(PROJECT)))
            if not problems:
                written = write_sbom(Path(dist), Path(folder), read_version(PROJECT))
                for file in [*sorted(Path(dist).glob("handhold-*")), written]:
                    sys.stdout.write(f"{file}  {file.stat().st_size:,} bytes  sha256 {hash_file(file)}\n")
        case _:
            problems = [str(__doc__)]
    for problem in problems:
        sys.stderr.write(f"{problem}\n")
    return bool(problems)


# --- versions


def read_version(project: Path) -> str:
    (version,) = re.findall(r'^VERSION = "([^"]+)"$', (project / "src/handhold/version.py").read_text(), re.M)
    return version


def current_tag() -> str:
    """The tag being released: the workflow's, or one on this commit; empty if there is none."""
    if os.environ.get("GITHUB_REF_TYPE") == "tag":
        return os.environ["GITHUB_REF_NAME"]
    command = ["git", "tag", "--points-at", "HEAD", "v*"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    return done.stdout.split("\n", 1)[0]


def find_version_problems(project: Path, tag: str) -> Iterator[str]:
    version = read_version(project)
    newest = HEADING.search((project / "CHANGELOG.md").read_text(encoding="utf-8"))
    if newest is None:
        yield "CHANGELOG.md has no heading like `## 1.2.3 (2026-01-31)`"
    elif newest["version"] != version:
        yield f"the newest entry of CHANGELOG.md is {newest['version']}, but version.py says {version}"
    elif newest["date"] > datetime.datetime.now(datetime.UTC).date().isoformat():
        yield f"CHANGELOG.md dates {version} in the future: {newest['date']}"
    if "\n## Unreleased" in (project / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has entries under Unreleased: move them to {version}"
    if tag and tag != f"v{version}":
        yield f"the tag is {tag}, but version.py says {version}: it must be v{version}"


# --- files


def find_file_problems(dist: Path, version: str) -> Iterator[str]:
    """One source archive and one wheel for each platform, all of this version, and nothing else."""
    platforms: list[str] = []
    archives = 0
    for file in sorted(dist.iterdir()):
        if file.name == ".gitignore":
            continue
        if file.suffix == ".whl":
            found = parse_wheel_filename(file.name)[1]
            platforms += {tag.platform for tag in parse_wheel_filename(file.name)[3]}
        elif file.name.endswith(".tar.gz"):
            found = parse_sdist_filename(file.name)[1]
            archives += 1
        else:
            yield f"{file.name} does not belong into {dist}"
            continue
        if str(found) != version:
            yield f"{file.name} is not of version {version}"
    if archives != 1:
        yield f"{dist} has {archives} source archives, expected 1"
    if sorted(platforms) != sorted(PLATFORMS):
        yield f"{dist} has wheels for {sorted(platforms)}, expected {sorted(PLATFORMS)}"


def hash_file(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


# --- the software bill of materials


def write_sbom(dist: Path, folder: Path, version: str) -> Path:
    files = sorted(file for file in dist.iterdir() if file.suffix in (".whl", ".gz"))
    wheel = next(file for file in files if file.suffix == ".whl")
    pins = read_pins((PROJECT / "requirements.lock").read_text(encoding="utf-8"))
    sbom = make_sbom(read_metadata(wheel), version, {file.name: hash_file(file) for file in files}, pins, commit_time())
    folder.mkdir(exist_ok=True)
    file = folder / f"handhold-v{version}.cdx.json"  # under the tag, as the workflow names it
    file.write_text(json.dumps(sbom, indent=1) + "\n", encoding="utf-8")
    return file


def read_metadata(wheel: Path) -> Message:
    with ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(opened.read(name).decode())


def commit_time() -> str:
    """The time of the commit, so that the same sources give the same file."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True)
    return datetime.datetime.fromtimestamp(int(done.stdout), datetime.UTC).isoformat().replace("+00:00", "Z")


def read_pins(lock: str) -> Pins:
    """The version of each package in a lock file, and the SHA-256 hashes of its files."""
    return {
        canonicalize_name(pin["name"]): (pin["version"], re.findall(r"sha256:([0-9a-f]{64})", pin["rest"]))
        for pin in PIN.finditer(lock)
    }


def make_sbom(wheel: Message, version: str, files: dict[str, str], pins: Pins, time: str) -> dict[str, Any]:
    own = f"pkg:pypi/handhold@{version}"
    requirements, extras = wheel.get_all("Requires-Dist") or [], wheel.get_all("Provides-Extra") or []
    base, direct = [*iter_required(requirements, ("",))], [*iter_required(requirements, ("", *extras))]
    needs, required = resolve_dependencies(direct, pins), resolve_dependencies(base, pins)
    refs = {name: f"pkg:pypi/{name}@{pins[name][0]}" for name in needs}
    components = [
        {"type": "file", "bom-ref": f"file:{name}", "name": name, "hashes": [{"alg": "SHA-256", "content": content}]}
        for name, content in sorted(files.items())
    ]
    components += [
        {
            "type": "library",
            "bom-ref": refs[name],
            "name": name,
            "version": pins[name][0],
            "purl": refs[name],
            "scope": "required" if name in required else "optional",
            **describe_license(name),
            # A package has many files, one for each platform; their hashes are those of the lock file.
            "properties": [{"name": "handhold:sha256", "value": content} for content in pins[name][1]],
        }
        for name in sorted(needs)
    ]
    graph = {own: sorted({refs[name] for name, _ in direct if name in refs})}
    graph |= {refs[name]: sorted(refs[each] for each in needs[name]) for name in sorted(needs)}
    body: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": {
                "type": "library",
                "bom-ref": own,
                "name": "handhold",
                "version": version,
                "purl": own,
                "licenses": [{"license": {"id": wheel["License-Expression"]}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": ref, "dependsOn": on} for ref, on in graph.items()],
    }
    return {**body, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body))}"}


def iter_required(requirements: list[str], extras: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The name and extra of each package required on this platform, with "" for the package itself."""
    for requirement in map(Requirement, requirements):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras):
            for extra in ("", *requirement.extras):
                yield canonicalize_name(requirement.name), extra


def resolve_dependencies(direct: Iterable[tuple[str, str]], pins: Pins) -> dict[str, set[str]]:
    """Every required package with its own requirements. A package that is not pinned is for another platform."""
    graph: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [*direct]
    while waiting:
        name, extra = waiting.pop()
        if name not in pins or (name, extra) in seen:
            continue
        seen.add((name, extra))
        required = [*iter_required(metadata.requires(name) or [], (extra,))]
        graph.setdefault(name, set()).update(each for each, _ in required if each in pins)
        waiting += required
    return graph


def describe_license(name: str) -> dict[str, Any]:
    """The licence that the package declares; nothing if it declares none."""
    package = metadata.metadata(name)
    if expressions := package.get_all("License-Expression"):
        return {"licenses": [{"expression": expressions[0]}]}
    classifiers = [each for each in package.get_all("Classifier") or [] if each.startswith("License ::")]
    free_text = [line for text in package.get_all("License") or [] for line in text.splitlines()[:1] if line]
    names = [each.split(" :: ")[-1] for each in classifiers] or free_text
    return {"licenses": [{"license": {"name": each}} for each in names]} if names else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
