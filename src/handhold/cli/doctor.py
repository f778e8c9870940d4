"""`handhold doctor`: how commands are sandboxed on this machine, found out by running one."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypedDict

import click

from handhold.cli import options
from handhold.cli.doctor_client import ClientDoctorJSON, diagnose_client
from handhold.cli.hub_status import find_hub_status, format_hub
from handhold.cli.leftovers import find_leftovers
from handhold.cli.leftovers import remove_leftovers as delete_leftovers
from handhold.cli.programs import find_on_path
from handhold.cli.terminal import colour_text, get_columns, is_stdout_terminal
from handhold.core.errors import ExtraMissing
from handhold.core.ports.hub_link import HubStatus
from handhold.core.text.display_text import escape_invisible
from handhold.hooks.events import HOOK_DIALECTS

if TYPE_CHECKING:  # the modules that probe the machine are imported late, so that other commands start fast
    from handhold.backends.shell.sandbox_support import SandboxSupport

NAMESPACES = {"user": "user namespace", "pid": "processes", "net": "network"}
INSPECT_COMMAND = ("sh", "-c", "readlink /proc/self/ns/user /proc/self/ns/pid /proc/self/ns/net; cat /proc/self/status")


class CheckInfo(NamedTuple):
    """What a check is about, and what to install if it fails."""

    purpose: str
    install: str = ""


MOUNT_FAILURE = "cannot be mounted on"  # bubblewrap can mount overlays, but not here: installing another does not help
INSTALL_SHELL = "pip install 'handhold[shell]', or your system's bubblewrap 0.11 or later"
INSTALL_COMPILER = "a C compiler, then: pip install --no-binary handhold --force-reinstall handhold"
CHECKS = {
    "bubblewrap": CheckInfo("runs each command in its own sandbox", INSTALL_SHELL),
    "user namespace": CheckInfo("a command has no privileges outside its sandbox"),
    "processes": CheckInfo("a command cannot see or signal other processes"),
    "network": CheckInfo("a command has no network access unless you allow it"),
    "capabilities": CheckInfo("a command cannot gain privileges"),
    "command": CheckInfo("a trial command starts, with hidden and masked paths in place"),
    "command analysis": CheckInfo(
        "commands are told apart; without it, each one needs approval", "pip install 'handhold[shell]'"
    ),
    "system-call filter": CheckInfo("blocks system calls that builds and tests do not need"),
    "overlay": CheckInfo("changes are reviewed before they are applied, and can be undone", INSTALL_SHELL),
    "broker": CheckInfo(
        "holds commands without namespaces: changes are reviewed before they count, and can be undone", INSTALL_COMPILER
    ),
    "Landlock": CheckInfo("a second limit on what a command can write", "a Linux kernel of 5.19 or later"),
    "launcher": CheckInfo("sets up Landlock and resource limits inside the sandbox", INSTALL_COMPILER),
    "rename shim": CheckInfo("a command can rename folders that already exist", INSTALL_COMPILER),
    "control group": CheckInfo("resource limits apply to a command as a whole"),
    "rg": CheckInfo("makes searches fast", "pip install 'handhold[search]'"),
    "confined search": CheckInfo("the search program can open only the files it searches"),
}


class CheckResult(NamedTuple):
    """`holds` is None if the result is optional rather than good or bad."""

    what: str
    holds: bool | None
    detail: str
    path: str = ""


class FindingJSON(TypedDict):
    what: str
    holds: bool | None
    detail: str
    path: str
    means: str


class DoctorJSON(TypedDict):
    contained: bool
    held_by: str
    undo: str
    findings: list[FindingJSON]
    install: list[str]
    why_not: Sequence[str]
    remedy: str
    warnings: Sequence[str]
    leftovers: list[str]
    removed: list[str]
    hub: HubStatus | None


JSON_OUTPUT = {"": DoctorJSON, "CLIENT": ClientDoctorJSON}
WAIT_HELP = "With CLIENT: wait so long for a call that you let the client make, and tell whether it was recorded."


@click.command()
@click.argument("client", required=False, type=click.Choice(list(HOOK_DIALECTS)))
@click.option("--wait", type=float, default=0.0, metavar="SECONDS", help=WAIT_HELP)
@options.state
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=".",
    help="Workspace root that commands would run in. Default: the current directory.",
)
@click.option(
    "--remove-leftovers",
    is_flag=True,
    help="Remove empty folders with protected names that an earlier version may have left in the workspace.",
)
@options.as_json
@options.report_errors
def doctor(
    client: str | None,
    wait: float,
    state: Path | None,
    root: Path,
    remove_leftovers: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> int:
    """Check how commands are sandboxed on this machine, what is missing, and what to install.

    Also reports settings that are ignored or unreadable, and empty folders that an earlier version may have left in the
    workspace. The exit status is 1 if commands cannot be sandboxed or cannot run.

    With CLIENT, check instead whether what its own tools change in the current directory is recorded. The exit status
    is 1 if nothing has been.
    """
    if client:
        return diagnose_client(client, state, wait, as_json=as_json)
    from handhold.backends.settings import find_warnings
    from handhold.backends.shell.sandbox_support import detect_sandbox_support

    support = detect_sandbox_support()
    findings = list(run_checks(support, str(root.resolve()), state))
    undo = classify_undo(support, findings)
    held_by = name_holder(support, undo)
    contained = bool(held_by) and all(each.holds for each in findings if each.what == "command")
    warnings = find_warnings((str(root),))
    tried = dict(delete_leftovers(str(root.resolve()))) if remove_leftovers else {}
    leftovers = find_leftovers(str(root.resolve()))
    status = find_hub_status(root, state)
    if as_json:
        options.print_json(
            DoctorJSON(
                contained=contained,
                held_by=held_by,
                undo=undo,
                findings=[FindingJSON(**each._asdict(), means=CHECKS[each.what].purpose) for each in findings],
                install=list(list_installs(findings)),
                why_not=explain_holder(support),
                remedy=support.remedy,
                warnings=warnings,
                leftovers=leftovers,
                removed=[path for path, why_not in tried.items() if not why_not],
                hub=status,
            )
        )
    else:
        for line in (
            *format_verdict(support, findings, undo),
            *format_findings(findings),
            *format_reasons(support),
            *format_settings_warnings(warnings),
        ):
            click.echo(line)
        for line in (*format_leftovers(leftovers, tried), *format_hub(status)):
            click.echo(line)
    return 0 if contained else options.EXIT_REFUSED


def run_checks(support: "SandboxSupport", root: str, state: Path | None) -> Iterator[CheckResult]:
    from handhold.backends.shell.limits import find_delegated_cgroup

    found = support.bubblewrap
    if support.broker:
        yield CheckResult("broker", holds=True, detail="a trial command ran", path=support.broker)
    elif found is None or not found.overlay:
        yield CheckResult("broker", holds=False, detail="not built, or not working")
    if found is None:
        detail = "not found, or not working"
        yield CheckResult("bubblewrap", holds=None if support.broker else False, detail=detail)
    elif support.broker:
        detail = f"{found.version}, from the {found.source}; without overlays"
        yield CheckResult("bubblewrap", holds=None, detail=detail, path=found.path)
    else:
        yield CheckResult("bubblewrap", holds=True, detail=f"{found.version}, from the {found.source}", path=found.path)
        yield from check_inside(found.path)
        yield (overlay := check_overlay(found.path, root))
        yield check_command(root, state, is_direct=not overlay.holds)
    yield check_analysis(root)
    yield CheckResult(
        "Landlock", support.has_landlock, f"version {support.landlock}" if support.landlock else "not in this kernel"
    )
    yield CheckResult(
        "launcher", bool(support.launcher), "built" if support.launcher else "not built", support.launcher
    )
    yield CheckResult("rename shim", bool(support.shim), "built" if support.shim else "not built", support.shim)
    group = find_delegated_cgroup()
    detail = "delegated to this user" if group else "none delegated to this user; limits apply per process"
    yield CheckResult("control group", bool(group) or None, detail, group or "")
    path = find_on_path("rg")
    yield CheckResult("rg", bool(path) or None, "found" if path else "not on PATH", path)
    yield check_search_confinement(root)


def check_inside(bwrap: str) -> Iterator[CheckResult]:
    """Check the namespaces, capabilities and filters from inside a sandbox."""
    from handhold.backends.shell.sandbox_support import run_in_sandbox
    from handhold.backends.shell.user_namespace import has_id_range

    done = run_in_sandbox(bwrap, (), INSPECT_COMMAND)
    lines = done.stdout.decode().splitlines() if done else []
    for (name, what), namespace in zip(NAMESPACES.items(), [*lines, "", "", ""], strict=False):
        own = bool(namespace) and namespace != os.readlink(f"/proc/self/ns/{name}")
        detail = ("blocked" if name == "net" else "separate") if own else "shared with the host"
        yield CheckResult(what, own, detail)
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    bare = status.get("CapEff", "?").strip("0") == "" and status.get("NoNewPrivs") == "1"
    detail_if_bare = "none, except to change owners in its overlay" if has_id_range() else "none"
    yield CheckResult("capabilities", bare, detail_if_bare if bare else status.get("CapEff", "unknown"))
    filtered = status.get("Seccomp") == "2"
    yield CheckResult("system-call filter", filtered, "on" if filtered else "off")


def check_command(root: str, state: Path | None, *, is_direct: bool) -> CheckResult:
    """Check whether a command starts in the sandbox, without an overlay."""
    from handhold.cli.trial_command import find_trial_failure

    failure = find_trial_failure(root, state, is_direct=is_direct)
    return CheckResult("command", not failure, failure or "ran")


def check_analysis(root: str) -> CheckResult:
    from handhold.core.policy.shell import ShellContext, analyze_command

    try:
        analyze_command("true", ShellContext((root,), root, ""))
        return CheckResult("command analysis", holds=True, detail="by the grammar of the shell")
    except ExtraMissing as missing:
        return CheckResult("command analysis", holds=False, detail=f"handhold[{missing.extra}] is not installed")


def check_overlay(bwrap: str, root: str) -> CheckResult:
    """Check whether an overlay can be mounted on `root`."""
    from handhold.backends.files.roots import Root
    from handhold.backends.shell.preflight import find_overlay_obstacle
    from handhold.backends.shell.sandbox_support import run_in_sandbox

    opened = Root.open(root, writable=True)
    try:
        against = find_overlay_obstacle(opened)
    finally:
        opened.close()
    if against:
        return CheckResult("overlay", holds=False, detail=f"{MOUNT_FAILURE} {root}: {against}")
    done = run_in_sandbox(bwrap, ("--overlay-src", root, "--tmp-overlay", root), ("true",))
    if done is not None and done.returncode == 0:
        return CheckResult("overlay", holds=True, detail=f"on {root}")
    trouble = done.stderr.decode("utf-8", "replace").strip() if done else "no answer"
    return CheckResult("overlay", holds=False, detail=f"{MOUNT_FAILURE} {root}: {trouble}")


def check_search_confinement(root: str) -> CheckResult:
    """Check whether the search program is confined to the files it searches."""
    from handhold.backends.search.confinement import find_unconfined_reason
    from handhold.backends.search.ripgrep_binary import RipgrepBinary, find_ripgrep

    program = find_ripgrep((root,))
    if not isinstance(program, RipgrepBinary):
        return CheckResult("confined search", holds=True, detail="built-in search, no external program")
    why_not = find_unconfined_reason(program.path)
    return CheckResult("confined search", not why_not, why_not or "by Landlock")


def name_holder(support: "SandboxSupport", undo: str) -> str:
    """What holds commands here: "overlay", "broker" or "sandbox"; empty if nothing does."""
    if support.broker:
        return "broker"
    if support.bubblewrap is None:
        return ""
    return "overlay" if undo == "all" else "sandbox"


def explain_holder(support: "SandboxSupport") -> Sequence[str]:
    from handhold.backends.shell.brokered_launch import explain_broker

    return explain_broker(support) if support.broker else support.why_not


def classify_undo(support: "SandboxSupport", findings: list[CheckResult]) -> str:
    if support.broker:
        return "all"
    has_overlay = any(finding.what == "overlay" and finding.holds for finding in findings)
    return "all" if support.bubblewrap and support.bubblewrap.overlay and has_overlay else "file tools only"


# --- output


def format_verdict(support: "SandboxSupport", findings: Sequence[CheckResult], undo: str) -> Iterator[str]:
    if any(each.what == "command" and not each.holds for each in findings):
        text, colour = "Commands cannot run here: the sandbox does not start.", "red"
    elif support.broker:
        text, colour = "Commands are held by the broker, without namespaces, and their changes can be undone.", "green"
    elif support.bubblewrap is None:
        text, colour = "Commands cannot be sandboxed here. They are refused unless you choose another --shell.", "red"
    elif undo == "all":
        text, colour = "Commands run in a sandbox, and their changes can be undone.", "green"
    else:
        text = (
            "Commands run in a sandbox but write to your files directly, which cannot be undone: each needs approval."
        )
        colour = "yellow"
    yield colour_text(text, colour)
    if any(each.what == "command analysis" and not each.holds for each in findings):
        yield colour_text("But each command needs approval, because it cannot be analyzed.", "yellow")
    if support.bubblewrap and not support.broker and not support.has_landlock:
        yield "Without Landlock, only the sandbox's mounts limit what commands can write."


def format_findings(findings: Sequence[CheckResult]) -> Iterator[str]:
    marks = {True: ("yes", "green"), False: ("no", "red"), None: ("-", "dim")}
    for heading, holds in (("In place", True), ("Missing", False), ("Optional", None)):
        rows = [each for each in findings if each.holds is holds]
        if rows:
            yield ""
            yield colour_text(heading, "bold")
        for each in rows:
            mark, colour = marks[holds]
            purpose, detail = CHECKS[each.what].purpose, escape_invisible(each.detail)
            fits = 27 + len(purpose) + len(detail) + 3 <= get_columns() or not is_stdout_terminal()
            yield f"  {colour_text(f'{mark:3}', colour)}  {each.what:18}  {purpose}" + (
                f" {colour_text(f'({detail})', 'dim')}" if fits else f"\n{' ' * 27}{colour_text(f'({detail})', 'dim')}"
            )
    if installs := list(list_installs(findings)):
        yield ""
        yield colour_text("Install", "bold")
        yield from (f"  {each}" for each in installs)


def list_installs(findings: Sequence[CheckResult]) -> Iterator[str]:
    """What to install, without duplicates, in the order of the checks."""
    has_overlays = any(each.what == "overlay" and each.detail.startswith(MOUNT_FAILURE) for each in findings)
    has_broker = any(each.what == "broker" and each.holds for each in findings)
    helpless = {"overlay": has_overlays, "bubblewrap": has_broker}  # installing it would not help here
    missing = (CHECKS[each.what].install for each in findings if not (each.holds or helpless.get(each.what)))
    yield from dict.fromkeys(each for each in missing if each)


def format_reasons(support: "SandboxSupport") -> Iterator[str]:
    if reasons := explain_holder(support):
        yield ""
        yield colour_text("Reasons", "bold")
        yield from (f"  {escape_invisible(reason)}" for reason in reasons)
    if support.remedy:
        yield ""
        yield colour_text("How to allow it", "bold")
        yield support.remedy  # unescaped, to be pasted into a shell


def format_settings_warnings(warnings: Sequence[str]) -> Iterator[str]:
    if warnings:
        yield ""
        yield colour_text("Settings", "bold")
        yield from (f"  {escape_invisible(warning)}" for warning in warnings)


def format_leftovers(leftovers: Sequence[str], tried: Mapping[str, str]) -> Iterator[str]:
    if leftovers or tried:
        yield ""
        yield colour_text("Empty folders under protected names", "bold")
    yield from (f"  removed {escape_invisible(path)}" for path, why_not in tried.items() if not why_not)
    for path in leftovers:
        yield f"  {escape_invisible(path)}" + (f" could not be removed: {tried[path]}" if path in tried else "")
    if leftovers and not tried:
        yield "  An earlier version may have left these. To remove them: handhold doctor --remove-leftovers"
