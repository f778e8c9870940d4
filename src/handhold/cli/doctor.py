"""What confines commands on this machine, and what does not: seen from inside, not by version numbers."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

if TYPE_CHECKING:  # what asks the machine is imported when it is asked: every other command starts without it
    from handhold.world.shell.abilities import Abilities

NAMESPACES = {"user": "user namespace", "pid": "processes", "net": "network"}
INSIDE = ("sh", "-c", "readlink /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/net; cat /proc/self/status")


class Finding(NamedTuple):
    """`holds` is None where it is neither good nor bad."""

    what: str
    holds: bool | None
    detail: str


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The workspace that commands would work on. Default: the current folder.",
)
@click.option("--json", "as_json", is_flag=True)
def doctor(root: Path, as_json: bool) -> None:  # noqa: FBT001
    """Show what confines commands here, and what does not. Exit status 1 if they cannot be contained."""
    from handhold.world.shell.abilities import abilities

    able = abilities()
    findings = list(examined(able, str(root.resolve())))
    undo = undoable(able, findings)
    contained = able.bubblewrap is not None
    if as_json:
        listed = [finding._asdict() for finding in findings]
        said = {"contained": contained, "undo": undo, "findings": listed, "why_not": able.why_not}
        click.echo(json.dumps(said, indent=2))
    else:
        for line in table(findings):
            click.echo(line)
        click.echo("")
        for line in verdict(able, undo):
            click.echo(line)
    sys.exit(0 if contained else 1)


def examined(able: "Abilities", root: str) -> Iterator[Finding]:
    from handhold.world.shell.limits import delegated

    found = able.bubblewrap
    if found is None:
        yield Finding("bubblewrap", holds=False, detail="none that works")
    else:
        yield Finding("bubblewrap", holds=True, detail=f"{found.version}, the {found.source}'s: {found.path}")
        yield from seen_inside(found.path)
        yield layered(found.path, root)
    yield Finding("Landlock", able.lands, f"version {able.landlock}" if able.landlock else "not in this kernel")
    yield Finding("launcher", bool(able.launcher), able.launcher or "not built")
    yield Finding("rename shim", bool(able.shim), able.shim or "not built")
    group = delegated()
    yield Finding("control group", bool(group) or None, group or "none is ours: limits are set process by process")
    for program in ("git", "rg"):
        path = where(program)
        yield Finding(program, bool(path) or None, path or "not on PATH")


def seen_inside(bwrap: str) -> Iterator[Finding]:
    """What a command finds itself in."""
    from handhold.world.shell.abilities import trial

    done = trial(bwrap, (), INSIDE)
    lines = done.stdout.decode().splitlines() if done else []
    for (name, what), there in zip(NAMESPACES.items(), [*lines, "", "", ""], strict=False):
        own = bool(there) and there != os.readlink(f"/proc/self/ns/{name}")
        detail = {"net": "shut", "pid": "sees only its own"}.get(name, "its own") if own else "shared with ours"
        yield Finding(what, own, detail)
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    bare = status.get("CapEff", "?").strip("0") == "" and status.get("NoNewPrivs") == "1"
    yield Finding("capabilities", bare, "none, and none to be had" if bare else status.get("CapEff", "unknown"))
    filtered = status.get("Seccomp") == "2"
    yield Finding("system-call filter", filtered, "on" if filtered else "off")


def layered(bwrap: str, root: str) -> Finding:
    """Whether this very folder can be the ground of a layer."""
    from handhold.world.files.roots import Root
    from handhold.world.shell.abilities import trial
    from handhold.world.shell.preflight import objection

    opened = Root.open(root, writable=True)
    try:
        against = objection(opened)
    finally:
        os.close(opened.fd)
    if against:
        return Finding("layer", holds=False, detail=f"cannot lie over {root}: {against}")
    done = trial(bwrap, ("--overlay-src", root, "--tmp-overlay", root), ("true",))
    if done is not None and done.returncode == 0:
        return Finding("layer", holds=True, detail=f"can lie over {root}")
    trouble = done.stderr.decode("utf-8", "replace").strip() if done else "no answer"
    return Finding("layer", holds=False, detail=f"cannot lie over {root}: {trouble}")


def undoable(able: "Abilities", findings: list[Finding]) -> str:
    layer = any(finding.what == "layer" and finding.holds for finding in findings)
    return "all" if able.bubblewrap and able.bubblewrap.overlay and layer else "file tools only"


def where(program: str) -> str:
    beside = os.path.dirname(sys.executable)
    folders = [*os.environ.get("PATH", os.defpath).split(":"), beside]
    paths = [os.path.join(folder, program) for folder in folders if folder]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def table(findings: list[Finding]) -> Iterator[str]:
    width = max(len(finding.what) for finding in findings)
    words = {True: "yes", False: "no", None: "-"}
    for what, holds, detail in findings:
        yield f"{what:{width}}  {words[holds]:3}  {detail}"


def verdict(able: "Abilities", undo: str) -> Iterator[str]:
    if able.bubblewrap is None:
        yield "Commands cannot be contained here. They are refused unless told to run without."
    elif undo == "all":
        yield "Commands are contained, and what they do can be taken back."
    else:
        yield "Commands are contained, but work on the files themselves: only what file tools do can be taken back."
    if able.bubblewrap and not able.lands:
        yield "What they may not write is kept by one wall instead of two."
    yield from (f"  {reason}" for reason in able.why_not)
