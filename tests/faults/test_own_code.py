"""Handhold in the `.venv` of its project: what runs outside the sandbox is not the workspace's to change."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handhold
from handhold.core.policy.protected_names import OWN_CODE_REASON
from tests.scale import sampled

DRIVER = """
import json, sys
from pathlib import Path
from handhold import Toolbox
work, calls = json.load(sys.stdin)
box = Toolbox.open(work, state=Path(work).with_name("state"), shell=sys.argv[1], policy="open")
replies = []
with box:
    for tool, arguments in calls:
        if tool == "merge":
            with box.fork("try") as fork:
                fork.run(["sh", "-c", arguments])
                try:
                    fork.merge()
                    replies.append(["success", ""])
                except Exception as error:
                    replies.append([getattr(error, "code", type(error).__name__), str(error)])
                fork.drop()
        else:
            reply = box.call(tool, arguments)
            if reply.data.get("job"):
                reply = box.call("bash_output", {"job": reply.data["job"], "wait": 20})
            replies.append([reply.code or reply.status, reply.text])
print(json.dumps(replies))
"""
SITE = f".venv/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("own") / "work"
    for name in (".venv", ".other"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / name], check=True)
    package = Path(handhold.__file__).parent
    ignore = shutil.ignore_patterns("__pycache__", "static", "templates", "hub")
    shutil.copytree(package, root / SITE / "handhold", ignore=ignore)
    (root / ".venv/bin/handhold").write_text("#!/bin/sh\n")
    (root / "a.txt").write_text("x\n")
    return root


def carry_out(work: Path, calls: list[tuple[str, Any]], shell: str = "contained") -> list[tuple[str, str]]:
    done = subprocess.run(
        [work / ".venv/bin/python", "-c", DRIVER, shell],
        input=json.dumps([str(work), calls]),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return [(code, text) for code, text in json.loads(done.stdout)]


def list_tree(root: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return {str(path.relative_to(root)): (path.lstat().st_ino, path.read_bytes()) for path in files}


def bash(command: str, **more: object) -> tuple[str, Any]:
    return "bash", {"command": command, **more}


CHANGES: list[tuple[str, Any]] = [
    ("write_file", {"path": f"{SITE}/evil.pth", "content": "import os\n"}),
    ("write_file", {"path": f"{SITE}/sitecustomize.py", "content": "import os\n"}),
    bash(f"echo 'import os' >> {SITE}/handhold/toolbox.py"),
    bash(f"echo 'import os' > {SITE}/evil.pth"),
    bash(f"mkdir {SITE}/click; touch {SITE}/click/__init__.py"),
    bash("echo evil >> .venv/bin/handhold"),
    bash("ln -sf /tmp/evil .venv/bin/python"),
    bash("sed -i s/home/HOME/ .venv/pyvenv.cfg"),
    bash("mv .venv gone"),
    bash("rm -rf .venv"),
    bash("cp -a .venv new; echo evil >> new/bin/handhold; rm -rf .venv; mv new .venv"),
    ("merge", f"echo 'import os' >> {SITE}/handhold/toolbox.py"),
    ("merge", "rm -rf .venv"),
]

CONTAINED = sampled(CHANGES, 6, lambda each: each[0])
BROKERED = sampled([each for each in CHANGES if each[0] == "bash"], 3)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shell", ["contained", "brokered"])
def test_v1_no_tool_and_no_command_changes_the_code_that_runs_outside(work: Path, shell: str):
    before = list_tree(work)
    changes = CONTAINED if shell == "contained" else BROKERED
    replies = carry_out(work, [("read_file", {"path": "a.txt"}), *changes], shell)
    assert [code for code, _ in replies] == ["success", *(["NOT_APPROVED"] * len(changes))], replies
    assert all(OWN_CODE_REASON in text for _, text in replies[1:])
    assert list_tree(work) == before


@pytest.mark.timeout(120)
@pytest.mark.parametrize("shell", ["contained", "brokered"])
def test_v1_no_background_command_changes_it_either(work: Path, shell: str):
    before = list_tree(work)
    changes = f"echo x > mine-{shell}; echo x >> {SITE}/handhold/toolbox.py; echo x > {SITE}/evil.pth; rm -rf .venv/bin"
    carry_out(work, [bash(changes, background=True)], shell)
    after = list_tree(work)
    del after[f"mine-{shell}"]  # it ran
    assert after == before


@pytest.mark.timeout(120)
def test_a_link_to_the_environment_is_not_replaced_either(work: Path):
    """The next start goes through it."""
    (work / "envs").mkdir()
    os.rename(work / ".venv", work / "envs/main")
    (work / ".venv").symlink_to("envs/main")
    replace = "mkdir -p evil && ln -sfn evil .venv"
    try:
        (asked, text), *_ = carry_out(work, [bash(replace), bash(f"{replace}; rm .venv", background=True)])
        assert asked == "NOT_APPROVED"
        assert OWN_CODE_REASON in text
        assert os.readlink(work / ".venv") == "envs/main"
    finally:
        os.unlink(work / ".venv")
        os.rename(work / "envs/main", work / ".venv")


def test_v1_packages_are_installed_into_an_environment_without_handhold(work: Path):
    other = SITE.replace(".venv", ".other")
    calls = [
        bash(
            f"mkdir -p {other}/lib; echo 1 > {other}/lib/__init__.py; echo lib > {other}/lib.pth; rm .other/pyvenv.cfg"
        ),
        ("write_file", {"path": f"{other}/more.py", "content": "1\n"}),
    ]
    assert [code for code, _ in carry_out(work, calls)] == ["success", "success"]
    assert (work / other / "lib.pth").exists()
    assert os.listdir(work / ".venv")
