"""A workspace with a user's secret, and the user's rule that denies reading it."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from handhold import Reply, Toolbox
from handhold.core.policy.rules import Rule
from handhold.core.ports.policy import Verb, Verdict

TOKEN = "hunter2hunter2"
CONTENT = f"PIN={TOKEN}\n"
KEY = "secrets/key.txt"
VAULT = "vault.txt"
RULE = Rule(
    name="my secrets",
    verdict=Verdict.DENY,
    verbs=(Verb.READ,),
    paths=("secrets/**", "vault.*", "caf\u00e9.txt"),
    because="they are mine",
    covers=(KEY, VAULT),
    does_not_cover=("open.txt",),
)
GIT = "git -c user.name=a -c user.email=a@b -c init.defaultBranch=main"
JOB_SECONDS = 30.0


@dataclass
class Vault:
    place: Path

    @property
    def ws(self) -> Path:
        return self.place / "ws"

    @contextmanager
    def box(self, dialect: str = "handhold", **options: Any) -> Iterator[Toolbox]:
        """With the rule, unless `options` say otherwise."""
        given = {"policy": "open", "settings": False, "session": "s", "rules": [RULE], **options}
        with Toolbox.open(given.pop("roots", self.ws), state=self.place / "state", dialect=dialect, **given) as box:
            yield box

    def free(self, dialect: str = "handhold", **options: Any) -> Any:
        """As before the rule was written."""
        return self.box(dialect, rules=[], **options)

    def must_be_whole(self) -> None:
        for name in (KEY, VAULT):
            assert (self.ws / name).read_text() == CONTENT

    def run(self, command: str, **options: Any) -> str:
        """A command's output in the foreground, as a preview and in the background; none may print the secret."""
        said = ""
        with self.box(**options) as box:
            for how in ({}, {"preview": True}, {"background": True}):
                reply = box.call("bash", {"command": command, **how})
                assert reply.code in (None, "NOT_APPROVED", "DENIED"), reply.text
                must_not_show(reply)
                said += reply.text
                if how.get("background") and reply.status == "success":
                    said += wait_for_job(box, reply.data["job"])
            must_hold(box)
        assert TOKEN not in said
        self.must_be_whole()
        return said

    def arrives(self, command: str) -> bool:
        """Whether the same command prints the secret without the rule: otherwise the way proves nothing."""
        with self.free(session="other") as box:
            reply = box.call("bash", {"command": command, "preview": True})
        return TOKEN in reply.text


def wait_for_job(box: Toolbox, job: str) -> str:
    until = monotonic() + JOB_SECONDS
    while box.call("bash_output", {"job": job}).data["running"]:
        assert monotonic() < until
        sleep(0.02)
    return box.call("bash_output", {"job": job, "offset": 0}).text


def shows(reply: Reply, secret: str = TOKEN) -> bool:
    return secret in f"{reply.text} {reply.data} {reply.ui_extra}"


def must_not_show(*replies: Reply) -> None:
    for reply in replies:
        assert not shows(reply), reply.text


def must_hold(box: Toolbox) -> None:
    """No readable file contains the secret, wherever a command may have put it."""
    must_not_show(box.call("grep", {"pattern": "PIN=", "mode": "content", "hidden": True, "ignored": True}))
    for path in ("copy.txt", "open/key.txt", "moved.txt", "linked.txt", "out.tar"):
        must_not_show(box.call("read_file", {"path": path}))


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    found = Vault(tmp_path.resolve())
    (found.ws / "secrets").mkdir(parents=True)
    (found.ws / "sub").mkdir()
    for name in (KEY, VAULT):
        (found.ws / name).write_text(CONTENT)
    (found.ws / "open.txt").write_text("harmless\n")
    script = f"{GIT} init -q . && {GIT} add open.txt && {GIT} commit -qm one"
    subprocess.run(["bash", "-ec", script], cwd=found.ws, check=True, capture_output=True)
    return found


def link_before(vault: Vault) -> None:
    """Links and second names from before the rule."""
    os.link(vault.ws / VAULT, vault.ws / "twin.txt")
    (vault.ws / "link.txt").symlink_to(VAULT)
    (vault.ws / "way").symlink_to("secrets")


def needs(program: str) -> str:
    if not (path := shutil.which(program)):
        pytest.skip(f"no {program}")
    return path
