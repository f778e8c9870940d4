"""Install the base and each extra like a user, on every installed Python, from wheel and source.

    python checks/installs.py [--pythons 3.11,3.12] [--extras shell,search]

Checks for each that it installs, that its dependencies are compatible, that it starts, and that it can make an edit and
undo it. Then lists the licences of everything that was installed, by extra. Needs uv, and the network for the extras.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
FIRST = """
from handhold import Toolbox
box = Toolbox.open("ws", state="state")
box.call("write_file", {"path": "a.txt", "content": "one"})
assert box.call("edit_file", {"path": "a.txt", "old_string": "one", "new_string": "two"}).status == "success"
assert box.undo().status == "success"
assert open("ws/a.txt").read() == "one"
"""
LICENCES = """
import json
from importlib.metadata import distributions
def licence(said):
    classified = [each.split(" :: ")[-1] for each in said.get_all("Classifier", []) if each.startswith("License")]
    free = (said["License"] or "unknown").splitlines()[0][:60]
    return next(filter(None, [said["License-Expression"], *classified, free]))
print(json.dumps({each.metadata["Name"]: licence(each.metadata) for each in distributions()}))
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--extras", default=None, help="default: all")
    chosen = parser.parse_args()
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = sorted(project["optional-dependencies"]) if chosen.extras is None else chosen.extras.split(",")
    failed, licences = 0, dict[str, dict[str, str]]()
    with tempfile.TemporaryDirectory() as place:
        done("uv", "build", "--quiet", "--out-dir", place, str(PROJECT))
        (wheel,), (source,) = Path(place).glob("*.whl"), Path(place).glob("*.tar.gz")
        for python in chosen.pythons.split(","):
            if not done("uv", "python", "find", "--no-python-downloads", python):
                say(f"{python:<6} is not here")
                continue
            for extra, file in [("", wheel), ("", source), *((extra, wheel) for extra in extras)]:
                with tempfile.TemporaryDirectory() as folder:
                    trouble, found = tried(Path(folder), python, file, extra)
                licences.setdefault(extra or "base", found)
                failed += bool(trouble)
                what = f"{'source' if file is source else 'wheel'}{f'[{extra}]' if extra else ''}"
                say(f"{python:<6} {what:<22} {trouble or f'ok, {len(found)} packages'}")
    base = licences.get("base", {})
    for extra, found in licences.items():
        new = {name: said for name, said in found.items() if extra == "base" or name not in base}
        say(f"\n{extra}: " + "; ".join(f"{name} ({said})" for name, said in sorted(new.items())))
    return bool(failed)


def tried(folder: Path, python: str, file: Path, extra: str) -> tuple[str, dict[str, str]]:
    """The problems, and the licences of what is installed."""
    own = folder / "env/bin/python"
    (folder / "ws").mkdir()
    steps = (
        ("uv", "venv", "--quiet", "--no-python-downloads", "--python", python, str(folder / "env")),
        ("uv", "pip", "install", "--quiet", "--python", str(own), f"{file}[{extra}]" if extra else str(file)),
        ("uv", "pip", "check", "--quiet", "--python", str(own)),
        (str(folder / "env/bin/handhold"), "--version"),
        (str(own), "-c", FIRST),
    )
    for step in steps:
        if said := trouble_of(folder, *step):
            return said, {}
    return "", json.loads(done(str(own), "-c", LICENCES) or "{}")


def trouble_of(folder: Path, *command: str) -> str:
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return (
        ""
        if ended.returncode == 0
        else f"failed at {' '.join(command[:3])}: {(ended.stderr or ended.stdout).strip()[-300:]}"
    )


def done(*command: str) -> str:
    """The output; empty if it failed."""
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    return ended.stdout or "done" if ended.returncode == 0 else ""


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
